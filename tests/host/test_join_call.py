"""`muntin.join`: whole tables in one call, against what DuckDB, pandas and Polars make of them."""

import datetime as dt
from collections import Counter
from decimal import Decimal

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muntin import AllOf, AsOf, Band, Compare, JoinSpec, Sum, Where, WindowJoin, Within, join
from muntin.errors import PredicateError, SchemaError, UnsupportedError

BIDS = pa.schema([("id", pa.int64()), ("k", pa.int32()), ("s", pa.string()), ("t", pa.int64()), ("v", pa.float64())])
ASKS = pa.schema([("no", pa.int64()), ("k", pa.int32()), ("s", pa.string()), ("t", pa.int64()), ("w", pa.int64())])
VALUES = st.fixed_dictionaries(
    {
        "k": st.none() | st.integers(-3, 3),
        "s": st.none() | st.sampled_from("ab"),
        "t": st.none() | st.integers(0, 9),
        "v": st.none() | st.integers(-4, 4).map(lambda n: n / 2),
        "w": st.none() | st.integers(-(2**62), 2**62),
    }
)


def tables(schema: pa.Schema, number: str) -> st.SearchStrategy[pa.Table]:
    def made(rows: list[dict]) -> pa.Table:
        return pa.Table.from_pylist([{**row, number: at} for at, row in enumerate(rows)], schema)

    return st.lists(VALUES, max_size=7).map(made)


HOWS = {"inner": "INNER", "left": "LEFT", "right": "RIGHT", "full": "FULL", "left_semi": "SEMI", "left_anti": "ANTI"}
CONDITIONS = [
    (Band("k", "k", -1, 2), None, "r.k - l.k BETWEEN -1 AND 2"),
    (Compare("v", "<", "k"), None, "l.v < r.k"),
    ("left.s = right.s AND right.k >= left.k", None, "l.s = r.s AND r.k >= l.k"),
    (AllOf(Compare("s", "<=>", "s"), Where("right", "w", ">", 0)), None, "l.s IS NOT DISTINCT FROM r.s AND r.w > 0"),
    (AllOf(), ("t", "t", -2, 3), "r.t - l.t BETWEEN -2 AND 3"),
    (Compare("k", "=", "k"), Within("t", "t", 0, None), "l.k = r.k AND r.t >= l.t"),
]


def rows_of(table: pa.Table) -> Counter:
    """By position: DuckDB's results have names twice."""
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


DUCK = duckdb.connect(config={"threads": 1})


def whole(text: str, left: pa.Table, right: pa.Table) -> pa.Table:
    DUCK.register("l", left)
    DUCK.register("r", right)
    return DUCK.sql(text).to_arrow_table()


@given(
    left=tables(BIDS, "id"), right=tables(ASKS, "no"), how=st.sampled_from(list(HOWS)), case=st.sampled_from(CONDITIONS)
)
def test_every_how_as_duckdb_has_it(left, right, how, case):
    on, within, condition = case
    ours = join(left, right, on, how, within=within)
    theirs = whole(f"SELECT * FROM l {HOWS[how]} JOIN r ON {condition}", left, right)
    assert rows_of(ours) == rows_of(theirs)
    if right is not left:
        assert ours.column_names[: len(BIDS)] == BIDS.names


@given(
    left=tables(BIDS, "id"),
    right=tables(ASKS, "no"),
    how=st.sampled_from(list(HOWS)),
    names=st.sampled_from(["k", "s", ["s", "k"], ("s", "t")]),
)
def test_names_are_one_column_each(left, right, how, names):
    ours = join(left, right, names, how)
    keys = [names] if isinstance(names, str) else list(names)
    of_right = [] if HOWS[how] in ("SEMI", "ANTI") else [name for name in ASKS.names if name not in keys]
    of_left = [name for name in BIDS.names if name not in keys]
    assert ours.column_names == [*keys, *of_left, *(f"{n}_right" if n in of_left else n for n in of_right)]
    shown = [*keys, *(f"l.{n}" for n in of_left), *(f"r.{n}" for n in of_right)]
    theirs = whole(f"SELECT {', '.join(shown)} FROM l {HOWS[how]} JOIN r USING ({', '.join(keys)})", left, right)
    assert rows_of(ours) == rows_of(theirs)
    spec = JoinSpec(on=keys, how=how)
    assert JoinSpec.from_json(spec.to_json()) == spec
    if how == "full":
        frames = pl.from_arrow(left), pl.from_arrow(right)
        made = frames[0].join(frames[1], on=keys, how="full", coalesce=True)
        assert rows_of(join(*frames, on=keys, how=how).to_arrow()) == rows_of(made.select(ours.column_names).to_arrow())


KEYS = [
    *(pa.array([1, 2, 0]).cast(kind) for kind in (pa.int8(), pa.uint64(), pa.float32(), pa.timestamp("ns", "UTC"))),
    *(
        pa.array(["x", "y", None]).cast(kind)
        for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary())
    ),
    pa.array([True, False, None]),
    pa.array([dt.date(2024, 1, n) for n in (1, 2, 3)]),
    pa.array([Decimal("1.50"), Decimal("0.01"), None], pa.decimal128(9, 2)),
    pa.array([{"a": 1}, {"a": 2}, {"a": 0}]),
    pa.array(["x", "y", None]).dictionary_encode(),
]


@pytest.mark.parametrize("keys", KEYS, ids=lambda keys: str(keys.type))
def test_a_key_of_a_full_join_has_every_type(keys):
    """The key is that of whichever side has the row; several calls, as on streams."""
    left, right = pa.table({"k": keys.slice(0, 2)}), pa.table({"k": keys.slice(1)})
    with WindowJoin(on="k", how="full", left=5, right=5, left_schema=left, right_schema=right) as running:
        found = [running.process(left), running.process(right=right), running.finish()]
    assert Counter(map(str, pa.concat_tables(found)["k"].to_pylist())) == Counter(map(str, keys.to_pylist()))
    assert found[0].schema.field("k").type == keys.type


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "left_anti"])
def test_keys_outlive_a_process(how, tmp_path):
    left, right = pa.table({"k": ["a", "b"], "x": [1, 2]}), pa.table({"k": ["b", "c"], "y": [1, 2]})
    windows = {"left": 9, "right": 9, "left_schema": left, "right_schema": right}
    found = []
    for state in (None, tmp_path):
        with WindowJoin(on=["k"], how=how, **windows, state=state) as running:
            first = running.process(left, right)
            rest = None if state else [running.process(pa.table({"k": ["c"], "x": [9]})), running.finish()]
        if state:
            with WindowJoin(on=["k"], how=how, **windows, state=state) as running:
                assert running.repeat() == first
                rest = [running.process(pa.table({"k": ["c"], "x": [9]})), running.finish()]
        found.append([first, *rest])
    assert found[0] == found[1]


def test_keys_of_frames_keep_a_dtype_that_both_have():
    one, other = pl.Enum(["a", "b"]), pl.Enum(["b", "c"])
    for kinds, kept in (((one, one), one), ((one, other), None)):
        left, right = (pl.DataFrame({"k": pl.Series(kind.categories, dtype=kind)}) for kind in kinds)
        found = join(left, right, "k", "full")["k"]
        assert sorted(found.cast(pl.String)) == sorted({*left["k"].cast(pl.String), *right["k"].cast(pl.String)})
        assert kept is None or found.dtype == kept
    for kinds, kept in ((("Int64", "Int64"), "Int64"), (("Int64", "int64"), "int64")):
        left, right = (pd.DataFrame({"k": pd.Series([1, n], dtype=kind)}) for n, kind in enumerate(kinds, 5))
        found = join(left, right, "k", "full")["k"]
        assert (sorted(found), str(found.dtype)) == ([1, 5, 6], kept)


def test_keys_of_two_types():
    left, right = pa.table({"k": pa.array([1], pa.int32()), "k2": [1]}), pa.table({"k": pa.array([1, 2], pa.int64())})
    assert join(left, right, "k", "right").schema.field("k").type == pa.int64()
    with pytest.raises(SchemaError, match=r"'k' of on= has type int32 on the left and int64 .*cast one"):
        join(left, right, ["k"], "full")
    with pytest.raises(SchemaError, match="no key column 'k2'"):
        join(left, right, ["k", "k2"])
    for names, said in ((["k", "k"], "'k' twice"), ([], "at least one"), ([3], "list of names")):
        with pytest.raises(SchemaError, match=said):
            join(left, right, names)


@given(
    tables(BIDS, "id"),
    st.sampled_from(list(HOWS)),
    st.sampled_from([case for case in CONDITIONS if "r.w" not in case[2]]),
)
def test_one_table_in_both_roles(table, how, case):
    """A reader too: it is read once."""
    on, within, condition = case
    theirs = rows_of(whole(f"SELECT * FROM l {HOWS[how]} JOIN l r ON {condition}", table, table))
    reader = table.to_reader()
    assert rows_of(join(table, table, on, how, within=within)) == theirs
    assert rows_of(join(reader, reader, on, how, within=within)) == theirs


@given(
    left=tables(BIDS, "id"), right=tables(ASKS, "no"), direction=st.sampled_from(["backward", "forward", "nearest"]),
    tolerance=st.none() | st.integers(0, 3), by=st.booleans(), exact=st.booleans(),
    how=st.sampled_from(["inner", "left"]),
)  # fmt: skip
def test_as_of_as_pandas_and_polars_have_it(left, right, direction, tolerance, by, exact, how):
    """Where a side has several rows of one time, which of them is met differs: there are none here."""
    left = pl.from_arrow(left).drop_nulls("t").sort("t", maintain_order=True)
    right = pl.from_arrow(right).drop_nulls("t").unique(["s", "t"] if by else ["t"]).sort("t", "no")
    if by:
        left, right = left.drop_nulls("s"), right.drop_nulls("s")
    on = AsOf("t", "t", direction, tolerance, by="s" if by else (), exact=exact)
    ours = join(left, right, on, how, select=["id", "no"]).sort("id")
    rules = {"direction": direction, "tolerance": tolerance, "allow_exact_matches": exact, "on": "t"}
    found = pd.merge_asof(left.to_pandas(), right.to_pandas()[["t", "s", "no"]], by="s" if by else None, **rules)
    if direction != "nearest":  # of two at one distance pandas takes the one before, as we do, and Polars the other
        rules = {"on": "t", "strategy": direction, "tolerance": tolerance, "allow_exact_matches": exact}
        polars = left.join_asof(right, by="s" if by else None, check_sortedness=False, **rules).sort("id")
        assert polars["no"].to_list() == [None if n != n else int(n) for n in found.sort_values("id")["no"]]
    expected = [
        (a, None if n != n else int(n)) for a, n in found.sort_values("id")[["id", "no"]].itertuples(index=False)
    ]
    assert ours.rows() == [row for row in expected if how == "left" or row[1] is not None]


@given(left=tables(BIDS, "id"), right=tables(ASKS, "no"), within=st.sampled_from([None, ("t", "t", -2, 3)]))
def test_aggregates_as_duckdb_has_them(left, right, within):
    """Of all matches of each left row, in a time window or without a window."""
    aggregates = ["count(*)", "min(w)", "max(w)", "count(w)"]
    ours = join(left, right, Compare("s", "=", "s"), within=within, form="aggregate", aggregates=aggregates)
    theirs = whole(
        "SELECT l.*, count(r.no), min(r.w), max(r.w), count(r.w) FROM l LEFT JOIN r ON l.s = r.s "
        f"{'AND r.t - l.t BETWEEN -2 AND 3' if within else ''} GROUP BY ALL", left, right,
    )  # fmt: skip
    assert rows_of(ours) == rows_of(theirs)


def test_aggregates_of_frames():
    frame = pd.DataFrame({"k": pd.array([1, 2, None], "Int64"), "v": [1.0, 2.0, 3.0]})
    found = join(frame, frame, Compare("k", "<=", "k"), form="aggregate", aggregates="sum(v)")
    assert (found["k"].dtype, found["sum(v)"].fillna(-1).tolist()) == ("Int64", [3.0, 2.0, -1.0])
    with pytest.raises(SchemaError, match="two columns 'v'"):
        join(frame, frame, "k", form="aggregate", aggregates=Sum("v", name="v"))
    with pytest.raises(SchemaError, match="the right side has no column 'v', of on=: it has k"):
        join(frame, frame[["k"]], "v")
    with pytest.raises(UnsupportedError, match="all matches take no sequence='v'"):
        join(frame, frame, "k", form="aggregate", aggregates="first(v)", sequence="v")
    arrived = join(frame, frame, Compare("k", "=", "k"), form="aggregate", aggregates="count(*)", at="arrival")
    assert arrived["count(1)"].tolist() == [0, 1, 0, 1, 0, 0], "each row in both roles"


@example(rows=(1, 1))
@given(rows=st.tuples(st.integers(1, 4), st.integers(1, 4)))
def test_count_windows_and_options(rows):
    left = pd.DataFrame({"k": [1, 2, 3, 4], "seq": [1, 3, 5, 7]})
    right = pd.DataFrame({"q": [4, 3, 2, 1], "seq": [2, 4, 6, 8]})
    pairs = join(left, right, AllOf(), rows=rows, sequence="seq", form="pairs", order="outer", device="numpy")
    assert type(pairs) is pd.DataFrame
    arrivals = [("left", n // 2) if n % 2 == 0 else ("right", n // 2) for n in range(8)]
    expected = []
    for at, (side, number) in enumerate(arrivals):
        window = [n for of, n in arrivals[:at] if of != side][-rows[side == "left"] :]
        expected += [(number, n) if side == "left" else (n, number) for n in window]
    assert sorted(map(tuple, pairs.to_numpy().tolist())) == sorted(expected)


def test_what_join_does_not_take():
    table = pa.table({"k": [1]})
    for call, error, said in [
        (lambda: join(table, 3, "k"), SchemaError, "the right side must be an Arrow table"),
        (lambda: join(table, table, "k", "sideways"), PredicateError, "sideways"),
        (lambda: join(table, table, "k", form="ranges"), UnsupportedError, "use WindowJoin"),
        (
            lambda: join(table, table, "k", form="aggregate", aggregates="count(*)", select=["k"]),
            UnsupportedError,
            "select=",
        ),
        (lambda: join(table, table, "nothing"), PredicateError, "nothing"),
        (
            lambda: join(type("DataFrame", (), {"__module__": "pyspark.sql"})(), table, "k"),
            UnsupportedError,
            "window_join",
        ),
    ]:
        with pytest.raises(error, match=said):
            call()
