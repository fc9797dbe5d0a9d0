"""How a transfer ended."""

import enum


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
