"""Processes of a query in Spark that are killed; ``make fault-real`` kills many."""

import importlib
import os

import pytest

from muntin import Band, Rows
from muntin.pyspark_bridge import window_join
from tests.fault.dying_task import dying_tasks
from tests.fault.kills import PLACES, kill_in_spark
from tests.fault.orders import KINDS, Orders
from tests.oracles.nested_loop import NestedLoop
from tests.pyspark_bridge.data import bids_and_asks
from tests.pyspark_bridge.test_streaming import expected, pairs


def test_killed_tasks(runner, daemon, seed, monkeypatch, tmp_path):
    """One in each micro-batch but the first, in either stage."""
    phases = ("while the rows are sent", "within the fetched rows")
    orders = Orders(tmp_path / "orders")
    orders.folder.mkdir()
    for batch, phase in enumerate(phases, 1):
        orders.give(batch, "task", phase)
    bids, asks = bids_and_asks(seed, batches=len(phases) + 1)
    # The package's function of this name hides its module.
    module = importlib.import_module("muntin.pyspark_bridge.window_join")
    monkeypatch.setattr(module, "task_function", dying_tasks(str(orders.folder)))
    windows = {"left": Rows(50), "right": Rows(50), "sequence": "seq"}
    sides = runner.stream("bids", bids), runner.stream("asks", asks)
    runner.run(
        window_join(*sides, on=Band("limit", "price", -2, 2), **windows, daemon=daemon.address, stages=2, state=None)
    )
    loop = NestedLoop(("band", -2, 2), "limit", "price", rows=(50, 50), sequence="seq")
    assert pairs(runner) == expected(loop, bids, asks)
    assert orders.told("done") == [("task", phase) for phase in phases]


@pytest.mark.full
@pytest.mark.parametrize("place", PLACES)
def test_one_kill_of_each_kind_on_a_cluster(seed, place):
    outcome = kill_in_spark(KINDS, 1, seed, [place])
    assert sorted(kind for kind, _ in outcome.done) == sorted(KINDS)
    assert outcome.rows > 100
    assert (outcome.lost, outcome.doubled) == (0, 0)


def test_an_order_is_carried_out_once(tmp_path):
    """In its phase and batch alone; one whose process has gone is missed."""
    orders, asked = Orders(tmp_path), []

    def no_process():
        asked.append(os.getpid())
        return []

    victims = {"task": no_process}
    orders.give(2, "task", "before the barrier")
    orders.reached("before the barrier", 1, victims)
    orders.reached("within the result", 2, victims)
    assert orders.told("order") == [("task", "before the barrier")]
    for _ in range(2):
        orders.reached("before the barrier", 2, victims)
    assert len(asked) == 1
    assert orders.told("missed") == [("task", "before the barrier")]
