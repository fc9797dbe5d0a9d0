"""Requests to a kernel that is called rather than addressed, as data. Standard library only.

Behind a shell whose only way into a design is a call with arguments and a result, as an OpenCL kernel's is, a request
is the argument and one 32-bit word the result. The gateware, the host and the model that stands in for the gateware
are all made from these tables.
"""

from __future__ import annotations

import enum

from muntin.hw.register_map import Field


class Request(enum.IntEnum):
    """What is asked for, and what the result is."""

    READ = 0
    """The register at `offset`."""
    WRITE = 1
    """Writes `value` to the register at `offset`; the result is 0."""
    WAIT = 2
    """Reads the register at `offset` until one of the bits of `value` is set in it, or `WAIT_CYCLES` have passed; the
    result is what was read last."""
    RESET = 3
    """Resets the kernel as soon as it owes the memory nothing and the memory owes it nothing. The result is 0, or 1
    where that was not so within `WAIT_CYCLES`, and then nothing is reset."""


REQUEST_BITS = 64

REQUEST_FIELDS: tuple[Field, ...] = (
    Field("value", 0, 32, "WRITE: what is written. WAIT: a mask."),
    Field("offset", 32, 24, "Byte address of a register, those of lane n from n * LANE_STRIDE on."),
    Field("kind", 56, 8, "A Request; another is as READ."),
)

WAIT_CYCLES = 1 << 32
"""Cycles after which WAIT and RESET give up: some 17 s at 250 MHz. A kernel that waits for its memory gives up itself,
after TIMEOUT_CYCLES."""


def request(kind: Request, offset: int = 0, value: int = 0) -> int:
    """A request, as the number that is passed.

    Raises
    ------
    OverflowError
        If the offset or the value is negative or does not fit its field.
    """
    word = 0
    for field, given in zip(REQUEST_FIELDS, (value, offset, kind), strict=True):
        if not 0 <= given < 1 << field.bits:
            raise OverflowError(f"{field.name} has {field.bits} bits, which {given} does not fit")
        word |= given << field.lsb
    return word
