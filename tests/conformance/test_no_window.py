"""Joins without a window, and time windows with an open end: rows that no later row can make useless are kept."""

import numpy as np
import pyarrow as pa
import pytest

from muntin import AllOf, Band, Compare, JoinSpec, Watermark, WindowJoin, Within
from muntin.host import errors
from muntin.host.daemon.definition import Definition

HOWS = ["inner", "left", "right", "full", "left_semi", "left_anti"]
CALLS = 5


def sides(seed: int, rows: int = 60) -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(seed)

    def side(name: str, count: int) -> pa.Table:
        keys = pa.array(rng.integers(0, 3 * rows, count), mask=rng.random(count) < 0.1)
        return pa.table({name: keys, "group": rng.integers(0, 3, count), "at": rng.integers(0, 100, count)})

    return side("a", rows), side("b", rows // 2)


def expected(found: np.ndarray, how: str) -> set[tuple]:
    """The rows of a join whose pairs are those that a table of truth values, shape (left, right), names."""
    pairs = {(int(i), int(j)) for i, j in np.argwhere(found)}
    left = {(int(i), None) for i in np.flatnonzero(~found.any(axis=1))}
    right = {(None, int(j)) for j in np.flatnonzero(~found.any(axis=0))}
    if how == "left_semi":
        return {(i,) for i, _ in pairs}
    if how == "left_anti":
        return {(i,) for i, _ in left}
    return pairs | (left if how in ("left", "full") else set()) | (right if how in ("right", "full") else set())


def joined(join: WindowJoin, left: pa.Table, right: pa.Table, calls: int = CALLS) -> list[tuple]:
    """All rows that a join gives, in calls of equal size, to the end of its input."""
    with join:
        tables = []
        for call in range(calls):
            parts = [
                t.slice(call * len(t) // calls, (call + 1) * len(t) // calls - call * len(t) // calls)
                for t in (left, right)
            ]
            tables.append(join.process(*parts))
        tables.append(join.finish())
    return [tuple(row.values()) for row in pa.concat_tables(tables).to_pylist()]


def near(left: pa.Table, right: pa.Table, width: int) -> np.ndarray:
    """Which keys lie within a width, shape (left, right)."""
    a, b = (np.array([np.nan if v is None else v for v in t.column(0).to_pylist()]) for t in (left, right))
    return np.abs(b - a[:, None]) <= width


@pytest.mark.parametrize("how", HOWS)
def test_every_row_meets_every_row(
    how: str, device_case: object, device: object, time_windows: None, seed: int
) -> None:
    left, right = sides(seed)
    join = WindowJoin(on=Band("a", "b", -2, 2), how=how, form="pairs", device=device)
    assert "none: every row is kept" in join.spec.explain(left.schema, right.schema)
    rows = joined(join, left, right)
    assert len(rows) == len(set(rows))
    assert set(rows) == expected(near(left, right, 2), how)


@pytest.mark.parametrize("index", ["auto", "pim_tree", "slices", "spo_join"])
def test_conjunctions(index: str, seed: int) -> None:
    left, right = sides(seed)
    on = AllOf(Band("a", "b", -40, 40), Compare("group", "!=", "group"))
    if index == "pim_tree":
        on = Band("a", "b", -40, 40)
    found = near(left, right, 40)
    if isinstance(on, AllOf):
        found &= left["group"].to_numpy()[:, None] != right["group"].to_numpy()
    rows = joined(WindowJoin(on=on, how="full", form="pairs", index=index), left, right)
    assert len(rows) == len(set(rows))
    assert set(rows) == expected(found, "full")


def test_a_self_join_meets_every_row_in_both_roles(seed: int) -> None:
    left, _ = sides(seed)
    join = WindowJoin(on=Band("a", "a", -2, 0), self_join=True, itself=True, form="pairs")
    with join:
        rows = [tuple(row.values()) for part in (left[:20], left[20:]) for row in join.process(part).to_pylist()]
    keys = np.array([np.nan if v is None else v for v in left["a"].to_pylist()])
    apart = keys - keys[:, None]
    assert sorted(rows) == sorted(map(tuple, np.argwhere((apart >= -2) & (apart <= 0)).tolist()))


def test_state_goes_on(tmp_path, seed: int) -> None:
    left, right = sides(seed)
    spec = JoinSpec(on=Band("a", "b", -2, 2), how="left", form="pairs")
    spec = JoinSpec.from_json(spec.to_json())
    rows = []
    for part in (slice(0, 20), slice(20, 60)):
        with WindowJoin.from_spec(
            spec, state=tmp_path / "s", left_schema=left.schema, right_schema=right.schema
        ) as join:
            rows += join.process(left[part], right[part]).to_pylist()
            if part.start:
                rows += join.finish().to_pylist()
    assert {tuple(row.values()) for row in rows} == expected(near(left, right, 2), "left")


def test_capacity_is_the_most_rows_a_side(seed: int) -> None:
    left, right = sides(seed)
    with WindowJoin(on=Band("a", "b", -2, 2), capacity=45) as join:
        join.process(left[:40], right)
        with pytest.raises(errors.CapacityError, match="the declared capacity of 45"):
            join.process(left[40:], right[:0])
        assert join.stats.fill_left == pytest.approx(join.stats.window_left / 45)


def test_streams_without_a_window_take_joins_that_wait_for_nothing() -> None:
    schema = pa.schema([("a", pa.int64())])
    for how in HOWS:
        query = Definition(JoinSpec(on=Compare("a", "=", "a"), how=how), schema, schema)
        if how in ("inner", "left_semi"):
            assert query.output_schema.names[0] == "a"
        else:
            with pytest.raises(errors.UnsupportedError, match="without a window could never let an unmatched row"):
                _ = query.output_schema


def test_one_count_window_is_no_join() -> None:
    with pytest.raises(errors.WindowError, match=r"the left side has no window: give left=Rows\(n\) too"):
        JoinSpec(on=Compare("a", "=", "a"), right=5)
    with pytest.raises(errors.WindowError, match="a watermark belongs to a time window"):
        JoinSpec(on=Compare("a", "=", "a"), watermark=Watermark(left=1))


@pytest.mark.parametrize("ends", [(None, -3), (7, None)])
@pytest.mark.parametrize("how", HOWS)
def test_open_ends(how: str, ends: tuple, device_case: object, device: object, time_windows: None, seed: int) -> None:
    left, right = sides(seed)
    spec = JoinSpec(on=Band("a", "b", -20, 20), within=Within("at", "at", *ends), how=how, form="pairs")
    assert JoinSpec.from_json(spec.to_json()) == spec
    apart = right["at"].to_numpy() - left["at"].to_numpy()[:, None]
    found = near(left, right, 20) & (apart <= ends[1] if ends[0] is None else apart >= ends[0])
    rows = joined(WindowJoin.from_spec(spec, device=device), left, right)
    assert len(rows) == len(set(rows))
    assert set(rows) == expected(found, how)


def test_an_open_end_keeps_the_rows_that_it_leaves_useful() -> None:
    """right.t - left.t >= 3: left rows stay for ever, right rows go with the watermark."""
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    with WindowJoin(
        on=Compare("k", "=", "k"), within=Within("t", "t", 3, None), watermark=Watermark(left=0, right=0, lag=0),
        capacity=200, left_schema=schema, right_schema=schema, index="sorted_runs",
    ) as join:  # fmt: skip
        for first in range(0, 100, 10):
            rows = pa.table({"k": [1] * 10, "t": range(first, first + 10)}, schema=schema)
            found = join.process(rows, rows)
        assert len(found) == sum(max(0, t - 2) for t in range(90, 100))  # of the last call's right rows
        assert join.stats.window_left == 100
        assert join.stats.window_right < 40


@pytest.mark.parametrize(("how", "ends"), [("left", (0, None)), ("right", (None, 0)), ("left_anti", (0, None))])
def test_unmatched_rows_that_an_open_end_keeps_are_refused(how: str, ends: tuple[int | None, int | None]) -> None:
    with pytest.raises(errors.UnsupportedError, match="has an open end"):
        JoinSpec(
            on=Compare("k", "=", "k"), within=Within("t", "t", *ends), how=how, watermark=Watermark(left=1, right=1)
        )
    JoinSpec(
        on=Compare("k", "=", "k"), within=Within("t", "t", *ends[::-1]), how=how, watermark=Watermark(left=1, right=1)
    )
    with pytest.raises(errors.WindowError, match="cannot both be open"):
        Within("t", "t", None, None)
