"""One burst of a transfer."""

from amaranth.lib import data
from amaranth.utils import ceil_log2

from muntin.hw.memory.transfer_status import TransferStatus


class BurstLayout(data.StructLayout):
    """One burst of a transfer, or the end of one that has no beats left to send.

    Parameters
    ----------
    address_width, data_width : int
        Widths in bits.

    Attributes
    ----------
    address : unsigned
        Address of the first beat.
    last_beat : unsigned(8)
        Number of beats less one, as AXI4 has it.
    final : unsigned(1)
        Whether this is the last burst of its transfer.
    tail : unsigned
        Number of bytes in the transfer's last beat, less one; it counts in the final burst.
    empty : unsigned(1)
        There is nothing to send: this only ends its transfer, and is final. A refusal is a single empty burst.
    status : TransferStatus
        Of an empty burst: how the transfer ends, unless the memory failed one of its bursts. Else OK.
    """

    def __init__(self, address_width: int, data_width: int):
        super().__init__(
            {
                "address": address_width,
                "last_beat": 8,
                "final": 1,
                "tail": ceil_log2(data_width // 8),
                "empty": 1,
                "status": TransferStatus,
            }
        )
