"""What is kept of the values of a range of rows, by the names that the native core has for it, and how parts merge.

Each is an operation of host/native/engine/aggregate_window.hpp. Everything about one stands in `FOLDS`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from muntin.host.call import Aggregates, distinct
from muntin.host.sides import Side

_INT64 = np.iinfo(np.int64)

Merge = Callable[[int, list[np.ndarray], list[Any]], Any]


@dataclasses.dataclass(frozen=True)
class Fold:
    """One operation.

    Attributes
    ----------
    dtype : type
        Of what is kept of a row.
    words : int
        How many of these; several lie side by side, the lower half of a number of 128 bits first.
    row_bytes : int
        Of a row in a run, with what the run has beside the values themselves.
    merge : callable
        From a number of rows, the places among them that each part has, and its values there: that of all
        parts.
    """

    dtype: type
    words: int
    row_bytes: int
    merge: Merge


def merged_aggregates(
    side: Side, parts: Sequence[Aggregates], folds: Sequence[str], rows: np.ndarray | None = None,
    ranks: Sequence[int | None] | None = None,
) -> Aggregates:  # fmt: skip
    """Partial aggregates of rows of one side, each of other rows that they have met, as one.

    Sums of floats may differ from those of one window in their last digits.

    Parameters
    ----------
    side : str
    parts : sequence of Aggregates
        Each row at most once in each.
    folds : sequence of str
    rows : ndarray of int64, optional
        The rows of the result, ascending or not, those of the parts and others; by default those of the parts,
        ascending.
    ranks : sequence of int or None, optional
        For each fold that takes its value from one row, which other fold, of ranked rows, decides it: the part with the
        least counts.
    """
    if rows is None:
        rows = parts[0].probing if len(parts) == 1 else distinct(np.concatenate([part.probing for part in parts]))
    if len(parts) == 1 and np.array_equal(rows, parts[0].probing):
        return parts[0]
    order = np.argsort(rows, kind="stable")
    places = [order[np.searchsorted(rows, part.probing, sorter=order)] for part in parts]
    counts = np.zeros(len(rows), np.int64)
    for part, at in zip(parts, places, strict=True):
        counts[at] += part.counts
    results: list[Any] = []
    chosen: dict[int, list[np.ndarray]] = {}
    for number, fold in enumerate(folds):
        own, values = places, [part.results[number] for part in parts]
        if ranks is not None and (rank := ranks[number]) is not None:
            if rank not in chosen:
                given = [part.results[rank].reshape(-1, 3) for part in parts]
                least = FOLDS["least_row"].merge(len(rows), places, given).reshape(-1, 3)
                chosen[rank] = [(mine == least[at]).all(axis=1) for mine, at in zip(given, places, strict=True)]
            own = [at[which] for at, which in zip(places, chosen[rank], strict=True)]
            values = [_taken(value, which) for value, which in zip(values, chosen[rank], strict=True)]
        results.append(FOLDS[fold].merge(len(rows), own, values))
    return Aggregates(side, rows, counts, results)


def _taken(value: Any, which: np.ndarray) -> Any:
    """Of what the core gives of some rows that of those which are chosen, bool, shape (n,)."""
    if isinstance(value, tuple):
        starts, words = value
        inside = np.repeat(which, np.diff(starts))
        counts = np.diff(starts)[which]
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), words.reshape(-1, 3)[inside].reshape(-1)
    return value.reshape(len(which), -1)[which].reshape(-1) if len(which) else value


def _some(rows: int, places: list[np.ndarray], values: list[np.ndarray]) -> np.ndarray:
    total = np.zeros(rows, np.int64)
    for at, own in zip(places, values, strict=True):
        total[at] += own
    return total


def _sum(rows: int, places: list[np.ndarray], values: list[np.ndarray]) -> np.ndarray:
    """Of 128 bits, lower word first."""
    total = np.zeros((rows, 2), np.int64)
    for at, own in zip(places, values, strict=True):
        own = own.reshape(-1, 2)
        low = total[at, 0] + own[:, 0]
        carry = low.view(np.uint64) < own[:, 0].copy().view(np.uint64)
        total[at, 1] += own[:, 1] + carry
        total[at, 0] = low
    return total.reshape(-1)


def _added(sums: np.ndarray, errors: np.ndarray, at: np.ndarray, own: np.ndarray) -> None:
    """Adds float64 to sums and the errors of these. Source: Neumaier, ZAMM 54 (1974)."""
    before = sums[at]
    after = before + own
    lost = np.where(np.abs(before) >= np.abs(own), (before - after) + own, (own - after) + before)
    errors[at] += np.where(np.isfinite(after), lost, 0.0)
    sums[at] = after


def _add(rows: int, places: list[np.ndarray], values: list[np.ndarray]) -> np.ndarray:
    sums, errors = np.zeros(rows), np.zeros(rows)
    with np.errstate(invalid="ignore", over="ignore"):
        for at, own in zip(places, values, strict=True):
            _added(sums, errors, at, own)
        return np.where(np.isfinite(sums), sums + errors, sums)


def _moments(rows: int, places: list[np.ndarray], values: list[np.ndarray]) -> np.ndarray:
    """A sum, its error, and those of squares."""
    total = np.zeros((rows, 4))
    with np.errstate(invalid="ignore", over="ignore"):
        for at, own in zip(places, values, strict=True):
            own = own.reshape(-1, 4)
            for first in (0, 2):
                _added(total[:, first], total[:, first + 1], at, own[:, first])
                total[at, first + 1] += own[:, first + 1]
    return total.reshape(-1)


def _least(rows: int, places: list[np.ndarray], values: list[np.ndarray]) -> np.ndarray:
    least = np.full(rows, _INT64.max)
    for at, own in zip(places, values, strict=True):
        least[at] = np.minimum(least[at], own)
    return least


def _least_of(nothing: tuple[int, ...]) -> Merge:
    """Of a number of 128 bits, lower word first, and of what stands behind it."""
    width = len(nothing)

    def merge(rows: int, places: list[np.ndarray], values: list[np.ndarray]) -> np.ndarray:
        least = np.tile(np.array(nothing), (rows, 1))
        for at, own in zip(places, values, strict=True):
            own, now = own.reshape(-1, width), least[at]
            less, same = np.zeros(len(now), np.bool_), np.ones(len(now), np.bool_)
            for word in (1, 0, *range(2, width)):
                a, b = (words[:, word].copy().view(np.uint64 if word == 0 else np.int64) for words in (own, now))
                less |= same & (a < b)
                same &= a == b
            least[at] = np.where(less[:, None], own, now)
        return least.reshape(-1)

    return merge


def _each(
    rows: int, places: list[np.ndarray], values: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """Of each place where its rows begin, and the end; and the rows, those of a place in their order."""
    owners = [np.repeat(at, np.diff(starts)) for at, (starts, _) in zip(places, values, strict=True)]
    owner = np.concatenate([np.zeros(0, np.int64), *owners])
    words = np.concatenate([np.zeros((0, 3), np.int64), *(own.reshape(-1, 3) for _, own in values)])
    order = np.lexsort((words[:, 2], words[:, 0].copy().view(np.uint64), words[:, 1], owner))
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(owner, minlength=rows))])
    return starts.astype(np.int64), words[order].reshape(-1)


#: By the core's names.
FOLDS: dict[str, Fold] = {
    "some": Fold(np.uint8, 1, 4, _some),
    "sum": Fold(np.int64, 1, 16, _sum),
    "add": Fold(np.float64, 1, 38, _add),
    "moments": Fold(np.float64, 1, 72, _moments),
    "least": Fold(np.int64, 1, 38, _least),
    "least_wide": Fold(np.int64, 2, 76, _least_of((-1, _INT64.max))),
    "least_row": Fold(np.int64, 3, 48, _least_of((-1, _INT64.max, _INT64.max))),
    "each": Fold(np.int64, 3, 24, _each),
}
