"""Places in a region of device memory."""

from __future__ import annotations

import bisect


class Arena:
    """Hands out ranges of rows in a region, best fit first.

    Parameters
    ----------
    rows : int
        Size of the region, a multiple of `align`.
    align : int
        Starts and sizes of ranges are multiples of this.
    """

    def __init__(self, rows: int, align: int):
        self.rows = rows
        self.align = align
        self._free: list[tuple[int, int]] = [(0, rows)] if rows else []  # start, size; by start

    def padded(self, rows: int) -> int:
        """The size of the range that holds so many rows."""
        return -(-rows // self.align) * self.align

    @property
    def free_rows(self) -> int:
        """Rows free, in one piece or several."""
        return sum(size for _, size in self._free)

    def take(self, rows: int) -> int | None:
        """The start of a range for so many rows; None where no piece is large enough."""
        size = self.padded(rows)
        fits = [(free, start) for start, free in self._free if free >= size]
        if not fits:
            return None
        free, start = min(fits)
        at = bisect.bisect_left(self._free, (start, 0))
        if free == size:
            del self._free[at]
        else:
            self._free[at] = (start + size, free - size)
        return start

    def give(self, start: int, rows: int) -> None:
        """Takes a range back."""
        size = self.padded(rows)
        at = bisect.bisect_left(self._free, (start, 0))
        if at < len(self._free) and self._free[at][0] == start + size:
            size += self._free.pop(at)[1]
        if at and sum(self._free[at - 1]) == start:
            self._free[at - 1] = (self._free[at - 1][0], self._free[at - 1][1] + size)
        else:
            self._free.insert(at, (start, size))

    def grow(self, rows: int) -> None:
        """Enlarges the region at its end."""
        added, start = rows - self.rows, self.rows
        self.rows = rows
        self.give(start, added)
