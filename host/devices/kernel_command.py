"""A command for a kernel."""

from __future__ import annotations

import dataclasses

from muntin.contract.registers import COMMAND_FIELDS, COMMAND_FLAGS, Operation


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelCommand:
    """A command for a kernel: fields and flags by the names of `muntin.contract.registers`, which says what they mean.

    Lengths in rows (COPY: bytes), addresses in bytes, offsets in units of a key and signed.
    """

    operation: Operation
    signed: bool = False
    limits: bool = False
    reuse: bool = False
    buffer: bool = False
    length_a: int = 0
    length_b: int = 0
    keys_a: int = 0
    rows_a: int = 0
    keys_b: int = 0
    rows_b: int = 0
    keys_out: int = 0
    rows_out: int = 0
    index_out: int = 0
    low_offset: int = 0
    high_offset: int = 0

    def words(self, tag: int) -> list[int]:
        """The words to push, `COMMAND_WORDS` of them. The tag has 16 bits.

        Raises
        ------
        OverflowError
            If a length or an address is negative or does not fit its words.
        """
        flags = sum(flag.mask for flag in COMMAND_FLAGS if getattr(self, flag.name))
        words = []
        for name, count, _ in COMMAND_FIELDS:
            value = self.operation | flags | tag << 16 if name == "operation" else getattr(self, name)
            raw = value.to_bytes(4 * count, "little", signed=name.endswith("_offset"))
            words += [int.from_bytes(raw[at : at + 4], "little") for at in range(0, len(raw), 4)]
        return words
