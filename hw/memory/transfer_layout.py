"""What a reader or writer is told to transfer."""

from amaranth.lib import data


class TransferLayout(data.StructLayout):
    """A run of bytes in memory.

    Parameters
    ----------
    address_width, length_width : int
        Widths in bits.

    Attributes
    ----------
    address : unsigned
        Address of the first byte, a multiple of the beat.
    length : unsigned
        Number of bytes, at least 1. The last beat may be partial.
    """

    def __init__(self, address_width: int, length_width: int):
        super().__init__({"address": address_width, "length": length_width})
