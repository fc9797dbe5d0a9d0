"""A command as a kernel sees it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from muntin.contract.registers import COMMAND_FIELDS, COMMAND_FLAGS


@dataclasses.dataclass(frozen=True)
class DecodedCommand:
    """A command as the kernel sees it: the fields of `COMMAND_FIELDS`, flags as bools, offsets as signed numbers."""

    operation: int
    tag: int
    signed: bool
    limits: bool
    reuse: bool
    buffer: bool
    length_a: int
    length_b: int
    keys_a: int
    rows_a: int
    keys_b: int
    rows_b: int
    keys_out: int
    rows_out: int
    index_out: int
    low_offset: int
    high_offset: int

    @classmethod
    def decoded(cls, words: Sequence[int], key_bits: int) -> DecodedCommand:
        """The command of `COMMAND_WORDS` words, low word of a field first."""
        values: dict[str, int] = {}
        at = 0
        for name, count, _ in COMMAND_FIELDS:
            values[name] = sum(word << (32 * place) for place, word in enumerate(words[at : at + count]))
            at += count
        head = values["operation"]
        values["operation"], values["tag"] = head & 0xFF, head >> 16
        values |= {flag.name: bool(head & flag.mask) for flag in COMMAND_FLAGS}
        bits = key_bits + 2
        for name in ("low_offset", "high_offset"):
            low = values[name] & ((1 << bits) - 1)
            values[name] = low - ((low >> (bits - 1)) << bits)
        return cls(**values)
