"""A bench that fails is told, wherever it is run."""

import pytest
from amaranth.hdl import Module

from sim.block_runner import run_bench
from tests.sim.test_colliding_reads import Store


class Forgetful(Store):
    """The ports of a memory with nothing behind them."""

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.sync += self.o.eq(0)
        return m


@pytest.mark.parametrize("under_pytest", [True, False])
def test_a_bench_that_fails(under_pytest, seed, monkeypatch):
    if not under_pytest:
        monkeypatch.delenv("PYTEST_CURRENT_TEST")
    with pytest.raises(AssertionError, match=rf"colliding_reads failed with seed {seed}; log \S+, design \S+top\.v"):
        run_bench(Forgetful(), "forgetful", "sim.benches.colliding_reads", seed=seed)
