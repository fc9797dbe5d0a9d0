"""Rows on their way to a SplitJoin kernel."""

from __future__ import annotations

import dataclasses

import numpy as np

from muntin.contract.designs.splitjoin import NUMBER_BITS, ROW_FLAGS, SplitJoinParameters, row_fields, row_words


@dataclasses.dataclass
class JoinRows:
    """Rows of both streams in their order of arrival; marks and repeated rows among them.

    Keys, bounds and times are unsigned, whatever their width on the board.

    Attributes
    ----------
    side : ndarray of int8, shape (n,)
        0 for left, 1 for right.
    number : ndarray of int64, shape (n,)
        The row's number in its stream, of which the board keeps the low `NUMBER_BITS` bits.
    null, mark, again, more : ndarray of bool, shape (n,)
        As `muntin.contract.designs.splitjoin.ROW_FLAGS` has them.
    key, lower, upper, time : ndarray of uint64, shape (n,)
    """

    side: np.ndarray
    number: np.ndarray
    null: np.ndarray
    mark: np.ndarray
    again: np.ndarray
    more: np.ndarray
    key: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    time: np.ndarray

    @classmethod
    def zeros(cls, count: int) -> JoinRows:
        """So many rows of the left stream, every field of which is 0."""
        flags = (np.zeros(count, np.bool_) for _ in range(4))
        words = (np.zeros(count, np.uint64) for _ in range(4))
        return cls(np.zeros(count, np.int8), np.zeros(count, np.int64), *flags, *words)

    def __len__(self) -> int:
        return len(self.side)

    def take(self, chosen: np.ndarray | slice) -> JoinRows:
        """Some of the rows."""
        return JoinRows(*(getattr(self, field.name)[chosen] for field in dataclasses.fields(self)))

    @classmethod
    def concatenate(cls, parts: list[JoinRows]) -> JoinRows:
        """The rows of all parts."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def words(self, parameters: SplitJoinParameters) -> np.ndarray:
        """As they lie in a board's memory: uint32, shape (n, words of a row). What the build has no field for is
        left out."""
        made = np.zeros((len(self), row_words(parameters)), np.uint32)
        values = {"row": self.number & ((1 << NUMBER_BITS) - 1), "flags": self._flags()}
        for name, (at, words) in row_fields(parameters).items():
            value = values.get(name, getattr(self, name, None))
            assert value is not None
            made[:, at] = value & np.array(0xFFFFFFFF, value.dtype)
            if words == 2:
                made[:, at + 1] = value >> np.array(32, value.dtype)
        return made

    def _flags(self) -> np.ndarray:
        flags = np.zeros(len(self), np.int64)
        for flag in ROW_FLAGS:
            flags |= getattr(self, flag.name).astype(np.int64) << flag.lsb
        return flags
