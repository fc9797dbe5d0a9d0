"""The write half of an AXI4 port."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Axi4WriteSignature(wiring.Signature):
    """The write channels (AW, W, B) of AXI4, seen from the master, under the names of the AXI specification.

    Parameters
    ----------
    address_width, data_width, id_width : int
        Widths in bits.

    Attributes
    ----------
    address_width, data_width, id_width : int
        As given.
    """

    def __init__(self, address_width: int, data_width: int, id_width: int = 1):
        self.address_width = address_width
        self.data_width = data_width
        self.id_width = id_width
        super().__init__(
            {
                "awvalid": Out(1),
                "awready": In(1),
                "awid": Out(id_width),
                "awaddr": Out(address_width),
                "awlen": Out(8),
                "awsize": Out(3),
                "awburst": Out(2),
                "wvalid": Out(1),
                "wready": In(1),
                "wdata": Out(data_width),
                "wstrb": Out(data_width // 8),
                "wlast": Out(1),
                "bvalid": In(1),
                "bready": Out(1),
                "bid": In(id_width),
                "bresp": In(2),
            }
        )
