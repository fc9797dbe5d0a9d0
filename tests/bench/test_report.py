"""A small benchmark run from the command line to the README's table."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bench.__main__ import main
from bench.contenders import CppSortedArray, NumpySearchsorted, Pairs, Unavailable
from bench.contenders.cpp_library import cpp_library
from bench.readme import main as readme

CONTENDERS = ("numpy/ladder", "numpy/flat", "numpy-searchsorted")
CELL = ("--workload", "uniform", "--window", "4K", "--batch", "1K")


def run(out: Path, *more: str) -> Result:
    arguments = [*CELL, "--batch", "256", "--seconds", "0.05"]
    for name in CONTENDERS:
        arguments += ["--contender", name]
    return CliRunner().invoke(main, [*arguments, "--out", str(out), *more])


def test_a_run_writes_json_and_plots_and_the_readme_table(tmp_path: Path) -> None:
    done = run(tmp_path, "--turns", "2")
    assert done.exit_code == 0, done.output
    result = json.loads((tmp_path / "latest.json").read_text())
    assert result["versions"]["numpy"]
    assert result["machine"]["cores"]
    assert [cell["batch"] for cell in result["operator"]] == [1024, 256]
    for cell in result["operator"]:
        assert set(cell["contenders"]) == set(CONTENDERS)
        assert cell["calls_compared"] > 0
        assert cell["pairs_per_row"] == pytest.approx(1, rel=0.3)
        for entry in cell["contenders"].values():
            assert len(entry["rates"]) == 2
            assert sum(stretch["calls"] for stretch in entry["stretches"]) == entry["calls"]
    assert (tmp_path / "latest.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "latest.svg").read_text()
    table = CliRunner().invoke(readme, [str(tmp_path / "latest.json")])
    assert table.exit_code == 0, table.output
    assert "| uniform | 4K | 1K |" in table.output
    assert result["date"][:10] in table.output
    assert (result["commit"] or "outside a git checkout") in table.output
    assert str(tmp_path) not in table.output


def test_pairs_that_differ_end_the_run_and_keep_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = NumpySearchsorted.step
    calls = []

    def broken(self: NumpySearchsorted, left, right) -> Pairs:
        pairs = step(self, left, right)
        calls.append(len(left))
        return pairs if len(left) > 256 else Pairs(left=pairs.left[1:], right=pairs.right[1:])

    monkeypatch.setattr(NumpySearchsorted, "step", broken)
    done = run(tmp_path)
    assert done.exit_code == 1
    assert "numpy-searchsorted in uniform, window 4,096, batch 256" in done.output
    kept = json.loads((tmp_path / "latest.json").read_text())["operator"]
    assert [cell["batch"] for cell in kept] == [1024]


def test_an_absent_contender_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpp_library.cache_clear()
    monkeypatch.setenv("CXX", "no-such-compiler")
    done = run(tmp_path, "--contender", CppSortedArray.name, "--turns", "1")
    cpp_library.cache_clear()
    assert done.exit_code == 0, done.output
    assert "without cpp: the C++ peer needs a compiler" in done.output.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "hardware"], "'hardware' is not one of operator, spark"),
        (["--window", "lots"], "'lots' is not a number of rows"),
        (["--quick", "--full"], "exclude each other"),
    ],
)
def test_bad_options_are_explained(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert message in done.output


def test_unavailable_is_not_swallowed_when_nobody_is_left(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main,
        [*CELL, "--contender", "opencl:no such device/ladder", "--out", str(tmp_path)],
    )
    assert done.exit_code == 1
    assert "no such device" in done.output
    assert not isinstance(done.exception, Unavailable)
