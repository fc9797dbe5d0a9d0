"""One burst of a transfer."""

from amaranth.lib import data
from amaranth.utils import ceil_log2

from hw.memory.transfer_status import TransferStatus


class BurstLayout(data.StructLayout):
    """One burst of a transfer, or the refusal of one.

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
    status : TransferStatus
        OK, or why the transfer is refused; a refusal is a single final burst that must not be sent.
    """

    def __init__(self, address_width: int, data_width: int):
        super().__init__(
            {
                "address": address_width,
                "last_beat": 8,
                "final": 1,
                "tail": ceil_log2(data_width // 8),
                "status": TransferStatus,
            }
        )
