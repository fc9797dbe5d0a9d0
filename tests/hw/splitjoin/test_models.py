"""The model of SplitJoin against a nested loop, and the order of what it puts out."""

import random

import pytest

from muntin.contract.designs.splitjoin import Order
from muntin.sim.models.splitjoin import SplitJoin, join_oracle
from tests.hw.benches.join_cases import cases
from tests.hw.benches.order_monitor import OrderMonitor


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize(("key_bits", "columns"), [(32, 1), (64, 2)])
def test_model_joins(cores, key_bits, columns, seed):
    overflown = 0
    size = {"cores": cores, "rows": 32 // cores, "key_bits": key_bits, "time_bits": 32, "bounds": 1, "columns": columns}
    for case in cases(random.Random(f"{seed} {cores}"), **size, count=60):
        model = SplitJoin(case.settings, cores=cores, rows=32 // cores)
        results = model.take(case.rows)
        expected = join_oracle(case.rows, case.settings)
        overflown += model.overflow
        for side in (0, 1):
            pairs = [(result.probe, result.row) for result in results[side] if result.row is not None]
            assert len(pairs) == len(set(pairs))
            if model.overflow:
                assert set(pairs) <= expected[side], case
            else:
                assert set(pairs) == expected[side], case
            monitor = OrderMonitor(case.rows, case.settings, side=side, cores=cores)
            for result in results[side]:
                monitor.see(result)
            monitor.end()
    assert 0 < overflown < 20


def test_strict_inner_order_is_by_age(seed):
    for case in cases(random.Random(seed), cores=5, rows=8, key_bits=32, time_bits=32, bounds=0, count=60):
        if case.settings.order == Order.INNER and not case.settings.every:
            for side, results in enumerate(SplitJoin(case.settings, cores=5, rows=8).take(case.rows)):
                age = {row.row: at for at, row in enumerate(case.rows) if row.side != side}
                when = {row.row: at for at, row in enumerate(case.rows) if row.side == side}
                pairs = [(when[result.probe], age[result.row]) for result in results if result.row is not None]
                assert pairs == sorted(pairs)
