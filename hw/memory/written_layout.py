"""What became of a stream that was written."""

from amaranth.lib import data

from muntin.hw.memory.transfer_status import TransferStatus


class WrittenLayout(data.StructLayout):
    """What became of a stream that was written.

    Parameters
    ----------
    length_width : int
        Width in bits.

    Attributes
    ----------
    length : unsigned
        Bytes sent to the memory.
    status : TransferStatus
        How the writing ended.
    """

    def __init__(self, length_width: int):
        super().__init__({"length": length_width, "status": TransferStatus})
