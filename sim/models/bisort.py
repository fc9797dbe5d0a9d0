"""NumPy models of BI-Sort's blocks, each of its block's name."""

from __future__ import annotations

import bisect

import numpy as np


def count_below(keys: np.ndarray, below: np.ndarray) -> np.ndarray:
    """How many keys lie below each bound.

    Parameters
    ----------
    keys : ndarray of unsigned integers, shape (n,)
        Ascending.
    below : ndarray of object, shape (m,)
        Bounds as Python integers, from 0 to one above the greatest key there is.

    Returns
    -------
    ndarray of int64, shape (m,)
    """
    above_all = np.array([bound > np.iinfo(keys.dtype).max for bound in below], bool)
    within = np.where(above_all, 0, below).astype(keys.dtype)
    return np.where(above_all, len(keys), np.searchsorted(keys, within, "left")).astype(np.int64)


def merge(
    older: tuple[np.ndarray, np.ndarray], newer: tuple[np.ndarray, np.ndarray], width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Merges two sorted runs as the hardware does, the order of equal keys included.

    Parameters
    ----------
    older, newer : tuple of ndarray
        Keys, unsigned and ascending, shape (n,), and row numbers, uint32, shape (n,).
    width : int
        W, the rows of a beat.

    Returns
    -------
    tuple of ndarray
        Keys and row numbers of the merged run.
    """
    sides = []
    for keys, rows in (older, newer):
        # A lane that runs dry offers padding, which is after every key.
        pad = np.zeros(len(keys) + 2 * width, bool)
        pad[len(keys) :] = True
        sides.append(
            (
                np.append(keys, np.zeros(2 * width, keys.dtype)),
                np.append(rows, np.zeros(2 * width, rows.dtype)),
                pad,
            )
        )
    (a_keys, a_rows, a_pad), (b_keys, b_rows, b_pad) = sides
    total = len(older[0]) + len(newer[0])
    keys_out, rows_out = [], []
    lanes = np.arange(width)
    a_at = b_at = 0
    while a_at + b_at < total:
        # Lane i of the older side holds the row whose number is i modulo W, lane W-1-i of the newer side
        # likewise.
        a = a_at + (lanes - a_at) % width
        b = b_at + (width - 1 - lanes - b_at) % width
        take = b_pad[b] | (~a_pad[a] & ~(b_keys[b] < a_keys[a]))
        keys = np.where(take, a_keys[a], b_keys[b])
        rows = np.where(take, a_rows[a], b_rows[b])
        pad = np.where(take, a_pad[a], b_pad[b])
        a_at += int(take.sum())
        b_at += width - int(take.sum())
        reach = width // 2
        while reach:
            low = lanes[(lanes & reach) == 0]
            high = low + reach
            swap = ~pad[high] & (pad[low] | (keys[high] < keys[low]))
            for array in (keys, rows, pad):
                array[low], array[high] = (
                    np.where(swap, array[high], array[low]),
                    np.where(swap, array[low], array[high]),
                )
            reach //= 2
        keys_out.append(keys[~pad])
        rows_out.append(rows[~pad])
    if not keys_out:
        return older[0][:0], older[1][:0]
    return np.concatenate(keys_out), np.concatenate(rows_out)


def index(keys: np.ndarray, partition_log2: int) -> np.ndarray:
    """The first key of each partition of ``2**partition_log2`` rows of a run."""
    return keys[:: 1 << partition_log2]


def bounds(keys: np.ndarray, offset: int) -> np.ndarray:
    """``key + offset``, saturated to 0 and to one above the greatest key there is.

    Parameters
    ----------
    keys : ndarray of unsigned integers, shape (n,)
    offset : int

    Returns
    -------
    ndarray of object, shape (n,)
        Python integers, as the greatest bound is one bit wider than a key.
    """
    top = int(np.iinfo(keys.dtype).max) + 1
    return np.array([min(max(int(key) + offset, 0), top) for key in keys], object)


def merge_bounds(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds in one ascending order, of equal ones the lower ones first.

    Returns
    -------
    tuple of ndarray
        The bounds, object, and whether each is an upper one, bool.
    """
    below = np.concatenate([lower, upper])
    kind = np.repeat([False, True], [len(lower), len(upper)])
    order = sorted(range(len(below)), key=lambda at: (below[at], kind[at]))
    return below[order], kind[order]


def partition(index: np.ndarray, below: np.ndarray) -> np.ndarray:
    """The last partition whose first key is below each bound, int64; -1 where there is none."""
    return count_below(index, below) - 1


def probe(
    keys: np.ndarray, below: np.ndarray, partitions: np.ndarray, partition_log2: int
) -> tuple[np.ndarray, np.ndarray]:
    """Scans the partitions that a batch touches.

    Parameters
    ----------
    keys : ndarray of unsigned integers, shape (n,)
        The run, ascending.
    below : ndarray of object, shape (m,)
        Bounds, ascending.
    partitions : ndarray of int64, shape (m,)
        The partition of each, -1 for none.
    partition_log2 : int

    Returns
    -------
    positions : ndarray of int64, shape (m,)
        Keys of the run below each bound.
    touched : ndarray of int64
        The partitions that were read, each once, ascending.
    """
    positions = np.zeros(len(below), np.int64)
    for at, (bound, which) in enumerate(zip(below, partitions, strict=True)):
        if which >= 0:
            start = int(which) << partition_log2
            part = keys[start : start + (1 << partition_log2)]
            positions[at] = start + sum(int(key) < bound for key in part)
    return positions, np.unique(partitions[partitions >= 0])


def ranges(starts: np.ndarray, stops: np.ndarray) -> list[tuple[int, int, int]]:
    """The ranges that are not empty: number of the probe, start and stop; of integers, shape (m,), one a probe."""
    return [(number, int(a), int(b)) for number, (a, b) in enumerate(zip(starts, stops, strict=True)) if a < b]


def limited_ranges(
    ranges: list[tuple[int, int, int, int]], limits: np.ndarray | None
) -> list[tuple[int, int, int, int, int, int]]:
    """Ranges with the limits of their probes.

    Parameters
    ----------
    ranges : list of (probe, place, start, stop)
    limits : ndarray of uint32, shape (m, 2), or None
        First row and span for each probe.

    Returns
    -------
    list of (probe, place, start, stop, first, span)
        The last two are 0 where there are no limits.
    """
    return [(*found, *((0, 0) if limits is None else limits[found[0]].tolist())) for found in ranges]


def added_counts(probes: np.ndarray, counts: np.ndarray, count: int) -> np.ndarray:
    """One count for each of so many probes, modulo 2**32, uint32, shape (count,).

    Parameters
    ----------
    probes, counts : ndarray of integers, shape (m,)
        The probe and the count of each range.
    count : int
    """
    return np.bincount(probes, counts, count).astype(np.int64).astype(np.uint32)


def gather(
    rows: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
    limits: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of ranges of a run.

    Parameters
    ----------
    rows : ndarray of uint32, shape (n,)
        Row numbers of the run, by position.
    start, stop : ndarray of integers, shape (m,)
        One range for each probe.
    limits : tuple of ndarray of uint32, shape (m,), or None
        `first` and `span`: a row counts where ``first <= row < first + span`` modulo 2**32.

    Returns
    -------
    tuple of ndarray
        Number of the probe and row number of each pair, uint32, in the order of the ranges.
    """
    probes, found = [np.zeros(0, np.uint32)], [np.zeros(0, np.uint32)]
    for number, (low, high) in enumerate(zip(start, stop, strict=True)):
        part = rows[int(low) : int(high)]
        if limits is not None:
            part = part[part - limits[0][number] < limits[1][number]]
        probes.append(np.full(len(part), number, np.uint32))
        found.append(part)
    return np.concatenate(probes), np.concatenate(found)


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
