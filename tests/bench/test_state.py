"""What state costs, at small sizes and without Spark; and how near joins come to Spark's floor."""

import pytest
from rich.console import Console

from bench import state
from bench.operator_benchmark import ResultsDiffer
from bench.report import print_tables
from bench.spark_plan import FLOOR, FloorPlan

PLAN = state.StatePlan(window=2048, batch=512, turns=3, warm_up=1, recovery_window=4096, spark=False)


def test_rates_and_recovery(capsys: pytest.CaptureFixture[str]) -> None:
    found = state.run_state_benchmark(PLAN)
    for rates in found["rates"].values():
        assert len(rates["rates"]["with"]) == len(rates["rates"]["without"]) == PLAN.turns
        low, high = rates["quartiles"]
        assert 0 < low <= rates["share"] <= high
    assert found["recovery"]["daemon"] > 0
    assert found["recovery"]["state_files"] == 2 * PLAN.recovery_window / (PLAN.batch / 2)
    print_tables(Console(width=150), {"state": found})
    shown = capsys.readouterr().out
    assert "State: 2K rows a side in the window, 512 rows a micro-batch; a window of 4K restored" in shown
    assert f"{found['rates']['daemon']['share']:.1%}" in shown


def test_a_difference_ends_it() -> None:
    with pytest.raises(ResultsDiffer, match="micro-batch 3"):
        state._turns(PLAN, lambda number, _: number, lambda number, _: min(number, 2))


@pytest.mark.full
def test_joins_beside_the_floor_of_spark():
    pytest.importorskip("pyspark")
    from bench.spark_join import run_floor

    (found,) = run_floor(FloorPlan(window=4096, batches=(2048,), turns=2))
    assert len(found["contenders"]) == 4
    assert {len(entry["rates"]) for entry in found["contenders"].values()} == {2}
    for entry in found["contenders"].values():
        assert entry["cpu_seconds"]["Spark"] > 0
    for share in found["kept"][FLOOR].values():
        low, high = share["interval"]
        assert 0 < low <= share["median"] <= high
