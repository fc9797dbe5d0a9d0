"""Which rows have met a partner: what outer, semi and anti joins ask."""

from __future__ import annotations

import collections

import numpy as np

from muntin.host.call import Batch, distinct

MERGE_FACTOR = 4  # a run of times is merged into its elder while that is less than this many times larger


class MatchBits:
    """The rows of one side that have met no partner and may still meet one: they wait.

    A byte for each row from the oldest that waits to the newest that arrived; in time windows also the times of the
    rows that waited at the end of their call, in sorted runs, so that a call costs what it brings and expires, not what
    waits. Rows past all times of the first run are put behind it, others are in the runs after it.

    Parameters
    ----------
    first : int
        Arrival number of the first row of the stream.
    count : int or None
        Rows of the side's own count window; None for a time window.
    placed : bool
        Keep each row's place in the order of arrival over both streams.

    Attributes
    ----------
    oldest : int
        No row before this one waits.
    followed : list of ndarray of int64, or None
        Where it is a list, rows that matched and had waited are added to it.
    """

    def __init__(self, first: int, count: int | None, placed: bool):
        self.oldest = first
        self.followed: list[np.ndarray] | None = None
        self._count = count
        self._waits = _Tail(first, np.dtype(np.bool_))
        self._places = _Tail(first, np.dtype(np.int64)) if placed else None
        self._runs: list[_TimeRun] = []

    @property
    def waiting(self) -> int:
        """How many rows wait."""
        return int(np.count_nonzero(self._waits.since(self.oldest)))

    @property
    def nbytes(self) -> int:
        """Bytes taken."""
        places = 0 if self._places is None else self._places.nbytes
        return self._waits.nbytes + places + sum(run.nbytes for run in self._runs)

    def add(self, batch: Batch, other_position: np.ndarray) -> None:
        """Takes note of a call's rows.

        Parameters
        ----------
        batch : Batch
            Those that wait from now on.
        other_position : ndarray of int64
            As `Call.other_position`, for all rows of the call.
        """
        rows = self._waits.extend(len(other_position))
        self._waits.put(batch.rows, True)
        if self._places is not None:
            self._places.extend(len(other_position))
            self._places.put(rows, rows + other_position)

    def match(self, rows: np.ndarray) -> None:
        """Rows of these numbers, int64, in any order and repeated or not, have met a partner."""
        if self.followed is not None:
            self.followed.append(distinct(rows[self._waiting(rows)]))
        self._waits.put(self._known(rows), False)

    def match_first(self, rows: np.ndarray) -> np.ndarray:
        """As `match`; the ascending indices of those entries that are the first of a row that had waited."""
        entries = np.flatnonzero(self._waiting(rows))
        rows = rows[entries]
        if self.followed is not None:
            self.followed.append(distinct(rows))
        if not len(rows):
            return entries
        self._waits.put(rows, False)
        base = int(rows.min())
        first = np.empty(int(rows.max()) - base + 1, np.int64)
        first[rows[::-1] - base] = np.arange(len(rows))[::-1]  # of the entries of a row, the first is written last
        return entries[first[rows - base] == np.arange(len(rows))]

    def expire(self, batch: Batch, limit: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Ends a call: the rows that no later row can meet wait no longer.

        Parameters
        ----------
        batch : Batch
            What `add` was given.
        limit : int or None
            For time windows: rows of this time and before go.

        Returns
        -------
        rows, places : ndarray of int64, shape (n,)
            Ascending row numbers; and places in the order of arrival, or the numbers again where none are kept.
        """
        if self._count is not None:
            rows = self._all(self._waits.end - self._count)
        else:
            self._keep_times(batch)
            parts = [np.zeros(0, np.int64)]
            if limit is not None:
                for run in self._runs:
                    parts += run.cut(limit)
                self._runs = [run for run in self._runs if len(run)]
            rows = np.concatenate(parts)
            rows = rows[self._waiting(rows)]
            if not _ascend(rows):
                rows.sort(kind="stable")  # linear where they are made of ascending stretches
        return self._gone(rows)

    def rest(self) -> tuple[np.ndarray, np.ndarray]:
        """All rows that wait, as `expire` gives them, and wait no longer."""
        self._runs = []
        return self._gone(self._all(self._waits.end))

    def _all(self, end: int) -> np.ndarray:
        """The rows before `end` that wait."""
        return self.oldest + np.flatnonzero(self._waits.since(self.oldest)[: max(end - self.oldest, 0)])

    def _gone(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places = rows if self._places is None else self._places.get(rows)
        self._waits.put(rows, False)
        waits = self._waits.since(self.oldest)
        self.oldest += int(waits.argmax()) if waits.any() else len(waits)  # both stop at the first that waits
        for tail in (self._waits, self._places):
            if tail is not None:
                tail.trim(self.oldest)
        return rows, places

    def _known(self, rows: np.ndarray) -> np.ndarray:
        """Those from the oldest that waits on: a row before it may meet partners, but has met one."""
        return rows if not len(rows) or int(rows.min()) >= self.oldest else rows[rows >= self.oldest]

    def _waiting(self, rows: np.ndarray) -> np.ndarray:
        """Which of these rows wait."""
        known = self._known(rows)
        if len(known) == len(rows):
            return self._waits.get(rows)
        waits = rows >= self.oldest
        waits[waits] = self._waits.get(known)
        return waits

    def _keep_times(self, batch: Batch) -> None:
        """The times of those rows of a call that wait after it."""
        assert batch.times is not None
        waits = self._waiting(batch.rows)
        if not waits.any():
            return
        times, rows = _in_order(batch.times[waits], batch.rows[waits])
        if self._runs:
            first = int(np.searchsorted(times, self._runs[0].newest))
            self._runs[0].append(times[first:], rows[first:])
            times, rows = times[:first], rows[:first]
        if not len(rows):
            return
        while self._runs and len(self._runs[-1]) <= MERGE_FACTOR * len(rows):
            old_times, old_rows = self._runs.pop().all()
            waits = self._waiting(old_rows)
            times, rows = _in_order(np.concatenate([old_times[waits], times]), np.concatenate([old_rows[waits], rows]))
        self._runs.append(_TimeRun(times, rows))


def _ascend(values: np.ndarray) -> bool:
    """Whether no value is less than the one before it."""
    return bool((values[1:] >= values[:-1]).all())


def _in_order(times: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times and rows in the order of the times."""
    if _ascend(times):
        return times, rows
    order = np.argsort(times, kind="stable")  # linear where the times are made of ascending stretches
    return times[order], rows[order]


class _TimeRun:
    """Rows in the order of their times, in parts one after the other; some may wait no longer.

    Parameters
    ----------
    times, rows : ndarray of int64, shape (n,)
        In order, n > 0.
    """

    def __init__(self, times: np.ndarray, rows: np.ndarray):
        self._parts = collections.deque([(times, rows)])
        self._length = len(rows)

    def __len__(self) -> int:
        return self._length

    @property
    def newest(self) -> int:
        """The greatest time, where there are rows."""
        return int(self._parts[-1][0][-1])

    @property
    def nbytes(self) -> int:
        """Bytes taken."""
        return sum(times.nbytes + rows.nbytes for times, rows in self._parts)

    def append(self, times: np.ndarray, rows: np.ndarray) -> None:
        """Puts rows behind all others, which are none of a greater time."""
        if len(rows):
            self._parts.append((times, rows))
            self._length += len(rows)

    def all(self) -> tuple[np.ndarray, np.ndarray]:
        """Times and rows."""
        times, rows = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        return times, rows

    def cut(self, limit: int) -> list[np.ndarray]:
        """Takes away the rows up to a time."""
        gone = []
        while self._parts and int(self._parts[0][0][0]) <= limit:
            times, rows = self._parts.popleft()
            end = int(np.searchsorted(times, limit, "right"))
            gone.append(rows[:end])
            self._length -= end
            if end < len(rows):
                times, rows = times[end:], rows[end:]
                base = rows.base
                if base is not None and len(base) > 2 * len(rows):  # what is gone takes no memory
                    times, rows = times.copy(), rows.copy()
                self._parts.appendleft((times, rows))
                break
        return gone


class _Tail:
    """Values by arrival number, zero at first, cut off at the front.

    Attributes
    ----------
    end : int
        One past the newest number.
    """

    def __init__(self, first: int, kind: np.dtype):
        self.end = first
        self._base = self._first = first
        self._values = np.zeros(1024, kind)

    @property
    def nbytes(self) -> int:
        return self._values.nbytes

    def since(self, first: int) -> np.ndarray:
        """The values from a number on, as a view."""
        return self._values[first - self._base : self.end - self._base]

    def get(self, rows: np.ndarray) -> np.ndarray:
        return self._values[rows - self._base]

    def put(self, rows: np.ndarray, value: np.ndarray | bool) -> None:
        self._values[rows - self._base] = value

    def extend(self, count: int) -> np.ndarray:
        """So many more; their numbers."""
        if self.end - self._base + count > len(self._values):
            kept = self.since(self._first)
            values = np.zeros(max(1024, 2 * (len(kept) + count)), self._values.dtype)
            values[: len(kept)] = kept
            self._values, self._base = values, self._first
        self.end += count
        return np.arange(self.end - count, self.end)

    def trim(self, first: int) -> None:
        """Forgets the values before a number."""
        self._first = first
