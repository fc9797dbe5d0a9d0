"""SQL texts: their rows against DuckDB's, the specifications against those of objects, and the places of refusals."""

import datetime as dt
import functools
import re
from collections import Counter
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import (
    AllOf,
    AnyOf,
    AsOf,
    Band,
    Compare,
    JoinSpec,
    Rows,
    Watermark,
    Where,
    WindowJoin,
    Within,
    sql,
    sql_spec,
)
from muntin.errors import SchemaError, SqlError, WindowError
from muntin.host.errors import from_wire, to_wire

MINUTE = 60_000_000


def table(seed: int, key: str, measure: str, rows: int = 60) -> pa.Table:
    """Random rows with NULLs, ties, text, decimals, dates and a struct."""
    random = np.random.default_rng(seed)
    absent = random.random(rows) < 0.08
    times = (random.integers(0, 40, rows) * MINUTE // 4).astype("datetime64[us]")
    return pa.table(
        {
            "id": np.arange(rows),
            key: pa.array(random.integers(0, 30, rows).astype(np.int32), mask=absent),
            "venue": pa.array(random.choice(["x", "y", "z"], rows), mask=np.roll(absent, 3)),
            "time": times,
            measure: random.integers(0, 50, rows) / 10,
            "fee": pa.array([Decimal(int(n)) / 100 for n in random.integers(0, 90, rows)], pa.decimal128(9, 2)),
            "day": pa.array(random.integers(18_000, 18_012, rows).astype(np.int32)).cast(pa.date32()),
            "span": pa.StructArray.from_arrays([pa.array(times)], ["end"]),
            "flag": pa.array(random.random(rows) < 0.6, mask=np.roll(absent, 5)),
            "raw": pa.array([bytes([n]) for n in random.integers(0, 3, rows)], mask=np.roll(absent, 7)),
        }
    )


BIDS, ASKS = table(1, "limit", "low"), table(2, "price", "high", 70)
TABLES = {"bids": BIDS, "asks": ASKS}
DUCK = duckdb.connect()
DUCK.register("bids", BIDS)
DUCK.register("asks", ASKS)


def rows_of(result: pa.Table) -> Counter:
    return Counter(tuple(map(str, row.values())) for row in result.to_pylist())


def check(text: str) -> pa.Table:
    """Muntin's rows, which are DuckDB's."""
    ours = sql(text, **TABLES)
    theirs = DUCK.sql(text).to_arrow_table()
    assert rows_of(ours) == rows_of(theirs.rename_columns(ours.column_names))
    return ours


CONDITIONS = [
    'a.price BETWEEN b."limit" - 5 AND b."limit" + 5 AND a.venue = b.venue '
    "AND a.time BETWEEN b.time - INTERVAL 1 MINUTE AND b.time",
    'price < "limit"',
    'a.price > b."limit" + 2 AND NOT a.day = b.day',
    'a.price - b."limit" <= 3 AND b."limit" - 2 < a.price',
    'abs(a.price - b."limit") <= 1',
    'abs(b."limit" - a.price + 2) < 3',
    'abs(a.price - b."limit") >= 27',
    'a.price != b."limit" + 1 AND a.day = b.day',
    'a.venue IS NOT DISTINCT FROM b.venue AND a.price = b."limit"',
    "a.price = b.\"limit\" AND b.venue IN ('x', 'y') AND a.id >= 10 AND a.id + 5 < 60",
    'a.price = b."limit" AND b.venue IS NULL',
    'a.price = b."limit" AND NOT (b.id BETWEEN 5 AND 50)',
    'a.price < b."limit" - 25 OR a.price > b."limit" + 25',
    "b.low + 0.1 <= a.high AND a.high <= b.low + 0.3",
    "a.high BETWEEN b.low - 0.1 AND b.low + 0.2",
    "b.low + 0.1 = a.high",
    "b.low = a.high AND low < 2.5",
    "a.fee < b.fee - 0.5",
    "a.fee BETWEEN b.fee - 0.01 AND b.fee + 0.015",
    "a.day >= b.day + INTERVAL 9 DAYS",
    "a.time >= b.time AND a.time < b.time + INTERVAL '1 minute' AND b.low < a.high",
    "b.time - a.time <= INTERVAL 30 SECONDS AND a.time - b.time <= INTERVAL 10 SECONDS",
    "a.span.end = b.span.end AND a.price <= b.limit",
    "a.time = b.time AND a.day > DATE '2019-04-20' AND b.time < TIMESTAMP '1970-01-01 00:07:00'",
    'a.price + b."limit" < 20',
    'a.price + b."limit" = 21 OR 40 <= b."limit" + a.price + 2 AND TRUE',
    'NOT (a.price + b."limit" > 15 AND 1 < 2)',
    "a.fee + b.fee > 1.5 AND a.fee - b.fee < 0.05 AND a.venue <> b.venue",
    'abs(a.price + b."limit" - 30) <= 2 AND a.venue IS NOT NULL',
    'a.day = b.day AND a.price > b."limit" OR a.day = b.day AND a.price < b."limit" - 9',
    'a.venue IS DISTINCT FROM b.venue AND a.price = b."limit"',
    "a.venue != b.venue AND a.time = b.time",
    'b."limit" = 3 AND a.price IS DISTINCT FROM 7',
    "a.venue IS NULL AND b.\"limit\" IS NOT NULL AND b.venue = 'x'",
    'a.flag AND NOT b.flag AND a.price = b."limit"',
    "a.raw = b.raw AND a.price < b.\"limit\" - 20 AND NOT (a.raw IS NULL OR b.raw IS NOT DISTINCT FROM x'01')",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_as_duckdb_reads_them(condition):
    assert len(check(f"SELECT b.id, a.id AS other FROM bids b JOIN asks a ON {condition}")) > 2


@pytest.mark.parametrize("how", ["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"])
@pytest.mark.parametrize(
    "condition",
    ["TRUE", "FALSE", "1 = 1", "1 = 0", "NULL", "NOT (NULL OR FALSE)", "a.venue = 'x' OR 2 > 1", "b.venue IS NULL",
     "a.venue = 'x' AND 2 < 1", "a.price < b.limit AND a.price > b.limit + 3", "TRUE AND a.flag"],
)  # fmt: skip
def test_conditions_that_compare_nothing(how, condition):
    """TRUE holds for rows of NULLs too; rows that meet none come out."""
    check(f"SELECT * FROM bids b {how} JOIN asks a ON {condition}")


@pytest.mark.parametrize(
    "text",
    ["bids b CROSS JOIN asks a", "bids b, asks a", "bids b, /* , */ asks a WHERE a.price = b.limit AND a.flag = b.flag",
     "bids b CROSS JOIN asks a WHERE a.day > b.day AND a.flag", "bids b, asks a WHERE FALSE", "bids b, bids a",
     "bids b JOIN asks a ON a.price >= b.limit - 3 WHERE a.price <= b.limit + 2 AND (a.id > 30)"],
)  # fmt: skip
def test_cross_joins_and_where(text):
    check(f"SELECT b.id, a.id AS other FROM {text}")


def test_a_where_holds_the_time_window_and_ends_of_bands():
    text = "a.price >= b.limit - 3 {} a.price <= b.limit + 2 AND abs(a.time - b.time) <= INTERVAL 1 HOUR"
    schemas = {"bids": BIDS.schema, "asks": ASKS.schema}
    spec = sql_spec(f"SELECT * FROM bids b JOIN asks a ON {text.format('WHERE')}", **schemas)
    assert spec == sql_spec(JOIN + text.format("AND"), **schemas)
    assert spec.within == Within("time", "time", "-1 hour", "1 hour")
    assert spec.on == Band("limit", "price", -3, 2)


def test_constants_in_every_spelling():
    schemas = {"left_schema": BIDS.schema, "right_schema": ASKS.schema}
    for text, on, pairs in (
        ("TRUE", AllOf(), 9 * 9),
        ("1 = 0", AnyOf(), 0),
        ("left.id = 3", Where("left", "id", "=", 3), 9),
    ):
        for condition in (text, on):
            for window in ({}, {"left": Rows(9), "right": Rows(9)}, {"within": Within("id", "id", -99, 99)}):
                with WindowJoin(on=condition, **window, **schemas) as join:
                    assert len(join.process(BIDS.slice(0, 9), ASKS.slice(0, 9))) == pairs
                    assert JoinSpec.from_json(join.spec.to_json()) == join.spec
        told = JoinSpec(on=on, how="cross").explain(BIDS.schema, ASKS.schema)
        assert "driver:    every pair" in told
    assert "condition: TRUE" in JoinSpec(on=AllOf()).explain(BIDS.schema, ASKS.schema)
    assert "row test:  FALSE" in JoinSpec(on=AnyOf()).explain(BIDS.schema, ASKS.schema)
    with pytest.raises(SchemaError, match="the right side has no columns"):
        JoinSpec(on=AllOf()).output_schema(BIDS.schema, pa.schema([]))


def nested(count: int) -> list[str]:
    return [
        "NOT " * count + "(a.price = b.limit)",
        "NOT (" * count + "a.price = b.limit" + ")" * count,
        "(TRUE AND " * count + "a.price = b.limit" + ")" * count,
        "a.price = " + "-(" * count + "b.limit" + ")" * count,
        "abs(" * count + "a.price - b.limit" + ")" * count + " < 3",
        "(" * count + "a.price = b.limit",
        "CASE WHEN " * count + "TRUE" + " THEN TRUE END" * count,
    ]


@pytest.mark.parametrize("number", range(len(nested(1))))
def test_deep_texts_are_read_or_refused_with_their_depth(number):
    with pytest.raises(SqlError, match=r"line 1, column \d+: the text nests 40[01] deep here"):
        sql(JOIN + nested(400)[number], **TABLES)
    if number < 4:  # the others are refused at any depth
        check(f"SELECT b.id, a.id AS other FROM bids b JOIN asks a ON {nested(6)[number]}")


@pytest.mark.parametrize(
    ("text", "like"),
    [
        ("(" * 400 + "a.price = " + "(" * 400 + "b.limit" + ")" * 800, "a.price = b.limit"),
        (" AND ".join(["a.price = b.limit"] * 1100), "a.price = b.limit"),
        (" OR ".join(["a.price = b.limit"] * 1100), "a.price = b.limit"),
        ("NOT (" + " OR ".join(f"a.price = {n}" for n in range(7, 1107)) + ")", "a.price < 7"),
        (" OR ".join(f"a.price = {n}" for n in range(7, 1107)), "a.price >= 7"),
        ("a.price < b.limit" + " + 1" * 1100 + " - 1" * 1100, "a.price < b.limit"),
        (" AND ".join(f"a.price < b.limit + {n} AND b.limit < a.price + {n}" for n in (1, 2, 9)), "a.price = b.limit"),
    ],
    ids=range(7),
)  # fmt: skip
def test_long_texts(text, like):
    ours, wanted = (
        sql(f"SELECT b.id, a.id AS other FROM bids b JOIN asks a ON {each}", **TABLES) for each in (text, like)
    )
    assert rows_of(ours) == rows_of(wanted)


@pytest.mark.parametrize("how", ["", "INNER", "LEFT", "RIGHT OUTER", "FULL", "SEMI", "ANTI"])
@pytest.mark.parametrize("condition", ["a.price = b.limit AND a.venue < 'z'", CONDITIONS[20]])
def test_how(how, condition):
    if how in ("SEMI", "ANTI"):
        ours = check(f"SELECT * FROM bids b {how} JOIN asks a ON {condition}")
        assert rows_of(sql(f"SELECT b.* FROM bids b LEFT {how} JOIN asks a ON {condition}", **TABLES)) == rows_of(ours)
    else:
        check(f"SELECT * FROM bids b {how} JOIN asks a ON {condition}")


def test_columns_by_name():
    ours = sql(
        "select B.ID, `price` AS asked, a.id, b.time AS at, a.price from bids B join Asks a on B.LIMIT = a.Price",
        **TABLES,
    )
    assert ours.column_names == ["id", "asked", "id_right", "at", "price"]
    assert ours.column("asked").equals(ours.column("price"))
    assert sql("SELECT a.* FROM bids b JOIN asks a ON a.price = b.limit", **TABLES).column_names == ASKS.column_names
    alone = sql("SELECT a.id FROM bids b JOIN asks a ON a.price = b.limit", **TABLES)
    assert alone.column_names == ["id"]
    assert Counter(alone["id"].to_pylist()) == Counter(
        DUCK.sql('SELECT a.id FROM bids b JOIN asks a ON a.price = b."limit"').to_arrow_table()["id"].to_pylist()
    )


def test_one_table_twice():
    check('SELECT x.id, y.id AS other FROM bids x JOIN bids y ON x."limit" < y."limit" AND x.venue = y.venue')


@pytest.mark.parametrize("seed", range(6))
def test_random_conjunctions(seed):
    random = np.random.default_rng(seed)

    def part() -> str:
        one, other = random.permutation([("b.limit", "a.price"), ("b.id", "a.id"), ("b.day", "a.day")][: 2 + seed % 2])[
            0
        ]
        if one == "b.day":
            return f"{one} {random.choice(['<', '<=', '=', '>=', '>', '!='])} {other}"
        operator = random.choice(["<", "<=", "=", ">=", ">", "!=", "<>"])
        low, high = sorted(random.integers(-12, 12, 2))
        return str(
            random.choice(
                [
                    f"{one} + {low} {operator} {other}",
                    f"{other} BETWEEN {one} + {low} AND {one} + {high}",
                    f"{low} <= {one} - {other}",
                    f"abs({other} - {one}) < {high + 13}",
                    f"({one} < {other} OR {one} > {other} + {high + 12})",
                    f"{one} {operator} {high + 12}",
                ]
            )
        )

    for _ in range(5):
        text = " AND ".join(["b.limit <= a.price + 9", *(part() for _ in range(random.integers(1, 4)))])
        check(f"SELECT b.id, a.id AS other FROM bids b JOIN asks a ON {text}")


#: Of the left and the right side, for random texts: columns of a type that are compared with each other, and constants
#: of it. Floats are multiples of a quarter, as DuckDB reads 0.1 as a decimal.
KINDS: dict[str, tuple[list[str], list[str], list[str]]] = {
    "number": (["l.i", "l.n", "l.d"], ["r.j", "r.m", "r.e"], ["0", "1", "-2", "3", "2.5", "-0.75", "7"]),
    "float": (["l.x"], ["r.y"], ["0.25", "-0.5", "1", "0.0", "1.75"]),
    "text": (["l.s"], ["r.u"], ["'a'", "'b'", "'B'", "''", "'c'"]),
    "flag": (["l.f"], ["r.g"], ["TRUE", "FALSE"]),
    "day": (["l.day"], ["r.due"], ["DATE '1970-01-03'", "DATE '1970-01-05'", "'1970-01-04'"]),
    "time": (["l.t"], ["r.v"], ["TIMESTAMP '1970-01-01 00:00:02'", "TIMESTAMP '1970-01-01 00:00:03.5'"]),
    "raw": (["l.b"], ["r.c"], ["x'00'", "x'0102'"]),
}
STEPS = {
    "number": ["1", "2", "0.5", "3", "-1"], "time": ["INTERVAL 1 SECOND", "INTERVAL '1500' MILLISECOND"],
    "day": ["INTERVAL 1 DAY", "INTERVAL 2 DAYS"], "float": ["0.25"],
}  # fmt: skip


def typed(seed: int, names: list[str], rows: int) -> pa.Table:
    """A column of each type, with NULLs and few different values."""
    random = np.random.default_rng(seed)

    def column(values: np.ndarray, kind: pa.DataType) -> pa.Array:
        return pa.array(values.tolist(), mask=random.random(rows) < 0.15).cast(kind)

    whole = functools.partial(random.integers, size=rows)
    columns = [
        column(whole(-3, 5), pa.int32()), column(whole(-3, 9), pa.int64()),
        column(whole(-8, 12), pa.int64()).cast(pa.decimal128(20, 0)).cast(pa.decimal128(9, 2)),
        column(whole(-8, 9) / 4, pa.float64()), column(np.array(["a", "b", "B", ""])[whole(0, 4)], pa.string()),
        column(whole(0, 2), pa.bool_()), column(whole(0, 7), pa.int32()).cast(pa.date32()),
        column(whole(0, 10) * 500_000, pa.timestamp("us")),
        pa.array([[b"\0", b"\1\2", b""][n] for n in whole(0, 3)], mask=random.random(rows) < 0.15),
    ]  # fmt: skip
    return pa.table([pa.array(np.arange(rows)), *columns], names=["id", *names])


TYPED = {
    "l": typed(1, ["i", "n", "d", "x", "s", "f", "day", "t", "b"], 17),
    "r": typed(2, ["j", "m", "e", "y", "u", "g", "due", "v", "c"], 23),
}
for _name, _table in TYPED.items():
    DUCK.register(_name, _table)


@st.composite
def asked_of(draw: st.DrawFn, columns: tuple[str, ...], kind: str) -> str:
    """A test of one column and constants, or of a pair of columns."""
    constants, steps = KINDS[kind][2], STEPS.get(kind)
    constant = st.sampled_from(constants)
    ordered = kind not in ("flag", "raw")
    operators = ["=", "!=", "<>", *(["<", "<=", ">", ">="] if ordered else [])]
    distinct = draw(st.sampled_from(["IS DISTINCT FROM", "IS NOT DISTINCT FROM"]))
    operator, maybe_not = draw(st.sampled_from(operators)), draw(st.sampled_from(["", "NOT "]))
    if len(columns) == 1:
        one = columns[0]
        made = [
            f"{one} {operator} {draw(constant)}", f"{draw(constant)} {operator} {one}",
            f"{one} IS NULL", f"{one} IS NOT NULL", f"{one} {distinct} {draw(constant | st.just('NULL'))}",
            f"{one} {maybe_not}IN ({', '.join(draw(st.lists(constant, min_size=1, max_size=3)))})",
        ]  # fmt: skip
        if ordered:
            made.append(f"{one} {maybe_not}BETWEEN {draw(constant)} AND {draw(constant)}")
        if kind == "flag":
            made += [one, f"{one} IS {maybe_not}{draw(constant)}"]
        if kind == "number":
            made.append(f"{one} + {draw(constant)} {operator} {draw(constant)}")
            made.append(f"abs({one}) {operator} {draw(constant)}")
    else:
        one, other = draw(st.permutations(columns))
        made = [f"{one} {operator} {other}", f"{one} {distinct} {other}"]
        if steps:
            low, high = draw(st.sampled_from(steps)), draw(st.sampled_from(steps))
            made.append(f"{columns[1]} {maybe_not}BETWEEN {columns[0]} - {low} AND {columns[0]} + {high}")
            made.append(f"{one} + {low} {operator} {other}")
            if kind == "number":
                made += [
                    f"abs({one} - {other}) {operator} {draw(constant)}", f"{one} + {other} {operator} {draw(constant)}",
                    f"{draw(constant)} {operator} {one} - {other} + {low}",
                    f"{one} - {other} IN ({draw(constant)}, {draw(constant)})",
                ]  # fmt: skip
    return draw(st.sampled_from(made))


@st.composite
def texts(draw: st.DrawFn) -> str:
    """AND, OR and NOT over tests. Most ORs are of one pair of columns, or of one column, as others are refused."""

    def nested(leaf: st.SearchStrategy[str], depth: int) -> str:
        kind = draw(st.sampled_from(["leaf", "leaf", "NOT", "AND", "OR"] if depth else ["leaf"]))
        if kind == "leaf":
            return draw(leaf)
        if kind == "NOT":
            return f"NOT ({nested(leaf, depth - 1)})"
        return f"({nested(leaf, depth - 1)} {kind} {nested(leaf, depth - 1)})"

    def leaf() -> str:
        kind = draw(st.sampled_from(list(KINDS)))
        left, right = (draw(st.sampled_from(side)) for side in KINDS[kind][:2])
        columns = draw(st.sampled_from([(left,), (right,), (left, right), (left, right)]))
        constants = st.sampled_from(["TRUE", "FALSE", "NULL", "1 = 1", "2 < 1", "NULL IS DISTINCT FROM 1", "1 = NULL"])
        return nested(st.one_of(*[asked_of(columns, kind)] * 6, constants), draw(st.integers(0, 2)))

    parts = [leaf() for _ in range(draw(st.integers(1, 4)))]
    joined = " AND ".join(parts)
    return nested(st.just(joined), 1) if draw(st.booleans()) else joined


def test_random_texts_as_duckdb_reads_them():
    """Each gives DuckDB's rows, or is refused at a place; most are taken."""
    taken: Counter[bool] = Counter()

    @settings(max_examples=200, deadline=None)
    @given(text=texts(), how=st.sampled_from(["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", ","]))
    def check_random(text: str, how: str) -> None:
        columns = "l.id" if how in ("SEMI", "ANTI") else "l.id, r.id AS other"
        joined = f"l, r WHERE {text}" if how == "," else f"l {how} JOIN r ON {text}"
        theirs = DUCK.sql(f"SELECT {columns} FROM {joined}").to_arrow_table()
        try:
            ours = sql(f"SELECT {columns} FROM {joined}", **TYPED)
        except SqlError as refusal:
            ours, place = None, (refusal.line, refusal.column)
        if ours is None:
            assert place > (1, 14)
        else:
            assert rows_of(ours) == rows_of(theirs)
        taken[ours is not None] += 1

    check_random()
    assert taken[True] > taken[False]


JOIN = "SELECT * FROM bids b JOIN asks a ON "
SAME = [
    (
        "a.price BETWEEN b.limit - 5 AND b.limit + 5 AND a.venue = b.venue "
        "AND a.time BETWEEN b.time - INTERVAL 1 MINUTE AND b.time",
        {"on": AllOf(Band("limit", "price", -5, 5), Compare("venue", "=", "venue")),
         "within": Within("time", "time", "-1 minute", 0)},
    ),
    ("b.limit < a.price AND a.time = b.time",
     {"on": Compare("limit", "<", "price"), "within": Within("time", "time", 0, 0)}),
    ("a.high BETWEEN low - 0.1 AND low + 0.1 AND abs(a.time - b.time) <= INTERVAL '90' SECOND",
     {"on": Band("low", "high", -0.1, 0.1), "within": Within("time", "time", "-90 seconds", "90 seconds")}),
    ("limit = price AND a.size > 3 AND abs(a.time - b.time) <= INTERVAL 1 HOUR",
     {"on": AllOf(Compare("limit", "=", "price"), Where("right", "size", ">", 3)),
      "within": Within("time", "time", "-1 hour", "1 hour")}),
    ("(limit < price OR limit > price + 3) AND a.time = b.time",
     {"on": AnyOf(Compare("limit", "<", "price"), Band("limit", "price", None, -4)),
      "within": Within("time", "time", 0, 0)}),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "objects"), SAME)
def test_a_text_is_the_objects(condition, objects):
    left, right = BIDS.schema, ASKS.schema.append(pa.field("size", pa.int64()))
    found, wanted = sql_spec(JOIN + condition, bids=left, asks=right), JoinSpec(**objects)
    assert found == wanted
    assert found.explain(left, right) == wanted.explain(left, right)


def test_windows():
    text = JOIN + "a.price = b.limit AND a.time BETWEEN b.time - INTERVAL 1 MINUTE AND b.time"
    schemas = {"bids": BIDS.schema, "asks": ASKS.schema}
    counted = sql_spec(text, rows=(10, Rows(20)), **schemas)
    assert counted.within is None
    assert (counted.left, counted.right) == (Rows(10), Rows(20))
    assert counted.on == AllOf(Compare("limit", "=", "price"), Band("time", "time", "-1 minute", 0))
    ours = sql(text, rows=(10, 1), **TABLES)
    with WindowJoin.from_spec(sql_spec(text, rows=(10, 1), **schemas)) as join:
        assert rows_of(ours) == rows_of(join.process(BIDS, ASKS))
    named = sql_spec(
        JOIN + "b.venue = a.venue AND abs(a.id - b.id) <= 3 AND a.time = b.time", times=("id", "id"), **schemas
    )
    assert named.within == Within("id", "id", -3, 3)
    watermark = Watermark(left="1 minute", right="1 minute")
    assert sql_spec(text, watermark=watermark, **schemas).watermark == watermark
    assert sql_spec(JOIN + "a.price = b.limit AND a.time < b.time", **schemas).unbounded
    with pytest.raises(WindowError, match=r"no difference of \('id', 'id'\)"):
        sql_spec(JOIN + "b.venue = a.venue AND a.id < b.id", times=("id", "id"), **schemas)


def test_frames_of_pandas_and_polars():
    import polars as pl  # where Spark's tests run, which take texts of this module, it is not

    text = "SELECT b.id, a.id AS other FROM bids b JOIN asks a ON a.price = b.limit AND a.venue = b.venue"
    left = BIDS.select(["id", "limit", "venue"]).filter(pa.compute.is_valid(BIDS["limit"]))
    wanted = rows_of(sql(text, bids=left, asks=ASKS))
    assert rows_of(sql(text, bids=pl.from_arrow(left), asks=ASKS)) == wanted
    frame = pd.DataFrame(
        {"id": left["id"].to_numpy(), "limit": left["limit"].to_numpy(), "venue": left["venue"].to_pylist()}
    )
    assert rows_of(sql(text, bids=frame, asks=ASKS)) == wanted
    with pytest.raises(SqlError, match="there is no table 'asks'"):
        sql(text, bids=left)


REFUSED = [
    ("a.price * b.id < 9", 1, 37, "make a column of it first"),
    ("a.price = b.limit AND random() < 0.5", 1, 59, "RAND"),
    ("a.price = b.limit AND a.time > now()", 1, 68, "no two calls of it"),
    ("a.price = b.limit AND a.id IN (SELECT 3)", 1, 75, "a subquery in the condition"),
    ("a.price = max(b.limit)", 1, 51, "a function of several rows"),
    ("a.venue < 3", 1, 37, "no column of numbers"),
    ("a.price = b.limit WHERE a.nosuch > 3", 1, 61, "a has no column 'nosuch'"),
    ("a.price = b.limit GROUP BY id", 1, 64, "both sides have a column 'id'"),
    ("a.price = b.limit ORDER BY nosuch(a.id)", 1, 64, "nosuch"),
    ("a.nosuch < b.limit", 1, 37, "no column 'nosuch'"),
    ("id < price", 1, 37, "both sides have a column 'id'"),
    ("other < price", 1, 37, "neither side"),
    ("abs(a.high - b.low) <= 0.2", 1, 37, "rounded otherwise"),
    ("b.limit + 0.1 <= a.high", 1, 37, "rounded otherwise"),
    ("b.limit < a.price + INTERVAL 1 DAY", 1, 37, "INTERVAL is for times"),
    ("a.time < b.time + 5", 1, 37, "write an INTERVAL"),
    ("a.price = b.limit AND\n  a.venue < 3", 2, 3, "no column of numbers"),
    ("a.price = b.limit AND\n  b.limit = a.venue", 2, 3, "cannot be compared"),
    ("a.price = b.limit AND\n  a.flag < TRUE AND a.venue > b.venue", 2, 21, "'venue' has type string"),
    ("a.price = b.limit AND a.day > 'today'", 1, 59, "ISO 8601"),
    ("a.price = b.limit AND b.venue = 'x", 1, 69, "Missing '"),
    ("a.price < 1e999999999", 1, 47, "400 digits"),
    ("a.high + b.low < 3", 1, 37, "its sum is rounded"),
    ("a.day + b.day > 3", 1, 37, "a date has no sum"),
    ("a.price + b.limit < a.id", 1, 37, "difference or sum of one column of each side"),
    ("a.price = b.limit AND a.raw = x'123'", 1, 67, "hexadecimal"),
    ("a.price = b.limit OR a.id = b.id", 1, 37, "several pairs"),
    ("a.price = b.limit OR (a.id = b.id AND a.day = b.day)", 1, 59, "AnyOf over several pairs"),
    ("a.price = b.limit AND b.venue = NULL", 1, 59, "IS NULL"),
    ("a.price =", 1, 45, "expression"),
]


@pytest.mark.parametrize(("condition", "line", "column", "said"), REFUSED)
def test_refused_conditions_are_named_with_their_place(condition, line, column, said):
    with pytest.raises(SqlError) as error:
        sql(JOIN + condition, **TABLES)
    assert said in str(error.value)
    assert (error.value.line, error.value.column) == (line, column)
    assert str(error.value).startswith(f"line {line}, column {column}: ")
    assert len(re.findall(r"line \d+, column", str(error.value))) == 1


STATEMENTS = [
    ("SELECT * FROM bids b JOIN asks a", 27, "no ON"),
    ("SELECT * FROM bids", 8, "two tables"),
    ("SELECT b.id, b.id FROM bids b JOIN asks a ON b.id = a.id", 14, "two columns 'id'"),
    ("SELECT a.id FROM bids b LEFT ANTI JOIN asks a ON b.id = a.id", 8, "left side alone"),
    ("SELECT * FROM bids b JOIN (asks a JOIN bids c ON c.id = a.id) ON b.id = a.id", 28, "join inside a join"),
    ("SELECT * FROM bids b JOIN asks a JOIN bids c ON c.id = a.id ON b.id = a.id", 27, "join inside a join"),
    ("SELECT * FROM bids b POSITIONAL JOIN asks a", 22, "POSITIONAL JOIN"),
    ("SELECT COLUMNS('i.*') FROM bids b JOIN asks a ON a.id = b.id", 8, "COLUMNS"),
    ("SELECT b.id FROM bids b LEFT JOIN asks a ON a.price * b.id < 3", 45, "MUL"),
    ("SELECT CAST(b.venue AS INT) FROM bids b JOIN asks a ON a.id = b.id", 8, "DuckDB: Conversion Error"),
    ("SELECT * FROM s.bids b JOIN asks a ON b.id = a.id", 15, "by its name alone"),
    ("SELECT * FROM bids JOIN bids ON bids.id = bids.id", 25, "aliases"),
    ("DROP TABLE bids", 1, "only SELECT"),
    ("", 1, "one SELECT"),
]


@pytest.mark.parametrize(("text", "column", "said"), STATEMENTS)
def test_refused_statements(text, column, said):
    with pytest.raises(SqlError) as error:
        sql(text, **TABLES)
    assert said in str(error.value)
    again = from_wire(to_wire(error.value))
    assert (again.line, again.column) == (error.value.line, error.value.column) == (1, column)
    assert len(re.findall(r"line \d+, column", str(error.value))) == 1


def test_conditions_as_text():
    text = "left.venue = right.venue AND price BETWEEN limit - 5 AND limit + 5"
    schemas = {"left_schema": BIDS.schema, "right_schema": ASKS.schema}
    windows = {"left": Rows(100), "right": Rows(100)}
    with WindowJoin(on=text, **windows, **schemas) as join:
        assert join.spec.on == AllOf(Compare("venue", "=", "venue"), Band("limit", "price", -5, 5))
        found = rows_of(join.process(BIDS, ASKS).select(["id", "id_right"]))
    assert found == rows_of(
        DUCK.sql(
            'SELECT b.id, a.id AS other FROM bids b JOIN asks a ON a.venue = b.venue AND abs(price - "limit") <= 5'
        ).to_arrow_table()
    )
    times = "left.time BETWEEN right.time - INTERVAL 5 SECONDS AND right.time"
    for windowed, on, within in (
        ({}, Compare("venue", "=", "venue"), Within("time", "time", 0, "5 seconds")),
        (windows, AllOf(Compare("venue", "=", "venue"), Band("time", "time", 0, "5 seconds")), None),
        (
            {"within": Within("time", "time", 0, 0)},
            AllOf(Compare("venue", "=", "venue"), Band("time", "time", 0, "5 seconds")),
            Within("time", "time", 0, 0),
        ),
    ):
        with WindowJoin(on=f"left.venue = right.venue AND {times}", **windowed, **schemas) as join:
            assert (join.spec.on, join.spec.within) == (on, within)
    for text, within in ((times, Within("time", "time", 0, "5 seconds")), ("left.time < right.seen", None)):
        schema = BIDS.schema.append(pa.field("seen", BIDS.schema.field("time").type))
        with WindowJoin(on=text, left_schema=schema, self_join=True) as join:
            assert join.spec.within == within
    with pytest.raises(SqlError, match="line 1, column 1: left has no column 'nosuch'"):
        WindowJoin(on="left.nosuch = right.venue", **windows, **schemas)
    with pytest.raises(SchemaError, match="right_schema="):
        WindowJoin(on=text, **windows, left_schema=BIDS.schema)


def test_constants_of_times_are_read_as_such():
    text = JOIN + "a.price = b.limit AND b.day >= '2019-04-20' AND a.time < TIMESTAMP '1970-01-01 00:07:00'"
    on = sql_spec(text, **TABLES).on
    assert on.parts[1:] == (
        Where("left", "day", ">=", "2019-04-20"),
        Where("right", "time", "<", dt.datetime(1970, 1, 1, 0, 7)),
    )


STAMPED = {
    "bids": pa.table({"id": range(80), "k": [n * 7 % 5 for n in range(80)], "t": [n * 13 % 101 for n in range(80)]}),
    "asks": pa.table({"id": range(90), "k": [n * 3 % 6 for n in range(90)], "t": [n * 3 for n in range(90)]}),
}


@pytest.mark.parametrize("how", ["", "LEFT"])
@pytest.mark.parametrize("operator", [">=", ">", "<", "<="])
def test_as_of_as_duckdb_reads_it(how, operator):
    text = f"SELECT b.id, a.id AS ask FROM bids b ASOF {how} JOIN asks a ON b.t {operator} a.t AND a.k = b.k"
    duck = duckdb.connect()
    for name, rows in STAMPED.items():
        duck.register(name, rows)
    wanted = rows_of(duck.sql(text).to_arrow_table())
    assert rows_of(sql(text, **STAMPED)) == wanted
    for spelled in (
        f"SELECT b.id, a.id AS ask FROM bids b {how} ASOF JOIN asks a "
        f"MATCH_CONDITION (b.t {operator} a.t) ON a.k = b.k",
        f"SELECT b.id, a.id AS ask FROM bids b ASOF {how} JOIN asks a MATCH_CONDITION (b.t {operator} a.t) USING (k)",
    ):
        assert rows_of(sql(spelled, **STAMPED)) == wanted
    assert len(wanted) > 20


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("a.k = b.k", pa.int64()),
        ("a.k != b.k AND a.v = b.v", pa.string()),
        ("a.k + 5 >= b.k AND a.v = b.v", pa.float64()),
        ("abs(a.k - b.k) <= 3", pa.int32()),
        ("b.k BETWEEN a.k - INTERVAL 5 MINUTES AND a.k", pa.timestamp("us")),
        ("a.v = b.v AND a.k > 5", pa.int64()),
        ("a.v = b.v AND a.k IN ('x', 'y')", pa.string()),
        ("a.v = b.v AND a.k > INTERVAL 3 SECONDS", pa.duration("s")),
        ("a.v = b.v AND a.k IS NULL", pa.date32()),
        ("a.v = b.v AND a.k", pa.bool_()),
        ("a.k <=> b.k", pa.binary()),
        ("a.k IS DISTINCT FROM b.k", pa.int64()),
    ],
)
@pytest.mark.parametrize("how", ["", "LEFT", "FULL", "LEFT ANTI"])
def test_a_column_of_type_null_is_as_one_without_values(condition, kind, how):
    """All None in pandas, a file with a header alone."""
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    some = pa.table({"k": pa.array([1, 2, None], kind) if number else pa.nulls(3, kind), "v": [0, 1, 2]})
    typed, bare = (pa.table({"k": pa.nulls(2, of), "v": [0, 1]}) for of in (kind, pa.null()))
    text = f"SELECT * FROM a {how} JOIN b ON {condition}"
    for other in (bare, some):
        found = sql(text, a=bare, b=other), sql(text, a=typed, b=typed if other is bare else other)
        assert rows_of(found[0]) == rows_of(found[1])


@pytest.mark.parametrize("how", ["", "LEFT"])
def test_as_of_with_parts_about_one_side(how):
    """They are asked before the nearest is sought: of the right side as in a subquery; of the left behind it."""
    duck = duckdb.connect()
    for name, rows in STAMPED.items():
        duck.register(name, rows)
    if not how:
        wanted = (
            "SELECT b.id, a.id AS ask FROM (SELECT * FROM bids WHERE id > 4) b ASOF JOIN "
            "(SELECT * FROM asks WHERE id % 3 > 0) a ON b.t >= a.t AND a.k = b.k"
        )
    else:
        wanted = (
            "SELECT b.id, CASE WHEN b.id > 4 THEN a.id END AS ask FROM bids b ASOF LEFT JOIN "
            "(SELECT * FROM asks WHERE id % 3 > 0) a ON b.t >= a.t AND a.k = b.k"
        )
    chosen = ", ".join(str(n) for n in STAMPED["asks"]["id"].to_pylist() if n % 3)
    tests = f"b.id > 4 AND a.id IN ({chosen})"
    due = rows_of(duck.sql(wanted).to_arrow_table())
    for spelled in (
        f"ASOF {how} JOIN asks a ON b.t >= a.t AND a.k = b.k AND {tests}",
        f"{how} ASOF JOIN asks a MATCH_CONDITION (b.t >= a.t) ON a.k = b.k AND {tests}",
    ):
        assert rows_of(sql(f"SELECT b.id, a.id AS ask FROM bids b {spelled}", **STAMPED)) == due
    assert len(due) > 10


def test_as_of_is_the_objects():
    schemas = {name: rows.schema for name, rows in STAMPED.items()}
    for condition, on in {
        "MATCH_CONDITION (a.t BETWEEN b.t - 9 AND b.t) USING (k)": AsOf("t", "t", tolerance=9, by=["k"]),
        "ON a.k = b.k AND b.t > a.t AND b.t - a.t <= 9": AsOf("t", "t", tolerance=9, by=["k"], exact=False),
        "ON b.t < a.t AND a.t <= b.t + 9 AND TRUE": AsOf("t", "t", "forward", tolerance=9, exact=False),
    }.items():
        text = f"SELECT * FROM bids b ASOF JOIN asks a {condition}"
        assert sql_spec(text, **schemas).on == on
        using = "USING" in text
        assert sql(text, **STAMPED).column_names == [
            "id",
            "k",
            "t",
            "id_right",
            *([] if using else ["k_right"]),
            "t_right",
        ]


def test_as_of_using_as_duckdb_reads_it():
    text = "SELECT * FROM bids ASOF LEFT JOIN asks USING (k, t)"
    duck = duckdb.connect()
    for name, rows in STAMPED.items():
        duck.register(name, rows)
    ours = sql(text, **STAMPED)
    assert ours.column_names == ["id", "k", "t", "id_right"]
    assert rows_of(ours) == rows_of(duck.sql(text).to_arrow_table().rename_columns(ours.column_names))


def test_tolerance_of_floating_times_is_refused_in_a_text():
    tables = {name: rows.set_column(2, "t", rows["t"].cast(pa.float64())) for name, rows in STAMPED.items()}
    for within in ("b.t - 3.5 <= a.t", "b.t - a.t <= 3.5", "b.t <= a.t + 3.5"):
        with pytest.raises(SqlError):
            sql(f"SELECT * FROM bids b ASOF JOIN asks a ON b.t >= a.t AND {within}", **tables)
    assert len(sql("SELECT * FROM bids b ASOF JOIN asks a ON b.t >= a.t AND a.k = b.k", **tables)) > 20


@pytest.mark.parametrize(
    ("criteria", "column", "said"),
    [
        ("ON a.k = b.k", 42, "one pair of times"),
        ("ON a.k = b.k AND b.t >= a.t AND a.id < b.id", 42, "one pair of times"),
        ("MATCH_CONDITION (b.t >= a.t) ON a.id < b.id", 71, "equalities of columns, and parts about one side"),
        ("MATCH_CONDITION (b.t >= a.t + 3)", 56, "at or before the other"),
        ("MATCH_CONDITION (b.t >= a.t) USING (q)", 75, "'q'"),
    ],
)
def test_refused_as_of(criteria, column, said):
    with pytest.raises(SqlError, match=said) as error:
        sql(f"SELECT * FROM bids b ASOF JOIN asks a {criteria}", **STAMPED)
    assert error.value.column == column
