"""An AXI4-Lite port."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Axi4LiteSignature(wiring.Signature):
    """AXI4-Lite with 32-bit data, seen from the master, under the names of the AXI specification.

    Parameters
    ----------
    address_width : int
        Bits of a byte address.

    Attributes
    ----------
    address_width : int
        As given.
    """

    def __init__(self, address_width: int):
        self.address_width = address_width
        super().__init__(
            {
                "awvalid": Out(1),
                "awready": In(1),
                "awaddr": Out(address_width),
                "awprot": Out(3),
                "wvalid": Out(1),
                "wready": In(1),
                "wdata": Out(32),
                "wstrb": Out(4),
                "bvalid": In(1),
                "bready": Out(1),
                "bresp": In(2),
                "arvalid": Out(1),
                "arready": In(1),
                "araddr": Out(address_width),
                "arprot": Out(3),
                "rvalid": In(1),
                "rready": Out(1),
                "rdata": In(32),
                "rresp": In(2),
            }
        )
