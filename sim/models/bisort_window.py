"""Model of the sub-window that is kept sorted."""

from __future__ import annotations

import bisect

from muntin.sim.models.bisort import InsertionBuffer


class BisortWindow:
    """A sorted main array and an insertion buffer that is merged into it.

    Parameters
    ----------
    rows : int
        Rows the sub-window holds.
    buffer_rows : int
        B.

    Attributes
    ----------
    main : list of tuple of int
        Keys and places, by key; of equal keys the older first.
    """

    def __init__(self, *, rows: int, buffer_rows: int):
        self.rows = rows
        self.main: list[tuple[int, int]] = []
        self._buffer = InsertionBuffer(buffer_rows)
        self._numbers: dict[int, int] = {}
        self._nulls: set[int] = set()

    def store(self, place: int, key: int, row: int, *, null: bool, first: int) -> None:
        """Stores a row at the next place; `first` is the place of the oldest row of the window before it."""
        self._numbers[place] = row
        if null:
            self._nulls.add(place)
        run = self._buffer.insert(key, place)
        if run is not None:
            alive = [
                (key, at)
                for key, at in sorted([*self.main, *run], key=lambda item: item[0])
                if at >= first and place - at < self.rows and at not in self._nulls
            ]
            self.main = alive

    def probe(self, lower: int, upper: int, *, first: int, stop: int, complement: bool = False) -> list[int]:
        """The numbers of the rows in a range of keys, or outside it, whose places lie in ``first..stop - 1``.

        Those of the main array before those of the buffer, each by key.
        """
        found = []
        for part in (self.main, self._buffer.contents):
            start = 0 if complement else bisect.bisect_left(part, lower, key=lambda item: item[0])
            for key, place in part[start:]:
                if key > upper and not complement:
                    break
                if (lower <= key <= upper) != complement and first <= place < stop and place not in self._nulls:
                    found.append(self._numbers[place])
        return found
