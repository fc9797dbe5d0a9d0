"""Rows that wait until they are worth a batch."""

from __future__ import annotations

import datetime as dt
import time

import pyarrow as pa

from muntin.host.errors import WindowError
from muntin.host.keys.constants import whole_number
from muntin.host.keys.durations import nanoseconds
from muntin.host.sides import SIDES, Sides

MAX_ROWS = 1 << 16


class Collector:
    """Gathers the rows of several pushes into one batch.

    Source: PanJoin, section III-A (step 1) and III-E: a batch is processed when it has so many rows, or when its first
    row has waited so long.

    Parameters
    ----------
    max_rows : int
        Rows of both sides, at least 1.
    max_delay : str or datetime.timedelta, optional
        Such as ``"20 ms"``; None for no limit.

    Raises
    ------
    WindowError
        If a parameter makes no sense.

    Attributes
    ----------
    pushes : list of (int, int)
        Left and right rows of each push that waits, in order.
    tags : list of bytes or None
        Of each push since the newest call that has rows or a tag.
    """

    def __init__(self, max_rows: int = MAX_ROWS, max_delay: str | dt.timedelta | None = None):
        rows = whole_number(max_rows)
        if rows is None or rows < 1:
            raise WindowError(f"max_rows must be a whole number of rows, at least 1, not {max_rows!r}")
        self._max_rows = rows
        self._delay = None if max_delay is None else nanoseconds(max_delay)
        if self._delay is not None and self._delay < 0:
            raise WindowError(f"max_delay must not be negative, as {max_delay!r} is")
        self._since = 0
        self._waiting: Sides[list[pa.Table]] = {side: [] for side in SIDES}
        self.pushes: list[tuple[int, int]] = []
        self.tags: list[bytes | None] = []

    def add(self, tables: Sides[pa.Table], tag: bytes | None = None) -> None:
        """Puts rows of one push behind those that wait."""
        counts = len(tables["left"]), len(tables["right"])
        if any(counts) or tag is not None:
            self.tags.append(tag)
        if not any(counts):
            return
        if not self.pushes:
            self._since = time.monotonic_ns()
        self.pushes.append(counts)
        for side, table in tables.items():
            if len(table):
                self._waiting[side].append(table)

    @property
    def rows(self) -> int:
        """Rows that wait, of both sides."""
        return sum(map(sum, self.pushes))

    @property
    def due(self) -> float | None:
        """Seconds until the rows that wait must be processed, 0 when that is now; None where no time is set."""
        if not self.pushes:
            return None
        if self.rows >= self._max_rows:
            return 0.0
        return None if self._delay is None else max(self._since + self._delay - time.monotonic_ns(), 0) / 1e9

    def waiting(self) -> Sides[pa.Table | None]:
        """The rows of each side that wait, None for none."""
        return {side: pa.concat_tables(tables) if tables else None for side, tables in self._waiting.items()}

    def clear(self) -> None:
        """Forgets the rows that wait."""
        self._waiting = {side: [] for side in SIDES}
        self.pushes, self.tags = [], []
