"""Model of what cuts rows from memory beats, and of what puts results together to some."""

from __future__ import annotations

from muntin.contract.designs.splitjoin import (
    NUMBER_BITS,
    RESULT_BYTES,
    ROW_FLAGS,
    SplitJoinParameters,
    row_fields,
    row_words,
)
from muntin.sim.models.join_settings import JoinResult, JoinRow


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
