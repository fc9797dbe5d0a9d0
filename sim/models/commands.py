"""Commands as models carry them out."""

from __future__ import annotations

from muntin.contract.designs.splitjoin import (
    NUMBER_BITS,
    RESULT_BYTES,
    ROW_FLAGS,
    SplitJoinParameters,
    row_fields,
    row_words,
)
from muntin.contract.registers import ErrorCode
from muntin.sim.models.splitjoin import JoinResult, JoinRow


class CommandFaultError(Exception):
    """A command fails with this code; the address is the start of the array at fault, 0 where it is none of them."""

    def __init__(self, code: ErrorCode, address: int = 0):
        super().__init__(code)
        self.code = code
        self.address = address


def cut_rows(content: bytes, parameters: SplitJoinParameters) -> list[JoinRow]:
    """The rows that lie in some bytes of memory."""
    size = 4 * row_words(parameters)
    made = []
    for at in range(0, len(content), size):
        words = int.from_bytes(content[at : at + size], "little")
        values = {
            name: words >> 32 * first & ((1 << 32 * count) - 1)
            for name, (first, count) in row_fields(parameters).items()
        }
        flags = values.pop("flags")
        values["row"] &= (1 << NUMBER_BITS) - 1
        made.append(
            JoinRow(**values, **{flag.name: bool(flags & flag.mask) for flag in ROW_FLAGS} | {"side": flags & 1})
        )
    return made


def pack_results(found: list[tuple[int, JoinResult]]) -> bytes:
    """Results as they lie in memory, each with the side of its probing row."""
    made = b""
    for side, result in found:
        star = result.row is None
        words = (result.probe | side << NUMBER_BITS, star << NUMBER_BITS | (int(result.last) if star else result.row))
        made += b"".join(word.to_bytes(RESULT_BYTES // 2, "little") for word in words)
    return made
