"""The lines of `make sim`."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hw.by_design import design_of

ROOT = Path(__file__).parents[2]
TESTS = """
from pathlib import Path

import pytest

from muntin.sim.kept import kept


@pytest.mark.parametrize("block", ["gather", "prober"])
@pytest.mark.parametrize("build", ["narrow", "wide"])
def test_against_the_model(build, block):
    kept(Path(__file__).parent / block, "model", lambda place: None)
    if (build, block) == ("wide", "prober"):
        print("seen in cycle 7")
        assert block == "nothing"


@pytest.fixture
def broken():
    raise ValueError


def test_setup(broken):
    pass


def test_skipped():
    pytest.skip("no board")
"""


@pytest.mark.parametrize(
    ("nodeid", "design"),
    [
        ("tests/hw/bisort/test_blocks.py::test_against_the_model[wide-gather]", "bisort gather"),
        ("tests/hw/splitjoin/test_blocks.py::test_against_the_model[join_core]", "splitjoin join_core"),
        ("tests/hw/bisort/test_blocks.py::test_what_does_not_fit_is_refused[wide-gather]", "bisort blocks"),
        ("tests/hw/splitjoin/test_kernel.py::test_kernel_against_the_model[narrow]", "splitjoin kernel"),
        ("tests/hw/link/test_link.py::test_frames", "link"),
        ("tests/hw/test_identity.py::test_identity", "identity"),
        ("tests/sim/test_board.py::test_board", "sim board"),
    ],
)
def test_design_of(nodeid, design):
    assert design_of(nodeid) == design


@pytest.mark.parametrize("workers", [0, 2])
def test_lines(tmp_path, workers):
    folder = tmp_path / "sorter"
    folder.mkdir()
    (folder / "test_blocks.py").write_text(TESTS)
    (tmp_path / "pytest.ini").touch()
    command = [sys.executable, "-m", "pytest", "-p", "tests.hw.by_design", "-n", str(workers), f"--rootdir={tmp_path}"]
    done = subprocess.run([*command, folder], cwd=ROOT, capture_output=True, text=True)
    lines = {line.split("  ")[0]: line for line in done.stdout.splitlines()}
    assert "2 passed" in lines["sorter gather"]
    assert lines["sorter gather"].endswith("s  models: 1 made, 1 kept before")
    assert "1 failed, 1 passed" in lines["sorter prober"]
    assert "1 error, 1 skipped" in lines["sorter blocks"]
    assert "FAILED sorter/test_blocks.py::test_against_the_model[wide-prober]" in done.stdout
    assert "seen in cycle 7" in done.stdout
    assert "6 tests of 3 designs; models: 2 made, 2 kept before" in done.stdout
    assert done.returncode == 1
