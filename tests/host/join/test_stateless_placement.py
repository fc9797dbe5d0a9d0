"""Partitions of rows that are sent without knowledge of others: each pair in one partition, that of its divided row."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import AllOf, AnyOf, AsOf, Band, Compare, JoinSpec, Rows, Watermark, WindowJoin, Within
from muntin.host.engine.routes import DIVIDED, RoutingTable, even_table
from muntin.host.engine.stateless_placement import (
    EqualityPlacement,
    Placement,
    StatelessPlacement,
    can_follow,
    open_placement,
)
from muntin.host.engines import Partitions
from muntin.host.errors import PredicateError, UnsupportedError, WindowError

ROWS = 90
BAND = Band("k", "k", -3, 5)
TIMED = Within("t", "t", "-4 seconds", "9 seconds")


def table_of(kind: str, seed: int, side: int) -> pa.Table:
    """Keys of a type, some NULL, near enough that many meet, with the ends of the type among them."""
    rng = np.random.default_rng(2 * seed + side)
    small, some = rng.integers(-60, 60, ROWS), rng.random(ROWS)
    keys: Any = {
        "int64": np.append(small[:-2], [np.iinfo(np.int64).min, np.iinfo(np.int64).max]),
        "int8": small.astype(np.int8),
        "double": np.append(small[:-4] + some[:-4], [np.inf, -np.inf, np.nan, -0.0]),
        "float": (small + some).astype(np.float32),
        "uint64": small.astype(np.int64).view(np.uint64),
    }.get(kind, small)
    if kind == "decimal":
        values = pa.array([Decimal(int(value)) / 4 for value in small], pa.decimal128(9, 2))
    elif kind == "timestamp":
        values = pa.array(small * 1000, pa.timestamp("ms" if side else "us"))
    else:
        values = pa.array(keys)
    nulls = pa.array(rng.random(ROWS) < 0.1)
    columns = {
        "k": pa.compute.if_else(nulls, pa.scalar(None, values.type), values),
        "t": pa.array(rng.integers(0, 90, ROWS) * 1_000_000, pa.timestamp("us"), mask=rng.random(ROWS) < 0.1),
        "n": np.arange(ROWS),
    }
    return pa.table(columns)


def parts_of(placement: Placement, tables: list[pa.Table]) -> list[list[pa.Table]]:
    """The rows of both sides that each partition is sent."""
    parts: list[list[pa.Table]] = [[] for _ in range(placement.count)]
    for side, table in zip(("left", "right"), tables, strict=True):
        rows = table.combine_chunks().to_batches()[0]
        for each in placement.parts:
            numbers, masks = each.targets(side, rows)
            if side == each.divided:
                assert masks.sum(axis=0).tolist() == [1] * len(table)
                assert masks[numbers, np.arange(len(table))].all()
            else:
                assert (numbers == -1).all()
        for part, mask in zip(parts, placement.targets(side, rows)[1], strict=True):
            part.append(table.filter(pa.array(mask)))
    return parts


def joined(spec: JoinSpec, tables: list[pa.Table]) -> list[str]:
    with WindowJoin.from_spec(spec, left_schema=tables[0].schema, right_schema=tables[1].schema) as join:
        found = [join.process(*tables), join.finish()]
    return sorted(str(row) for part in found for row in part.to_pylist())


def check(spec: JoinSpec, tables: list[pa.Table], partitions: Partitions) -> list[list[pa.Table]]:
    """The partitions together give what one window gives."""
    placement = open_placement(spec, tables[0].schema, tables[1].schema, partitions)
    parts = parts_of(placement, tables)
    assert len(parts) == partitions.count * (2 if spec.how == "full" else 1)
    due = joined(spec, tables)
    found = [joined(placement.spec(number), part) for number, part in enumerate(parts)]
    assert sorted(itertools.chain.from_iterable(found)) == due
    assert len(due) > 5
    return parts


@pytest.mark.parametrize("kind", ["int64", "int8", "double", "float", "uint64", "decimal", "timestamp"])
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "left_semi", "left_anti", "right_anti"])
def test_ranges_of_any_type(kind: str, how: str, seed: int) -> None:
    ends = ("-3 seconds", "5 seconds") if kind == "timestamp" else (-3, 5)
    tables = [table_of(kind, seed, side) for side in range(2)]
    spec = JoinSpec(on=AllOf(Compare("n", "!=", "n"), Band("k", "k", *ends)), within=TIMED, how=how)
    placement = open_placement(spec, tables[0].schema, tables[1].schema, Partitions(4))
    assert placement.by == "ranges"
    check(spec, tables, Partitions(4))
    width: Any = {"timestamp": "1500 ms", "double": 0.5, "float": 1e-3}.get(kind, 1)
    check(spec, tables, Partitions(3, by="ranges", width=width))


@pytest.mark.parametrize("kind", ["int64", "double", "decimal"])
@pytest.mark.parametrize("how", ["inner", "right", "left"])
@pytest.mark.parametrize(
    "partitions", [Partitions(4), Partitions(3, by="subwindows"), Partitions(3, "subwindows", width="9 s")]
)
def test_late_rows_are_given_by_one_partition(kind: str, how: str, partitions: Partitions, seed: int) -> None:
    """Rows too that no partition needs, as their key is NULL; more copies change nothing else."""
    tables = [table_of(kind, seed, side) for side in range(2)]
    spec = JoinSpec(on=BAND, within=TIMED, how=how, late="keep")
    placement = open_placement(spec, tables[0].schema, tables[1].schema, partitions)
    assert isinstance(placement, StatelessPlacement)
    for side, table in zip(("left", "right"), tables, strict=True):
        (rows,) = table.combine_chunks().to_batches()
        masks = placement.targets(side, rows)[1]
        given = np.stack([placement.given(side, rows, number) for number in range(placement.count)])
        assert (masks & given).sum(axis=0).tolist() == [1] * len(table)
    check(spec, tables, partitions)


@pytest.mark.parametrize(
    "on",
    [
        AnyOf(Band("k", "k", -9, -7), Band("k", "k", 30, 31)),
        Band("k", "k", 10, 14, sum=True),
        Compare("k", "=", "k"),
        AllOf(Compare("k", "<", "k"), Band("n", "n", 0, 7)),
    ],
    ids=str,
)
def test_ranges_of_any_band(on: Any, seed: int) -> None:
    tables = [table_of("int64", seed, side) for side in range(2)]
    for how in ("left", "full"):
        check(JoinSpec(on=on, within=TIMED, how=how), tables, Partitions(5, by="ranges"))


@pytest.mark.parametrize("width", [None, "1 second", dt.timedelta(seconds=20), "1000 days"])
@pytest.mark.parametrize("on", [Compare("k", "<", "k"), Band("k", "k", -20, None), Compare("k", "!=", "k")], ids=str)
@pytest.mark.parametrize("how", ["inner", "right", "full", "left_anti"])
def test_subwindows(on: Any, how: str, width: Any, seed: int) -> None:
    tables = [table_of("int64", seed, side) for side in range(2)]
    for within in (TIMED, Within("t", "t", "-2 seconds", None)):
        check(JoinSpec(on=on, within=within, how=how), tables, Partitions(4, by="subwindows", width=width))


def test_as_of(seed: int) -> None:
    tables = [table_of("int64", seed, side) for side in range(2)]
    spec = JoinSpec(on=AsOf("t", "t", tolerance="5 seconds"), how="left")
    check(spec, tables, Partitions(3))


def test_copies_are_as_the_bands_overlap() -> None:
    """A copied row goes to a cell and to what its band reaches of others; cells go to partitions in turn."""
    rng = np.random.default_rng(5)
    rows = pa.RecordBatch.from_pydict({"k": rng.integers(0, 100_000, 50_000), "n": np.arange(50_000)})
    spec = JoinSpec(on=BAND, left=Rows(5), right=Rows(5))
    for width, copies in ((None, 1.25), (80, 1.1), (8, 2.0)):
        placement = open_placement(spec, rows.schema, rows.schema, Partitions(4, width=width))
        (_, divided), (_, copied) = placement.targets("left", rows), placement.targets("right", rows)
        assert copied.sum() / len(rows.columns[0]) == pytest.approx(copies, rel=0.02)
        for masks in (divided, copied):
            loads = masks.sum(axis=1)
            assert loads.max() < 1.1 * loads.mean()
    spread = open_placement(spec, rows.schema, rows.schema, Partitions(4, by="subwindows"))
    skewed = rows.set_column(0, "k", pa.array(np.where(np.arange(50_000) % 2, 7, rows["k"].to_numpy())))
    apart = rows.set_column(0, "k", pa.array(rows["k"].to_numpy() // 128 * 128))
    ranges = open_placement(spec, rows.schema, rows.schema, Partitions(4))
    for placement, uneven in ((spread, rows), (spread, skewed), (ranges, apart)):
        loads = placement.targets("left", uneven)[1].sum(axis=1)
        assert loads.max() < 1.1 * loads.mean()
    assert spread.targets("right", rows)[1].all()


def test_rows_go_where_they_went() -> None:
    """In any order and any batches, and under a name that says what they go by."""
    table = table_of("double", 1, 0).combine_chunks()
    spec = JoinSpec(on=Band("k", "k", -0.5, 0.5), within=TIMED)
    names = set()
    options: list[dict[str, Any]] = [{}, {"width": 0.5}, {"by": "subwindows"}, {"by": "subwindows", "width": "1 s"}]
    for option in options:
        placement = open_placement(spec, table.schema, table.schema, Partitions(4, **option))
        names.add(placement.name)
        order = np.random.default_rng(2).permutation(len(table))
        for side in ("left", "right"):
            whole = placement.targets(side, table.to_batches()[0])[1]
            moved = placement.targets(side, table.take(pa.array(order)).combine_chunks().to_batches()[0])[1]
            assert (moved == whole[:, order]).all()
            named = open_placement(spec, table.schema, table.schema, Partitions(4, by=placement.by), placement.name)
            assert (named.targets(side, table.to_batches()[0])[1] == whole).all()
    assert names == {"ranges-4.0-bins", "ranges-0.5-bins", "subwindows", "subwindows-1000000-bins"}


@pytest.mark.parametrize(
    ("spec", "partitions", "error", "message"),
    [
        ({"on": Compare("k", "<", "k")}, {"by": "ranges"}, UnsupportedError, "a band with two ends, and this one has"),
        ({"on": BAND}, {"by": "ranges", "width": 0}, WindowError, "above 0, not 0"),
        ({"on": BAND}, {"by": "ranges", "width": "1 second"}, PredicateError, "'k' and 'k' are numbers"),
        ({"on": BAND}, {"by": "subwindows", "width": 5}, PredicateError, "'t' and 't' are times: give 5 with its unit"),
        ({"on": BAND, "within": None}, {"by": "subwindows", "width": 5}, WindowError, "is for time windows"),
        ({"on": Band("f", "f", 0, 0)}, {"by": "ranges"}, WindowError, "the band of the keys 'f' and 'f' has no width"),
    ],
)
def test_refusals(spec: dict[str, Any], partitions: dict[str, Any], error: type[Exception], message: str) -> None:
    schema = pa.schema([("k", pa.int64()), ("f", pa.float64()), ("t", pa.timestamp("us"))])
    with pytest.raises(error, match=message):
        open_placement(JoinSpec(**{"within": TIMED, **spec}), schema, schema, Partitions(4, **partitions))
    for width in (float("nan"), True, [5]):
        with pytest.raises(WindowError, match="must be a finite number or a duration"):
            Partitions(4, width=width)
    with pytest.raises(UnsupportedError, match="width=5 is for partitions in Spark"):
        WindowJoin(on=BAND, left=Rows(5), right=Rows(5), partitions=Partitions(4, width=5))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array([1, -2, None, 2**31 - 1], pa.int32()), pa.array([1, -2, None, 2**31 - 1], pa.int64())),
        (pa.array([0.0, -0.0, 1.5, float("nan")], pa.float32()), pa.array([-0.0, 0.0, 1.5, -float("nan")])),
        (pa.array(["", "a", None, "é"]), pa.array(["", "a", None, "é"])),
        (pa.array([Decimal("1.5"), Decimal(2)] * 2), pa.array([Decimal("1.5"), Decimal("2.0")] * 2)),
        (pa.array([{"x": 5}, {"x": 6}, {"x": None}, None]), pa.array([{"x": 5}, {"x": 6}, {"x": None}, None])),
    ],
    ids=["integers", "floats", "texts", "decimals", "fields"],
)
def test_equal_values_go_together(left: pa.Array, right: pa.Array) -> None:
    path = "k.x" if pa.types.is_struct(left.type) else "k"
    spec = JoinSpec(on=Compare(path, "=", path), left=Rows(5), right=Rows(5))
    rows = [pa.RecordBatch.from_arrays([each], names=["k"]) for each in (left, right)]
    placement = EqualityPlacement(spec, rows[0].schema, rows[1].schema, 64)
    (own, _), (other, _) = (placement.targets(side, each) for side, each in zip(("left", "right"), rows, strict=True))
    assert (own == other).all()
    assert own[0] != own[3]


def test_types_without_a_common_one() -> None:
    spec = JoinSpec(on=Compare("k", "=", "k"), left=Rows(5), right=Rows(5))
    schemas = pa.schema([("k", pa.int64())]), pa.schema([("k", pa.float64())])
    with pytest.raises(UnsupportedError, match=r"left column 'k' \(int64\) and the right column 'k' \(double\)"):
        EqualityPlacement(spec, *schemas, 2)


def test_rows_of_heavy_bins_have_no_one_partition() -> None:
    rows = pa.table({"k": [7] * 50 + list(range(100, 200)), "n": np.arange(150)})
    spec = JoinSpec(on=Compare("k", "=", "k"), left=Rows(500), right=Rows(500))
    placement, even = EqualityPlacement(spec, rows.schema, rows.schema, 4), even_table(4)
    (batch,) = rows.to_batches()
    homes, _ = placement.targets("left", batch)
    heavy = homes == homes[0]
    routes = RoutingTable(1, np.where(even == homes[0], DIVIDED, even).astype(np.int16))
    numbers, masks = placement.targets("right", batch, routes)
    assert masks[:, heavy].all()
    assert (numbers[heavy] == -1).all()
    assert (numbers[~heavy] == homes[~heavy]).all()
    assert (masks[:, ~heavy] == (np.arange(4)[:, None] == homes[~heavy])).all()
    numbers, masks = placement.targets("left", batch, routes)
    assert (masks == (np.arange(4)[:, None] == numbers)).all()
    assert len(set(numbers[:50].tolist())) == 4


def test_routes_follow_where_rows_leave_the_window() -> None:
    assert can_follow(JoinSpec(on=BAND, left=Rows(5), right=Rows(5)))
    assert can_follow(JoinSpec(on=BAND, within=TIMED, watermark=Watermark(left="1 s", right="1 s")))
    assert not can_follow(JoinSpec(on=BAND, within=TIMED))
    assert not can_follow(JoinSpec(on=BAND, left=Rows(5), right=Rows(5), how="full"))
