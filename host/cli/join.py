"""`muntin join`: its options."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

#: Options of what is read and written.
_PLACES = (
    click.option(
        "--output",
        "-o",
        metavar="PLACE",
        default="-",
        help="Where the result goes, instead of standard output: as LEFT.",
    ),
    click.option(
        "--format",
        "file_format",
        type=click.Choice(["parquet", "csv", "json", "arrow", "arrows"]),
        help="Of standard input, and of what has no ending that says it.",
    ),
    click.option(
        "--output-format",
        type=click.Choice(["parquet", "csv", "json", "arrow", "arrows"]),
        help="Of --output, where no ending says it.  [default: --format; on standard output csv]",
    ),
)


def places(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of what is read and written."""
    return functools.reduce(lambda decorated, option: option(decorated), reversed(_PLACES), command)


@click.command()
@click.argument("left")
@click.argument("right")
@click.option(
    "--on",
    multiple=True,
    metavar="CONDITION",
    help='In SQL, "price BETWEEN limit - 5 AND limit + 5"; or the name of a column that both have; given again: and.',
)
@click.option(
    "--where",
    multiple=True,
    metavar="CONDITION",
    help='About one side: rows that fail it match nothing: "left.price > 10"; given again: and.',
)
@click.option(
    "--as-of",
    "times",
    metavar="L_TIME,R_TIME",
    help="Instead of --on: each left row meets the right row nearest in time.",
)
@click.option(
    "--direction",
    type=click.Choice(["backward", "forward", "nearest"]),
    help="For --as-of: right rows at or before a left row, at or after it, or both.  [default: backward]",
)
@click.option("--tolerance", metavar="DISTANCE", help='For --as-of: the greatest distance, such as "10 seconds" or 5.')
@click.option(
    "--by",
    multiple=True,
    metavar="COLUMN",
    help='For --as-of: must be equal; "venue,market" for left and right; given again: and.',
)
@click.option("--not-exact", is_flag=True, help="For --as-of: rows of equal times do not match.")
@click.option("--left-rows", type=click.IntRange(1), metavar="N", help="Window of the left side: its last N rows.")
@click.option("--right-rows", type=click.IntRange(1), metavar="N", help="Window of the right side: its last N rows.")
@click.option("--within", metavar="L_TIME,R_TIME,LOW,HIGH", help="Time window: LOW <= R_TIME - L_TIME <= HIGH.")
@click.option("--sequence", metavar="COLUMN", help="Arrival order over both sides; each must ascend by it.")
@click.option("--device", default="cpu", show_default=True, help="As `muntin devices` lists them.")
@click.option(
    "--form",
    type=click.Choice(["rows", "pairs", "counts", "aggregate"]),
    default="rows",
    show_default=True,
    help="Of the result.",
)
@click.option(
    "--aggregate",
    "aggregates",
    multiple=True,
    metavar="AGGREGATE",
    help='For --form aggregate: "count(*)", "sum(price) as total", "last(bid) filter (where size > 5)" and others, as '
    "docs/contract.md has them; given again: and.",
)
@click.option(
    "--at",
    type=click.Choice(["arrival", "close"]),
    default="arrival",
    show_default=True,
    help="For --form aggregate: of each row's matches as it arrives, or of all those of a left row in a time window.",
)
@click.option(
    "--order",
    type=click.Choice(["none", "outer", "inner"]),
    default="none",
    show_default=True,
    help="Of the result.",
)
@click.option(
    "--index",
    default="auto",
    show_default=True,
    help="What the windows are kept in, as `muntin devices` lists them; auto: the device's default.",
)
@click.option("--suffix", default="_right", show_default=True, help="For right columns whose name the left has too.")
@click.option(
    "--select", metavar="COLUMNS", help="Columns of the result, by their names there and in this order: a,b,b_right."
)
@click.option(
    "--how",
    default="inner",
    show_default=True,
    help="inner (or cross), left, right, full, left_semi, left_anti or right_anti.",
)
@click.option("--explain", is_flag=True, help="Tell how the join is carried out, and read no rows.")
@click.option(
    "--batch-rows", type=click.IntRange(1, 1 << 31), default=65_536, show_default=True, help="Rows of a batch."
)
@places
@click.option("--state", metavar="PLACE", help="Of topics: a folder or address for what the next process goes on from.")
@click.option("--name", help="Of topics: names the join in Kafka; needed with --state.")
@click.option(
    "--dead-letters",
    metavar="kafka://HOST/TOPIC",
    help="Of topics: for messages that cannot be read, or are refused; without it they end the join.",
)
@click.option("--to-end", is_flag=True, help="Of topics: ends where they end now, rather than on Ctrl-C or SIGTERM.")
def join(**options: Any) -> None:
    """Join two tables.

    \b
    LEFT and RIGHT are each
      a file            parquet, CSV, JSON (an object a line) or Arrow by its ending: .parquet .csv .json .jsonl
                        .ndjson .arrow .feather .ipc .arrows; CSV, JSON and .arrows also with .gz .zst .bz2 .lz4
      a folder          of files of one format and with the same columns, read in the order of their paths; folders
                        named as in year=2024 are columns
      a pattern         "trades/*.csv.gz", "trades/**/*.parquet", in quotes
      an address        s3://bucket/path, gs://bucket/path and others, each of the above
      -                 standard input, with --format csv, json or arrows (the stream format of Arrow)
      kafka://...       both: topics, joined as they come; docs/kafka.md has their addresses

    CONDITION is one in SQL: columns are left.name and right.name, or a name alone that one side alone has; TRUE joins
    every pair of rows of the windows.

    Give --left-rows and --right-rows, or --within, of which one end may be empty (open). Without, the first pair
    of timestamps, one of each side, whose difference --on bounds at both ends is the time window; else there is no
    window, and every row is kept.

    \b
    An as-of join has --as-of instead, and no window:
      --as-of bid_time,ask_time --by venue --tolerance "10 seconds" --how left
    Its rows come out at the end, as the rows need not be in order of time.

    \b
    Which rows a count window holds depends on the order of arrival:
      with --sequence     both sides are merged by that column; where it is equal, left rows come first
      without             batch i of LEFT arrives before batch i of RIGHT, --batch-rows each: rows of the two
                          sides that stand at about the same place meet. Choose a sequence where there is one.
    A time window is the same in any order. No watermark is used: no row is late, none is dropped,
    and the device must hold both sides' keys.

    \b
    The rows of an outer or anti join that match nothing come out as soon as no later row can match them,
    in a time window at the end.

    A file at --output appears once it is complete; one that stood there is replaced then.
    """

    from muntin.host.cli.run_join import run_join  # numpy and pyarrow, which help needs not

    run_join(**options)
