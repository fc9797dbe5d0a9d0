"""Random joins through the command: their input in files, their conditions as text."""

from __future__ import annotations

import dataclasses
import datetime as dt
import random
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner

from muntin import First, Last
from muntin.host.cli import main
from tests.oracles.exact import DAY
from tests.random_joins import values
from tests.random_joins.case import Case, Part, Way
from tests.random_joins.values import Given

SIDES = ("left", "right")


def over_files(case: Case) -> Case | None:
    """The join of a case over files, as far as the command has it; None where it has not the like."""
    options = {name: value for name, value in case.options.items() if name not in ("engine", "capacity")}
    index, order = options.get("index"), options.get("order", "none")
    if case.self_join or options["form"] == "ranges" or not isinstance(order, str):
        return None
    if (
        case.rows is None
        and case.within is None
        and any(isinstance(a, First | Last) for a in options.get("aggregates", ()))
    ):
        return None  # bounds on times would be the time window, by whose times the first and last go
    if index is not None and (not isinstance(index, str) or "engine" in case.options):
        del options["index"]
    rng = random.Random(case.seed)
    sequence = options.get("sequence")
    sides = []
    for side, schema in enumerate(case.schemas):
        tables = [push[side] for call in case.calls for push in call if push[side] is not None]
        rows = whole(tables, schema)
        sides.append(rows if sequence is None else values.sorted_by(rows, sequence))
    batch = rng.choice([1, 3, 8, 100])
    most = 1 if sequence is not None else -(-max(map(len, sides)) // batch)
    calls = tuple(
        ((_slice(sides[0], at, batch, sequence), _slice(sides[1], at, batch, sequence)),) for at in range(most)
    )
    changed = {"options": options, "calls": calls, "delays": None, "watermark": {}, "partitions": 1}
    found = dataclasses.replace(case, **changed, way=Way("shell", max_rows=batch))
    return found if all(_text(part, found.schemas) is not None for part in _parts(found)) else None


def _slice(table: pa.Table, at: int, batch: int, sequence: str | None) -> pa.Table | None:
    if sequence is not None:
        return table
    return table.slice(at * batch, batch) if at * batch < len(table) else None


def whole(tables: list[pa.Table], schema: pa.Schema) -> pa.Table:
    """All rows of a side."""
    return pa.Table.from_batches([batch for table in tables for batch in table.to_batches()], schema)


def _parts(case: Case) -> tuple[Part, ...]:
    return case.parts if case.as_of is None else case.as_of["where"]


def results(case: Case) -> Iterator[tuple[str, list[pa.Table]]]:
    """What the command writes."""
    rng = random.Random(case.seed)
    with tempfile.TemporaryDirectory(prefix="muntin-") as name:
        folder = Path(name)
        places = []
        for side, which in enumerate(SIDES):
            tables = [call[0][side] for call in case.calls if call[0][side] is not None]
            places.append(_written(folder / which, whole(tables, case.schemas[side]), rng))
        out = folder / "out.arrows"
        words = ["join", *places, *_options(case, rng), "-o", out]
        told = CliRunner().invoke(main, ["--debug", *map(str, words)])
        if told.exit_code:
            raise told.exception if told.exception.args != (2,) else AssertionError(f"{words}: {told.output}")
        yield "all", [pa.ipc.open_stream(out.read_bytes()).read_all()]


def _written(place: Path, table: pa.Table, rng: random.Random) -> Path:
    """Some files, of a format that holds the types."""
    ending = rng.choice(["parquet", "arrow", "arrows", "arrows.zst"])
    if ending == "parquet":
        try:
            pq.write_table(table, place, row_group_size=rng.choice([2, 100]))
            ending = ending if pq.read_schema(place).equals(table.schema) else "arrows"
        except (pa.ArrowException, OSError):
            ending = "arrows"
        place.unlink(missing_ok=True)
    if ending == "arrow" and "dictionary" in str(table.schema):  # of which a file takes one a column
        ending = "arrows"
    place.mkdir()
    cut = rng.randint(0, len(table)) if rng.random() < 0.4 else len(table)
    for number, part in enumerate([table.slice(0, cut), table.slice(cut)][: 2 if cut < len(table) else 1]):
        path = str(place / f"{number}.{ending}")
        if ending == "parquet":
            pq.write_table(part, path, row_group_size=rng.choice([2, 100]))
            continue
        kind = pa.ipc.new_file if ending == "arrow" else pa.ipc.new_stream
        with pa.output_stream(path, compression="detect") as sink, kind(sink, part.schema) as writer:
            writer.write_table(part, rng.choice([3, 100]))
    return place


def _options(case: Case, rng: random.Random) -> Iterator[Any]:
    options = case.options
    if case.as_of is not None:
        about = case.as_of
        yield from ("--as-of", f"{about['left_time']},{about['right_time']}", "--direction", about["direction"])
        if about["tolerance"].exact is not None:
            given = about["tolerance"]
            temporal = values.is_temporal(case.schemas[0].field(about["left_time"]).type)
            yield from ("--tolerance", f"{given.exact} ns" if temporal else _number(given.exact))
        for left, right in about["by"]:
            yield from ("--by", f"{left},{right}")
        if not about["exact"]:
            yield "--not-exact"
    texts = [(part, _text(part, case.schemas)) for part in _parts(case)]
    wheres = [text for part, text in texts if _one_sided(part)]
    others = [text for part, text in texts if not _one_sided(part)]
    if case.as_of is None and (not others or rng.random() < 0.5):
        others, wheres = others + wheres, []
    for text in others if rng.random() < 0.5 else [" AND ".join(f"({text})" for text in others)] * bool(others):
        yield from ("--on", text)
    for text in wheres:
        yield from ("--where", text)
    if case.rows is not None:
        yield from ("--left-rows", case.rows[0], "--right-rows", case.rows[1])
    if case.within is not None:
        left, right, *ends = case.within
        temporal = values.is_temporal(case.schemas[0].field(left).type)
        low, high = ("" if e.exact is None else f"{e.exact} ns" if temporal else f"{e.exact}" for e in ends)
        yield from ("--within", f"{left},{right},{low},{high}")
    for aggregate in options.get("aggregates", ()):
        yield from ("--aggregate", "count(*)" if aggregate.column is None else aggregate.output)
    for name in ("sequence", "form", "at", "order", "index", "suffix", "how"):
        if name in options:
            yield from (f"--{name}", options[name])
    yield from ("--device", case.device, "--batch-rows", case.way.max_rows)


def _one_sided(part: Part) -> bool:
    return part.kind == "where" or (part.kind == "any" and part.parts[0].kind == "where")


# Conditions as text


def _text(part: Part, schemas: tuple[pa.Schema, pa.Schema]) -> str | None:
    """A part in SQL; None where SQL has no word for a constant."""
    if part.kind == "any":
        found = [_text(each, schemas) for each in part.parts]
        return None if None in found else "(" + " OR ".join(map(str, found)) + ")"
    op = "IS DISTINCT FROM" if part.op == "is distinct from" else part.op
    if part.kind == "where":
        side, column = (0, part.left) if part.right is None else (1, part.right)
        name = f"{SIDES[side]}.{column}"
        if part.value.exact is None:
            return f"{name} IS {'' if part.op == '<=>' else 'NOT '}NULL"
        value = _constant(part.value, values.scalar_type(schemas[side].field(column).type))
        return None if value is None else f"{name} {op} {value}"
    left, right = f"left.{part.left}", f"right.{part.right}"
    if part.kind == "compare":
        return f"{left} {op} {right}"
    kinds = [schema.field(name).type for schema, name in zip(schemas, (part.left, part.right), strict=True)]
    temporal = any(map(values.is_temporal, kinds))
    ends = []
    for end, less, own in ((part.low, ">", "left"), (part.high, "<", "right")):
        if end.exact is None:
            continue
        op = less + ("=" if part.closed in ("both", own) else "")
        length = f"INTERVAL '{end.exact}' NANOSECOND" if temporal else _number(end.exact)
        if part.kind == "sum":
            ends.append(f"{left} + {right} {op} {length}")
        else:
            ends.append(f"{right} {op} {left} + {length}")
    return " AND ".join(ends)


def _number(value: Any) -> str:
    """Digits, exactly."""
    if isinstance(value, float):
        return repr(value)
    exact = Fraction(value)
    if exact.denominator == 1:
        return str(exact.numerator)
    digits = next(digits for digits in range(1, 100) if 10**digits % exact.denominator == 0)
    return f"{Decimal(int(exact * 10**digits)).scaleb(-digits):f}"


def _constant(value: Given, kind: pa.DataType) -> str | None:
    exact = value.exact
    if pa.types.is_boolean(kind):
        return str(exact).upper()
    if values.is_text(kind):
        return "'" + exact.replace("'", "''") + "'"
    if values.is_bytes(kind):
        return f"X'{exact.hex()}'"
    if isinstance(exact, float) and (exact != exact or exact in (float("inf"), float("-inf"))):
        return None
    if not values.is_temporal(kind):
        return _number(exact)
    if pa.types.is_duration(kind):
        return f"INTERVAL '{exact}' NANOSECOND"
    if pa.types.is_time(kind):
        seconds, nanos = divmod(exact, 10**9)
        return f"TIME '{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{nanos:09}'"
    days, nanos = divmod(exact, DAY)
    date = dt.date(1970, 1, 1) + dt.timedelta(days=int(days))
    if pa.types.is_date(kind):
        return f"DATE '{date}'"
    seconds, nanos = divmod(nanos, 10**9)
    zone = "" if kind.tz is None else "Z"
    return f"TIMESTAMP '{date} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{nanos:09}{zone}'"
