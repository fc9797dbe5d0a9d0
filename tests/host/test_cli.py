"""The command line, with joins over files checked against a nested loop."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from muntin import AsOf, Band, JoinSpec, Rows
from muntin.host.cli import COMMANDS, main
from muntin.host.daemon import DaemonClient, start_private
from tests.simulated import simulated

ROOT = Path(__file__).parents[2]
NEAR = "price BETWEEN limit - 2 AND limit + 3"


def muntin(*arguments: object) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def streams(seed: int, rows: int = 300) -> tuple[pa.Table, pa.Table]:
    """Two streams that share one sequence, with gaps, ties and stretches of one side alone."""
    random = np.random.default_rng(seed)
    sequence = np.sort(random.integers(0, rows, 2 * rows))
    is_left = random.random(2 * rows) < np.repeat(random.random(8), rows // 4)
    tables = []
    for mask, key, event_time in ((is_left, "limit", "bid_time"), (~is_left, "price", "ask_time")):
        count = int(mask.sum())
        times = (sequence[mask] * 1_000_000 + random.integers(-5, 5, count)).astype("datetime64[us]")
        columns = {"seq": sequence[mask], key: random.integers(0, 60, count), event_time: times, "id": np.arange(count)}
        tables.append(pa.table(columns))
    return tables[0], tables[1]


def nested_loop(left: pa.Table, right: pa.Table, rows: tuple[int, int], calls: list[tuple[range, range]]) -> set:
    """Pairs of ids of a band join from -2 to 3 over count windows, where each call brings these rows."""
    limit, price = left["limit"].to_pylist(), right["price"].to_pylist()
    pairs = set()
    seen_left: list[int] = []
    seen_right: list[int] = []
    for left_rows, right_rows in calls:
        for i in left_rows:
            pairs |= {(i, j) for j in seen_right[-rows[1] :] if -2 <= price[j] - limit[i] <= 3}
            seen_left.append(i)
        for j in right_rows:
            pairs |= {(i, j) for i in seen_left[-rows[0] :] if -2 <= price[j] - limit[i] <= 3}
            seen_right.append(j)
    return pairs


def by_sequence(left: pa.Table, right: pa.Table) -> list[tuple[range, range]]:
    """One row a call, in the order of the sequence, left first where it is equal."""
    order = sorted(
        [(s, 0, i) for i, s in enumerate(left["seq"].to_pylist())]
        + [(s, 1, i) for i, s in enumerate(right["seq"].to_pylist())]
    )
    return [(range(i, i + 1), range(0)) if side == 0 else (range(0), range(i, i + 1)) for _, side, i in order]


def in_batches(left: pa.Table, right: pa.Table, size: int) -> list[tuple[range, range]]:
    """Batch i of the left, then batch i of the right."""
    count = max(left.num_rows, right.num_rows)
    return [
        (range(at, min(at + size, left.num_rows)), range(at, min(at + size, right.num_rows)))
        for at in range(0, count, size)
    ]


def write(table: pa.Table, path: Path) -> Path:
    """Write a file as its ending says."""
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path, row_group_size=37)
    elif path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    elif path.suffix == ".arrows":
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=11)
    else:
        pa.feather.write_feather(table, path, chunksize=41)
    return path


def read(path: Path) -> pa.Table:
    """Read a file as its ending says."""
    if path.suffix == ".parquet":
        return pa.parquet.read_table(path)
    if path.suffix == ".csv":
        return pa.csv.read_csv(path)
    if path.suffix == ".arrows":
        return pa.ipc.open_stream(path.read_bytes()).read_all()
    return pa.feather.read_table(path)


def ids(table: pa.Table) -> set:
    """Pairs of ids, of which none may come twice."""
    pairs = list(zip(table["id"].to_pylist(), table["id_right"].to_pylist(), strict=True))
    assert len(pairs) == len(set(pairs))
    return set(pairs)


@pytest.mark.parametrize("arguments", ["--help", "join --help", "--version"])
def test_help_loads_little(arguments: str) -> None:
    """The command starts in the time of Python and click."""
    script = (
        "import sys\nfrom muntin.host.cli import main\n"
        f"try: main({arguments.split()})\nexcept SystemExit: pass\nprint(*sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(ended.stdout.splitlines()[-1].split())
    assert "click" in loaded
    heavy = (
        "numpy",
        "pyarrow",
        "pandas",
        "rich",
        "sqlglot",
        "amaranth",
        "pyopencl",
        "pyspark",
        "muntin.hw",
        "muntin.sim",
    )
    heavy += ("muntin.host.daemon", "muntin.host.devices", "muntin.pyspark_bridge")
    assert not [name for name in loaded if f"{name}.".startswith(tuple(f"{each}." for each in heavy))]


def test_every_command_is_listed() -> None:
    told = muntin("--help")
    for name, (_, line) in COMMANDS.items():
        assert f"{name} " in told.stdout
        assert line in told.stdout
        assert main.get_command(None, name).name == name
        assert muntin(name, "--help").exit_code == 0


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow", "arrows", "feather"])
@pytest.mark.parametrize("batch_rows", [1, 23, 10_000])
def test_join_by_sequence(tmp_path: Path, seed: int, ending: str, batch_rows: int) -> None:
    left, right = streams(seed)
    files = write(left, tmp_path / f"left.{ending}"), write(right, tmp_path / f"right.{ending}")
    output = tmp_path / f"out.{ending}"
    told = muntin(
        "join", *files, "--on", NEAR, "--left-rows", 40, "--right-rows", 25, "--sequence", "seq",
        "--device", "numpy", "--batch-rows", batch_rows, "-o", output,
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    pairs = nested_loop(left, right, (40, 25), by_sequence(left, right))
    assert ids(read(output)) == pairs
    assert f"{len(pairs):,} matches" in told.stderr
    assert read(output).schema.names == [
        "seq", "limit", "bid_time", "id", "seq_right", "price", "ask_time", "id_right",
    ]  # fmt: skip
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*(f.name for f in files), output.name])


@pytest.mark.parametrize("batch_rows", [23, 10_000])
def test_join_in_turns(tmp_path: Path, seed: int, batch_rows: int) -> None:
    left, right = streams(seed + 1)
    files = write(left, tmp_path / "left.parquet"), write(right, tmp_path / "right.csv")
    told = muntin(
        "join", *files, "--on", NEAR, "--left-rows", 40, "--right-rows", 25,
        "--device", "numpy", "--batch-rows", batch_rows, "-o", tmp_path / "out.parquet",
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    calls = in_batches(left, right, batch_rows)
    assert ids(read(tmp_path / "out.parquet")) == nested_loop(left, right, (40, 25), calls)


@pytest.mark.parametrize("sequence", [(), ("--sequence", "seq")])
def test_join_within_time(tmp_path: Path, seed: int, sequence: tuple[str, ...]) -> None:
    left, right = streams(seed + 2)
    files = write(left, tmp_path / "left.arrow"), write(right, tmp_path / "right.parquet")
    told = muntin(
        "join", *files, "--on", "limit < price", "--within", "bid_time,ask_time,-10 seconds,2 seconds", *sequence,
        "--device", "numpy", "--batch-rows", 31,
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    expected = {
        (i, j)
        for i, (limit, bid) in enumerate(zip(left["limit"].to_pylist(), left["bid_time"].to_pylist(), strict=True))
        for j, (price, ask) in enumerate(zip(right["price"].to_pylist(), right["ask_time"].to_pylist(), strict=True))
        if limit < price and -10 <= (ask - bid).total_seconds() <= 2
    }
    assert ids(pa.csv.read_csv(pa.py_buffer(told.stdout_bytes))) == expected


def test_join_any_of_two_conditions(tmp_path: Path) -> None:
    left = write(pa.table({"a": [1, 10, 20]}), tmp_path / "left.csv")
    right = write(pa.table({"b": [1, 12, 40]}), tmp_path / "right.csv")
    windows = ("--left-rows", 9, "--right-rows", 9, "--device", "numpy")
    told = muntin("join", left, right, "--on", "b <= a - 15 OR a = b", *windows)
    assert sorted(told.stdout.splitlines()) == ['"a","b"', "1,1", "20,1"]


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
@pytest.mark.parametrize("how", ["full", "left_semi", "anti"])
def test_join_how(tmp_path: Path, seed: int, how: str, ending: str) -> None:
    """Every row comes out: with its matches, or alone, at the end at the latest."""
    left, right = streams(seed)
    files = write(left, tmp_path / "left.parquet"), write(right, tmp_path / "right.parquet")
    output = tmp_path / f"out.{ending}"
    told = muntin(
        "join", *files, "--on", NEAR, "--left-rows", 4, "--right-rows", 5, "--sequence", "seq",
        "--device", "numpy", "--batch-rows", 40, "--how", how, "-o", output,
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    pairs = nested_loop(left, right, (4, 5), by_sequence(left, right))
    lefts, rights = ({pair[side] for pair in pairs} for side in (0, 1))
    assert 0 < len(lefts) < left.num_rows
    found = read(output)
    if how == "full":
        alone = {(i, None) for i in range(left.num_rows) if i not in lefts}
        alone |= {(None, i) for i in range(right.num_rows) if i not in rights}
        assert ids(found) == pairs | alone
    else:
        assert found.schema.names == ["seq", "limit", "bid_time", "id"]
        wanted = lefts if how == "left_semi" else set(range(left.num_rows)) - lefts
        assert sorted(found["id"].to_pylist()) == sorted(wanted)
    assert f"{len(pairs):,} matches, {found.num_rows:,} rows out" in told.stderr


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_as_of(tmp_path: Path, direction: str, exact: bool) -> None:
    """Rows come in no order of time, in batches; each left row meets the nearest right row of its venue."""
    random = np.random.default_rng(5)
    seconds = random.permutation(200), random.permutation(200)
    sides = [random.integers(0, 3, 80), random.integers(0, 3, 80)]
    times = [(s[:80] * 1_000_000).astype("datetime64[us]") for s in seconds]
    left = pa.table({"bid_time": times[0], "venue": sides[0], "id": np.arange(80)})
    right = pa.table({"ask_time": times[1], "market": sides[1], "ask": np.arange(80)})
    files = write(left, tmp_path / "left.parquet"), write(right, tmp_path / "right.parquet")
    options = ["--as-of", "bid_time,ask_time", "--by", "venue,market", "--tolerance", "9 seconds", "--how", "left"]
    options += [] if exact else ["--not-exact"]
    options += [] if direction == "backward" else ["--direction", direction]
    told = muntin("join", *files, *options, "--batch-rows", 30, "-o", tmp_path / "out.parquet")
    assert told.exit_code == 0, told.output
    expected = {}
    for row in range(80):
        apart = {at: int(seconds[1][at] - seconds[0][row]) for at in range(80) if sides[1][at] == sides[0][row]}
        near = [
            (abs(by), by, at)
            for at, by in apart.items()
            if (by <= 0 or direction != "backward") and (by >= 0 or direction != "forward") and (by or exact)
        ]
        expected[row] = min(near)[2] if near and min(near)[0] <= 9 else None
    found = read(tmp_path / "out.parquet")
    assert dict(zip(found["id"].to_pylist(), found["ask"].to_pylist(), strict=True)) == expected
    matches = sum(at is not None for at in expected.values())
    assert 0 < matches < 80
    assert f"80 left and 80 right rows, {matches} matches, 80 rows out" in told.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--on", "price BETWEEN limit - 5 AND limit + 5"),
        ("--on", "limit = price"),
        ("--on", "abs(limit - price) <= 5"),
        ("--on", "limit = price", "--left-rows", 9, "--right-rows", 9, "--sequence", "seq"),
        ("--on", "limit = price", "--within", "t,t,-5 minutes,5 minutes"),
        ("--on", "limit = price", "--within", "t,t,-5 minutes,5 minutes", "--device", "numpy"),
        ("--as-of", "t,t", "--by", "limit,price", "--tolerance", "5 minutes"),
        ("--as-of", "seq,seq", "--where", "right.price > 5"),
    ],
)
@pytest.mark.parametrize("rows", [0, 2])
def test_a_file_without_values(tmp_path: Path, options: tuple[object, ...], rows: int) -> None:
    """A CSV file with a header alone, or with no value in the columns that are compared: nothing matches."""
    left, right = tmp_path / "left.csv", tmp_path / "right.csv"
    left.write_text("seq,limit,t\n1,100,2024-01-01 00:00:00\n2,105,2024-01-01 00:00:01\n")
    right.write_text("seq,price,t\n" + "".join(f"{row},,\n" for row in range(3, 3 + rows)))
    for files, kept in (((left, right), 2), ((right, left), rows)):
        own = [str(option) for option in options]
        if files[0] is right:
            own = [
                option.replace("limit,price", "price,limit").replace("limit = price", "price = limit")
                .replace("limit - price", "price - limit").replace("right.price", "left.price") for option in own
            ]  # fmt: skip
        told = muntin("join", *files, *own, "--how", "left", "-o", tmp_path / "out.parquet")
        assert told.exit_code == 0, told.output
        assert f"0 matches, {kept} rows out" in told.stderr


def test_as_of_explained_and_refused(tmp_path: Path) -> None:
    left = write(pa.table({"t": [1, 5], "k": ["a", "b"]}), tmp_path / "left.csv")
    right = write(pa.table({"t": [0, 4], "k": ["a", "b"], "x": [1.0, 2.0]}), tmp_path / "right.csv")
    as_of = ["join", left, right, "--as-of", "t,t"]
    told = muntin(*as_of, "--by", "k", "--tolerance", 3, "--direction", "nearest", "--explain")
    assert told.exit_code == 0, told.output
    assert "engine:    as-of" in told.stdout
    spec = JoinSpec(on=AsOf("t", "t", "nearest", 3, by="k"))
    assert spec.explain(read(left).schema, read(right).schema) in told.stdout
    assert told.stdout.splitlines()[-2:] == [
        f"left:      reads 2 of 2 columns of {left}",
        f"right:     reads 3 of 3 columns of {right}",
    ]
    told = muntin(*as_of, "--where", "right.x > 1.5", "--where", "left.k != 'q'", "--how", "left")
    assert told.exit_code == 0, told.output
    assert "1 matches, 2 rows out" in told.stderr  # 5 meets 4; 1 would have met 0
    for options, text in (
        ((*as_of, "--on", "t = t"), "--as-of excludes --on"),
        ((*as_of, "--where", "left.q > 3"), "--where 'left.q > 3', line 1, column 1: left has no column 'q'"),
        ((*as_of, "--by", "k,k,k"), 'like "venue"'),
        ((*as_of, "--tolerance", "-1"), "is negative"),
        ((*as_of, "--tolerance", "3 seconds"), "is a duration, but the columns"),
        ((*as_of, "--left-rows", 5, "--right-rows", 5), "does not take a window"),
        (("join", left, right, "--as-of", "t"), 'like "bid_time,ask_time"'),
        (("join", left, right, "--on", "t = t", "--by", "k"), "--not-exact are for --as-of"),
        (("join", left, right), "give --on, or --as-of"),
    ):
        refused = muntin(*options)
        assert refused.exit_code, options
        assert text in refused.stderr


def test_all_of(tmp_path: Path) -> None:
    left = write(
        pa.table({"a": [1, 2, 3, 4], "s": ["x", "y", "x", None], "n": [0.5, 1.5, 2.5, 3.5]}), tmp_path / "l.parquet"
    )
    right = write(
        pa.table({"b": [2, 2, 4, 9], "t": ["x", "y", "x", None], "ok": [True, True, False, None]}),
        tmp_path / "r.parquet",
    )
    files = (left, right, "--left-rows", 9, "--right-rows", 9, "--device", "numpy")
    conditions = ("--on", "s = t", "--on", "b BETWEEN a AND a + 2")

    def rows(*options: str) -> list[str]:
        return sorted(muntin("join", *files, *options).stdout.splitlines()[1:])

    assert rows(*conditions) == ['1,"x",0.5,2,"x",true', '2,"y",1.5,2,"y",true', '3,"x",2.5,4,"x",false']
    assert rows(*conditions, "--where", "left.n >= 1.5", "--where", "right.ok = true") == ['2,"y",1.5,2,"y",true']
    assert rows(*conditions, "--where", "left.s = 'x'", "--where", "right.b<3") == ['1,"x",0.5,2,"x",true']
    assert rows("--on", "s <=> t", "--where", "right.ok <=> null") == ["4,,3.5,9,,"]
    told = muntin("join", *files, *conditions, "--explain").stdout.splitlines()
    assert told[0] == "device:    numpy"
    assert told[-4:-2] == [
        "driver:    left.s = right.t, by a code for each distinct value",
        "residual:  0 <= right.b - left.a <= 2, whose values fit no composite key of this device, index and form",
    ]  # fmt: skip
    for text, named in (
        ("a < b", "about one side alone"),
        ("left.nope > 1", "'nope'"),
        ("left.a > x", "neither side has a column 'x'"),
    ):
        failed = muntin("join", *files, *conditions, "--where", text)
        assert failed.exit_code == 1
        assert named in failed.stderr


def test_join_aggregates(tmp_path: Path) -> None:
    left = write(pa.table({"a": [1, 2, 3], "t": [0, 1, 2]}), tmp_path / "l.parquet")
    right = write(pa.table({"a": [1, 1, 3], "t": [0, 1, 9], "v": [5, None, 7]}), tmp_path / "r.parquet")
    options = [
        "--on",
        "left.a = right.a",
        "--form",
        "aggregate",
        "--aggregate",
        "sum(v)",
        "--aggregate",
        "count(*) as n",
    ]
    told = muntin("join", left, right, *options, "--within", "t,t,-3,3", "--at", "close", "-o", tmp_path / "o.arrow")
    assert told.exit_code == 0, told.stderr
    assert read(tmp_path / "o.arrow").to_pylist() == [
        {"a": 1, "t": 0, "sum(v)": 5, "n": 2},
        {"a": 2, "t": 1, "sum(v)": None, "n": 0},
        {"a": 3, "t": 2, "sum(v)": None, "n": 0},
    ]
    told = muntin("join", left, right, *options, "--left-rows", 5, "--right-rows", 5, "-o", tmp_path / "p.arrow")
    assert told.exit_code == 0, told.stderr
    assert read(tmp_path / "p.arrow").schema.names == ["side", "row", "sum(v)", "n"]
    assert read(tmp_path / "p.arrow")["n"].to_pylist() == [0, 0, 0, 1, 1, 1]
    words = write(pa.table({"a": [1, 1], "w": ["x", None]}), tmp_path / "w.csv")
    options = [
        "--on",
        "left.a = right.a",
        "--form",
        "aggregate",
        "--left-rows",
        5,
        "--right-rows",
        5,
        "-o",
        tmp_path / "w.arrow",
    ]
    told = muntin("join", left, words, *options, "--aggregate", "count(w)")
    assert told.exit_code == 0, told.stderr
    assert read(tmp_path / "w.arrow").num_rows == 5
    told = muntin("join", left, words, *options, "--aggregate", "sum(w)")
    assert told.exit_code == 1
    assert told.stderr.startswith("error: there is no sum of column 'w' of type string")
    more = [
        "arg_max(v, t) as top",
        "count(*) filter (where v > 5) as n",
        "vwap(v, t)",
        "last(v)",
        "sum(v) within (0, 6) as s",
        "max(v) within (8, 9) include prevailing as p",
    ]
    options = ["--on", "left.a = right.a", "--form", "aggregate", "--within", "t,t,-9,9", "--at", "close"]
    options += ["-o", tmp_path / "m.arrow"]
    told = muntin("join", left, right, *options, *(given for each in more for given in ("--aggregate", each)))
    assert told.exit_code == 0, told.stderr
    assert read(tmp_path / "m.arrow").drop_columns(["a", "t"]).to_pylist() == [
        {"top": None, "n": 0, "weighted_avg(v, t)": None, "last(v)": None, "s": 5, "p": None},
        {"top": None, "n": 0, "weighted_avg(v, t)": None, "last(v)": None, "s": None, "p": None},
        {"top": 7, "n": 1, "weighted_avg(v, t)": 7.0, "last(v)": 7, "s": None, "p": 7},
    ]


def test_times_that_a_condition_bounds_are_the_window(tmp_path: Path) -> None:
    left, right = streams(6)
    files = write(left, tmp_path / "left.parquet"), write(right, tmp_path / "right.parquet")
    bounded = "ask_time BETWEEN bid_time - INTERVAL 9 SECONDS AND bid_time + INTERVAL 5 SECONDS"

    def explained(*options: object) -> str:
        result = muntin("join", *files, *options, "--how", "left_anti", "--explain")
        assert result.exit_code == 0, result.output
        return result.output

    windowed = explained("--on", "limit < price", "--within", "bid_time,ask_time,-9 seconds,5 seconds")
    assert explained("--on", f"limit < price AND {bounded}") == windowed
    assert explained("--on", "limit < price", "--on", bounded) == windowed
    halves = ("bid_time - INTERVAL 9 SECONDS <= ask_time", "ask_time <= bid_time + INTERVAL 5 SECONDS -- a remark")
    assert explained("--on", halves[0], "--on", "limit < price", "--on", halves[1]) == windowed
    same = explained("--on", "limit < price", "--within", "bid_time,ask_time,0,0")
    assert explained("--on", "limit < price", "--on", "bid_time = ask_time") == same
    counted = (f"limit < price AND {bounded}", "--left-rows", 9, "--right-rows", 9)
    for on in (("limit < price AND bid_time < ask_time",), (f"({bounded}) OR bid_time = ask_time",), counted):
        assert "right.ask_time" not in explained("--on", *on).partition("window:")[2].splitlines()[0]
        assert ("none: every row is kept" in explained("--on", *on)) == (on is not counted)


def test_conditions_in_sql_and_selected_columns(tmp_path: Path) -> None:
    left, right = streams(5)
    files = write(left, tmp_path / "left.parquet"), write(right, tmp_path / "right.parquet")
    windows = ("--left-rows", 40, "--right-rows", 30, "--sequence", "seq")
    out = tmp_path / "out.parquet"
    plain = ("--on", NEAR, "--where", "right.id > 9")
    in_sql = ("--on", f"{NEAR} AND right.id > 9")
    found = []
    for on in (plain, in_sql):
        result = muntin(
            "join", *files, *on, *windows, "--select", "id_right,bid_time,id", "--order", "inner", "-o", out
        )
        assert result.exit_code == 0, result.output
        found.append(read(out))
    assert found[0].equals(found[1])
    assert found[1].column_names == ["id_right", "bid_time", "id"]
    assert found[1].num_rows > 20
    explained = [muntin("join", *files, *on, *windows, "--explain").output for on in (plain, in_sql)]
    assert explained[0] == explained[1]
    for wrong, said in ((("--on", "limit <= other.price"), "line 1, column 10"), ((*in_sql, "--select", "x"), "'x'")):
        result = muntin("join", *files, *wrong, *windows)
        assert result.exit_code == 1
        assert said in result.output


@pytest.mark.parametrize(
    ("form", "names"), [("pairs", ["left_row", "right_row"]), ("counts", ["side", "row", "matches"])]
)
def test_join_forms(tmp_path: Path, form: str, names: list[str]) -> None:
    file = write(pa.table({"a": [1, 2, 3]}), tmp_path / "a.parquet")
    told = muntin(
        "join", file, file, "--on", "right.a - left.a BETWEEN 0.5 AND 1.5", "--left-rows", 5, "--right-rows", 5,
        "--form", form, "--device", "numpy", "-o", tmp_path / "o.arrow",
    )  # fmt: skip
    assert told.exit_code == 0, told.stderr
    assert read(tmp_path / "o.arrow").schema.names == names


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (["--on", "right.b = left.a +"], "error: --on 'right.b = left.a +', line 1, column"),
        (["--on", "right.b > nope"], "'nope'"),
        (["--index", "tree"], "there is no index 'tree': use one of auto, sorted_runs"),
        (["--index", "nested_loop"], "device numpy has no index 'nested_loop': it has sorted_runs"),
        (["--on", "left.a = right.b", "--where", "left.a < right.b"], "by --on"),
        (["--within", "a,b,1"], "--within must be like"),
        (["--select", "nope"], "--select names 'nope'"),
        (["--at", "close"], "--at belong"),
        (["--device", "abacus"], "abacus"),
        (["--how", "sideways"], "there is no join --how sideways: use one of inner, left"),
        (["--form", "aggregate"], "--form aggregate takes --aggregate: there is none"),
        (["--how", "anti", "--form", "counts"], "--form counts is for inner joins"),
        (["--sequence", "nope"], "no sequence column 'nope'"),
        (["--sequence", "u"], "does not ascend"),
        (["--sequence", "t"], "use integers, timestamps"),
        (["--output", "x.xlsx"], "must end in .parquet"),
        (["--output", "/nowhere/x.csv"], "cannot write /nowhere/x.csv"),
    ],
)
def test_errors_are_one_line(tmp_path: Path, changes: list[str], text: str) -> None:
    file = write(pa.table({"a": [1, 2], "b": [1, 2], "u": [2, 1], "t": ["x", "y"]}), tmp_path / "f.parquet")
    options = {"--on": "right.b - left.a BETWEEN 0 AND 1", "--left-rows": "5", "--right-rows": "5", "--device": "numpy"}
    options |= dict(zip(changes[::2], changes[1::2], strict=True))
    told = muntin("join", file, file, *(word for pair in options.items() for word in pair))
    assert told.exit_code == 1
    assert told.stderr.startswith("error: ")
    assert text in told.stderr
    assert told.stderr.strip().count("\n") == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f.parquet"]


def test_errors_name_options(tmp_path: Path) -> None:
    file = write(pa.table({"a": [1, 2], "b": [1, 2]}), tmp_path / "f.parquet")
    told = muntin("join", file, file, "--on", "right.b - left.a BETWEEN 0 AND 1", "--left-rows", 5)
    assert told.stderr.endswith("give --right-rows n too, or --within, or no window at all to keep every row\n")
    told = muntin("join", file, file, "--on", "a", "--left-rows", 5, "--right-rows", 5, "--within", "a,b,0,1")
    assert "count windows (--left-rows and --right-rows) or a time window (--within), not both" in told.stderr
    told = muntin("join", file, file, "--on", "right.b - left.a BETWEEN 0 AND 1", "--left-rows", 0)
    assert told.exit_code == 2
    assert "Invalid value for '--left-rows'" in told.stderr


def test_names_and_conditions_do_not_mix(tmp_path: Path) -> None:
    left = write(pa.table({"a": [1, 2, 3], "b": [1, 2, 2], "x": [1, 2, 3]}), tmp_path / "l.parquet")
    right = write(pa.table({"a": [1, 2, 2], "b": [1, 2, 3], "y": [7, 8, 9]}), tmp_path / "r.parquet")
    assert muntin("join", left, right, "--on", "a", "--on", "b").stdout == '"a","b","x","y"\n1,1,1,7\n2,2,2,8\n'
    told = muntin("join", left, right, "--on", "a", "--on", "right.b > 1")
    assert told.stderr.endswith("stands beside conditions: write 'left.a = right.a' for it\n")
    told = muntin("join", left, right, "--on", "x")
    assert told.stderr == "error: the right side has no column 'x', of --on: it has a, b, y\n"


def test_failed_join_leaves_the_old_output(tmp_path: Path) -> None:
    good = write(pa.table({"a": [1, 2, 3], "s": [1, 2, 3]}), tmp_path / "good.csv")
    bad = write(pa.table({"b": [1, 2, 3], "s": [1, 3, 2]}), tmp_path / "bad.csv")
    output = write(pa.table({"old": [1]}), tmp_path / "out.parquet")
    told = muntin(
        "join", good, bad, "--on", "a = b", "--left-rows", 5, "--right-rows", 5, "--sequence", "s", "--batch-rows", 1,
        "--device", "numpy", "-o", output,
    )  # fmt: skip
    assert told.exit_code == 1
    assert "bad.csv does not ascend by 's'" in told.stderr
    assert read(output).schema.names == ["old"]
    assert len(list(tmp_path.iterdir())) == 3


def test_unreadable_files(tmp_path: Path) -> None:
    arguments = ("--on", "a = b", "--left-rows", 5, "--right-rows", 5, "--device", "numpy")
    for name in ("x.parquet", "x.arrow", "x.csv", "x.json"):
        (tmp_path / name).write_bytes(b"" if name.endswith("csv") else b"not a table")
        told = muntin("join", tmp_path / name, tmp_path / name, *arguments)
        assert told.exit_code == 1
        assert name in told.stderr
    assert "missing.csv: there is no" in muntin("join", tmp_path / "missing.csv", tmp_path / "x.csv", *arguments).stderr


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    file = write(pa.table({"a": [1]}), tmp_path / "a.csv")
    told = muntin("--debug", "join", file, file, "--on", "a >", "--left-rows", 1, "--right-rows", 1)
    assert type(told.exception).__name__ == "SqlError"


def test_devices() -> None:
    listed = muntin("devices")
    assert listed.exit_code == 0
    assert any(line.startswith("numpy") for line in listed.stdout.splitlines())
    by_name = {device["name"]: device for device in json.loads(muntin("devices", "--json").stdout)}
    assert by_name["numpy"]["indexes"] == ["sorted_runs", "bisort"]
    assert by_name["sim:splitjoin-model"]["indexes"] == ["nested_loop"]
    assert by_name["board:ecpix5:design=splitjoin"]["indexes"] == ["nested_loop"]
    assert by_name["board:ecpix5"]["indexes"] == ["sorted_runs", "bisort"]
    assert "(index: sorted_runs, bisort)" in listed.stdout


def test_devices_of_the_simulation_and_what_keeps_one_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    lines = {line.split()[0]: line for line in muntin("devices").stdout.splitlines() if line.startswith("sim:")}
    assert list(lines) == [
        "sim:bisort",
        "sim:bisort-fast",
        "sim:ecpix5",
        "sim:ecpix5:ethernet",
        "sim:ulx3s",
        "sim:bisort-model",
        "sim:de5a",
        "sim:splitjoin",
        "sim:splitjoin-model",
        "sim:ecpix5:design=splitjoin",
        "sim:de5a:design=splitjoin",
    ]
    for name in lines.keys() - {"sim:bisort-model", "sim:splitjoin-model"}:
        assert lines[name].split()[1] == "absent"
        assert "pip install" in lines[name]
    assert "model of the BI-Sort kernel" in lines["sim:bisort-model"]
    assert "windows of at most 16,384 rows" in lines["sim:splitjoin-model"]


@pytest.mark.parametrize("device", ["sim:bisort-model", "sim:bisort-fast", "sim:splitjoin-model"])
def test_join_on_a_simulated_device(tmp_path: Path, seed: int, device: str) -> None:
    left, right = streams(seed + 3)
    files = write(left, tmp_path / "left.parquet"), write(right, tmp_path / "right.arrow")
    told = muntin(
        "join", *files, "--on", NEAR, "--left-rows", 40, "--right-rows", 25, "--sequence", "seq",
        "--device", simulated(device, 64), "--batch-rows", 100, "-o", tmp_path / "out.parquet",
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    assert ids(read(tmp_path / "out.parquet")) == nested_loop(left, right, (40, 25), by_sequence(left, right))


def test_status(tmp_path: Path) -> None:
    with start_private("numpy", timeout=30) as daemon:
        told = muntin("status", "--daemon", daemon.address)
        assert told.exit_code == 0, told.output
        assert "device   numpy" in told.stdout
        assert json.loads(muntin("status", "--daemon", daemon.address, "--json").stdout)["queries"] == {}
    told = muntin("status", "--daemon", daemon.address)
    assert told.exit_code == 1
    assert told.stderr.startswith("error: no daemon answers")


def test_close(tmp_path: Path) -> None:
    spec = JoinSpec(on=Band("a", "b", 0, 0), left=Rows(5), right=Rows(5))
    with start_private("numpy", timeout=30) as daemon, DaemonClient(daemon.address) as client:
        client.open_query("finished", spec, pa.schema([("a", pa.int32())]), pa.schema([("b", pa.int32())]))
        assert muntin("close", "finished", "--daemon", daemon.address).exit_code == 0
        assert client.status()["queries"] == {}
        told = muntin("close", "finished", "--daemon", daemon.address)
        assert (told.exit_code, "no query 'finished'" in told.stderr) == (1, True)


def test_serve_refuses_what_does_not_go_together() -> None:
    assert "--token-file go together" in muntin("serve", "--listen", "127.0.0.1:0").stderr
    assert "are for --listen" in muntin("serve", "--tls-cert", "x").stderr
    told = muntin("serve", "--device", "numpy", "--max-queries", 0)
    assert (told.exit_code, told.stderr) == (1, "error: max_queries must be positive, not 0\n")


@pytest.mark.parametrize(("kind", "on"), [("csv", "left.a = right.a"), ("json", "TRUE")])
def test_closed_pipe_is_no_error_to_tell(tmp_path: Path, kind: str, on: str) -> None:
    """A reader that has seen enough, as `head` has: the small result too, which is written at the end."""
    file = write(pa.table({"a": list(range(300))}), tmp_path / "a.csv")
    command = [sys.executable, "-m", "muntin", "join", file, file, "--on", on, "--output-format", kind]
    reading, writing = os.pipe()
    os.close(reading)
    told = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, cwd=ROOT, timeout=60)
    os.close(writing)
    assert (told.returncode, told.stderr) == (1, "")


# What users do that they should not


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "left.parquet", tmp_path / "right.csv"
    pyarrow.parquet.write_table(pa.table({"limit": range(50)}), paths[0])
    pyarrow.csv.write_csv(pa.table({"price": range(50)}), paths[1])
    return paths


BAND = ("--on", "price = limit", "--left-rows", 9, "--right-rows", 9)


def test_an_output_that_is_an_input(files: tuple[Path, Path], tmp_path: Path) -> None:
    before = files[0].read_bytes()
    (tmp_path / "alias.parquet").symlink_to(files[0])
    for output in (files[0], tmp_path / "alias.parquet"):
        result = muntin("join", *files, *BAND, "-o", output)
        assert result.exit_code == 1
        assert "which it would replace" in result.output
    assert files[0].read_bytes() == before


def test_an_output_that_is_a_device(files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "full.csv").symlink_to("/dev/full")
    result = muntin("join", *files, *BAND, "-o", tmp_path / "full.csv")
    assert result.exit_code == 1
    assert "is no plain file" in result.output


def test_a_column_twice(files: tuple[Path, Path]) -> None:
    files[1].write_text("price,price\n1,2\n")
    result = muntin("join", *files, *BAND)
    assert "right.csv: CSV file contained multiple columns named price" in result.output


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow", "arrows"])
@pytest.mark.parametrize("nested", ["", "struct", "list"])
def test_dictionaries_that_outgrow_their_indices(tmp_path: Path, ending: str, nested: str) -> None:
    """Each batch of the input brings a dictionary of its own; the output can be read, by this command too."""
    kind = pa.dictionary(pa.int8(), pa.string())
    columns = [pa.array([f"{n} of {at}" for n in range(90)]).dictionary_encode().cast(kind) for at in range(3)]
    if nested == "struct":
        columns = [pa.StructArray.from_arrays([column], ["x"]) for column in columns]
    elif nested == "list":
        columns = [pa.ListArray.from_arrays(pa.array(range(91), pa.int32()), column) for column in columns]
    parts = [
        pa.table({"limit": range(90), "id": range(90 * at, 90 * at + 90), "word": c}) for at, c in enumerate(columns)
    ]
    left = pa.concat_tables(parts)
    with pa.ipc.new_stream(tmp_path / "left.arrows", left.schema) as writer:
        writer.write_table(left)
    write(pa.table({"price": range(90)}), tmp_path / "right.parquet")
    output = tmp_path / f"out.{ending}"
    files = tmp_path / "left.arrows", tmp_path / "right.parquet"
    result = muntin("join", *files, "--on", "left.limit = right.price", "--batch-rows", 128, "-o", output)
    if ending == "csv" and nested:
        assert result.exit_code == 1
        assert result.output.splitlines()[-1].startswith("error: ")
        return
    assert result.exit_code == 0, result.output
    again = muntin("join", output, files[1], "--on", "limit = right.price", "-o", tmp_path / "again.arrows")
    assert again.exit_code == 0, again.output
    for path in (output, tmp_path / "again.arrows"):
        found = read(path).select(["id", "word"]).to_pylist()
        assert sorted(found, key=lambda row: row["id"]) == left.select(["id", "word"]).to_pylist()


@pytest.mark.parametrize("ending", ["arrow", "arrows"])
def test_a_damaged_arrow_file_is_named(files: tuple[Path, Path], tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"left.{ending}"
    table = pa.table({"limit": range(20_000), "text": [f"value {i}" for i in range(20_000)]})
    with (pa.ipc.new_file if ending == "arrow" else pa.ipc.new_stream)(str(path), table.schema) as writer:
        writer.write_table(table, 1000)
    data = path.read_bytes()
    for damaged in (data[: len(data) // 2], data[:9], b""):
        path.write_bytes(damaged)
        result = muntin("join", path, files[1], *BAND)
        assert result.exit_code == 1
        assert result.output.splitlines()[-1].startswith("error: ")
        assert path.name in result.output


def test_too_many_rows_for_a_batch(files: tuple[Path, Path]) -> None:
    assert muntin("join", *files, *BAND, "--batch-rows", 10**20).exit_code == 2


def test_sigterm_ends_a_text_as_an_error_does(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def terminated(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("muntin.query.sql", terminated)
    try:
        assert muntin("sql", "SELECT * FROM a JOIN b ON true", "--table", f"a={files[0]}").exit_code == 143
    finally:
        signal.signal(signal.SIGTERM, before)


def test_sigterm_leaves_no_half_output(files: tuple[Path, Path], tmp_path: Path) -> None:
    rows = 3_000_000
    pyarrow.parquet.write_table(pa.table({"limit": np.arange(rows)}), files[0])
    pyarrow.parquet.write_table(pa.table({"price": np.arange(rows)}), tmp_path / "right.parquet")
    output = tmp_path / "out"
    output.mkdir()
    command = [
        sys.executable,
        "-m",
        "muntin",
        "join",
        str(files[0]),
        str(tmp_path / "right.parquet"),
        *map(str, BAND),
    ]
    process = subprocess.Popen([*command, "--batch-rows", "64", "-o", str(output / "out.csv")], cwd=ROOT, stderr=-3)
    try:
        while not list(output.iterdir()):
            assert process.poll() is None
            time.sleep(0.01)
        process.terminate()
        assert process.wait(60) == 143
    finally:
        process.kill()
        process.wait()
    assert list(output.iterdir()) == []


def test_top(tmp_path: Path) -> None:
    schemas = pa.schema([("limit", pa.int64())]), pa.schema([("price", pa.int64())])
    spec = JoinSpec(on=Band("limit", "price", 0, 0), left=Rows(5), right=Rows(7))
    with start_private("numpy", state=str(tmp_path)) as daemon, DaemonClient(daemon.address) as client:
        client.open_query("q", spec, *schemas)
        rows = pa.record_batch([pa.array(range(9))], schema=schemas[0])
        assert list(client.process("q", 0, [("left", rows)])) == []
        result = muntin("top", "--daemon", daemon.address, "--times", 2, "--seconds", 0.1)
        assert result.exit_code == 0, result.output
        assert "numpy" in result.output
        assert client.status()["queries"]["q"]["stats"]["state_calls"] == 1


def test_conditions_that_compare_nothing(tmp_path):
    left, right = tmp_path / "left.csv", tmp_path / "right.csv"
    left.write_text("a\n1\n2\n")
    right.write_text("b\n1\n3\n")

    def rows(*arguments: object) -> list[str]:
        result = muntin("join", left, right, *arguments)
        assert result.exit_code == 0, result.output
        return sorted(result.stdout.splitlines()[1:])

    every = ["1,1", "1,3", "2,1", "2,3"]
    for condition in (["TRUE"], ["1 = 1 OR a = b"], ["TRUE", "2 > 1"], ["(" * 400 + "1 < 2" + ")" * 400]):
        assert rows(*(word for text in condition for word in ("--on", text)), "--how", "cross") == every
    assert rows("--on", "FALSE OR a = b") == ["1,1"]
    assert rows("--on", "FALSE", "--how", "full") == [",1", ",3", "1,", "2,"]
    assert rows("--on", "TRUE", "--where", "left.a > 1") == every[2:]
    assert rows("--on", "TRUE", "--on", "a < b") == ["1,3", "2,3"]
    for text in ("(TRUE AND " * 400 + "a = b" + ")" * 400, "NOT " * 400 + "(a = b)"):
        result = muntin("join", left, right, "--on", text)
        assert result.exit_code == 1
        assert "the text nests 400 deep here" in result.output
    assert rows("--on", "a = b", "--where", "(" * 400 + "left.a < 2" + ")" * 400) == ["1,1"]


def test_sql(tmp_path: Path, seed: int) -> None:
    left, right = streams(seed)
    files = write(left, tmp_path / "left.parquet"), write(right, tmp_path / "right.csv")
    tables = ("--table", f"bids={files[0]}", "--table", f"asks={files[1]}")
    join = "FROM bids b JOIN asks a ON a.price BETWEEN b.limit AND b.limit + 1"
    told = muntin("sql", f"SELECT b.id AS id, a.id AS id_right {join}", *tables, "-o", tmp_path / "out.arrow")
    assert told.exit_code == 0, told.output
    limit, price = left["limit"].to_pylist(), right["price"].to_pylist()
    assert ids(read(tmp_path / "out.arrow")) == {
        (i, j) for i in range(len(limit)) for j in range(len(price)) if limit[i] <= price[j] <= limit[i] + 1
    }
    told = muntin("sql", f"SELECT count(*) AS n {join}", *tables, "--output-format", "json")
    assert json.loads(told.stdout) == {"n": read(tmp_path / "out.arrow").num_rows}
    assert "join 1, here: bids with asks" in muntin("sql", f"SELECT count(*) {join}", *tables, "--explain").stdout
    for text, options, said in (
        (f"SELECT * {join} + x", tables, "error: line 1, column"),
        (f"SELECT * {join}", tables[:2], "asks"),
        (f"SELECT * {join}", (*tables, *tables), "--table bids is given twice"),
        (f"SELECT * {join}", ("--table", "bids"), "must be like bids=bids.parquet"),
        (f"SELECT b.id {join}", (*tables, "-o", files[0]), "which it would replace"),
        (f"SELECT b.id {join}", ("--table", "bids=-", "--table", "asks=-", "--format", "csv"), "are standard input"),
        (f"SELECT sum(b.id) {join}", (*tables, "--output-format", "json"), "or cast it in a SELECT"),
    ):
        told = muntin("sql", text, *options)
        assert told.exit_code
        assert said in told.stderr
