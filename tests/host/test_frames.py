"""Rows as libraries of frames have them: what is taken, without a copy, and the kind of frame that comes back."""

import datetime as dt

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import Band, Compare, Rows, WindowJoin, join, sql, sql_spec
from muntin.errors import KeyTypeError, SchemaError
from muntin.host.frames import as_array, as_schema, as_table
from muntin.index import CsbTree, RangeMirror, open_window_index

ROWS = pa.table({"id": [1, 2, 3, 4], "limit": [10, 20, 30, 20], "note": ["a", None, "c", "a"]})
ASKS = pa.table({"ask": [7, 8, 9], "price": [12, 31, 90]})
BAND = Band("limit", "price", -5, 5)


class Stream:
    """Nothing but the protocol."""

    def __init__(self, table: pa.Table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class Array:
    """Nothing but the protocol of one piece."""

    def __init__(self, table: pa.Table):
        (self._batch,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]

    def __arrow_c_array__(self, requested_schema=None):
        return self._batch.__arrow_c_array__(requested_schema)


WAYS = {
    "table": lambda table: table,
    "batch": lambda table: Array(table)._batch,
    "reader": lambda table: table.to_reader(max_chunksize=2),
    "stream": Stream,
    "array": Array,
    "struct": lambda table: pa.StructArray.from_arrays(
        [column.chunk(0) for column in table.columns], names=table.column_names
    ),
    "pandas": lambda table: table.to_pandas().astype({"note": "string"} if "note" in table.column_names else {}),
    "polars": pl.from_arrow,
    "duckdb": lambda table: duckdb.connect().from_arrow(table),
    "iterator": lambda table: iter(table.to_batches(max_chunksize=1)),
    "generator": lambda table: (Stream(table.slice(at, 1)) for at in range(len(table))),
    "list": lambda table: [table.slice(0, 1), table.slice(1)],
}


def rows_of(table: pa.Table) -> list[tuple]:
    return sorted(map(str, table.to_pylist()))


@given(
    keys=st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=3),
    ways=st.tuples(st.sampled_from(list(WAYS)), st.sampled_from(list(WAYS))),
    push=st.booleans(),
)
def test_all_ways_in_mean_the_same(keys, ways, push):
    results = []
    for left_way, right_way in (("table", "table"), ways):
        with WindowJoin(
            on=Band("k", "k", -1, 1), left=Rows(9), right=Rows(9), how="left", device="numpy",
            left_schema=pa.schema([("k", pa.int64())]), right_schema=pl.Schema({"k": pl.Int64}),
        ) as join:  # fmt: skip
            found = []
            for call in keys:
                left, right = (pa.table({"k": pa.array(values, pa.int64())}) for values in (call, call[::-1]))
                rows = WAYS[left_way](left), WAYS[right_way](right)
                found.append((join.push if push else join.process)(*rows))
            if push:
                found.append(join.flush())
            results.append([table for table in [*found, join.finish()] if table is not None])
    assert results[0] == results[1]


@pytest.mark.parametrize("way", WAYS)
def test_rows_keep_values_and_memory(way):
    """Arrow data stays where it is; pandas' own memory is taken where it has no NULLs."""
    numbers = ROWS.select(["id", "limit"])
    given_rows = WAYS[way](ROWS)
    table = as_table("the left batch", given_rows)
    assert table.column("note").to_pylist() == ROWS.column("note").to_pylist()
    assert rows_of(table.select(["id", "limit"])) == rows_of(numbers)
    if way in ("table", "batch", "reader", "stream", "array", "struct", "polars", "iterator", "generator", "list"):
        chunks = table.column("limit").chunks
        start = ROWS.column("limit").chunk(0).buffers()[1].address
        assert [chunk.buffers()[1].address + 8 * chunk.offset - start for chunk in chunks] == [
            8 * at for at in np.cumsum([0, *map(len, chunks)])[:-1]
        ]


def test_pandas_numbers_are_not_copied():
    frame = pd.DataFrame({"k": np.arange(1000)})
    column = as_table("the left batch", frame).column("k").chunk(0)
    assert column.buffers()[1].address == frame["k"].to_numpy().__array_interface__["data"][0]


def test_schemas_in_every_form():
    wanted = pa.schema([("k", pa.int64()), ("t", pa.timestamp("us"))])
    empty = wanted.empty_table()
    polars = pl.from_arrow(empty)
    for form in (wanted, empty, polars.schema, polars, empty.to_reader(), Stream(empty), empty.to_pandas()):
        found = as_schema("left_schema", form)
        assert (found.names, found.field("k").type) == (wanted.names, pa.int64())
    reader = ASKS.to_reader()
    as_schema("right_schema", reader)
    assert len(reader.read_all()) == len(ASKS), "no row is read"
    for form in (3, "k int", [1], pa.int32()):
        with pytest.raises(SchemaError, match="left_schema"):
            WindowJoin(on=BAND, left_schema=form)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (3, "the left batch must be an Arrow table, .*, not int"),
        ("x", "not str"),
        ({"limit": [1]}, "not dict"),
        ([ROWS, 3], "an item of the left batch must be"),
        (np.arange(2), "an item of the left batch must be .* not numpy.int64"),
        (pl.from_arrow(ROWS).lazy(), r"LazyFrame: collect\(\) it"),
        (pa.array([1]), "Int64Array, cannot be read as Arrow data"),
        ([ROWS, ASKS], "of type list, cannot be read as Arrow data"),
        (pd.DataFrame({"limit": pd.Series([2**70], dtype=object)}), "pandas.*DataFrame, cannot be read as Arrow data"),
        (pd.DataFrame({"limit": [1, "x"]}), "pandas.*DataFrame, cannot be read as Arrow data.*limit"),
    ],
)
def test_what_is_no_rows_is_named(rows, said):
    with WindowJoin(on=BAND, left=9, right=9, left_schema=ROWS, right_schema=ASKS, device="numpy") as join:
        for take in (join.process, join.push):
            with pytest.raises(SchemaError, match=said):
                take(rows)
        assert (join.process(iter([]), right=[]).num_rows, join.stats.rows_left) == (0, 0)
    with WindowJoin(on=BAND, left=9, right=9) as join, pytest.raises(SchemaError, match="iterable without items"):
        join.process([], ASKS)


def test_a_table_that_a_stream_meets():
    with WindowJoin(on=BAND, right_table=pl.from_arrow(ASKS), left_schema=ROWS) as join:
        assert join.process(ROWS.to_pandas().astype({"note": "string"}))["ask"].to_pylist() == [7, 8]
        join.meet(ASKS.slice(1).to_reader())
        assert join.process(ROWS.to_reader())["ask"].to_pylist() == [8]


def test_a_mirror_takes_what_its_join_takes():
    with WindowJoin(on=BAND, left=9, right=9, form="ranges", left_schema=ROWS, right_schema=ASKS) as join:
        mirror = RangeMirror(join.spec, ROWS, pl.from_arrow(ASKS).schema)
        ranges = join.process(ROWS.to_reader(), pl.from_arrow(ASKS))
        assert mirror.pairs(ranges, ROWS.to_reader(), Stream(ASKS)).num_rows == 2


# The index of pandas


def test_a_named_index_is_columns():
    frame = pd.DataFrame({"v": [1, 2]}, index=pd.MultiIndex.from_tuples([("a", 5), ("b", 6)], names=["s", "k"]))
    assert as_table("the table", frame).to_pylist() == [{"s": "a", "k": 5, "v": 1}, {"s": "b", "k": 6, "v": 2}]
    made = sql("SELECT * FROM l JOIN r ON l.k = r.k", l=frame, r=frame.reset_index()[["k"]])
    assert made.to_dict("list") == {"s": ["a", "b"], "k": [5, 6], "v": [1, 2], "k_right": [5, 6]}


def test_row_numbers_are_no_column():
    frame = pd.DataFrame({"v": [1, 2, 3]})
    for each in (frame, frame[frame.v > 1], frame.sort_values("v", ascending=False), frame.iloc[:0]):
        assert as_table("the table", each).column_names == ["v"]
    assert as_table("the table", pd.DataFrame({"v": []}, index=pd.Index([], dtype=object))).num_rows == 0


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (pd.DatetimeIndex(["2024-01-01"] * 2), r"\(datetime64\[ns\]\) has no name for level 0.*rename_axis"),
        (pd.Index(["x", "y"]), r"\(object\) has no name"),
        (pd.MultiIndex.from_tuples([(1, 2), (3, 4)], names=["a", None]), r"\(2 levels\) has no name for level 1"),
        (pd.Index([1, 2], name="v"), "has a level 'v', and there is a column of that name"),
        (pd.MultiIndex.from_tuples([(1, 2), (3, 4)], names=["a", "a"]), "has a level 'a'"),
    ],
)
def test_an_index_that_makes_no_column_is_refused(index, said):
    frame = pd.DataFrame({"v": [1, 2]}, index=index)
    with pytest.raises(SchemaError, match=said):
        sql("SELECT * FROM l JOIN r ON l.v = r.v", l=frame, r=frame.reset_index(drop=True))


def test_a_reader_in_both_roles_is_read_once():
    rows = ROWS.append_column("price", ROWS["limit"])
    text = "SELECT * FROM a JOIN b ON a.limit = b.price"
    assert sql(text, a=(reader := rows.to_reader()), b=reader).num_rows == 6
    with WindowJoin(on=Compare("limit", "=", "price"), left=9, right=9) as join:
        assert join.process(reader := rows.to_reader(), reader).num_rows == 6
    reader = rows.to_reader()
    assert sql_spec(text, a=reader, b=rows).on == sql_spec(text, a=rows, b=rows).on
    assert sql(text, a=reader, b=rows).num_rows == 6, "its specification has read no row"


@pytest.mark.parametrize("made", [lambda: ROWS.to_reader(), lambda: (each for each in ROWS.to_batches())])
def test_a_reader_that_was_read_is_not_taken_for_one_without_rows(made):
    table, rows = ROWS.slice(0, 0), made()
    with WindowJoin(on=Band("limit", "limit", 0, 0), left=9, right=9) as running:
        running.process(rows, table)
        for call in (running.process, running.push):
            with pytest.raises(SchemaError, match=r"the right batch is a .* that was read to its end before"):
                call(None, rows)
        assert running.process(None, made()).num_rows == 6
    used = (each for each in ROWS.to_batches())
    list(used)
    with pytest.raises(SchemaError, match="the left side is a generator that was read to its end before"):
        join(used, ROWS, "limit")


def test_errors_of_the_callers_own_generator_stay_what_they_are():
    def rows():
        yield ROWS
        raise ValueError("the file ends here")

    with (
        WindowJoin(on=BAND, left=9, right=9, left_schema=ROWS, right_schema=ASKS) as join,
        pytest.raises(ValueError, match=r"^the file ends here$") as raised,
    ):
        join.process(rows(), ASKS)
    assert type(raised.value) is ValueError


# Results

TEXT = "SELECT * FROM l LEFT JOIN r ON r.price BETWEEN l.limit - 5 AND l.limit + 5"


def test_results_are_of_the_callers_kind():
    arrow = sql(TEXT, l=ROWS, r=ASKS)
    kinds = {pd.DataFrame: lambda t: t.to_pandas(), pl.DataFrame: pl.from_arrow}
    for kind, make in kinds.items():
        made = sql(TEXT, l=make(ROWS), r=make(ASKS))
        assert type(made) is kind
        assert as_table("it", made).to_pylist() == arrow.to_pylist()
    for left, right in [(pd.DataFrame, pl.DataFrame), (pl.DataFrame, None), (None, pd.DataFrame)]:
        rows = [kinds.get(kind, lambda t: t)(table) for kind, table in ((left, ROWS), (right, ASKS))]
        made = sql(TEXT, l=rows[0], r=rows[1])
        assert type(made) is pa.Table
        assert rows_of(made) == rows_of(arrow)
    relation = duckdb.connect().from_arrow(ROWS)
    made = sql(TEXT, l=relation, r=duckdb.connect().from_arrow(ASKS))
    assert type(made) is pa.Table
    assert duckdb.sql("SELECT count(ask), count(*) FROM made").fetchall() == [(2, 4)]
    assert rows_of(sql(TEXT, l=iter(ROWS.to_batches()), r=ASKS.to_reader())) == rows_of(arrow)


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=6))
def test_pandas_integers_are_exact_with_null_too(values):
    left = pd.DataFrame({"k": range(len(values)), "v": pd.array(values, "Int64")})
    right = pd.DataFrame({"k": [0], "w": [2**63 - 1], "f": [True]})
    made = sql("SELECT * FROM l LEFT JOIN r ON l.k = r.k", l=left, r=right).sort_values("k", ignore_index=True)
    assert made["v"].dtype == "Int64"
    assert [None if v is pd.NA else v for v in made["v"]] == values
    assert [None if v is pd.NA else int(v) for v in made["w"]] == [2**63 - 1] + [None] * (len(values) - 1)
    assert [None if v is pd.NA else bool(v) for v in made["f"]] == [True] + [None] * (len(values) - 1)


@pytest.mark.filterwarnings("ignore:The DataFrame has")
def test_names_of_pandas_that_are_no_texts():
    right = pd.DataFrame({"k": [1], "w": [5]})
    left = pd.DataFrame({0: pd.array([7], "Int8"), "k": [1]}, index=pd.Index([9], name=1))
    made = sql("SELECT * FROM l JOIN r ON l.k = r.k", l=left, r=right)
    assert made.iloc[0].to_dict() == {"1": 9, "0": 7, "k": 1, "k_right": 1, "w": 5}
    assert made["0"].dtype == "Int8"
    levels = pd.DataFrame({("a", "b"): [7], ("k", ""): [1]})
    assert join(right, levels, Compare("k", "=", "('k', '')"))["('a', 'b')"].tolist() == [7]


def test_columns_keep_the_dtypes_of_pandas_and_polars():
    times = pd.date_range("2024-03-30", periods=2, tz="Europe/Berlin", unit="us")
    left = pd.DataFrame(
        {
            "k": pd.array([1, 2], "Int32"), "flag": pd.array([True, None], "boolean"), "f": np.float32([1, 2]),
            "kind": pd.Categorical(["x", None]), "month": pd.period_range("2024-01", periods=2, freq="M"),
            "big": pd.Series([1, None], dtype="uint64[pyarrow]"), "text": pd.array(["a", None], "string"), "t": times,
        }
    )  # fmt: skip
    made = sql("SELECT * FROM l JOIN r ON l.k = r.k", l=left, r=left)
    for name, dtype in left.dtypes.items():
        assert (made[name].dtype, made[f"{name}_right"].dtype) == (dtype, dtype)
    pd.testing.assert_frame_equal(made[list(left)], left)
    frame = pl.DataFrame(
        {"k": [1, 2], "e": pl.Series(["b", None], dtype=pl.Enum(["a", "b"])),
         "c": pl.Series(["u", "v"], dtype=pl.Categorical), "d": [dt.date(2024, 1, 1), None],
         "s": ["x", "y"], "l": [[1], []]}
    )  # fmt: skip
    found = sql("SELECT * FROM l JOIN r ON l.k = r.k", l=frame, r=frame)
    assert found.select(frame.columns).equals(frame)
    assert found.schema == pl.Schema({**frame.schema, **{f"{name}_right": kind for name, kind in frame.schema.items()}})


# Columns of an index over one window


@pytest.mark.parametrize(
    "form",
    [
        pa.array, lambda v: pa.chunked_array([v[:1], v[1:]]), pl.Series, pd.Series, np.array,
        lambda v: pl.DataFrame({"k": v}), lambda v: Stream(pa.table({"k": v})),
        lambda v: duckdb.connect().from_arrow(pa.table({"k": v})),
    ],
)  # fmt: skip
def test_columns_of_an_index(form):
    window = open_window_index(CsbTree(), span=100, values="float64")
    assert window.insert(form([7, 9, 7]), form([0, 30, 90]), form([50.0, 60.0, 70.0])) == 3
    assert (window.map(7, 8, "sum"), window.find(form([9, 8])).tolist()) == (120.0, [1, -1])


def test_columns_of_arrow_are_not_copied():
    column = pa.array(range(1000))
    assert as_array("key", column).__array_interface__["data"][0] == column.buffers()[1].address
    window = open_window_index(CsbTree(), span=100)
    for keys, said in [
        (pa.array([1, None]), "a key is NULL"),
        (pl.DataFrame({"a": [1], "b": [2]}), "one column, not 2"),
        (pl.Series(["x"]), "does not fit the type int64"),
        (pa.array([1 << 63], pa.uint64()), "does not fit the type int64"),
    ]:
        with pytest.raises(KeyTypeError, match=said):
            window.insert(keys, np.arange(len(keys)))
