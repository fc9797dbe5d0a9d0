"""The demo: its oracle against the nested loop, and the whole command over generated streams and over files."""

import subprocess
import sys
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from muntin import AllOf, AnyOf, Band, Compare, JoinSpec, Rows, WindowJoin, Within
from muntin.pyspark_bridge import demo
from muntin.pyspark_bridge.demo_oracle import check_result
from muntin.pyspark_bridge.demo_streams import demo_streams

DECIMALS = pa.decimal128(12, 2)
NAN = float("nan")


def streams(kind, seed):
    """Two streams whose keys have a type; `arrival` mixes them at random."""
    rng = np.random.default_rng(seed)
    arrival = rng.permutation(400)
    tables = []
    for name, at in (("limit", np.sort(arrival[:180])), ("price", np.sort(arrival[180:]))):
        numbers = rng.integers(-30, 30, len(at))
        if kind == "float":
            keys = pa.array(np.where(rng.random(len(at)) < 0.05, NAN, numbers / 10))
        elif kind == "decimal":
            keys = pa.array([Decimal(int(number)) / 100 for number in numbers], DECIMALS)
        elif kind == "timestamp":
            keys = pa.array(numbers * 1_000_000, pa.timestamp("us", tz="UTC"))
        else:
            keys = pa.array(numbers, mask=rng.random(len(at)) < 0.05)
        tables.append(pa.table({"arrival": at, name: keys, "at": pa.array(at * 1_000_000, pa.timestamp("us"))}))
    return tables


CASES = {
    "integers": ("int", Band("limit", "price", -2, 3)),
    "open": ("int", Band("limit", "price", low=10)),
    "equal": ("int", Compare("limit", "=", "price")),
    "less": ("int", Compare("limit", "<", "price")),
    "any": ("int", AnyOf(Band("limit", "price", -2, 1), Band("limit", "price", 0, 4), Band("limit", "price", 9, 9))),
    "all": ("int", AllOf(Compare("limit", ">", "price"), Band("limit", "price", -9, 1))),
    "floats": ("float", Band("limit", "price", -0.3, 0.1)),
    "equal floats": ("float", Band("limit", "price", 0.0, 0.0)),
    "decimals": ("decimal", Band("limit", "price", Decimal("-0.02"), Decimal("0.01"))),
    "timestamps": ("timestamp", Band("limit", "price", "-2 seconds", "1 second")),
}


@pytest.mark.parametrize("window", ["rows", "within"])
@pytest.mark.parametrize("case", CASES)
def test_oracle_agrees_with_the_operator_and_notices_a_changed_row(tmp_path, seed, case, window):
    kind, on = CASES[case]
    tables = streams(kind, seed)
    options = (
        {"left": Rows(50), "right": Rows(20)}
        if window == "rows"
        else {"within": Within("at", "at", "-9 seconds", "30 seconds")}
    )
    spec = JoinSpec(on=on, sequence="arrival", **options)
    with WindowJoin(on=on, sequence="arrival", **options, device="numpy") as join:
        result = join.process(*tables)
    assert len(result) > 10
    places = []
    for name, table in zip(("left", "right", "result"), (*tables, result), strict=True):
        places.append(tmp_path / name)
        places[-1].mkdir()
        pq.write_table(table, places[-1] / "a.parquet")
    schemas = tables[0].schema, tables[1].schema
    verdict = check_result(spec, *places, schemas, tmp_path)
    assert (verdict.rows, verdict.missing, verdict.extra) == (len(result), 0, 0), verdict.examples
    # One row gone and another one twice.
    pq.write_table(pa.concat_tables([result.slice(1), result.slice(5, 1)]), places[2] / "a.parquet")
    verdict = check_result(spec, *places, schemas, tmp_path)
    assert (verdict.missing, verdict.extra) == (1, 1)


def test_generated_streams(seed):
    batches = list(demo_streams(5_000, 700, seed))
    again = list(demo_streams(5_000, 700, seed))
    assert all(
        left.equals(other)
        for pair, pair2 in zip(batches, again, strict=True)
        for left, other in zip(pair, pair2, strict=True)
    )
    orders, quotes = (pa.concat_tables(side) for side in zip(*batches, strict=True))
    assert len(orders) == len(quotes) == 5_000
    arrival = np.concatenate([orders["arrival"].to_numpy(), quotes["arrival"].to_numpy()])
    assert np.array_equal(np.sort(arrival), np.arange(10_000))
    assert all(np.all(np.diff(side["arrival"].to_numpy()) > 0) for side in (orders, quotes))
    sizes = [len(left) + len(right) for left, right in batches]
    assert max(sizes) > 3 * min(sizes)


def test_command(tmp_path, seed):
    """As `make demo` runs it, in a process and a Spark of its own."""
    options = {"rows": 3_000, "batch-rows": 1_500, "seed": seed, "device": "numpy", "keep": tmp_path / "kept"}
    run = subprocess.run(
        [sys.executable, "-m", "muntin.pyspark_bridge.demo", *(f"--{name}={value}" for name, value in options.items())],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr[-3000:]
    assert "correct: all" in run.stdout
    head, *lines = run.stdout[run.stdout.index("StreamingQueryProgress") :].splitlines()[1:]
    shown = [line.replace("|", " ").split() for line in lines if line.startswith("     ") and "|" in line]
    assert head.split()[:3] == ["batch", "rows", "rows/s"]
    assert [int(cells[0]) for cells in shown] == list(range(len(shown)))
    assert sum(int(cells[1].replace(",", "")) for cells in shown) == 2 * 3_000
    assert shown[-1][-2:] == ["100%", "100%"]
    assert list((tmp_path / "kept" / "result").glob("*.parquet"))


def test_command_over_files(spark, tmp_path, seed, monkeypatch):
    monkeypatch.setattr(demo, "_session", lambda folder, master: nullcontext(spark))
    monkeypatch.setattr(demo, "check_result", check := Recorder(demo.check_result))
    for name, table in zip(("left.parquet", "right.arrow"), streams("int", seed), strict=True):
        table = table.rename_columns(["order", *table.column_names[1:]])
        if name.endswith("parquet"):
            pq.write_table(table, tmp_path / name)
        else:
            with pa.OSFile(str(tmp_path / name), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)

    def run(*arguments):
        files = ["--left", tmp_path / "left.parquet", "--right", tmp_path / "right.arrow", "--device", "numpy"]
        return CliRunner().invoke(demo.main, [str(argument) for argument in (*files, *arguments)])

    given = run(
        "--on", "price - limit BETWEEN -3 AND 3", "--within", "at,at,-20 seconds,10 seconds", "--sequence", "order"
    )
    assert given.exit_code == 0, given.output
    assert check.result.rows > 10
    assert f"correct: all {check.result.rows:,} rows" in given.output
    # In turns: the right file's rows arrive after the left file's.
    given = run("--on", "limit = price", "--left-rows", 50, "--right-rows", 20, "--batch-rows", 100)
    assert given.exit_code == 0, given.output
    assert "correct: all" in given.output
    given = run("--on", "price - nowhere BETWEEN -3 AND 3")
    assert given.exit_code == 1
    assert "'nowhere'" in given.output


class Recorder:
    """Calls a function and keeps what it returned last."""

    def __init__(self, function):
        self.function = function
        self.result = None

    def __call__(self, *arguments):
        self.result = self.function(*arguments)
        return self.result
