"""The read half of an AXI4 port."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Axi4ReadSignature(wiring.Signature):
    """The read channels (AR, R) of AXI4, seen from the master, under the names of the AXI specification.

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
                "arvalid": Out(1),
                "arready": In(1),
                "arid": Out(id_width),
                "araddr": Out(address_width),
                "arlen": Out(8),
                "arsize": Out(3),
                "arburst": Out(2),
                "rvalid": In(1),
                "rready": Out(1),
                "rid": In(id_width),
                "rdata": In(data_width),
                "rresp": In(2),
                "rlast": In(1),
            }
        )
