"""Whole SELECTs over joins: their rows are DuckDB's, which runs the same text on the same tables."""

import re
import subprocess
import sys

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import JoinSpec, Rows, join, sql, sql_explain, sql_spec
from muntin.errors import SchemaError, SqlError, UnsupportedError, WindowError
from muntin.host import tables_sql
from tests.host.test_sql import ASKS, BIDS, DUCK, TABLES, TYPED, rows_of

JOINED = 'bids b JOIN asks a ON a.price = b."limit"'


def check(text: str, **options: object) -> pa.Table:
    """Muntin's rows, which are DuckDB's; in its order where there is one."""
    ours = sql(text, **TABLES, **options)
    theirs = DUCK.sql(text).to_arrow_table()
    assert rows_of(ours) == rows_of(theirs.rename_columns(ours.column_names))
    if "ORDER BY" in text.rpartition(")")[2]:
        assert list(map(str, ours.to_pylist())) == list(map(str, theirs.rename_columns(ours.column_names).to_pylist()))
    return ours


TEXTS = [
    f"SELECT b.id + 1 AS n, a.high / 2, CASE WHEN a.flag THEN 'yes' ELSE lower(a.venue) END FROM {JOINED}",
    f"SELECT b.venue, count(*) AS n, sum(a.fee) AS total FROM {JOINED} WHERE a.id + b.id > 20 "
    "GROUP BY b.venue HAVING count(*) > 1 ORDER BY n DESC, b.venue NULLS FIRST LIMIT 5",
    f"SELECT count(*) FROM {JOINED}",
    f"SELECT DISTINCT b.venue, a.venue AS other FROM {JOINED}",
    f"SELECT b.span.end, max(a.fee) AS fee FROM {JOINED} GROUP BY ALL ORDER BY ALL",
    f"SELECT b.id, row_number() OVER w AS r FROM {JOINED} WINDOW w AS (PARTITION BY b.venue ORDER BY b.id, a.id) "
    "QUALIFY r < 4 ORDER BY b.id, r",
    f"SELECT b.* EXCLUDE (raw, span) REPLACE (b.id + 1 AS id), a.id FROM {JOINED}",
    f"SELECT id * 2 AS id FROM (SELECT b.id FROM {JOINED}) ORDER BY id",
    f"SELECT b.id AS venue FROM {JOINED} ORDER BY venue",
    f"SELECT b.id, a.id AS o FROM {JOINED} UNION ALL SELECT id, NULL FROM bids ORDER BY 1, 2",
    "SELECT t.id FROM (bids t JOIN asks a USING (id)) JOIN bids c USING (id)",
    "FROM bids b JOIN range(9) r(i) ON b.id = r.i SELECT b.id, i",
    # WHERE
    'SELECT * FROM bids b LEFT JOIN asks a ON b."limit" = a.price WHERE a.id IS NULL OR a.id > 3',
    'SELECT b.id FROM bids b ANTI JOIN asks a ON b."limit" < a.price WHERE b.flag OR b.fee > 0.3',
    "SELECT b.id, a.id AS o FROM bids b ASOF LEFT JOIN asks a ON b.id >= a.id WHERE NOT (a.id > 3)",
    f"SELECT b.id, a.id AS o FROM {JOINED} WHERE a.id * b.id > 100 AND EXISTS (SELECT 1 FROM asks c WHERE c.id = b.id "
    "+ 1 AND price > 4)",
    f"SELECT b.id FROM {JOINED} WHERE a.id IN (SELECT id FROM bids WHERE bids.venue = a.venue)",
    # Several joins
    'SELECT b.id, a.id AS x, c.id AS y FROM bids b JOIN asks a ON a.price = b."limit" LEFT JOIN bids c ON c.id = a.id '
    "AND c.id < 30",
    'SELECT * FROM bids b LEFT JOIN asks a ON a.price = b."limit" RIGHT JOIN asks c ON c.id = a.id JOIN bids d '
    "ON d.id BETWEEN c.id - 1 AND c.id",
    'SELECT b.id, a.id AS x, c.id AS y FROM bids b, asks a, bids c WHERE a.id = b.id AND c.id = a.id AND c."limit" > 3',
    'SELECT b.id, c.id AS y FROM bids b SEMI JOIN asks a ON a.price = b."limit" FULL JOIN bids c ON c.id = b.id + 1',
    "SELECT b.id FROM bids b ASOF JOIN asks a ON b.id > a.id JOIN bids c ON c.time = a.time WHERE c.id < b.id",
    # USING, NATURAL
    "SELECT * FROM bids b JOIN asks a USING (id, venue)",
    "SELECT id, b.venue, a.venue AS av FROM bids b FULL JOIN asks a USING (id) WHERE id > 50",
    "SELECT * FROM (SELECT id, time AS l FROM bids) b RIGHT JOIN (SELECT id, price FROM asks) a USING (id)",
    "SELECT id, b.fee, c.fee AS f FROM bids b FULL JOIN asks a USING (id) FULL JOIN (SELECT id + 65 AS id, fee FROM "
    "bids) c USING (id)",
    "SELECT b.id, a.id AS o, c.id AS p FROM bids b JOIN asks a USING (venue) JOIN bids c USING (venue) WHERE b.id < 5",
    "SELECT * FROM (SELECT id, venue, fee FROM bids) b NATURAL LEFT JOIN (SELECT id, price, venue FROM asks) a",
    "SELECT * FROM (SELECT id, fee FROM bids) b NATURAL SEMI JOIN (SELECT id, price FROM asks) a",
    # WITH, subqueries
    "WITH x AS (SELECT b.id, a.price FROM bids b JOIN asks a ON a.id = b.id), y(i, n) AS (SELECT id, count(*) FROM "
    "bids GROUP BY id) SELECT x.*, y.n FROM x JOIN y ON x.id = y.i WHERE x.price > (SELECT avg(price) FROM asks)",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT n.i, b.venue FROM n JOIN bids "
    "b ON b.id = n.i",
    "WITH bids AS (SELECT id + 1 AS id FROM bids) SELECT bids.id, a.price FROM bids JOIN asks a ON a.id = bids.id",
    'SELECT b.id, (SELECT count(*) FROM asks q JOIN bids r ON q.id = r.id WHERE q.price > b."limit") AS n FROM bids b '
    "JOIN asks a USING (id)",
    "SELECT b.id, t.x FROM bids b JOIN asks a ON a.id = b.id, UNNEST([a.id, b.id + 100]) t(x)",
    # What is left behind inner joins
    'SELECT b.id, a.id AS o FROM bids b JOIN asks a ON a.price = b."limit" AND a.id * b.id > 99 AND (a.flag OR b.flag)',
    'SELECT b.id, c.id AS o FROM bids b JOIN asks a ON a.price = b."limit" LEFT JOIN asks c ON c.id = a.id JOIN bids d '
    "ON d.id = b.id AND d.id + a.id + b.id < 90 WHERE a.venue || d.id = 'x' || c.id OR b.venue = 'y' AND c.flag",
    "SELECT b.id, a.id AS x, c.id AS y FROM bids b JOIN asks a ON a.venue = b.venue AND NOT (a.id * b.id < 99) FULL "
    "JOIN bids c ON c.id = a.id AND c.time <= b.time",
    'SELECT b.id, a.id AS o, a.venue FROM bids b LEFT JOIN asks a ON a.price = b."limit" AND a.id * b.id > 99',
    'SELECT * FROM bids b FULL JOIN asks a ON a.price < b."limit" AND a.id * b.id > 99 WHERE a.id > 3 OR b.flag',
    'SELECT a.id, count(*) AS n FROM bids b RIGHT JOIN asks a ON a.price = b."limit" AND (a.flag OR b.flag) GROUP BY 1',
    'SELECT b.id FROM bids b SEMI JOIN asks a ON a.price = b."limit" AND a.id * b.id > 99',
    'SELECT b.id, c.id AS o FROM bids b ANTI JOIN asks a ON a.price = b."limit" AND a.id * b.id > 99 LEFT JOIN bids c '
    "ON c.id = b.id + 1 AND (c.flag OR b.flag)",
    # Names
    "SELECT b.id FROM bids b JOIN asks a USING (id) WHERE EXISTS (SELECT 1 FROM asks b WHERE b.id = a.id + 9)",
    "SELECT b.id + 1 AS x, x * 2 AS y FROM bids b JOIN asks a USING (id)",
    f"SELECT b.id AS price FROM {JOINED} ORDER BY price",
    f"SELECT b.id % 2 AS odd, count(*) FILTER (WHERE a.flag) AS n FROM {JOINED} GROUP BY odd HAVING n > 3 ORDER BY odd",
    "SELECT b.i FROM bids AS b(i, l) JOIN asks a ON a.id = b.i",
    "SELECT b.id, l.v FROM bids b JOIN asks a USING (id), LATERAL (SELECT a.price + b.id AS v) l",
    # Computed before the join
    'SELECT b.id, a.id AS o FROM bids b JOIN asks a ON CAST(a.high AS BIGINT) = b."limit"',
    'SELECT b.id, a.id AS o FROM bids b LEFT JOIN asks a ON a.price * 2 BETWEEN b."limit" - 5 AND b."limit" + 5',
    "SELECT b.id, a.id AS o FROM bids b FULL JOIN asks a ON upper(a.venue) = upper(b.venue) AND a.venue LIKE 'x%'",
    'SELECT b.id, a.id AS o FROM bids b JOIN asks a ON a.price - a.id < b."limit" - b.id AND NOT (a.id % 3 = 1)',
    "SELECT b.id, a.id AS o FROM bids b JOIN asks a ON a.high + 0.1 <= b.low AND b.low + 0.1 < a.high + 0.3",
    "SELECT b.id, a.id AS o FROM bids b JOIN asks a ON a.time < b.time + INTERVAL 1 MONTH AND a.id < a.price",
    'SELECT b.id, a.id AS o FROM bids b JOIN asks a ON a.price IS NOT DISTINCT FROM b."limit" + 1 AND (a.flag OR '
    "a.venue LIKE 'y')",
    "SELECT b.id, a.id AS o FROM bids b JOIN asks a USING (venue) JOIN bids c ON c.id = a.id + b.id AND c.id = "
    "abs(b.id)",
    "SELECT b.id, a.id AS o FROM bids b ASOF JOIN asks a ON b.id * 3 >= a.id AND lower(a.venue) = lower(b.venue)",
]


@pytest.mark.parametrize("text", TEXTS)
def test_selects_as_duckdb_reads_them(text):
    assert len(check(text)) > 0


#: Parts of random texts over `TYPED`: floats are added up in any order, so they are not.
CONDITIONS = [
    "l.i = r.j", "r.j BETWEEN l.i - 1 AND l.i + 2", "l.day = r.due AND l.i <> r.j", "l.s = r.u AND l.n < r.m",
    "r.v BETWEEN l.t - INTERVAL 2 SECONDS AND l.t", "l.i * 2 = r.j + 1", "upper(l.s) = upper(r.u)", "l.f AND r.g",
    "CAST(l.x AS BIGINT) = r.m", "l.d + l.i >= r.e AND l.b = r.c", "l.x + 0.25 <= r.y",
    "l.id + 3 < r.id OR l.id > r.id", "coalesce(l.i, 0) = coalesce(r.j, 0)", "length(l.s) < r.j AND r.u LIKE 'b%'",
]  # fmt: skip
#: Beside others.
BOTH = ["l.i * r.j < 3", "l.s || r.u <> 'ab'", "l.i = r.j OR l.s = r.u", "l.n + r.m + l.i > 1"]
SECOND = ["JOIN l q ON q.id = l.id", "LEFT JOIN r q ON q.id BETWEEN l.id AND l.id + 1", "FULL JOIN l q ON q.i = r.j",
          "RIGHT JOIN l q ON q.id = r.id AND q.f", "SEMI JOIN r q ON q.m > l.n",
          ", l q WHERE q.id = r.id AND "]  # fmt: skip
TESTS = ["l.i > 0", "r.j IS NULL", "l.i + r.j < 5", "l.s = 'a' OR r.u = 'b'", "NOT (l.f AND r.g)", "l.day < r.due",
         "r.id IN (SELECT id FROM l WHERE l.i > 1)", "EXISTS (SELECT 1 FROM r z WHERE z.j = l.i)",
         "l.n * r.m <> 4"]  # fmt: skip
COLUMNS = ["l.id", "r.id", "l.i + 1", "CASE WHEN r.g THEN l.s ELSE r.u END", "l.x / 2", "coalesce(l.n, r.m)", "r.due",
           "l.i IS NULL", "extract(year FROM l.day)", "upper(l.s) || coalesce(r.u, '?')"]  # fmt: skip
TOTALS = ["count(*)", "sum(l.i)", "max(r.m)", "count(DISTINCT l.s)", "min(coalesce(r.u, l.s))", "bool_or(l.f)"]


@st.composite
def selects(draw: st.DrawFn, both: tuple[str, ...] = ("", "LEFT", "RIGHT", "FULL")) -> str:
    """A SELECT around a join of `TYPED`, or two; `both` are those that take `BOTH`."""
    some = lambda of, most: draw(st.lists(st.sampled_from(of), max_size=most, unique=True))  # noqa: E731
    how = draw(st.sampled_from(["", "LEFT", "RIGHT", "FULL"]))
    second = draw(st.sampled_from(["", "", *SECOND]))
    parts = [*(some(CONDITIONS, 2) or ["l.id = r.id"]), *(some(BOTH, 1) if how in both else [])]
    joined = f"l {how} JOIN r ON {' AND '.join(f'({each})' for each in draw(st.permutations(parts)))}"
    tests = some(TESTS, 2)
    if second.startswith(","):
        joined, tests = joined + second, tests or ["l.i < 3"]
    else:
        joined += f" {second} WHERE " if tests else f" {second}"
    joined += " AND ".join(f"({each})" for each in tests)
    columns = some(COLUMNS, 3) or ["l.id"]
    if draw(st.booleans()):
        totals = some(TOTALS, 3) or ["count(*)"]
        made = [f"{each} AS c{at}" for at, each in enumerate([*columns, *totals])]
        text = f"SELECT {', '.join(made)} FROM {joined} GROUP BY {', '.join(columns)}"
        if draw(st.booleans()):
            text += " HAVING count(*) > 1"
    else:
        made = [f"{each} AS c{at}" for at, each in enumerate(columns)]
        text = f"SELECT {draw(st.sampled_from(['', 'DISTINCT ']))}{', '.join(made)} FROM {joined}"
    order = f"ORDER BY {', '.join(f'c{at}' for at in range(len(made)))} NULLS FIRST"
    around = draw(st.sampled_from(["", order, f"{order} LIMIT 3", "WITH", "()"]))
    if around == "WITH":
        return f"WITH z AS ({text}) SELECT c0, count(*) AS n FROM z GROUP BY ALL UNION ALL SELECT c0, 0 FROM z"
    return f"SELECT z.* FROM ({text}) z WHERE c0 IS NOT NULL" if around == "()" else f"{text} {around}"


@settings(max_examples=60, deadline=None)
@given(text=selects())
def test_random_selects_as_duckdb_reads_them(text):
    ours = sql(text, **TYPED)
    theirs = DUCK.sql(text).to_arrow_table()
    assert ours.column_names == theirs.column_names
    assert rows_of(ours) == rows_of(theirs)


def test_names_of_results():
    assert sql(f"SELECT b.id, a.id, b.id + 1, count(*) FROM {JOINED} GROUP BY ALL", **TABLES).column_names == [
        "id", "id_right", "b.id + 1", "COUNT(*)",
    ]  # fmt: skip
    three = sql("SELECT * FROM bids b JOIN asks a USING (id) JOIN bids c ON c.id = a.id", **TABLES)
    assert [name for name in three.column_names if name.startswith("venue")] == [
        "venue", "venue_right", "venue_right_right",
    ]  # fmt: skip
    frames = {name: table.select(["id", "venue"]).to_pandas() for name, table in TABLES.items()}
    made = sql("SELECT b.venue, count(*) AS n FROM bids b JOIN asks a USING (id) GROUP BY 1", **frames)
    assert isinstance(made, pd.DataFrame)
    assert made["n"].sum() == 60


def test_columns_keep_the_types_that_duckdb_has_not():
    kinds = {
        "large": pa.large_string(), "day": pa.date64(), "time": pa.time32("s"),
        "zone": pa.timestamp("us", "Asia/Tokyo"), "list": pa.large_list(pa.int8()),
        "of": pa.dictionary(pa.int8(), pa.string()), "gap": pa.duration("s"), "fine": pa.duration("ns"),
        "code": pa.dictionary(pa.int8(), pa.int64()), "half": pa.float16(),
    }  # fmt: skip
    values = [["x", None], [None, 86_400_000], [1, None], [None, 7], [[1], None], ["a", None], [-90_000_000, None],
              [None, 86_400_000_000_001_000], [7, None], [1.5, None]]  # fmt: skip
    rows = pa.table({"id": [1, 2], **{n: pa.array(v, kinds[n]) for n, v in zip(kinds, values, strict=True)}})
    found = sql(f"SELECT {', '.join(kinds)} FROM a JOIN b USING (id) ORDER BY id * 2", a=rows, b=rows.select(["id"]))
    assert found.equals(rows.drop_columns("id"))
    frame = rows.select(["id", "of"]).to_pandas()
    assert sql("SELECT a.of, id + 1 AS n FROM a JOIN b USING (id)", a=frame, b=frame)["of"].dtype == "category"
    frame = pd.DataFrame({"id": [1, 2], "size": pd.Categorical(["L", "S"], ["S", "M", "L"], ordered=True)})
    for around in ("", "ORDER BY 2", "LIMIT 0"):
        made = sql(f"SELECT a.size, id + 1 AS n FROM a JOIN b USING (id) {around}", a=frame, b=frame)
        assert made["size"].dtype == frame["size"].dtype
    assert made.empty


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pa.array([1_001], pa.duration("ns")), "'a_c' of type duration[ns] has a value that DuckDB would change"),
        (pa.array([400 * 365 * 86_400], pa.duration("s")), "'a_c' of type duration[s] has a value"),
        (pa.array([pa.MonthDayNano([1, 2, 3])]), "'a_c' of type month_day_nano_interval has a value"),
        (pa.array([[pa.MonthDayNano([1, 2, 3000])]]), "has month_day_nano_interval within it, of which"),
        (pa.array([1], pa.decimal256(50)), "'a_c' of type decimal256(50, 0) is none that DuckDB has"),
        (
            pa.array([{"gaps": [1_001]}], pa.struct([("gaps", pa.list_(pa.duration("ns")))])),
            "'a_c' of type struct<gaps: list<item: duration[ns]>> has duration[ns] within it, of which",
        ),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.duration("s"))), "has duration[s] within it"),
    ],
)
def test_values_that_duckdb_would_change(column, told):
    rows = pa.table({"id": [1], "c": column})
    assert sql("SELECT a.c FROM a JOIN b USING (id)", a=rows, b=rows)["c"].combine_chunks() == column
    with pytest.raises(SqlError, match=re.escape(told)):
        sql("SELECT a.c FROM a JOIN b USING (id) ORDER BY 1", a=rows, b=rows)


@pytest.mark.parametrize("kind", [pa.timestamp("ns", "UTC"), pa.time64("ns")])
def test_nanoseconds_are_kept_or_refused(kind):
    rows = pa.table({"id": [1], "c": pa.array([1_001], kind)})
    try:  # earlier versions of DuckDB have microseconds alone
        found = sql("SELECT a.c FROM a JOIN b USING (id) ORDER BY 1", a=rows, b=rows)
    except SqlError as error:
        assert "has a value that DuckDB would change" in str(error)  # noqa: PT017 - either is right
    else:
        assert found["c"].equals(rows["c"])


def test_names_that_duckdb_has_not():
    """Dots, and those that differ in case alone."""
    rows = pa.table({"ID": [1, 2], "id": [2, 3], "x.y": [5, 7], "s": [{"f": 0}, {"f": 1}]})
    other = pa.table({"k": [2, 3]})
    text = 'SELECT a."ID", b.k FROM a JOIN b ON a.id * 2 + a."ID" - a."ID" = b.k * 2'
    assert sql(text, a=rows, b=other).to_pylist() == [{"ID": 1, "k": 2}, {"ID": 2, "k": 3}]
    text = 'SELECT b.k FROM a JOIN b ON a."x.y" * 1 + a.s.f = b.k * 2 + 1'
    assert sql(text, a=rows, b=other).to_pylist() == [{"k": 2}]
    with pytest.raises(SqlError, match="column 'id' is for DuckDB the same as 'ID'"):
        sql("SELECT a.id FROM (SELECT * FROM a) a JOIN b ON a.id = b.k", a=rows, b=other)


def test_what_duckdb_says_of_a_condition():
    with pytest.raises(SqlError, match=r"line 1, column .*DuckDB: Conversion Error: Could not convert string '1x'"):
        sql("SELECT * FROM a JOIN b ON CAST(a.i || 'x' AS INT) = b.i", a=pa.table({"i": [1]}), b=pa.table({"i": [1]}))


def test_tables_and_rows_that_are_no_such():
    twice = pa.table([[1], [2]], names=["id", "id"])
    with pytest.raises(SchemaError, match="the table 'a' has several columns 'id': rename all but one"):
        sql("SELECT * FROM a JOIN b USING (id)", a=twice, b=twice)
    for rows in (5, (1, 2, 3), "12"):
        with pytest.raises(WindowError, match="must be what is kept of both sides"):
            sql("SELECT * FROM a JOIN a b USING (id)", a=twice.select([0]), rows=rows)
        with pytest.raises(WindowError, match="must be what is kept of both sides"):
            join(twice.select([0]), twice.select([0]), "id", rows=rows)


def test_names_behind_joins_by_name():
    a, b = pa.table({"k": [1, 2], "v": [3, 4]}), pa.table({"k": [2, 5]})
    assert sql("SELECT k FROM a JOIN b USING (k) ANTI JOIN b c ON c.k > a.k + 2", a=a, b=b).to_pylist() == []
    assert sql("SELECT k FROM a ANTI JOIN b ON b.k = a.k", a=a, b=b).to_pylist() == [{"k": 1}]
    with pytest.raises(SqlError, match=r"several tables have a column 'k': write c\.k"):
        sql("SELECT k FROM a JOIN b USING (k) JOIN b c ON c.k > a.k", a=a, b=b)


def test_tables_of_any_name():
    named = {"rows": BIDS, "times": ASKS, "of all kinds": BIDS, "text": ASKS, "suffix": ASKS, "tables": ASKS}
    text = 'SELECT r.id, q.id AS o FROM rows r JOIN {} q ON q.id = r.id JOIN "of all kinds" s ON s.id = r.id'
    wanted = sql("SELECT r.id, q.id AS o FROM b r JOIN a q ON q.id = r.id", b=BIDS, a=ASKS)
    for other in ("times", "text", "suffix", "tables"):
        assert rows_of(sql(text.format(other), tables=named)) == rows_of(wanted)
    plain = "SELECT r.id, q.id AS o FROM rows r JOIN suffix q ON q.id = r.id"
    assert rows_of(sql(plain, rows=BIDS, suffix=ASKS)) == rows_of(wanted)
    text = (
        'SELECT "T".id, (SELECT count(*) FROM "t") AS n, (SELECT count(*) FROM "T") AS m FROM "T" JOIN "t" c USING (id)'
    )
    cased = sql(text, tables={"T": BIDS.slice(0, 7), "t": ASKS})
    assert cased["n"].to_pylist() == [70] * 7
    assert cased["m"].to_pylist() == [7] * 7
    with pytest.raises(SchemaError, match="'rows' is given twice"):
        sql(plain, rows=BIDS, tables=named)
    with pytest.raises(UnsupportedError, match="no parameter of this name; there is partitions="):
        sql(f"SELECT * FROM {JOINED}", **TABLES, partition=2)


def test_options_of_one_join():
    text = "SELECT * FROM bids b JOIN asks a ON a.id = b.id JOIN asks c ON c.id = b.id"
    for options in ({"rows": (3, 3)}, {"times": ("id", "id")}, {"form": "pairs"}):
        with pytest.raises(WindowError, match=f"{next(iter(options))}=.*for one join, and this text has 2"):
            sql(text, **TABLES, **options)
    with pytest.raises(SqlError, match="form='pairs' is for a join alone"):
        sql(f"SELECT count(*) FROM {JOINED}", **TABLES, form="pairs")
    with pytest.raises(SqlError, match="form='counts' is for a join alone"):
        sql(f"WITH j AS (SELECT b.id FROM {JOINED}) SELECT * FROM j", **TABLES, form="counts")
    with pytest.raises(WindowError, match="a left row may always match once more"):
        sql(f"SELECT * FROM {JOINED}", **TABLES, form="aggregate", aggregates="count(*)", at="close")


@pytest.mark.parametrize("clause", ["ON", "WHERE"])
def test_a_where_is_no_window_of_rows(clause):
    """It removes no row before the last ones of each side are taken."""
    text = (
        f"SELECT b.id, a.id AS o FROM bids b JOIN asks a ON a.price < b.limit {'AND' if clause == 'ON' else 'WHERE'} "
    )
    few = sql(text + "a.id > 30 AND b.id < 40", **TABLES, rows=(20, 9))
    every = sql("SELECT b.id, a.id AS o FROM bids b JOIN asks a ON a.price < b.limit", **TABLES, rows=(20, 9))
    wanted = [row for row in every.to_pylist() if row["o"] > 30 and row["id"] < 40]
    assert rows_of(few) == rows_of(pa.Table.from_pylist(wanted))
    summed = sql(text.replace("b.id, a.id AS o", "count(*) AS n") + "a.id > 30 AND b.id < 40", **TABLES, rows=(20, 9))
    assert summed["n"].to_pylist() == [len(wanted)]


def test_explain_shows_the_cut():
    text = """
        WITH few AS (SELECT id, venue FROM bids WHERE id < 9)
        SELECT a.venue, count(*) AS n FROM few f JOIN asks a ON lower(a.venue) = f.venue LEFT JOIN bids b ON b.id = a.id
        WHERE f.id > 2 AND a.id + f.id > 3 GROUP BY a.venue"""
    told = sql_explain(text, bids=BIDS.schema, asks=ASKS.schema).splitlines()
    assert told[0] == 'DuckDB runs: SELECT id, venue FROM "bids" AS "bids" WHERE id < 9'
    assert told[1] == "join 1, here: few with asks, inner"
    assert told[2] == '  computed:  _on0 = LOWER("right"."a_venue")'
    assert "left.f_id > 2" in told[3]
    assert [line for line in told if line.startswith("join 2")] == [
        "join 2, here: the result of join 1 with bids, left"
    ]
    assert told[-1].startswith("DuckDB runs: SELECT ")
    assert told[-1].endswith('GROUP BY "joined"."a_venue"')
    with pytest.raises(UnsupportedError, match="several joins"):
        sql_spec(text, **TABLES)
    assert isinstance(sql_spec(f"SELECT count(*) FROM {JOINED}", **TABLES), JoinSpec)
    assert sql_spec(f"SELECT a.id FROM {JOINED}", **TABLES).left == Rows(60)


NO_DUCKDB = """
import sys
sys.modules["duckdb"] = None
import pyarrow as pa
from muntin import sql
from muntin.errors import MuntinError
rows = {name: pa.table({"id": [1, 2, 3], "v": [1, 2, 3]}) for name in ("a", "b", "c")}
print(sql("SELECT a.v, c.id AS i FROM a JOIN b USING (id) JOIN c ON c.id = b.v AND a.id < 3", **rows).num_rows)
for text in ("SELECT a.v + 1 FROM a JOIN b USING (id)", "SELECT a.v FROM a JOIN b ON a.v * 2 = b.v"):
    try:
        sql(text, **rows)
    except MuntinError as error:
        print(type(error).__name__, error)
"""


def test_joins_alone_need_no_duckdb():
    ran = subprocess.run([sys.executable, "-c", NO_DUCKDB], capture_output=True, text=True, check=True)
    joined, around, computed = ran.stdout.splitlines()
    assert joined == "2"
    assert around.startswith("UnsupportedError")
    assert "pip install 'muntin[sql]'" in around
    assert computed.startswith("SqlError line 1, column 29: MUL")
    assert "pip install 'muntin[sql]'" in computed


def test_errors_of_duckdb_are_shown_without_addresses():
    error = duckdb.InternalException("INTERNAL Error: an index\nof 1\n\nStack Trace:\n\n/lib/duckdb.so(+0x1f) [0x7f]")
    assert tables_sql._said(error) == "INTERNAL Error: an index of 1"
