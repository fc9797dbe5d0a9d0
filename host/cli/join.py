"""`muntin join`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command()
@click.argument("left", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.argument("right", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--on",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="See above; given again: or, with --all-of: and.",
)
@click.option("--all-of", is_flag=True, help="All --on must hold, rather than one of them.")
@click.option(
    "--where",
    "wheres",
    multiple=True,
    metavar="TEST",
    help='Rows that fail it match nothing: "left.price > 10"; given again: and.',
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
@click.option("--sequence", metavar="COLUMN", help="Arrival order over both files; each must ascend by it.")
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
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File; CSV to standard output without.",
)
def join(**options: Any) -> None:
    """Join two files: parquet, CSV or Arrow, by their ending.

    \b
    CONDITION is one of
      "limit,price,-5,5"     a band: -5 <= right price - left limit <= 5; either end may be empty (open),
                             durations such as "-10 minutes" for dates and timestamps
      "limit < price"        left column, one of = < <= > >= != <=>, right column
      "left.venue = right.venue AND right.price BETWEEN left.limit - 5 AND left.limit + 5"
                             in SQL; a column that one side alone has may stand by its name alone;
                             TRUE joins every pair of rows of the windows
    Give --left-rows and --right-rows, or --within, of which one end may be empty (open). Without, the first pair
    of timestamps, one of each side, whose difference --on bounds at both ends is the time window (all of them with
    --all-of); else there is no window, and every row is kept.

    \b
    An as-of join has --as-of instead, and no window:
      --as-of bid_time,ask_time --by venue --tolerance "10 seconds" --how left
    Its rows come out at the end, as the files need not be in order of time.

    \b
    Which rows a count window holds depends on the order of arrival:
      with --sequence     both files are merged by that column; where it is equal, left rows come first
      without             batch i of LEFT arrives before batch i of RIGHT, --batch-rows each: rows of the two
                          files that stand at about the same place meet. Choose a sequence where there is one.
    A time window is the same in any order. No watermark is used over files: no row is late, none is dropped,
    and the device must hold both files' keys.

    \b
    The rows of an outer or anti join that match nothing come out as soon as no later row can match them,
    in a time window at the end.

    The result appears at --output once it is complete; a file that stood there is replaced then.
    """

    from muntin.host.cli.run_join import run_join  # numpy and pyarrow, which help needs not

    run_join(**options)
