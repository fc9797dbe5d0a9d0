"""A simulated board with two lanes: a whole join, each lane with a part of every run."""

import numpy as np
import pytest

from bench.hardware.lanes_bench import lanes_bench
from muntin import Band, Rows, WindowJoin
from muntin.hardware import open_device
from tests.conformance.small_joins import pairs_of, table
from tests.oracles.nested_loop import NestedLoop
from tests.simulated import simulated

NAME = "sim:bisort-fast:lanes=2"


@pytest.mark.full
@pytest.mark.parametrize("keys", ["spread", "equal"])
def test_a_join_on_two_lanes(keys, seed):
    rng = np.random.default_rng(seed)
    spread = 200 if keys == "spread" else 1
    batches = [[table(rng.integers(0, spread, 150).astype(np.int32)) for _ in range(2)] for _ in range(4)]
    device = open_device(simulated(NAME, 32))
    loop = NestedLoop(("band", -1, 1), "k", "k", rows=(300, 300))
    with WindowJoin(
        on=Band("k", "k", -1, 1), left=Rows(300), right=Rows(300), form="pairs", order="inner", device=device
    ) as join:
        for left, right in batches:
            due = [(pair.left, pair.right) for pair in loop.process(left, right)]
            assert pairs_of(join.process(left, right)) == due
    board = device.open_board(32)
    rows = [board.counters(lane)["rows_in"] for lane in range(2)]
    assert rows[1] > 0
    assert (rows[0] > rows[1] / 3) if keys == "spread" else rows[0] == 0, "equal keys are all of one lane"
    device.close()


@pytest.mark.full
def test_two_lanes_halve_the_time(seed):
    simulated(NAME, 32)
    figures = list(lanes_bench(1 << 19, seed, memory="fast"))
    assert [figure.lanes for figure in figures] == [1] * 3 + [2] * 3
    assert all(figure.faster == 1 for figure in figures[:3])
    assert all(1.8 < figure.faster <= 2.2 for figure in figures[3:]), figures
