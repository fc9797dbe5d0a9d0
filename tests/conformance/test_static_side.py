"""A stream and a table: each row of the stream meets the whole table, in one process and in any number of calls."""

from collections import Counter

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import AllOf, AnyOf, AsOf, Band, Compare, Count, JoinSpec, Rows, Sum, Watermark, WindowJoin, Within
from muntin.errors import PredicateError, SchemaError, StateError, UnsupportedError
from muntin.host.call import Want
from muntin.host.join.pipeline import Pipeline
from tests.conformance.test_no_window import HOWS, expected, near, sides

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.float64()), ("t", pa.int64())])
DUCKDB = duckdb.connect()
#: Conditions, and the same in DuckDB's words; the last one has a time window too.
CONDITIONS = [
    (Compare("k", "=", "k"), "l.k = r.k"),
    (Band("v", "v", -2, 3), "r.v BETWEEN l.v - 2 AND l.v + 3"),
    (Compare("k", "!=", "k"), "l.k <> r.k"),
    (AnyOf(Compare("k", "=", "k"), Band("k", "k", 2, None)), "(l.k = r.k OR r.k >= l.k + 2)"),
    (AllOf(Compare("k", "<=", "k"), Compare("v", ">", "v")), "l.k <= r.k AND l.v > r.v"),
    (Compare("k", "=", "k"), "l.k = r.k AND r.t - l.t BETWEEN -3 AND 2"),
]
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 6)),
        st.one_of(st.none(), st.integers(0, 12).map(float)),
        st.one_of(st.none(), st.integers(0, 9)),
    ),
    max_size=12,
)


def table(rows: list[tuple]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def of_duckdb(left: pa.Table, right: pa.Table, condition: str, how: str) -> Counter:
    kind = {"left_semi": "SEMI", "left_anti": "ANTI"}.get(how, how)
    DUCKDB.register("l", left)
    DUCKDB.register("r", right)
    return Counter(DUCKDB.sql(f"SELECT * FROM l {kind} JOIN r ON {condition}").fetchall())


def rows_of(result: pa.Table) -> Counter:
    return Counter(tuple(row) for row in zip(*(column.to_pylist() for column in result.columns), strict=True))


@given(
    calls=st.lists(ROWS, max_size=3),
    tables=st.lists(ROWS, min_size=1, max_size=2),
    condition=st.sampled_from(CONDITIONS),
    side_how=st.sampled_from(
        [("right", how) for how in ("inner", "left", "left_semi", "left_anti")] + [("left", "inner"), ("left", "right")]
    ),
    partitions=st.sampled_from([1, 1, 3]),
)
@settings(max_examples=60, deadline=None)
def test_each_call_is_a_join_with_the_table(calls, tables, condition, side_how, partitions) -> None:
    (on, text), (side, how) = condition, side_how
    within = Within("t", "t", -3, 2) if "r.t" in text else None
    kept = [table(rows) for rows in tables]
    options = {f"{side}_table": kept[0], "left_schema" if side == "right" else "right_schema": SCHEMA}
    with WindowJoin(on=on, how=how, within=within, partitions=partitions, **options) as join:
        for number, rows in enumerate(calls):
            if number == 1:
                join.meet(kept[-1])
            own, met = table(rows), kept[0 if number == 0 else -1]
            left, right = (own, met) if side == "right" else (met, own)
            result = join.process(**{"left" if side == "right" else "right": own})
            assert rows_of(result) == of_duckdb(left, right, text, how)
        assert join.finish().num_rows == 0
        assert join.stats.as_dict()[f"window_{'left' if side == 'right' else 'right'}"] == 0


@pytest.mark.parametrize("how", [how for how in HOWS if how not in ("right", "full")])
def test_devices(how: str, device_case: object, device: object, time_windows: None, seed: int) -> None:
    left, right = sides(seed)
    with WindowJoin(
        on=Band("a", "b", -2, 2), how=how, form="pairs", device=device, right_table=right, left_schema=left.schema
    ) as join:
        rows = [tuple(row.values()) for at in (0, 20, 40) for row in join.process(left[at : at + 20]).to_pylist()]
        rows += join.finish().to_pylist()
    assert len(rows) == len(set(rows))
    assert set(rows) == expected(near(left, right, 2), how)


@pytest.mark.parametrize("index", ["bisort", "pim_tree", "slices", "spo_join"])
def test_indexes(index: str, seed: int) -> None:
    left, right = sides(seed)
    with WindowJoin(
        on=Band("a", "b", -2, 2), how="left", form="pairs", index=index, right_table=right, left_schema=left.schema
    ) as join:
        rows = [tuple(row.values()) for at in (0, 20, 40) for row in join.process(left[at : at + 20]).to_pylist()]
    assert set(rows) == expected(near(left, right, 2), "left")


def test_counts_and_aggregates(seed: int) -> None:
    left, right = sides(seed)
    found = near(left, right, 5)
    counts = WindowJoin(on=Band("a", "b", -5, 5), form="counts", right_table=right, left_schema=left.schema)
    sums = WindowJoin(
        on=Band("a", "b", -5, 5), form="aggregate", aggregates=[Count(), Sum("b")], right_table=right,
        left_schema=left.schema,
    )  # fmt: skip
    keys = [key or 0 for key in right["b"].to_pylist()]
    with counts, sums:
        for at in (0, 30):
            part = left[at : at + 30]
            assert counts.process(part).to_pylist() == [
                {"side": "left", "row": row, "matches": int(found[row].sum())} for row in range(at, at + 30)
            ]
            assert [tuple(row.values())[1:] for row in sums.process(part).to_pylist()] == [
                (
                    row,
                    int(found[row].sum()),
                    sum(k for k, is_match in zip(keys, found[row], strict=True) if is_match) or None,
                )
                for row in range(at, at + 30)
            ]


@given(
    calls=st.lists(ROWS, min_size=1, max_size=3),
    rows=ROWS,
    direction=st.sampled_from(["backward", "forward", "nearest"]),
    how=st.sampled_from(["inner", "left"]),
    tolerance=st.sampled_from([None, 2]),
    partitions=st.sampled_from([1, 2]),
)
@settings(max_examples=30, deadline=None)
def test_an_as_of_join_answers_each_row_in_its_call(calls, rows, direction, how, tolerance, partitions) -> None:
    right = table(rows)
    on = AsOf("t", "t", direction, tolerance=tolerance, by="k")
    with WindowJoin(on=on, how=how, right_table=right, left_schema=SCHEMA, partitions=partitions) as join:
        for own in map(table, calls):
            with WindowJoin(on=on, how=how, left_schema=SCHEMA, right_schema=SCHEMA) as alone:  # bounded input
                answered = rows_of(alone.process(own, right)) + rows_of(alone.finish())
                assert rows_of(join.process(own)) == answered
        assert join.stats.waiting_left == 0


@pytest.mark.parametrize("on", [Band("a", "b", -2, 2), AsOf("at", "at", by="group")])
def test_a_repeated_call_meets_the_table_of_its_commit(on, tmp_path, seed: int, monkeypatch) -> None:
    left, right = sides(seed)
    options = {"on": on, "how": "left", "form": "pairs", "state": tmp_path / "s", "left_schema": left.schema}

    def alone(part: pa.Table, met: pa.Table) -> Counter:
        plain = {**options, "state": None}
        with WindowJoin(**plain, right_table=met) as join:
            return rows_of(join.process(part))

    def numbered(result: pa.Table, first: int) -> Counter:
        return Counter((row - first, met) for row, met in rows_of(result).elements())

    with WindowJoin(**options, right_table=right) as join:
        join.process(left[:20])
        newest = join.process(left[20:30])
    assert numbered(newest, 20) == alone(left[20:30], right)
    changed = right[10:25]
    for _ in range(2):  # a process that died after the repeat
        with WindowJoin(**options, right_table=changed) as join:
            assert join.last_batch == 1
            assert rows_of(join.repeat(left[20:30])) == rows_of(newest)
    admit = Pipeline.admit

    def interrupted(pipeline, call):
        if call.want is Want.NOTHING:
            return admit(pipeline, call)
        raise KeyboardInterrupt

    with WindowJoin(**options, right_table=changed) as join:  # or before, with the table of its commit there
        with monkeypatch.context() as patched:
            patched.setattr(Pipeline, "admit", interrupted)
            with pytest.raises(KeyboardInterrupt):
                join.repeat()
        assert numbered(join.process(left[30:45]), 30) == alone(left[30:45], changed)
        assert join.stats.state_calls <= 2
    with WindowJoin(**options, right_table=right[:0]) as join:
        assert rows_of(join.repeat()) == Counter((row + 30, met) for row, met in alone(left[30:45], changed).elements())
        assert numbered(join.process(left[45:]), 45) == alone(left[45:], right[:0])
    (damaged,) = [path for path in (tmp_path / "s").glob("*.arrow") if path.stat().st_size == _size(right[:0])]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with (
        WindowJoin(**options, right_table=right) as join,
        pytest.raises(StateError, match=r"table's file .* is damaged"),
    ):
        join.repeat()


def _size(rows: pa.Table) -> int:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().size


@pytest.mark.parametrize(
    ("static", "options", "said"),
    [
        ("right", {"left": Rows(3), "right": Rows(3)}, "left= and right="),
        ("right", {"sequence": "k"}, "sequence='k'"),
        ("right", {"within": Within("t", "t", 0, 1), "watermark": Watermark(left=1)}, "watermark"),
        ("right", {"self_join": True}, "self join"),
        ("right", {"form": "ranges"}, "'pairs'"),
        ("right", {"form": "aggregate", "aggregates": [Count()], "at": "close"}, "at='arrival'"),
        ("right", {"how": "right"}, "how='right'.*right side.*Use 'inner'"),
        ("right", {"how": "full"}, "Use 'left'"),
        ("left", {"how": "left_semi"}, "left side"),
        ("left", {"how": "left_anti"}, "left side"),
        ("left", {"on": AsOf("t", "t")}, "Give the stream as the left side"),
    ],
)
def test_refusals(static: str, options: dict, said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        JoinSpec(**{"on": Compare("k", "=", "k"), **options}, static=static)


def test_what_is_a_table() -> None:
    with pytest.raises(PredicateError, match="static"):
        JoinSpec(on=Compare("k", "=", "k"), static="both")
    empty = SCHEMA.empty_table()
    with pytest.raises(UnsupportedError, match="left_table= and right_table="):
        WindowJoin(on=Compare("k", "=", "k"), left_table=empty, right_table=empty)
    join = WindowJoin(on=Compare("k", "=", "k"), left_schema=SCHEMA, right_schema=SCHEMA)
    with join, pytest.raises(UnsupportedError, match="both sides are streams"):
        join.meet(empty)
    join = WindowJoin(on=Compare("k", "=", "k"), left_schema=SCHEMA, right_table=empty)
    with join, pytest.raises(SchemaError, match="right side is a table"):
        join.process(empty, empty)
