"""Files as tables: every format holds what is written, and what cannot be read or held is refused by its name."""

import datetime as dt
import gzip
import os
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path

import hypothesis
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.fs
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result
from hypothesis import strategies as st

import muntin
from muntin.host.cli import main
from muntin.host.errors import SchemaError, UnsupportedError
from muntin.host.files import TableReader, TableWriter
from muntin.host.join import pushdown
from muntin.host.sql import parse_condition
from tests.conformance.test_payload_types import COLUMNS, measure

ROOT = Path(__file__).parents[2]
TYPED = ["parquet", "pq", "arrow", "feather", "ipc", "arrows", "arrows.zst"]
TEXT = ["csv", "csv.gz", "csv.zst", "csv.bz2", "csv.lz4", "json", "jsonl.gz", "ndjson"]
EPOCH = dt.datetime(1970, 1, 1)


def shell(*arguments: object, given: bytes = b"") -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=given)


def rows_of(place: object, rows: int = 1 << 16, format: str | None = None) -> pa.Table:
    reader = TableReader(place, rows, format)
    return pa.Table.from_batches([b for t in reader for b in t.to_batches()], reader.schema)


def write(place: object, table: pa.Table, format: str | None = None) -> None:
    with TableWriter(place, table.schema, format) as writer:
        for at in range(0, max(table.num_rows, 1), 3):
            writer.write(table.slice(at, 3))


MICROSECONDS = st.integers(-(10**15), 10**16)
#: What every format holds, and of text formats what is guessed again.
SCALARS = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.float64(): st.floats(allow_nan=False, allow_infinity=False),
    pa.float32(): st.floats(width=32, allow_nan=False, allow_infinity=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")),
    pa.date32(): st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)),
    pa.timestamp("s"): st.integers(-(10**9), 10**10).map(lambda s: EPOCH + dt.timedelta(seconds=s)),
    pa.timestamp("us"): MICROSECONDS.map(lambda us: EPOCH + dt.timedelta(microseconds=us)),
    pa.timestamp("us", "Europe/Berlin"): MICROSECONDS.map(
        lambda us: EPOCH.replace(tzinfo=dt.UTC) + dt.timedelta(microseconds=us)
    ),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["x", "", "NA", "null", "a,b", 'a"b']),
}
#: What formats with types hold alone.
TYPED_SCALARS = SCALARS | {
    pa.decimal128(20, 3): st.integers(-(10**19), 10**19).map(lambda n: Decimal(n).scaleb(-3)),
    pa.binary(): st.binary(max_size=9),
    pa.time64("us"): st.times(),
    pa.duration("ms"): st.integers(-(10**9), 10**9).map(lambda n: dt.timedelta(milliseconds=n)),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.timestamp("ns"): st.integers(-(10**9), 10**9).map(lambda n: np.datetime64(n, "ns")),
    pa.list_(pa.int64()): st.lists(st.none() | st.integers(-9, 9), max_size=3),
    pa.struct([("a", pa.int64()), ("b", pa.string())]): st.fixed_dictionaries(
        {"a": st.integers(-9, 9), "b": st.text("xy", max_size=2)}
    ),
}


@st.composite
def tables(draw: st.DrawFn, scalars: dict) -> pa.Table:
    kinds = draw(st.lists(st.sampled_from(list(scalars)), min_size=1, max_size=4))
    count = draw(st.integers(0, 7))
    columns = [
        pa.array(draw(st.lists(st.none() | scalars[kind], min_size=count, max_size=count)), kind) for kind in kinds
    ]
    return pa.table(columns, names=[f"c{at}" for at in range(len(kinds))])


@pytest.mark.parametrize("ending", TYPED)
@hypothesis.given(table=tables(TYPED_SCALARS))
@hypothesis.settings(max_examples=25, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_typed_formats_keep_types_and_values(tmp_path: Path, ending: str, table: pa.Table) -> None:
    write(tmp_path / f"x.{ending}", table)
    found = rows_of(tmp_path / f"x.{ending}", 2)
    plain = ending in ("arrow", "feather", "ipc")  # one dictionary a file, so none
    kinds = [kind.value_type if plain and pa.types.is_dictionary(kind) else kind for kind in table.schema.types]
    if ending in ("parquet", "pq"):  # which has no seconds
        kinds = [
            pa.timestamp("ms", kind.tz) if pa.types.is_timestamp(kind) and kind.unit == "s" else kind for kind in kinds
        ]
    assert found.schema.types == kinds
    assert found.schema.names == table.schema.names
    assert found.to_pylist() == table.to_pylist()


@pytest.mark.parametrize("ending", TEXT)
@hypothesis.given(table=tables(SCALARS))
@hypothesis.settings(max_examples=25, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_text_formats_keep_values(tmp_path: Path, ending: str, table: pa.Table) -> None:
    """Types are guessed; each column's guess holds the same values."""
    path = tmp_path / f"x.{ending}"
    write(path, table)
    if table.num_rows == 0 and "js" in ending:
        with pytest.raises(SchemaError, match="empty"):
            rows_of(path)
        return
    found = rows_of(path, 2)
    assert found.schema.names == table.schema.names
    assert found.num_rows == table.num_rows
    for name, kind in zip(table.schema.names, table.schema.types, strict=True):
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        guess = found.column(name)
        if pa.types.is_string(kind) and not pa.types.is_string(guess.type):
            # A text that looks like a number, a time or a truth value is one to who reads it.
            continue
        assert guess.cast(kind).to_pylist() == table.column(name).to_pylist()


def test_what_a_format_cannot_hold_is_refused_by_name(tmp_path: Path) -> None:
    bytes_, nested = pa.array([b"\xff"]), pa.array([{"a": [1]}])
    for ending, column in (
        ("csv", bytes_), ("csv", nested), ("json", bytes_), ("json", pa.array([Decimal("1.5")])),
        ("csv", pa.array([b"\xff"]).dictionary_encode()), ("json", pa.array([[Decimal("1.5")]])),
        ("json", pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))),
        ("csv", pa.array([None], pa.month_day_nano_interval())),
        ("parquet", pa.array([None], pa.month_day_nano_interval())),
    ):  # fmt: skip
        table = pa.table({"good": [1], "bad": column})
        with pytest.raises(SchemaError, match=r"column 'bad' of type .* choose .* --select"):
            write(tmp_path / f"x.{ending}", table)
    for value in (float("nan"), float("inf"), [float("nan")]):
        with pytest.raises(SchemaError, match=r"column 'bad' has .*JSON has no word"):
            write(tmp_path / "x.json", pa.table({"good": [1.5], "bad": [value]}))
    assert list(tmp_path.iterdir()) == []
    write(tmp_path / "x.json", pa.table({"bad": nested}))
    assert rows_of(tmp_path / "x.json")["bad"].to_pylist() == [{"a": [1]}]


def test_text_and_null_in_csv(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('a,b\n1,NA\n2,""\n,\n4,"two\nlines"\n')
    assert rows_of(tmp_path / "x.csv").to_pydict() == {"a": [1, 2, None, 4], "b": ["NA", "", None, "two\nlines"]}


def test_times_far_away_in_csv(tmp_path: Path) -> None:
    """Not all are guessed as times by each version of Arrow; none becomes another one."""
    text = b"t,n\n9999-12-31 23:59:59.999999,1\n0001-01-01 00:00:00.5,2\n"
    write(tmp_path / "right.arrow", pa.table({"m": [1, 2]}))
    for name in ("x.csv", "x.csv.zst"):
        with pa.output_stream(str(tmp_path / name), compression="detect") as sink:
            sink.write(text)
    options = ("--on", "n = m", "--select", "t", "--order", "inner", "--output-format", "json")
    for place, given in ((tmp_path / "x.csv", b""), (tmp_path / "x.csv.zst", b""), ("-", text)):
        told = shell("join", place, tmp_path / "right.arrow", *options, "--format", "csv", given=given)
        times = [line for line in told.output.splitlines() if line.startswith("{")]
        assert [time.rstrip('0"}') for time in times] == [
            '{"t": "9999-12-31 23:59:59.999999',
            '{"t": "0001-01-01 00:00:00.5',
        ]


# Folders, patterns, layouts


def layout(folder: Path, ending: str = "parquet") -> pa.Table:
    """A partitioned layout, and its rows in the order in which it is read."""
    parts = []
    for year in (2023, 2024):
        for venue in ("a b", "x/y", None):
            place = (
                folder
                / f"year={year}"
                / f"venue={'__HIVE_DEFAULT_PARTITION__' if venue is None else venue.replace('/', '%2F')}"
            )
            place.mkdir(parents=True)
            part = pa.table({"id": [len(parts) * 10 + n for n in range(4)], "price": [1.5, 2.5, None, 4.5]})
            write(place / f"part-0.{ending}", part)
            full = part.append_column("year", pa.array([year] * 4)).append_column(
                "venue", pa.array([venue] * 4, pa.string())
            )
            parts.append((str(place), full))
    (folder / "_SUCCESS").write_text("")
    (folder / ".hidden").write_text("no table")
    return pa.concat_tables([table for _, table in sorted(parts, key=lambda part: part[0])])


@pytest.mark.parametrize("ending", ["parquet", "csv.gz", "jsonl", "feather", "arrows"])
def test_partitioned_layouts(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of folders are columns: keys of the join too."""
    due = layout(tmp_path / "trades", ending)
    monkeypatch.chdir(tmp_path)
    for place in ("trades//", "./trades/", "./*/**", "."):
        assert rows_of(place).equals(due), place
    assert rows_of(tmp_path / "trades", 5).equals(due)
    assert rows_of(f"{tmp_path}/trades/**/*.{ending}").equals(due)
    assert rows_of(f"{tmp_path}/trades/**").equals(due)
    assert rows_of(f"{tmp_path}/trades/year=202[!4]/**").num_rows == 12
    (tmp_path / "trades/_left.csv").write_text("x\n1\n")
    assert rows_of(f"{tmp_path}/trades/_*.csv").to_pydict() == {"x": [1]}
    half = rows_of(f"{tmp_path}/trades/year=2023/*/part-?.{ending}")
    assert half.equals(due.filter(pa.compute.equal(due["year"], 2023)).drop_columns(["year"]))
    write(
        tmp_path / "fees.csv", pa.table({"from": [2023, 2023, 2025], "market": ["a b", "x/y", "x/y"], "fee": [7, 8, 9]})
    )
    told = shell(
        "join", tmp_path / "trades", tmp_path / "fees.csv", "--on", 'year = "from" AND venue = market',
        "--select", "id,venue,fee", "--order", "outer",
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    fees = {"a b": 7, "x/y": 8}
    lines = [
        f'{i},"{v}",{fees[v]}'
        for i, y, v in zip(*(due[n].to_pylist() for n in ("id", "year", "venue")), strict=True)
        if y == 2023 and v
    ]
    assert sorted(told.stdout.splitlines()[1:]) == sorted(lines)


def test_folders_that_are_no_table(tmp_path: Path) -> None:
    def refused(place: object, kind: type[Exception] = SchemaError) -> str:
        with pytest.raises(kind) as told:
            rows_of(place)
        return str(told.value)

    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no files" in refused(empty)
    assert refused(tmp_path / "*.csv") == f"no file matches {tmp_path}/*.csv"
    assert "there is no such file" in refused(tmp_path / "none.csv")
    assert "Addresses are" in refused("ftp://host/x.csv", UnsupportedError)
    folder = tmp_path / "mixed"
    folder.mkdir()
    write(folder / "a.csv", pa.table({"x": [1], "y": [2]}))
    write(folder / "b.parquet", pa.table({"x": [1], "y": [2]}))
    assert refused(folder, UnsupportedError).startswith(
        f"{folder} has files of several formats, {folder}/a.csv and {folder}/b.parquet"
    )
    write(folder / "c.csv", pa.table({"x": [1]}))
    assert refused(f"{folder}/*.csv").startswith(f"{folder}/c.csv has no column 'y', which {folder}/a.csv has")
    write(folder / "c.csv", pa.table({"x": [1], "y": ["no"]}))
    assert refused(f"{folder}/*.csv").startswith(f"column 'y' is int64 in {folder}/a.csv and string in {folder}/c.csv")
    write(folder / "d.parquet", pa.table({"x": [1.5], "y": [2]}))
    assert f"column 'x' is int64 in {folder}/b.parquet and double in {folder}/d.parquet" in refused(
        f"{folder}/*.parquet"
    )
    (folder / "year=1").mkdir()
    write(folder / "year=1" / "e.csv", pa.table({"x": [1], "y": [2]}))
    assert f"{folder}/a.csv lies in no folder year=..." in refused(f"{folder}/**/*.csv")
    write(folder / "year=1" / "f.arrow", pa.table({"year": [1]}))
    assert "has 2 columns 'year', one of them in the names of its folders" in refused(f"{folder}/**/*.arrow")
    write(folder / "g.jsonl", pa.table({"x": [1]}))
    write(folder / "h.jsonl", pa.table({"z": ["late"], "x": [1.5]}))
    assert rows_of(f"{folder}/*.jsonl").to_pydict() == {"x": [1.0, 1.5], "z": [None, "late"]}
    assert "must end in .parquet" in refused(__file__, UnsupportedError)
    (folder / "x.parquet.gz").write_bytes(b"")
    assert "is compressed inside" in refused(folder / "x.parquet.gz", UnsupportedError)


def test_guesses_of_several_text_files_are_those_of_one(tmp_path: Path) -> None:
    """Whatever the files, a column has the type that it would have had in one file."""
    texts = {"n": ["1", ""], "f": ["1", "2.5"], "t": ["2024-01-01 00:00:00", "2024-01-01 00:00:00.5"], "s": ["", "x"]}
    for at in range(2):
        (tmp_path / f"{at}.csv").write_text(",".join(texts) + "\n" + ",".join(v[at] for v in texts.values()) + "\n")
    (tmp_path / "whole.csv").write_text(
        ",".join(texts) + "\n" + "".join(",".join(v[at] for v in texts.values()) + "\n" for at in range(2))
    )
    assert rows_of(tmp_path / "?.csv").equals(rows_of(tmp_path / "whole.csv"))


def listed(values: pa.Array) -> pa.Array:
    of_one = pa.array([1] * len(values), pa.int32())
    return pa.ListViewArray.from_arrays(pa.array(range(len(values)), pa.int32()), of_one, values)


#: Each as it is, and in structs; those that follow have other dictionaries.
WRITTEN = {name: [column, column.slice(1, 2)] for name, column in COLUMNS.items()}
WRITTEN |= {
    "list views of dictionaries": [listed(pa.array(words).dictionary_encode()) for words in (["a", "b"], ["b", "c"])],
    "list views of times": [listed(COLUMNS["timestamp[s]"])],
    "extension of times": [measure([1, None], pa.timestamp("us"))],
    "run-end encoded times": [pa.RunEndEncodedArray.from_arrays(pa.array([1, 3]), pa.array([1, 2], pa.time32("s")))],
}


@pytest.mark.parametrize("ending", ["parquet", "arrow", "arrows", "json", "csv"])
@pytest.mark.parametrize("name", list(WRITTEN))
def test_columns_of_every_type_are_written_or_refused(tmp_path: Path, name: str, ending: str) -> None:
    for nested in (False, True):
        columns = [pa.StructArray.from_arrays([each], ["x"]) if nested else each for each in WRITTEN[name]]
        tables = [pa.table({"p": column}) for column in columns]
        place = tmp_path / f"{nested}.{ending}"
        try:
            writer = TableWriter(place, tables[0].schema)
        except SchemaError as error:
            assert str(error).startswith("column 'p' of type ")  # noqa: PT017
            assert not place.exists()
            continue
        with writer:
            for table in tables:
                writer.write(table)
        rows = [value for column in columns for value in column.to_pylist()]
        if ending in ("json", "csv"):
            assert len(place.read_text().splitlines()) == len(rows) + (ending == "csv")
        else:
            assert rows_of(place)["p"].to_pylist() == rows


@pytest.mark.parametrize("ending", ["csv.gz", "json.gz", "arrows.zst", "parquet", "arrow"])
def test_damaged_files_are_named(tmp_path: Path, ending: str) -> None:
    table = pa.table({"a": np.random.default_rng(1).integers(0, 1 << 60, 60_000)})
    write_whole = tmp_path / f"good.{ending}"
    with TableWriter(write_whole, table.schema) as writer:
        writer.write(table)
    data = write_whole.read_bytes()
    for cut in (len(data) // 2, 20, 0):
        (tmp_path / f"bad.{ending}").write_bytes(data[:cut])
        with pytest.raises(SchemaError, match=rf"cannot read .*bad\.{ending}: ") as told:
            rows_of(tmp_path / f"bad.{ending}")
        assert "\n" not in str(told.value)


def test_values_that_do_not_fit_the_guess(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n" + "1,2\n" * 500_000 + "1,x\n")
    (tmp_path / "x.json").write_text('{"a": 1}\n' * 200_000 + '{"a": "x"}\n')
    (tmp_path / "y.json").write_text('{"a": 1}\n' * 200_000 + '{"a": 1, "late": 2}\n')
    for name, said in (("x.csv", "invalid value 'x'"), ("x.json", "Column"), ("y.json", "unexpected field")):
        with pytest.raises(SchemaError, match=f"{name}: .*{said}.*; types and columns are those of its first megabyte"):
            rows_of(tmp_path / name)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress((tmp_path / "x.csv").read_bytes(), 1))
    (tmp_path / "x.csv.zst").write_bytes(pa.Codec("zstd").compress((tmp_path / "x.csv").read_bytes(), asbytes=True))
    for place in tmp_path.glob("x.csv*"):
        reader = TableReader(place, 1 << 16)
        reader.narrow(["b"])
        with pytest.raises(SchemaError, match=r"column 'b'.*invalid value 'x'"):
            reader.read()


# What is read


def test_only_what_is_needed_is_read(tmp_path: Path) -> None:
    """Files of folders that a part about one side rules out, and row groups, are not read: their rows are damaged."""
    due = layout(tmp_path / "trades")
    write(tmp_path / "fees.csv", pa.table({"least": [0.5], "most": [9.5]}))
    for path in (tmp_path / "trades/year=2023").rglob("*.parquet"):
        data = bytearray(path.read_bytes())
        data[4:40] = b"\xff" * 36
        path.write_bytes(data)
    options = (
        "join",
        tmp_path / "trades",
        tmp_path / "fees.csv",
        "--on",
        "price BETWEEN least AND most",
        "--select",
        "id",
    )
    for where, how, reads in (
        (("--where", "year >= 2024"), "inner", False),
        (("--where", "year >= 2024"), "left", True),
        ((), "inner", True),
    ):
        told = shell(*options, *where, "--how", how)
        assert told.exit_code == reads, told.output
        assert ("year=2023" in told.stderr) == reads
        explained = shell(*options, *where, "--how", how, "--explain").stdout.splitlines()[-2:]
        assert explained[0].startswith(
            "left:      reads 3 of 4 columns" if where else "left:      reads 2 of 4 columns"
        )
        assert explained[0].endswith(", of the rows with left.year >= 2024") == (not reads)
    kept = shell(*options, "--where", "year >= 2024").stdout.split()[1:]
    expected = [
        i for i, y, p in zip(*(due[n].to_pylist() for n in ("id", "year", "price")), strict=True) if y == 2024 and p
    ]
    assert sorted(map(int, kept)) == sorted(expected)


VALUES = {
    pa.int32(): st.none() | st.integers(-3, 3),
    pa.float32(): st.none() | st.sampled_from([-0.0, 0.0, 1.5, float("nan"), float("inf"), 0.1]),
    pa.string(): st.none() | st.sampled_from(["", "a", "b", "é", "Z"]),
    pa.bool_(): st.none() | st.booleans(),
    pa.decimal128(5, 1): st.none() | st.sampled_from([Decimal("0.1"), Decimal("1.5"), Decimal(-2)]),
    pa.timestamp("ms", "UTC"): st.none() | st.integers(0, 3).map(lambda s: dt.datetime.fromtimestamp(s, dt.UTC)),
    pa.date32(): st.none() | st.integers(1, 3).map(lambda day: dt.date(2024, 1, day)),
}
CONSTANTS = {
    pa.int32(): ["0", "2.5", "-3", "3000000000"], pa.float32(): ["0", "0.5", "1.5", "-1"],
    pa.string(): ["'a'", "'e'", "''"], pa.bool_(): ["true"], pa.decimal128(5, 1): ["0.1", "1.55", "2"],
    pa.timestamp("ms", "UTC"): ["TIMESTAMP '1970-01-01 00:00:01Z'", "TIMESTAMP '1970-01-01 00:00:01.0005Z'"],
    pa.date32(): ["DATE '2024-01-02'"],
}  # fmt: skip
OPERATORS = ["=", "<", "<=", ">", ">=", "!=", "<=>", "IS DISTINCT FROM"]


@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=60, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
def test_rows_tested_early_change_nothing(tmp_path: Path, data: st.DataObject) -> None:
    """The result over files is that of the same join in memory, whatever is tested while they are read."""
    kind = data.draw(st.sampled_from(list(VALUES)))
    count = data.draw(st.integers(0, 12))
    sides = []
    for letter in "lr":
        columns = {f"{letter}k": data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))}
        columns["v"] = pa.array(data.draw(st.lists(VALUES[kind], min_size=count, max_size=count)), kind)
        sides.append(pa.table(columns, pa.schema([(f"{letter}k", pa.int64()), ("v", kind)])))
    ending = data.draw(st.sampled_from(["parquet", "arrow", "arrows"]))
    for name, table in zip(("left", "right"), sides, strict=True):
        with TableWriter(tmp_path / f"{name}.{ending}", table.schema) as writer:
            writer.write(table)

    def test_of(side: str) -> str:
        operator = data.draw(st.sampled_from(OPERATORS[:2] + OPERATORS[5:] if pa.types.is_boolean(kind) else OPERATORS))
        if data.draw(st.integers(0, 4)) == 0:
            return f"{side}.v IS {data.draw(st.sampled_from(['', 'NOT ']))}NULL"
        return f"{side}.v {operator} {data.draw(st.sampled_from(CONSTANTS[kind]))}"

    tests = [test_of(side) for side in data.draw(st.lists(st.sampled_from(["left", "right"]), min_size=1, max_size=3))]
    how = data.draw(st.sampled_from(["inner", "left", "right", "full", "left_semi", "left_anti"]))
    files = [tmp_path / f"{name}.{ending}" for name in ("left", "right")]
    wheres = [word for test in tests for word in ("--where", test)]
    due = muntin.join(*sides, " AND ".join(["lk = rk", *tests]), how)
    names = data.draw(st.lists(st.sampled_from(due.schema.names), min_size=1, unique=True))
    told = shell(
        "join", *files, "--on", "lk = rk", *wheres, "--how", how, "--batch-rows", 5, "--select", ",".join(names),
        "-o", tmp_path / "out.arrows",
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    found = rows_of(tmp_path / "out.arrows")
    assert found.schema.names == names
    due = due.select(names)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, due.to_pylist()))


#: A type, values of it, a test of them, and the values that are read; None where Arrow is not asked.
EARLY = [
    (pa.int8(), [1, 2, 3, None], "v >= 2", [2, 3]),
    (pa.int8(), [1, 2], "v <= 300", None),
    (pa.int64(), [1, 2, 3], "v > 2.5", None),
    (pa.uint64(), [2**64 - 1, 5], "v = 18446744073709551615", [2**64 - 1]),
    (pa.float64(), [0.1, 0.25, float("nan")], "v = 0.1", [0.1]),
    (pa.float32(), [0.5, 1.5, None], "v != 0.5", [1.5]),
    (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("1.60")], "v < 1.6", [Decimal("1.50")]),
    (pa.decimal128(9, 2), [Decimal("1.50")], "v < 1.605", None),
    (pa.string(), ["a", "b", None], "v <=> 'b'", ["b"]),
    (pa.large_string(), ["a", "b", None], "v = 'b' OR v = 'c'", ["b"]),
    (pa.bool_(), [True, False, None], "v = TRUE", [True]),
    (pa.binary(), [b"a"], "v = X'61'", None),
    (pa.date32(), [dt.date(2024, 1, 1), dt.date(2024, 1, 3)], "v < DATE '2024-01-03'", [dt.date(2024, 1, 1)]),
    (pa.timestamp("s"), [EPOCH, EPOCH + dt.timedelta(days=1)], "v < DATE '1970-01-02'", [EPOCH]),
    (pa.timestamp("ms"), [EPOCH, EPOCH + dt.timedelta(milliseconds=7)],
     "v >= TIMESTAMP '1970-01-01 00:00:00.007'", [EPOCH + dt.timedelta(milliseconds=7)]),
    (pa.timestamp("ms"), [EPOCH], "v >= TIMESTAMP '1970-01-01 00:00:00.0005'", None),
    (pa.timestamp("us", "UTC"), [EPOCH.replace(tzinfo=dt.UTC), None],
     "v = TIMESTAMP '1970-01-01 00:00:00Z'", [EPOCH.replace(tzinfo=dt.UTC)]),
    (pa.int64(), [1, None], "v IS NULL", [None]),
    (pa.int64(), [1, None], "v IS NOT NULL", [1]),
    (pa.int64(), [1, None], "v IS DISTINCT FROM 1", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "given", "text", "kept"), EARLY, ids=[f"{kind}: {text}" for kind, _, text, _ in EARLY]
)
def test_what_is_tested_early(tmp_path: Path, kind: pa.DataType, given: list, text: str, kept: list | None) -> None:
    table = pa.table({"v": pa.array(given, kind), "k": pa.array([1] * len(given))})
    write(tmp_path / "x.arrow", table)
    reader = TableReader(tmp_path / "x.arrow", 9)
    on = muntin.Compare("k", "=", "j") & parse_condition(text, reader.schema, pa.schema([("j", pa.int64())]))
    _, condition = pushdown.tested_early(muntin.JoinSpec(on=on), "left", reader.schema)
    assert pushdown.tested_early(muntin.JoinSpec(on=on), "right", pa.schema([("j", pa.int64())])) == ([], None)
    itself = muntin.JoinSpec(on=muntin.AllOf(muntin.Compare("v", "=", "v"), *on.conjuncts[1:]), self_join=True)
    within = muntin.Within("t", "t", "0 s", "1 s")
    moved = muntin.JoinSpec(on=on, within=within, watermark=muntin.Watermark(left="1 s", right="1 s"))
    for spec in (itself, moved):
        assert pushdown.tested_early(spec, "left", reader.schema) == ([], None)
    assert (condition is None) == (kept is None)
    if kept is not None:
        reader.narrow(["v"], condition)
        assert reader.read()["v"].to_pylist() == kept


UNFILTERED = {
    "string_view": pa.array(["a", "b", None], pa.string_view()),
    "list of views": pa.array([["a"], [], None], pa.list_(pa.string_view())),
    "run-end encoded": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), ["a", None]),
    "float16": pa.array(np.array([1, 2, 3], np.float16), mask=np.array([False, False, True])),
    "uuid": pa.array([bytes(16), bytes(range(16)), None], pa.uuid()),
}


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
@pytest.mark.parametrize("name", UNFILTERED)
def test_rows_of_types_that_arrow_cannot_filter(tmp_path: Path, name: str, ending: str) -> None:
    values = UNFILTERED[name]
    if ending == "parquet" and name == "run-end encoded":
        pytest.skip("Parquet has no such columns")
    for side, table in (("x", pa.table({"id": [1, 2, 3], "v": values})), ("y", pa.table({"j": [0]}))):
        with TableWriter(tmp_path / f"{side}.{ending}", table.schema) as writer:
            writer.write(table)
    tests = {"left.id < 3": [1, 2], "left.v IS NOT NULL": [1, 2], "left.v IS NULL": [3]}
    if name == "float16":
        tests["left.v >= 2"] = [2]
    for test, due in tests.items():
        files = [tmp_path / f"{side}.{ending}" for side in "xy"]
        told = shell("join", *files, "--on", "TRUE", "--where", test, "-o", tmp_path / "out.arrows")
        assert told.exit_code == 0, told.output
        found = rows_of(tmp_path / "out.arrows")
        assert found["id"].to_pylist() == due
        assert found["v"].to_pylist() == [values.to_pylist()[at - 1] for at in due]


def test_a_large_file_is_read_in_blocks(tmp_path: Path) -> None:
    """The memory that reading takes is that of row groups and blocks, not of the file."""
    rows, groups = {"x.jsonl": 500_000, "x.csv.gz": 500_000, "x.parquet": 3_000_000}, 30
    values = np.random.default_rng(3).integers(0, 1 << 60, 100_000)
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    with TableWriter(tmp_path / "x.parquet", schema) as parquet, TableWriter(tmp_path / "x.csv.gz", schema) as text:
        for at in range(groups):
            part = pa.table([values + at, values - at], schema=schema)
            parquet.write(part)
            if at < 5:
                text.write(part)
    (tmp_path / "x.jsonl").write_bytes(b'{"a": 1, "b": 1152921504606846976}\n' * rows["x.jsonl"])
    for name in rows:
        write(tmp_path / f"small.{name[2:]}", pa.table([[1] * 9] * 2, schema=schema))
    script = (
        "import resource, sys; from muntin.host.files import TableReader\n"
        "def most(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10\n"
        "for name in sys.argv[1:]:\n"
        "    next(iter(TableReader('small' + name[1:], 1000))); before = most()\n"
        "    print(sum(len(t) for t in TableReader(name, 65_536)), most() - before)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    told = subprocess.check_output([sys.executable, "-c", script, *rows], cwd=tmp_path, env=environment, text=True)
    found = dict(zip(rows, (tuple(map(int, line.split())) for line in told.splitlines()), strict=True))
    assert {name: read for name, (read, _) in found.items()} == rows
    # Whole, the texts take 18 MiB and more, and the columns of the last file 46.
    assert all(more < limit for (_, more), limit in zip(found.values(), (9, 9, 23), strict=True)), found


# Standard input and output


@pytest.mark.parametrize("kind", ["csv", "json", "arrows"])
def test_standard_input_and_output(tmp_path: Path, kind: str) -> None:
    left, right = pa.table({"a": [1, 2, 3], "s": ["x", None, "z"]}), pa.table({"b": [2, 3, 3]})
    for name, table in (("left", left), ("right", right)):
        write(tmp_path / name, table, kind)
    given = (tmp_path / "left").read_bytes()
    first = shell("join", "-", tmp_path / "right", "--format", kind, "--on", "a = b", "--order", "inner", given=given)
    assert first.exit_code == 0, first.stderr
    (tmp_path / "out").write_bytes(first.stdout_bytes)
    assert rows_of(tmp_path / "out", format=kind).to_pydict() == {"a": [2, 3, 3], "s": [None, "z", "z"], "b": [2, 3, 3]}
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(given,))
    writer.start()
    second = shell("join", pipe, tmp_path / "right", "--format", kind, "--on", "a = b", "--order", "inner")
    writer.join()
    assert second.stdout_bytes == first.stdout_bytes


def test_standard_input_that_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "x.csv", pa.table({"a": [1]}))
    for options, said in (
        (("-", tmp_path / "x.csv"), "give --format csv, json or arrows, which no ending says here"),
        (("-", tmp_path / "x.csv", "--format", "parquet"), "rather than parquet"),
        (("-", "-", "--format", "csv"), "both standard input"),
        (("-", tmp_path / "x.csv", "--format", "csv"), "cannot read -: "),
    ):
        told = shell("join", *options, "--on", "a")
        assert told.exit_code
        assert said in told.stderr


# Object stores


@pytest.mark.filterwarnings("ignore")
def test_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.host.state.test_state import bucket

    with bucket(monkeypatch) as place:
        due = layout(tmp_path / "trades")
        system, path = pyarrow.fs.FileSystem.from_uri(place)
        pyarrow.fs.copy_files(str(tmp_path / "trades"), f"{path}/trades", pyarrow.fs.LocalFileSystem(), system)
        assert rows_of(f"{place}/trades").equals(due)
        assert rows_of(f"{place}/trades/**/*.parquet").equals(due)
        assert rows_of(f"{place}/trades/year=2024/venue=a b/*").num_rows == 4
        write(tmp_path / "fees.csv", pa.table({"from": [2023], "fee": [7]}))
        told = shell(
            "join", f"{place}/trades", tmp_path / "fees.csv", "--on", 'year = "from"', "-o", f"{place}/out/x.csv.gz"
        )
        assert told.exit_code == 0, told.output
        assert rows_of(f"{place}/out/x.csv.gz").num_rows == 12
        with pytest.raises(SchemaError, match=r"no file matches s3://windows/nothing/"):
            rows_of(f"{place}/nothing/*.csv")
        with pytest.raises(SchemaError, match=r"cannot read s3://nowhere/x\.csv: "):
            rows_of("s3://nowhere/x.csv")
        told = shell(
            "join", f"{place}/trades", tmp_path / "fees.csv", "--on", 'year = "from"', "-o", "s3://nowhere/x.csv"
        )
        assert "error: cannot write s3://nowhere/x.csv: " in told.stderr
        assert not list(Path("/tmp").glob(".x.csv*"))
