"""Two random streams, cut into calls, as a case of the suite asks for them."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tests.conformance.keys import KeyCase, from_storage
from tests.conformance.windows import WindowCase

SEQUENCES = ("none", "distinct", "ties")
CUTS = ("whole", "few", "rows", "one-sided", "mixed")
#: Of a stream cut into rows, so many neighbours are each a call of its own; with ``--full``, all rows.
ROWS_ALONE = 20


@dataclass
class Streams:
    """Calls as the operator takes them, and what the checks need to know about their rows.

    Each row has an id of its own (`lid`, `rid`): its place in the concatenated input of its side.
    """

    calls: list[tuple[pa.Table | pa.RecordBatch | None, pa.Table | pa.RecordBatch | None]]
    left: pa.Table
    right: pa.Table

    def __post_init__(self) -> None:
        self.positions = self._positions()
        """For each side the arrival position of each row number."""
        self.numbers = self._numbers()
        """For each side the row number (arrival number) of each id."""

    def _order(self) -> list[tuple[int, int, int, int]]:
        """(call, sequence, side, id) of every row in arrival order."""
        rows = []
        for call, batches in enumerate(self.calls):
            for side, (batch, name) in enumerate(zip(batches, ("lid", "rid"), strict=True)):
                if batch is None:
                    continue
                ids = batch.column(name).to_pylist()
                sequence = batch.column("q").to_pylist() if self.sequenced else [0] * len(ids)
                rows += [(call, q, side, each) for q, each in zip(sequence, ids, strict=True)]
        # Ids grow along each input, so sorting by them keeps ties in input order.
        return sorted(rows)

    @property
    def sequenced(self) -> bool:
        return "q" in self.left.column_names

    def _positions(self) -> dict[str, list[int]]:
        positions: dict[str, list[int]] = {"left": [], "right": []}
        for position, row in enumerate(self._order()):
            positions["left" if row[2] == 0 else "right"].append(position)
        return positions

    def _numbers(self) -> dict[str, dict[int, int]]:
        numbers: dict[str, dict[int, int]] = {"left": {}, "right": {}}
        for row in self._order():
            of_side = numbers["left" if row[2] == 0 else "right"]
            of_side[row[3]] = len(of_side)
        return numbers


def make_streams(
    key: KeyCase,
    shape: str,
    window: WindowCase,
    sequence: str,
    cut: str,
    count: int,
    rng: np.random.Generator,
) -> Streams:
    """Random streams of about `count` rows a side.

    Parameters
    ----------
    key, shape
        Types and values of the key columns ``limit`` (left) and ``price`` (right).
    window
        For time windows: types of the time columns ``at`` and ``when``.
    sequence
        ``"none"``, or a column ``q`` with ``"distinct"`` values or with ``"ties"``.
    cut
        How the streams are cut into calls: all in one, a few uneven ones (some sides empty, some None), a row
        at a time between what came before and what comes after, all left rows but one before any right row, or a
        mixture.
    """
    sides = rng.permutation(np.repeat([0, 1], [count, count + 7]))
    if cut == "one-sided":
        sides = np.sort(sides)
        sides[[len(sides) // 2, -1]] = sides[[-1, len(sides) // 2]]
    step = {"none": 1, "distinct": 3, "ties": 0}[sequence]
    order = np.arange(len(sides)) * step if step else np.arange(len(sides)) // 3
    # Event time drifts with arrival and jitters around it: some rows come late.
    ticks = np.maximum(np.arange(len(sides)) // 4 + rng.integers(-6, 7, len(sides)), 0)
    calls_of = _cut(cut, len(sides), rng)
    tables = []
    for side, names in ((0, ("lid", "limit", "at")), (1, ("rid", "price", "when"))):
        rows = np.flatnonzero(sides == side)
        if sequence != "none":
            # Within a call rows may come in any order: the sequence column decides.
            rows = rows[np.lexsort((rng.random(len(rows)), calls_of[rows]))]
        columns = {
            names[0]: pa.array(np.arange(len(rows))),
            names[1]: key.keys("left" if side == 0 else "right", shape, len(rows), rng),
        }
        if window.time is not None:
            kind = (window.time.left, window.time.right)[side]
            scale = window.time.scales[side]
            # Times between the ticks too, where the unit is finer.
            values = [int(tick) * scale + int(rng.integers(scale)) for tick in ticks[rows]]
            if not window.watermarked:
                values = [None if rng.random() < 0.05 else value for value in values]
            columns[names[2]] = from_storage(values, kind)
        if sequence != "none":
            columns["q"] = pa.array(order[rows], pa.int64())
        # Payload: names that clash, a dictionary, nested values, NULLs.
        columns["same"] = pa.array([f"{names[0]}{row}" for row in rows])
        tags = pa.array([None if row % 5 == 0 else "abc"[row % 3] for row in rows], pa.string())
        columns[f"{names[0]}_tag"] = tags.dictionary_encode()
        columns[f"{names[0]}_list"] = pa.array([[int(row)] * (row % 3) for row in rows], pa.list_(pa.int32()))
        tables.append((pa.table(columns), calls_of[rows]))
    calls = []
    for call in range(int(calls_of.max()) + 1):
        batches = [_relayout(table.slice(*_range(of, call)), rng) for table, of in tables]
        for side in (0, 1):
            if batches[side].num_rows == 0 and rng.random() < 0.5:
                batches[side] = None
        calls.append(tuple(batches))
    return Streams(calls, tables[0][0], tables[1][0])


def _range(calls_of: np.ndarray, call: int) -> tuple[int, int]:
    """(offset, length) of one call in a side's rows."""
    first, last = np.searchsorted(calls_of, [call, call + 1])
    return int(first), int(last - first)


def _cut(cut: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """The call of each row in arrival order; calls may be empty."""
    if cut == "whole":
        return np.zeros(count, np.int64)
    if cut == "rows":
        alone = min(ROWS_ALONE, count)
        return np.clip(np.arange(1, count + 1) - rng.integers(count - alone + 1), 0, alone + 1)
    sizes = {"few": [23, 40, 5], "one-sided": [11, 3, 30], "mixed": [0, 1, 2, 17, 0, 60]}[cut]
    calls = np.repeat(np.arange(count + len(sizes)), rng.permuted(np.resize(sizes, count + len(sizes))))
    return calls[:count].astype(np.int64)


def _relayout(table: pa.Table, rng: np.random.Generator) -> pa.Table | pa.RecordBatch:
    """The same rows in another of Arrow's layouts: chunked, a slice with an offset, or one record batch."""
    choice = rng.integers(4)
    if choice == 0 and table.num_rows > 2:
        at = int(rng.integers(1, table.num_rows))
        return pa.concat_tables([table.slice(0, at), table.slice(at, 0), table.slice(at)])
    if choice == 1:
        # A slice of a copy with three rows more in front: the arrays keep an offset.
        front = pa.concat_tables([table.slice(0, 1)] * 3 + [table]).unify_dictionaries().combine_chunks()
        return front.slice(front.num_rows - table.num_rows)
    if choice == 2 and table.num_rows:
        return table.unify_dictionaries().combine_chunks().to_batches()[0]
    return table
