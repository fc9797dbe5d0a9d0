"""What a windowed join costs a kernel, counted."""

import json

import pytest
from click.testing import CliRunner

from bench.filled_board import FilledBoard
from bench.simulated_join import CountingLink, board_of, join_cost, main, main_array_cost
from muntin.contract import ParameterError
from muntin.contract.simulations import board_parameters
from muntin.sim.models.kernel import KernelModel

pytest.importorskip("amaranth")

MEMORY = 1 << 26


def cost(index, **changes):
    link = CountingLink(KernelModel(board_parameters(32, "fast"), MEMORY))
    arguments = {"window": 1 << 16, "batch": 1 << 10, "calls": 22, "seed": 5}
    return join_cost(link, MEMORY, index=index, **(arguments | changes))


def test_bisort_moves_more_bytes_than_sorted_runs():
    bisort, runs = cost("bisort"), cost("sorted_runs")
    assert bisort.rows == runs.rows == 2 * 22 << 10
    assert bisort.bytes_per_row("MERGE") > 1.5 * runs.bytes_per_row("MERGE") > 0
    assert bisort.bytes_per_row("PROBE") > 0
    assert set(bisort.costs) >= {"MERGE", "PROBE"}
    assert bisort.cycles == 0


def test_one_array_is_rewritten_for_every_batch():
    link = CountingLink(KernelModel(board_parameters(32, "fast"), MEMORY))
    cost = main_array_cost(link, MEMORY, window=1 << 16, batch=1 << 10, seed=5)
    rows = (1 << 16) + (1 << 10)
    moved = rows * 16 + rows // 16 * 4  # keys and row numbers, in and out, and the index
    assert cost.bytes_per_row("MERGE") * cost.rows == pytest.approx(moved, rel=0.001)
    assert set(cost.costs) == {"MERGE", "PROBE"}


def test_windows_that_a_model_filled():
    """The board, here another model, does only what is counted and the call before, and goes on with the same rows."""
    board = KernelModel(board_parameters(32, "fast"), MEMORY)
    filled = FilledBoard(board)
    arguments = {"index": "sorted_runs", "window": 1 << 16, "batch": 1 << 10, "seed": 5}
    handed = join_cost(CountingLink(filled), MEMORY, calls=3, filled=filled, **arguments)
    plain = CountingLink(KernelModel(board_parameters(32, "fast"), MEMORY))
    # One call more, as the call before is not counted; the rest is alike, but for indexes that lie on chip.
    expected = join_cost(plain, MEMORY, calls=4, **arguments)
    assert 0 < handed.bytes_per_row("PROBE") == pytest.approx(expected.bytes_per_row("PROBE"), rel=0.2)
    assert handed.bytes_per_row("MERGE") * handed.rows <= expected.bytes_per_row("MERGE") * expected.rows
    with pytest.raises(RuntimeError, match="no model"):
        filled.hand_over()


def test_the_command_prints_both_indexes_and_writes_json(tmp_path):
    path = tmp_path / "join.json"
    done = CliRunner().invoke(main, ["--window", "16K", "--batch", "512", "--calls", "2", "--json", str(path)])
    assert done.exit_code == 0, done.output
    assert "bisort" in done.output
    assert "sorted_runs" in done.output
    assert [entry["index"] for entry in json.loads(path.read_text())["costs"]] == ["one array", "bisort", "sorted_runs"]


def test_shorter_partitions_take_fewer_bytes(tmp_path):
    path = tmp_path / "join.json"
    sizes = ["--window", "64K", "--batch", "512", "--calls", "1", "--partition", "64", "--partition", "16"]
    done = CliRunner().invoke(main, [*sizes, "--index", "sorted_runs", "--json", str(path)])
    assert done.exit_code == 0, done.output
    assert "256 KiB" in done.output
    entries = json.loads(path.read_text())["costs"]
    assert [(entry["index"], entry["partition_rows"], entry["index_bytes"] >> 10) for entry in entries] == [
        ("one array", 64, 256),
        ("sorted_runs", 64, 256),
        ("one array", 16, 256),
        ("sorted_runs", 16, 256),
    ]
    read = [entry["costs"]["PROBE"]["read_beats"] for entry in entries]
    assert read[2] < 0.6 * read[0]
    assert read[3] < 0.6 * read[1]


@pytest.mark.parametrize(("partition", "mebibytes"), [(64, 1), (32, 2), (16, 4)])
def test_the_indexes_of_both_windows_have_room_on_chip(partition, mebibytes):
    parameters = board_of(8 << 20, partition)
    assert parameters.index_rows * parameters.key_bits // 8 == mebibytes << 20
    assert parameters.run_rows == 16 << 20


def test_a_partition_that_is_no_power_of_two_is_refused():
    with pytest.raises(ParameterError, match="partition_rows must be a power of two, not 48"):
        board_parameters(32, "fast", partition_rows=48)
