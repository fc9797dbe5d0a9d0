"""One access to a register at a time."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class RegisterBusSignature(wiring.Signature):
    """One access to a register at a time, seen from who asks.

    Attributes
    ----------
    valid : Out(1)
        There is an access; it and what belongs to it stand still until `done`.
    write : Out(1)
    address : Out(32)
        In bytes.
    value : Out(32)
        To be written.
    done : In(1)
        The access is over; high for one cycle, with `read` and `error`.
    read : In(32)
        What was read.
    error : In(1)
        There is no such register, or it answered with an error.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "write": Out(1),
                "address": Out(32),
                "value": Out(32),
                "done": In(1),
                "read": In(32),
                "error": In(1),
            }
        )
