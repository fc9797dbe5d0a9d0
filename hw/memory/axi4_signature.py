"""A whole AXI4 port."""

from amaranth.lib import wiring

from hw.memory.axi4_read_signature import Axi4ReadSignature
from hw.memory.axi4_write_signature import Axi4WriteSignature


class Axi4Signature(wiring.Signature):
    """All five channels of AXI4, seen from the master.

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
        read = Axi4ReadSignature(address_width, data_width, id_width)
        write = Axi4WriteSignature(address_width, data_width, id_width)
        super().__init__({**dict(read.members), **dict(write.members)})
