"""Model of the insertion buffer."""

from __future__ import annotations

import bisect


class InsertionBuffer:
    """Rows in order of their keys; of equal keys the older first.

    Parameters
    ----------
    rows : int
        B, how many there is room for.

    Attributes
    ----------
    contents : list of tuple of int
        Keys and row numbers.
    """

    def __init__(self, rows: int):
        self.rows = rows
        self.contents: list[tuple[int, int]] = []

    def insert(self, key: int, row: int) -> list[tuple[int, int]] | None:
        """Takes a row; the sorted run that is handed over, where that filled the buffer."""
        self.contents.insert(bisect.bisect_right(self.contents, key, key=lambda item: item[0]), (key, row))
        return self.hand_over() if len(self.contents) == self.rows else None

    def hand_over(self) -> list[tuple[int, int]]:
        """The rows as a sorted run; the buffer is empty afterwards."""
        run, self.contents = self.contents, []
        return run

    def probe(self, below: int) -> int:
        """Keys below a bound."""
        return sum(key < below for key, _ in self.contents)
