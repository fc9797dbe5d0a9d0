"""What a watermark does beside dropping late rows: its lag, silent sides, columns of its own, joins in a chain."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import AsOf, Compare, Count, JoinSpec, Rows, Watermark, WindowJoin, Within
from muntin.host.daemon import DaemonClient
from muntin.host.daemon.daemon import Daemon
from muntin.host.errors import KeyTypeError, PredicateError, SchemaError, UnsupportedError, WindowError
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


LATE = pa.schema([*SCHEMA, ("id", pa.int64()), ("s", pa.int64()), ("d", pa.dictionary(pa.int8(), pa.string()))])
KINDS: dict[str, dict[str, Any]] = {
    **{how: {"how": how} for how in ("inner", "left", "right", "full", "left_semi", "left_anti", "right_anti")},
    **{form: {"form": form} for form in ("pairs", "counts")},
    "selected": {"select": ["id"]}, "sequence": {"sequence": "s"}, "partitions": {"partitions": 2, "how": "full"},
    "aggregate": {"form": "aggregate", "aggregates": Count("id")},
    "close": {"form": "aggregate", "aggregates": Count("id"), "at": "close"},
    "self join": {"self_join": True}, "as-of": {"on": AsOf("t", "t", by="k")}, "numpy": {"device": "numpy"},
}  # fmt: skip


def arrived(calls: list[tuple[list, list]], *, sequence: bool) -> list[dict[str, pa.Table]]:
    """Rows of each call, by side: of each its key, time and place in the sequence."""
    tables, number = [], 0
    for call in calls:
        sides = {}
        for side, given_rows in zip(("left", "right"), call, strict=True):
            ids = [number + at for at in range(len(given_rows))]
            place = [1000 * len(tables) + (place if sequence else 0) for _, _, place in given_rows]
            columns = [[k for k, _, _ in given_rows], [t for _, t, _ in given_rows], ids, place]
            words = pa.array([str(each % 3) for each in ids], pa.string()).cast(LATE.field("d").type)
            arrays = [pa.array(column, pa.int64()) for column in columns]
            sides[side] = pa.table([*arrays, words], schema=LATE)
            number += len(given_rows)
        tables.append(sides)
    return tables


def drawn(most: int) -> Any:
    row = st.tuples(
        st.sampled_from([0, 1, None]), st.one_of(st.none(), st.integers(-20, 60)), st.integers(0, 9)
    )  # fmt: skip
    return st.lists(st.tuples(*[st.lists(row, max_size=most)] * 2), min_size=2, max_size=6)


def late_by_call(calls: list[dict[str, pa.Table]], delays: tuple, lag: int, *, sequence: bool, self_join: bool) -> list:
    """The rows of each call that a nested loop drops as late, by side, in the order of their arrival."""
    loop = NestedLoop(
        ("compare", "="), "k", "k", within=("t", "t", -5, 5), delays=delays, lag=lag, self_join=self_join,
        sequence="s" if sequence else None,
    )  # fmt: skip
    found = []
    for call in calls:
        first = {side: len(stream.rows) for side, stream in loop.streams.items()}
        loop.process(call["left"], None if self_join else call["right"])
        late = {}
        for side in ("left",) if self_join else ("left", "right"):
            given_rows = call[side].to_pylist()
            if sequence:
                given_rows.sort(key=lambda row: row["s"])
            new = loop.streams[side].rows[first[side] :]
            late[side] = [row for row, kept in zip(given_rows, new, strict=True) if kept.late]
        found.append(late)
    return found


@settings(max_examples=120)
@given(
    drawn(5), st.sampled_from(sorted(KINDS)), st.sampled_from([(0, 0), (3, 1), (None, 2), (4, None)]), st.booleans(),
    st.integers(0, 1),
)  # fmt: skip
def test_late_rows_are_given(calls, kind, delays, stateful, lag):
    """Those of each call, whole and once; from state again with the newest call."""
    options = KINDS[kind]
    if delays[1] is None or kind == "self join":
        delays = (4, 4)  # of one stream, and where left rows wait for the right side's
    if delays[0] is None and options.get("how") in ("right", "full", "right_anti"):
        delays = (2, 2)
    sequence, self_join = kind == "sequence", kind == "self join"
    tables = arrived(calls, sequence=sequence)
    due = late_by_call(tables, delays, lag, sequence=sequence, self_join=self_join)
    watermark = Watermark(delays[0], delays[1], lag=lag)
    spec = {**SPEC, "form": "rows", "watermark": watermark, "late": "keep", **options}
    if kind == "as-of":
        del spec["within"]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        given_options = {**spec, **({"state": folder} if stateful and kind != "numpy" else {})}
        join = WindowJoin(**given_options, left_schema=LATE, right_schema=LATE)
        assert [late.num_rows for late in join.late.values()] == [0] * len(due[0])
        for number, call in enumerate(tables):
            sides = (call["left"], None if self_join else call["right"])
            if number % 2:
                assert sum(table.num_rows for table in join.process_blocks(*sides, block_bytes=1)) >= 0
            else:
                join.process(*sides)
            assert all(late.schema.equals(LATE) for late in join.late.values())
            found.append({side: late.to_pylist() for side, late in join.late.items()})
        assert found == due
        if not self_join:
            assert join.stats.late_left == sum(len(late["left"]) for late in due)
        join.close()
        if "state" in given_options:
            with WindowJoin(**given_options, left_schema=LATE, right_schema=LATE) as again:
                assert sum(late.num_rows for late in again.late.values()) == 0
                again.repeat()
                assert {side: late.to_pylist() for side, late in again.late.items()} == due[-1]


@settings(max_examples=20)
@given(
    drawn(4), st.sampled_from(["inner", "left", "right", "full", "right_anti", "names", "names full", "selected"]),
    st.booleans(),
)  # fmt: skip
def test_late_rows_of_a_daemon_are_marked_in_its_result(calls, kind, stateful):
    """Beside the rows that the join gives, with the other side's columns NULL; again where a batch is asked for again,
    and from the state of a daemon that has ended."""
    how = {"names": "inner", "names full": "full", "selected": "left"}.get(kind, kind)
    on: Any = ["k"] if kind.startswith("names") else Compare("k", "=", "k")
    select = ["id", "d", "id_right"] if kind == "selected" else None
    options = {
        "on": on, "within": Within("t", "t", -5, 5), "watermark": Watermark(3, 1, lag=0), "how": how, "select": select,
    }  # fmt: skip
    tables = arrived(calls, sequence=False)
    due = late_by_call(tables, (3, 1), 0, sequence=False, self_join=False)
    plain = WindowJoin(**options, left_schema=LATE, right_schema=LATE)
    names = plain.output_schema.names
    spec = JoinSpec(**options, late="keep")

    def expected(number: int, table: pa.Table) -> list[dict]:
        marked = [{**row, "_late": None} for row in table.to_pylist()]
        for side in ("left", "right"):
            for row in due[number][side]:
                own = {name if side == "left" or [name] == on else f"{name}_right": row[name] for name in row}
                marked.append({**{name: own.get(name) for name in names}, "_late": side})
        return marked

    with tempfile.TemporaryDirectory() as folder:
        place = folder if stateful else None
        with served(Path(folder, "one")) as client:
            schema = client.open_query("q", spec, LATE, LATE, state=place)
            assert schema.names == [*names, "_late"]
            for number, call in enumerate(tables):
                wanted = expected(number, plain.process(call["left"], call["right"]))
                for _ in range(2):
                    assert batch_of(client, number, call) == wanted
        if stateful:
            with served(Path(folder, "two")) as client:
                client.open_query("q", spec, LATE, LATE, state=place)
                found = batch_of(client, len(tables) - 1, tables[-1])
                assert sorted(found, key=repr) == sorted(wanted, key=repr)
    plain.close()


@contextmanager
def served(socket: Path) -> Iterator[DaemonClient]:
    """A client of a daemon that ends with this."""
    daemon = Daemon("cpu", socket)
    try:
        with DaemonClient(daemon.addresses[0]) as client:
            yield client
    finally:
        daemon.stop()


def batch_of(client: DaemonClient, number: int, call: dict[str, pa.Table]) -> list[dict]:
    rows_of = ((side, batch) for side, table in call.items() for batch in table.to_batches())
    return [row for batch in client.process("q", number, rows_of) for row in batch.to_pylist()]


def test_where_late_rows_cannot_be_kept():
    with pytest.raises(PredicateError, match="late must be 'drop' or 'keep', not 'log'"):
        JoinSpec(**SPEC, late="log")
    with pytest.raises(WindowError, match="late='keep' belongs to a time window"):
        JoinSpec(on=SPEC["on"], left=Rows(1), right=Rows(1), late="keep")
    with pytest.raises(UnsupportedError, match="does not take late='keep': no row of the stream is late"):
        JoinSpec(**SPEC | {"form": "rows"}, static="right", late="keep")
    with opened(Watermark(0, 0)) as join, pytest.raises(UnsupportedError, match="give late='keep' when"):
        join.late  # noqa: B018
    marked = {**SPEC, "form": "rows", "late": "keep", "watermark": Watermark(0, 0)}
    taken = pa.schema([*SCHEMA, ("_late", pa.string())])
    narrow = pa.schema([("k", pa.int32()), ("t", pa.int64())])
    wrong: list[tuple[dict[str, Any], tuple[pa.Schema, pa.Schema], type[Exception], str]] = [
        ({"form": "pairs"}, (SCHEMA, SCHEMA), UnsupportedError, "form='pairs' has none for both sides"),
        ({"how": "left_semi"}, (SCHEMA, SCHEMA), UnsupportedError, "how='left_semi' has none for those of the right"),
        ({}, (SCHEMA, taken), SchemaError, "two columns '_late'"),
        ({"on": ["k"]}, (SCHEMA, narrow), SchemaError, "column 'k' has type int64 on the left and int32 on the right"),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, served(Path(folder, "one")) as client:
        for options, schemas, error, told in wrong:
            with pytest.raises(error, match=told):
                client.open_query("q", JoinSpec(**marked | options), *schemas)
