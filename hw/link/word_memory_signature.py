"""One word of memory at a time."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class WordMemorySignature(wiring.Signature):
    """One word of memory at a time, seen from who asks.

    Attributes
    ----------
    fresh : Out(1)
        What was read before may have changed; high for at least a cycle, between accesses.
    valid : Out(1)
        There is an access; it and what belongs to it stand still until `done`.
    write : Out(1)
    address : Out(32)
        A word.
    value : Out(32)
        To be written.
    last : Out(1)
        Nothing is written to the words behind it for now.
    done : In(1)
        The access is over; high for one cycle, with `read` and `error`.
    read : In(32)
    error : In(1)
        The memory answered with an error.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "fresh": Out(1),
                "valid": Out(1),
                "write": Out(1),
                "address": Out(32),
                "value": Out(32),
                "last": Out(1),
                "done": In(1),
                "read": In(32),
                "error": In(1),
            }
        )
