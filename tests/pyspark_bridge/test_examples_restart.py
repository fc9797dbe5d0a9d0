"""The examples of the pages with streams: stopped, started again from their checkpoint, and compared with DuckDB."""

import datetime as dt
import functools
import json
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
from pyspark.sql import functions as F

from muntin import Rows
from muntin.host.daemon import start_private
from muntin.pyspark_bridge import window_join

DOCS = Path(__file__).parents[2] / "docs"
START = dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)
#: Of each stream its columns, the delay of its watermark where an example leaves it out, and its rows by run. Times are
#: seconds after START.
STREAMS = {
    "bids": ("id BIGINT, venue STRING, limit BIGINT", None,
             [[(1, "x", 100), (2, "x", 105), (3, "y", 120)], [(4, "x", 97), (5, None, 101)]]),
    "asks": ("ask BIGINT, venue STRING, price BIGINT", None,
             [[(7, "x", 103), (8, "y", 300)], [(9, "x", 110), (10, "y", 119), (11, None, 100)]]),
    "imps": ("ad_id BIGINT, imp_time TIMESTAMP", ("imp_time", "10 seconds"),
             [[(1, 0), (2, 5), (3, 7)], [(4, 200), (5, 200)]]),
    "clicks": ("ad_id BIGINT, click_time TIMESTAMP", ("click_time", "10 seconds"),
               [[(1, 50), (2, 70)], [(3, 66), (4, 220), (4, 261)]]),
    "orders": ("order BIGINT, ordered TIMESTAMP", None, [[(1, 0), (2, 0)], [(3, 1000)]]),
    "payments": ("order BIGINT, paid TIMESTAMP", None, [[(1, 300)], [(2, 301), (3, 900)]]),
    "bid": ("id BIGINT, venue STRING, price BIGINT, at TIMESTAMP", None,
            [[(1, "x", 100, 0), (2, "x", 100, 5)], [(3, "y", 100, 5), (4, "x", 90, 40)]]),
    "ask": ("id BIGINT, venue STRING, price BIGINT, at TIMESTAMP", None,
            [[(7, "x", 104, 20), (8, "x", 95, 31)], [(9, "x", 106, 6), (10, "x", 95, 35)]]),
    "sales": ("sku BIGINT, price BIGINT", None, [[(1, 5), (2, 5)], [(1, 9), (3, 1)]]),
}  # fmt: skip
OFFERS = pa.table({"offer_sku": [1, 1, 3], "low": [4, 5, 2], "high": [6, 9, 8]})
#: A page, how an example begins there, two columns of its result, and the same of DuckDB.
EXAMPLES = [
    ("spark.md", 'window_join(bids.alias("b")', "id", "ask",
     "SELECT b.id, a.ask FROM bids b LEFT JOIN asks a ON a.venue = b.venue AND a.price BETWEEN b.limit - 5 AND "
     "b.limit + 5 WHERE a.ask IS NOT NULL OR b.venue IS NULL"),
    ("spark.md", "window_join(imps, clicks", "ad_id", "click_time",
     "SELECT i.ad_id, c.click_time FROM imps i LEFT JOIN clicks c ON i.ad_id = c.ad_id AND "
     "c.click_time BETWEEN i.imp_time AND i.imp_time + INTERVAL 1 MINUTE "
     "WHERE c.ad_id IS NOT NULL OR i.imp_time + INTERVAL 1 MINUTE <= "
     "least((SELECT max(imp_time) FROM imps), (SELECT max(click_time) FROM clicks)) - INTERVAL 10 SECOND"),
    ("spark.md", "pairs(", "id", "id_right",
     "SELECT b.id, a.id FROM bid b JOIN ask a ON a.venue = b.venue AND a.price BETWEEN b.price - 5 AND b.price + 5 "
     "AND a.at BETWEEN b.at - INTERVAL 30 SECOND AND b.at + INTERVAL 30 SECOND"),
    ("migrating.md", "window_join(orders.withWatermark", "order", "paid",
     'SELECT o."order", p.paid FROM orders o LEFT JOIN payments p ON o."order" = p."order" AND '
     "p.paid BETWEEN o.ordered - INTERVAL 5 MINUTE AND o.ordered + INTERVAL 5 MINUTE "
     "WHERE p.paid IS NOT NULL OR o.ordered + INTERVAL 5 MINUTE <= "
     "least((SELECT max(ordered) FROM orders), (SELECT max(paid) FROM payments)) - INTERVAL 1 MINUTE"),
    ("contract.md", "window_join(sales, offers", "sku", "high",
     "SELECT s.sku, o.high FROM sales s LEFT JOIN offers o ON sku = offer_sku AND price BETWEEN low AND high"),
]  # fmt: skip


def called(page, start):
    """The call in a page that begins so."""
    text = (DOCS / page).read_text()
    begin, depth = text.index(start), 0
    for at, letter in enumerate(text[begin:], begin):
        depth += (letter == "(") - (letter == ")")
        if letter == ")" and not depth:
            return text[begin : at + 1]
    raise AssertionError(f"{start} in {page} does not end")


def table_of(name, runs):
    """The rows of a stream in some runs."""
    columns, _, rows = STREAMS[name]
    names, kinds = zip(*(column.split() for column in columns.split(", ")), strict=True)
    given = zip(*(row for run in rows[runs] for row in run), strict=True)
    types = {"BIGINT": pa.int64(), "STRING": pa.string(), "TIMESTAMP": pa.timestamp("us", tz="UTC")}
    arrays = [
        pa.array(
            [START + dt.timedelta(seconds=each) for each in values] if kind == "TIMESTAMP" else values, types[kind]
        )
        for kind, values in zip(kinds, given, strict=True)
    ]
    return pa.table(arrays, names=list(names))


def messages(table):
    """As messages of a topic."""
    values = [json.dumps(row, default=dt.datetime.isoformat).encode() for row in table.to_pylist()]
    return pa.table({"value": pa.array(values, pa.binary())})


def test_examples_go_on_from_their_checkpoint(runner, spark, tmp_path):
    """In one query, each with windows of its own: the rows of both runs are those of all batches."""
    offers = spark.createDataFrame(OFFERS)
    blocks = (DOCS / "spark.md").read_text().split("```python\n")
    kafka = next(block.split("```")[0] for block in blocks if "def pairs(" in block)
    found = []
    for run in (0, 1):
        with start_private("numpy") as daemon:  # each run its own, which ends with it
            join = functools.partial(window_join, daemon=daemon.address)
            names = {"F": F, "Rows": Rows, "window_join": join, "spark": spark, "offers": offers}
            for name, (_, watermark, _) in STREAMS.items():
                table = table_of(name, slice(run, run + 1))
                runner.write(name, run, messages(table) if name in ("bid", "ask") else table)
                frame = runner.stream(name)
                names[name] = frame if watermark is None else frame.withWatermark(*watermark)
            exec(kafka, names)
            topics, place = {"bids": names["bid"], "asks": names["ask"]}, str(tmp_path / "state")
            results = []
            for number, (page, start, one, other, _) in enumerate(EXAMPLES):
                if start == "pairs(":
                    made = names["pairs"](read=topics.__getitem__, state=place)
                else:
                    made = eval(called(page, start).replace("/shared/muntin", place), names)
                columns = (F.col(name).cast("long").alias(letter) for letter, name in (("x", one), ("y", other)))
                results.append(made.select(F.lit(number).alias("example"), *columns))
            runner.run(functools.reduce(lambda one, other: one.unionAll(other), results))
        found.append(Counter(tuple(row) for _, row in runner.results["query"]))
    database = duckdb.connect()
    database.register("offers", OFFERS)
    for name in STREAMS:
        database.register(name, table_of(name, slice(None)))
    for number, (_, start, _, _, query) in enumerate(EXAMPLES):
        due = Counter(tuple(map(whole, row)) for row in database.sql(query).fetchall())
        first, both = (Counter({row[1:]: n for row, n in rows.items() if row[0] == number}) for rows in found)
        assert both == due, start
        assert 0 < len(first) < len(both), start


def whole(value):
    """A time as seconds since 1970."""
    return int(value.timestamp()) if isinstance(value, dt.datetime) else value
