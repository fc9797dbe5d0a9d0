"""Rows, results and the summary of a join as they lie in memory, as data. Standard library only.

All are made of 32-bit words, low word first; keys, bounds and times are unsigned.
"""

from __future__ import annotations

from muntin.hw.register_map import Field
from muntin.hw.splitjoin.parameters import SplitJoinParameters

NUMBER_BITS = 31
"""Width of the number that names a row in memory: the low bits of its arrival number. The next bit is zero in a row."""

ROW_FLAGS: tuple[Field, ...] = (
    Field("side", 0, 1, "0 for a row of the left stream, 1 for one of the right stream."),
    Field("null", 1, 1, "The row matches nothing, though it takes its place in the window."),
    Field("mark", 2, 1, "No row, but the promise that no later row of its stream has an earlier time."),
    Field("again", 3, 1, "The row before it once more, with other bounds: it probes, and is not stored again."),
    Field("more", 4, 1, "For order 1: no punctuation behind its results; the next row of its stream is of its group."),
)
"""The second word of a row."""

RESULT_FIELDS: tuple[tuple[Field, ...], ...] = (
    (
        Field("probe", 0, NUMBER_BITS, "The number of the probing row."),
        Field("side", 31, 1, "The stream of the probing row."),
    ),
    (
        Field("row", 0, NUMBER_BITS, "The number of the stored row; of a punctuation 1 if it ends a probe, else 0."),
        Field("star", 31, 1, "1 for a punctuation, 0 for a pair."),
    ),
)
"""The words of a result."""

RESULT_BYTES = 4 * len(RESULT_FIELDS)

SUMMARY_FIELDS: tuple[tuple[Field, ...], ...] = (
    (Field("rows", 0, 32, "Rows taken."),),
    (Field("results", 0, 32, "Results written."),),
    (
        Field("drained", 0, 1, "Nothing is under way any more: all that came of the rows is in memory."),
        Field("overflow", 1, 1, "A time window did not fit: pairs are missing."),
        Field("incomplete", 2, 1, "A core is dead: its pairs are missing."),
        Field("core", 16, 16, "The first core that died."),
    ),
    (),
)
"""The words of a summary, which is the first 128 bits of a beat; the rest of the beat is zero."""


def row_fields(parameters: SplitJoinParameters) -> dict[str, tuple[int, int]]:
    """First word and number of words of each field of a row.

    Returns
    -------
    dict of str to (int, int)
        ``row``, the number; ``flags``, see `ROW_FLAGS`; ``key``; ``lower`` and ``upper`` where rows carry bounds;
        ``time`` where there are times.
    """
    sizes = {"row": 1, "flags": 1, "key": parameters.key_bits // 32}
    if parameters.bounds:
        sizes |= {"lower": parameters.key_bits // 32, "upper": parameters.key_bits // 32}
    if parameters.time_bits:
        sizes["time"] = parameters.time_bits // 32
    made, at = {}, 0
    for name, words in sizes.items():
        made[name] = (at, words)
        at += words
    return made


def row_words(parameters: SplitJoinParameters) -> int:
    """Words of a row in memory, a power of two: zeros behind its fields."""
    at, words = list(row_fields(parameters).values())[-1]
    return 1 << (at + words - 1).bit_length()
