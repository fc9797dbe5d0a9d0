"""What a watermark does beside dropping late rows: its lag, silent sides, columns of its own, joins in a chain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import AsOf, Compare, JoinSpec, Watermark, WindowJoin, Within
from muntin.host.errors import KeyTypeError, SchemaError, WindowError
from tests.oracles.nested_loop import NestedLoop

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64())])
SPEC: dict[str, Any] = {"on": Compare("k", "=", "k"), "within": Within("t", "t", -5, 5), "form": "pairs"}


def rows(*times: int | None) -> pa.Table:
    """Rows of one key at these times."""
    return pa.table({"k": [1] * len(times), "t": list(times)}, schema=SCHEMA)


def opened(watermark: Watermark, **options: Any) -> WindowJoin:
    return WindowJoin(**(SPEC | options), watermark=watermark, left_schema=SCHEMA, right_schema=SCHEMA)


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "left_semi", "left_anti"])
def test_the_watermark_lags_one_call_unless_told(how: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    join = opened(Watermark(3, 4), how=how)
    loop = NestedLoop(("band", 0, 0), "k", "k", within=("t", "t", -5, 5), delays=(3, 4), lag=1, how=how)
    for call in range(12):
        tables = [rows(*(call * 3 + rng.integers(-12, 6, int(rng.integers(0, 5)))).tolist()) for _ in range(2)]
        due = loop.results(loop.process(*tables))
        found = [tuple(row.values()) for row in join.process(*tables).to_pylist()]
        assert sorted(found, key=str) == sorted((row[: len(found[0])] for row in due) if found else due, key=str)
    assert join.stats.late_left == loop.streams["left"].late > 0


def test_what_goes_comes_out_with_the_call_before_it_is_late() -> None:
    """Row 0 goes by the watermark that filters the next call: with that of 6 it is due, and a row of 5 still comes."""
    for lag, due_in in ((0, 1), (1, 2)):
        with opened(Watermark(0, 0, lag=lag), how="left_anti") as join:
            calls = [(rows(0), rows(6)), (rows(6), None), (None, rows(7))]
            assert [join.process(*call).num_rows for call in calls].index(1) == due_in


def test_a_side_that_sends_nothing_is_left_out_after_a_while(tmp_path: Path) -> None:
    """The right side stops at 10; from the call on that takes the left one past 30 it holds nothing back, until it
    sends again: at 20, which is late by then. The same from state, call by call."""
    calls = [
        (rows(10), rows(10)), (rows(20), None), (rows(30), None), (rows(31, None), rows(None)), (rows(40), None),
        (rows(41), rows(20)), (rows(60), None), (rows(61), rows(61)),
    ]  # fmt: skip
    watermark = Watermark(0, 0, lag=0, idle_after=20, initial=0)
    marks, holders, late = [], [], []
    with opened(watermark, how="full") as whole:
        for number, call in enumerate(calls):
            result = whole.process(*call).to_pylist()
            stats = whole.stats
            marks.append(stats.watermark)
            holders.append(stats.watermark_side)
            late.append(stats.late_right)
            with opened(watermark, how="full", state=tmp_path) as again:
                if number:
                    again.repeat()
                assert again.process(*call).to_pylist() == result
                assert (again.stats.watermark, again.stats.watermark_side) == (marks[-1], holders[-1])
    assert marks == [10, 10, 10, 31, 40, 40, 40, 61]
    assert holders == [None, "right", "right", "left", "left", "right", "right", None]
    assert late == [0, 0, 0, 0, 0, 1, 1, 1]


def test_a_side_that_never_sent_is_left_out_too() -> None:
    for initial, first in ((None, None), (0, 0)):
        with opened(Watermark(1, 1, lag=0, idle_after=20, initial=initial)) as join:
            found = []
            for time in (100, 120, 121):
                join.process(rows(time), None)
                found.append((join.stats.watermark, join.stats.watermark_side))
        assert found == [(first, "right"), (first, "right"), (120, "left")]


def test_with_the_greater_watermark_no_side_is_waited_for() -> None:
    with opened(Watermark(0, 0, policy="max", lag=0, idle_after=5)) as join:
        join.process(rows(10), rows(50))
        for time in (20, 30, 60):
            join.process(rows(time), None)
        assert (join.stats.watermark, join.stats.watermark_side) == (60, "left")


def test_as_of_joins_go_on_without_a_side(seed: int) -> None:
    schema = pa.schema([("t", pa.timestamp("ms"))])
    with WindowJoin(
        on=AsOf("t", "t"), how="left", left_schema=schema, right_schema=schema,
        watermark=Watermark("0 s", "0 s", lag=0, idle_after="1 minute"),
    ) as join:  # fmt: skip
        stamps = [pa.table({"t": pa.array([time * 1000], pa.timestamp("ms"))}) for time in (1, 60, 62)]
        found = [
            join.process(*sides).num_rows for sides in ((stamps[0], stamps[0]), (stamps[1], None), (stamps[2], None))
        ]
        assert found == [1, 0, 2]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"left": 1, "idle_after": 5}, "idle_after=5 needs the right side's delay"),
        ({"left": 1, "right": 1, "idle_after": -1}, "idle_after=-1 is negative"),
        ({"left": 1, "right_column": "u"}, "right_column='u' needs the right side's delay"),
        ({"left": 1, "left_column": 5}, "left_column must be the name of a column, not 5"),
    ],
)
def test_options_without_a_meaning_are_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(WindowError, match=told):
        Watermark(**wrong)


def test_watermarks_that_fit_no_columns_are_refused() -> None:
    with pytest.raises(WindowError, match="idle_after='5 minutes' is a duration"):
        opened(Watermark(1, 1, idle_after="5 minutes"))
    with pytest.raises(SchemaError, match="no watermark column 'u'"):
        opened(Watermark(1, 1, left_column="u"))
    with pytest.raises(WindowError, match="idle_after is for two streams"):
        JoinSpec(**SPEC, self_join=True, watermark=Watermark(1, 1, idle_after=5))
    schema = pa.schema([*SCHEMA, ("u", pa.int32())])
    with pytest.raises(KeyTypeError, match=r"that of 'u' \(int32\), but its time column 't' has type int64"):
        WindowJoin(**SPEC, watermark=Watermark(1, 1, left_column="u"), left_schema=schema, right_schema=SCHEMA)


def test_a_watermark_of_another_column_survives_its_json_form() -> None:
    spec = JoinSpec(**SPEC, watermark=Watermark(1, 1, idle_after=9, left_column="k", right_column="k"))
    assert JoinSpec.from_json(spec.to_json()) == spec
    assert "idle_after" not in JoinSpec(**SPEC, watermark=Watermark(1, 1)).to_json()


@pytest.mark.parametrize(("low", "high", "delays"), [(-4, 9, (3, 6)), (2, 5, (8, 0)), (-7, -3, (0, 4))])
@pytest.mark.parametrize("time", ["t", "t_right"])
def test_three_streams(low: int, high: int, delays: tuple[int, int], time: str, seed: int) -> None:
    """The result's times take the delay that docs/spark.md gives: no row is late for the second join."""
    rng = np.random.default_rng(seed)
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("id", pa.int64())])

    def stream(lateness: int) -> list[pa.Table]:
        tables, number = [], 0
        for call in range(25):
            count = int(rng.integers(0, 6))
            times = call * 5 + rng.integers(-lateness, 5, count)
            columns = {"k": rng.integers(0, 3, count), "t": times, "id": number + np.arange(count)}
            tables.append(pa.table(columns, schema=schema))
            number += count
        return tables

    a, b, c = stream(delays[0]), stream(delays[1]), stream(3)
    if time == "t":
        how, delay = "left", max(delays[0], delays[1] - low) + max(high, 0)
    else:
        how, delay = "right", max(delays[1], delays[0] + high) + max(-low, 0)
    on = Compare("k", "=", "k")
    first = WindowJoin(
        on=on, within=Within("t", "t", low, high), how=how, left_schema=schema, right_schema=schema,
        watermark=Watermark(*delays),
    )  # fmt: skip
    second = WindowJoin(
        on=Compare("k" + time.removeprefix("t"), "=", "k"), within=Within(time, "t", -2, 2),
        how="left", left_schema=first.output_schema, right_schema=schema, suffix="_c", watermark=Watermark(delay, 3),
    )  # fmt: skip
    found = [second.process(first.process(*pair), third) for *pair, third in zip(a, b, c, strict=True)]
    found += [second.process(first.finish(), None), second.finish()]
    assert first.stats.late_left == first.stats.late_right == second.stats.late_left == second.stats.late_right == 0
    rows_of = [pa.concat_tables(tables).to_pylist() for tables in (a, b, c)]
    pairs = [
        (x, y) for x in rows_of[0] for y in rows_of[1] if x["k"] == y["k"] and low <= y["t"] - x["t"] <= high
    ]  # fmt: skip
    if how == "left":
        pairs += [(x, None) for x in rows_of[0] if all(x is not other for other, _ in pairs)]
    else:
        pairs += [(None, y) for y in rows_of[1] if all(y is not other for _, other in pairs)]
    due = []
    for pair in pairs:
        one = pair[0 if how == "left" else 1]
        met = [z for z in rows_of[2] if z["k"] == one["k"] and abs(z["t"] - one["t"]) <= 2] or [None]
        due += [tuple(None if each is None else each["id"] for each in (*pair, z)) for z in met]
    rows_found = [(row["id"], row["id_right"], row["id_c"]) for table in found for row in table.to_pylist()]
    assert sorted(rows_found, key=str) == sorted(due, key=str)
    assert sum(table.num_rows for table in found[:-2]) > len(due) // 2
