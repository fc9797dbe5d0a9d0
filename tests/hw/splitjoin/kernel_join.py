"""What tests of the SplitJoin kernel, on a bus or on a board, have alike: rows, settings, commands and summaries."""

from __future__ import annotations

import dataclasses

import numpy as np

from muntin.contract.designs.splitjoin import (
    NUMBER_BITS,
    RESULT_BYTES,
    ROW_FLAGS,
    SPLITJOIN,
    SUMMARY_FIELDS,
    SplitJoinParameters,
    row_fields,
    row_words,
)
from muntin.contract.registers import Command, Operation
from muntin.sim.models.splitjoin import JoinResult, JoinRow

OFFSETS = {register.name: register.offset for register in SPLITJOIN.registers()}
FIELDS = {(register.name, field.name): field for register in SPLITJOIN.registers() for field in register.fields}


def records(rows: list[JoinRow], parameters: SplitJoinParameters) -> np.ndarray:
    """Rows as they lie in memory: uint32, shape (rows, words)."""
    made = np.zeros((len(rows), row_words(parameters)), np.uint32)
    for at, row in enumerate(rows):
        values = {name: getattr(row, name, 0) for name in row_fields(parameters)}
        values["flags"] = sum(int(getattr(row, flag.name)) << flag.lsb for flag in ROW_FLAGS)
        for name, (first, words) in row_fields(parameters).items():
            for word in range(words):
                made[at, first + word] = values[name] >> 32 * word & 0xFFFFFFFF
    return made


def results(words: np.ndarray) -> list[tuple[int, JoinResult]]:
    """Results as they lie in memory, each with the side of its probing row."""
    made = []
    number = (1 << NUMBER_BITS) - 1
    for first, second in words.reshape(-1, 2).tolist():
        star = bool(second >> NUMBER_BITS)
        probe = first & number
        result = JoinResult(probe, last=bool(second & 1)) if star else JoinResult(probe, second & number)
        made.append((first >> NUMBER_BITS, result))
    return made


@dataclasses.dataclass(frozen=True, kw_only=True)
class JoinCommand:
    """A JOIN over arrays at these addresses."""

    rows: int
    rows_at: int
    room: int
    results_at: int
    summary_at: int

    @property
    def command(self) -> Command:
        return Command(
            operation=Operation.JOIN,
            length_a=self.rows,
            keys_a=self.rows_at,
            length_b=self.room,
            keys_out=self.results_at,
            rows_out=self.summary_at,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Summary:
    """What a JOIN said at its end."""

    rows: int
    results: int
    drained: bool
    overflow: bool
    incomplete: bool
    core: int

    @classmethod
    def read(cls, raw: bytes) -> Summary:
        words = np.frombuffer(raw, np.uint32)
        values = {
            field.name: int(words[at]) >> field.lsb & (1 << field.bits) - 1
            for at, word in enumerate(SUMMARY_FIELDS)
            for field in word
        }
        assert not words[3:].any()
        flags = {name: bool(values.pop(name)) for name in ("drained", "overflow", "incomplete")}
        return cls(**values, **flags)


def result_bytes(count: int) -> int:
    """Bytes of so many results."""
    return count * RESULT_BYTES
