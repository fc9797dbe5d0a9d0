"""Joins and inputs that schedules have, and what they are due to give."""

from __future__ import annotations

import dataclasses
import random
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from muntin import AllOf, Band, Compare, JoinSpec, Rows, Watermark, Within
from muntin.host.engine.stateless_placement import EqualityPlacement, Placement, can_follow, open_placement
from muntin.host.engines import Partitions
from muntin.host.sides import SIDES
from muntin.pyspark_bridge.join_task import JoinTask
from tests.oracles.nested_loop import NestedLoop

DATA_SETS = 20
BATCHES, MANY_BATCHES = 4, 9
STEP, LONG_STEP = 15, 60  # of the times from one batch to the next; the long one where there are many
SPLITS = 5  # ways in which the rows of a batch lie in tasks
MAX_TASKS = 3

_BAND = ("band", -9, 9)
_EQUAL = AllOf(Compare("k", "=", "k"), Band("a", "a", -30, 30))
_PARTS = ("all", [("pair", 0, 0, ("compare", "=")), ("pair", 1, 1, ("band", -30, 30))])
_TIME: dict[str, Any] = {
    "on": _EQUAL,
    "within": Within("t", "t", -40, 30),
    "watermark": Watermark(left=20, right=30, lag=1),
}
_COUNT = {"left": Rows(8), "right": Rows(6)}
JOINS: dict[str, dict[str, Any]] = {
    "count as sent": {"on": Band("a", "a", -9, 9), **_COUNT},
    "count full": {"on": Band("a", "a", -9, 9), **_COUNT, "how": "full", "sequence": "q"},
    "count": {"on": _EQUAL, **_COUNT, "sequence": "q"},
    "count left": {"on": _EQUAL, **_COUNT, "how": "left", "sequence": "q"},
    "count semi": {"on": _EQUAL, **_COUNT, "how": "left_semi", "sequence": "q"},
    "time": _TIME,
    "time full": {**_TIME, "how": "full"},
    "time anti": {**_TIME, "how": "left_anti"},
    "count band": {"on": Band("a", "a", -9, 9), **_COUNT, "how": "right", "sequence": "q"},
    "time band": {**_TIME, "on": Band("a", "a", -9, 9), "how": "left"},
}
#: What rows go to partitions by where no part of a condition compares for equality.
PLACED = (Partitions(2, "ranges", width=7), Partitions(2, "subwindows"), Partitions(2, "subwindows", width=13))


def make_rows(rng: np.random.Generator, call: int, side: str, step: int = STEP) -> pa.Table:
    """Rows of one side of a batch, each with a name of its own."""
    count = int(rng.integers(0, 8))
    return pa.table(
        {
            "k": pa.array(rng.integers(0, 3, count), pa.int64(), mask=rng.random(count) < 0.1),
            "a": pa.array(rng.integers(0, 60, count), pa.int32()),
            "t": call * step + rng.integers(-40, 40, count),
            "q": call * 100 + 2 * rng.permutation(count) + (side == "r"),  # no two rows arrive at once
            "s": pa.array([f"{side} {call}.{at}" for at in range(count)], pa.string()),
        }
    )


def content(*tables: pa.Table) -> list[str]:
    """Rows in any order."""
    rows = (zip(*(column.to_pylist() for column in table.columns), strict=True) for table in tables)
    return sorted(repr(row) for each in rows for row in each)


class _Loop(NestedLoop):
    """Knows that a row without one of its keys can match nothing."""

    def _alone(self, side: str, row: Any) -> bool:
        return (isinstance(row.key, tuple) and None in row.key) or super()._alone(side, row)


@dataclasses.dataclass(frozen=True)
class Case:
    """A join, its input, and what it is due to give.

    Attributes
    ----------
    task : JoinTask
        Without what schedules add.
    batches : dict of int to pyarrow.RecordBatch
        By number, as `tagged_union` has them.
    due : dict of int to list of list of str
        Of each batch the result of each partition; of all together, where partitions follow the data.
    follows : bool
        They do.
    """

    task: JoinTask
    batches: dict[int, pa.RecordBatch]
    due: dict[int, list[list[str]]]
    follows: bool
    ordered: bool
    _taken: dict[tuple[int, ...], list[pa.RecordBatch]] = dataclasses.field(default_factory=dict)

    @cached_property
    def numbers(self) -> list[int]:
        """Of the batches."""
        return list(self.batches)

    def rows(self, number: int, split: int, part: int, way: int) -> list[pa.RecordBatch]:
        """The rows of a batch that one task has: split 0 is all in one; each side's in an order of their own, and in
        pieces."""
        key = number, split, part, way
        if key not in self._taken:
            batch, rng = self.batches[number], random.Random(split)
            sides = batch["side"].to_pylist()
            tasks = [rng.randrange(split_tasks(split)) for _ in range(batch.num_rows)]
            own = [at for at, task in enumerate(tasks) if task == part]
            if not self.ordered:
                random.Random(way).shuffle(own)
                own.sort(key=sides.__getitem__)
            size = 3 if way % 2 else 100
            cut = [own[at : at + size] for at in range(0, len(own), size)]
            self._taken[key] = [batch.take(pa.array(piece, pa.int64())) for piece in cut]
        return self._taken[key]


def split_tasks(split: int) -> int:
    """In how many tasks the rows of a batch lie."""
    return 1 + split % MAX_TASKS


def _placement(spec: JoinSpec, schema: pa.Schema, partitions: int, placed: Partitions | None) -> Placement | None:
    """Where rows go; None where `k` says it."""
    if placed is not None:
        return open_placement(spec, schema, schema, placed)
    return EqualityPlacement(spec, schema, schema, partitions) if partitions > 1 and can_follow(spec) else None


@cache
def case(name: str, partitions: int, data: int, placed: Partitions | None = None, *, many: bool = False) -> Case:
    """One of the inputs that schedules have; with what rows go to partitions by, if not by `k`. Of many batches, rows
    of before the first ones leave the window again."""
    rng = np.random.default_rng(data)
    count = MANY_BATCHES if many else int(rng.integers(2, BATCHES + 1))
    numbers = np.cumsum(rng.integers(1, 3, count)) - 1  # with gaps
    numbers -= numbers[0]
    step = LONG_STEP if many else STEP
    tables = {int(number): [make_rows(rng, int(number), side, step) for side in ("l", "r")] for number in numbers}
    options = JOINS[name]
    spec = JoinSpec(**options)
    banded = isinstance(spec.on, Band)
    loop = _Loop(
        _BAND if banded else _PARTS,
        *(("a", "a") if banded else (["k", "a"], ["k", "a"])),
        rows=(_COUNT["left"].count, _COUNT["right"].count) if spec.counted else None,
        within=None if spec.counted else ("t", "t", -40, 30),
        delays=(None, None) if spec.counted else (20, 30),
        lag=1,
        how=options.get("how", "inner"),
        sequence=options.get("sequence"),
    )
    rows: list[list[tuple[Any, ...]]] = [[], []]
    due = {}
    empty = (None,) * 5
    schema = make_rows(rng, 0, "l").schema
    placement = _placement(spec, schema, partitions, placed)
    follows = bool(getattr(placement, "follows", False))
    homes: dict[int, list[int]] = {}  # of the divided rows of a side
    for number, given in tables.items():
        sides = [table.sort_by("q") for table in given] if spec.sequence else given  # the loop counts as they arrive
        for at, table in enumerate(sides):
            rows[at] += zip(*(column.to_pylist() for column in table.columns), strict=True)
            for first, part in enumerate(placement.parts) if placement is not None and not follows else ():
                for batch in table.combine_chunks().to_batches() if part.divided == SIDES[at] else ():
                    own = part.targets(SIDES[at], batch)[0] + first * partitions
                    homes.setdefault(at, []).extend(own.tolist())
        due[number] = [[] for _ in range(1 if follows else partitions if placement is None else placement.count)]
        for pair in loop.results(loop.process(*sides)):
            found = [None if at is None else rows[side][at] for side, at in enumerate(pair)]
            if follows:
                home = 0
            elif placement is None:
                home = (next(filter(None, found))[0] or 0) % partitions
            else:
                home = next(of[row] for at, of in sorted(homes.items()) if (row := pair[at]) is not None)
            shown = found[:1] if spec.how in ("left_semi", "left_anti") else found
            flat = repr(tuple(value for row in shown for value in (row or empty)))
            due[number][home].append(flat)
        due[number] = [sorted(part) for part in due[number]]
    sides_schema = schema.serialize().to_pybytes()
    task = JoinTask(
        address="",
        token=None,
        tls_ca=None,
        private=False,
        join="join",
        named=True,
        instance="",
        spec=spec.to_json(),
        left_schema=sides_schema,
        right_schema=sides_schema,
        streaming=True,
        partitions=partitions,
        by="equality" if placed is None else placed.by,
        width=None if placed is None else placed.width,
    )
    numbered = placed is None and not follows  # by Spark
    batches = {number: _tagged(sides, partitions if numbered else 1) for number, sides in tables.items()}
    return Case(task, batches, due, follows, spec.counted and spec.sequence is None)


def _tagged(sides: list[pa.Table], numbers: int) -> pa.RecordBatch:
    """Rows of both sides as `tagged_union` puts them together."""
    parts = []
    for at, table in enumerate(sides):
        nulls = [pa.nulls(len(table), field.type) for field in table.schema]
        own, columns = [column.combine_chunks() for column in table.columns], [pa.array([at] * len(table), pa.int8())]
        columns += [*own, *nulls] if at == 0 else [*nulls, *own]
        names = ["side", *(f"{letter}{place}" for letter in "lr" for place in range(len(own)))]
        if numbers > 1:
            columns.append(pa.array(table["k"].fill_null(0).to_numpy() % numbers, pa.int32()))
            names.append("partition")
        parts.append(pa.table(columns, names=names))
    whole = pa.concat_tables(parts)
    return pa.RecordBatch.from_arrays([column.combine_chunks() for column in whole.columns], schema=whole.schema)
