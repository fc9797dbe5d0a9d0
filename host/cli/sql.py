"""`muntin sql`."""

from __future__ import annotations

import click

from muntin.host.cli.join import places
from muntin.host.cli.run_join import end_on_sigterm


@click.command()
@click.argument("text")
@click.option(
    "--table",
    "given",
    multiple=True,
    metavar="NAME=PLACE",
    required=True,
    help="A table of the text, and where its rows are: as LEFT of `muntin join`; given again: another one.",
)
@click.option("--device", default="cpu", show_default=True, help="As `muntin devices` lists them.")
@click.option("--explain", is_flag=True, help="Tell what runs where, and join nothing.")
@places
def sql(
    text: str,
    given: tuple[str, ...],
    device: str,
    explain: bool,
    output: str,
    file_format: str | None,
    output_format: str | None,
) -> None:
    """Join tables as TEXT says, a SELECT over joins.

    \b
      muntin sql "SELECT b.venue, count(*) AS n FROM bids b JOIN asks a ON a.price BETWEEN b.limit - 5 AND b.limit + 5
                  GROUP BY b.venue" --table bids=bids.csv --table asks=s3://bucket/asks/

    The joins run here, what is around them in DuckDB, in this process. The tables are read whole.
    """
    from muntin.host.files import STANDARD, TableReader, TableWriter, refuse_replacing
    from muntin.query import sql as run
    from muntin.query import sql_explain

    found: dict[str, str] = {}
    for each in given:
        name, equals, place = each.partition("=")
        if not (name and equals and place):
            raise click.UsageError(f"--table must be like bids=bids.parquet, not {each!r}")
        if name in found:
            raise click.UsageError(f"--table {name} is given twice")
        if place == STANDARD and place in found.values():
            raise click.UsageError("two tables are standard input: one of them can be")
        found[name] = place
    end_on_sigterm()
    tables = {}
    for name, place in found.items():
        reader = TableReader(place, 1 << 17, file_format)
        refuse_replacing(output, reader)
        tables[name] = reader.read()
    if explain:
        click.echo(sql_explain(text, tables=tables))
        return
    result = run(text, tables=tables, device=device)
    with TableWriter(output, result.schema, output_format or file_format) as writer:
        writer.write(result)
