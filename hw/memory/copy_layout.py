"""A command of the copy engine."""

from amaranth.lib import data

from muntin.hw.memory.copy_operation import CopyOperation


class CopyLayout(data.StructLayout):
    """A command of the copy engine.

    Parameters
    ----------
    address_width, length_width : int
        Widths in bits.

    Attributes
    ----------
    operation : CopyOperation
        What to do.
    source, destination : unsigned
        Byte addresses, multiples of the beat. An address that the operation does not use is ignored.
    length : unsigned
        Bytes.
    """

    def __init__(self, address_width: int, length_width: int):
        super().__init__(
            {
                "length": length_width,
                "source": address_width,
                "destination": address_width,
                "operation": CopyOperation,
            }
        )
