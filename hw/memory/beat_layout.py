"""A beat of data out of a reader."""

from amaranth.lib import data


class BeatLayout(data.StructLayout):
    """A beat of data out of a reader.

    Parameters
    ----------
    data_width : int
        Bits of a beat.

    Attributes
    ----------
    data : unsigned
        The bytes, the one at the lowest address in the lowest bits.
    keep : unsigned
        One bit a byte: whether it belongs to the transfer. Only the last beat has zeros, in its highest bits.
    last : unsigned(1)
        Whether this is the last beat of its transfer.
    """

    def __init__(self, data_width: int):
        super().__init__({"data": data_width, "keep": data_width // 8, "last": 1})
