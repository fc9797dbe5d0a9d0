"""Words between the blocks of a memory port."""

import enum

from amaranth.lib import data
from amaranth.utils import ceil_log2


class CopyOperation(enum.IntEnum):
    """What the copy engine does with a run."""

    COPY = 0
    """Read the source and write it to the destination."""
    READ = 1
    """Read the source and drop it."""
    FILL = 2
    """Write the numbers 0, 1, 2, ... to the destination, one a beat."""


class TransferStatus(enum.IntEnum):
    """How a transfer ended, as the readers and writers report it; the host reads the same numbers.

    A transfer that ends with one of the first four errors was refused and moved nothing; only of a stream that
    was too long for its room as much was written as fits. One that ends with an error of the memory moved all its
    beats, and what they hold is not to be trusted.
    """

    OK = 0
    ZERO_LENGTH = 1
    """The length is 0."""
    MISALIGNED = 2
    """The address is not a multiple of the beat."""
    TOO_LONG = 3
    """The length is above the longest that the block was built for, or a stream was longer than its room."""
    OUT_OF_RANGE = 4
    """The transfer ends beyond the last address."""
    MEMORY_ERROR = 5
    """The memory answered SLVERR to at least one burst."""
    DECODE_ERROR = 6
    """The interconnect answered DECERR to at least one burst: no memory at that address."""


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
