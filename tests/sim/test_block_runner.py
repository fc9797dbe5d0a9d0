"""A bench that fails is told, wherever it is run; a model is compiled once."""

import pytest
from amaranth.hdl import Module

from muntin.sim import block_runner
from muntin.sim.block_runner import run_bench
from muntin.sim.kept import COUNTS
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
        run_bench(Forgetful(), "forgetful", "muntin.sim.benches.colliding_reads", seed=seed)


def test_a_model_is_compiled_once(seed, monkeypatch):
    def run(number):
        return run_bench(Store(), "kept_store", "muntin.sim.benches.colliding_reads", seed=seed + number)

    before = COUNTS.copy()
    first = run(0)
    monkeypatch.setattr(block_runner, "_compile", None)
    second = run(1)
    assert first.parents[1] == second.parents[1]
    assert first != second  # logs of different runs do not overwrite each other
    assert (COUNTS - before)["model kept"] >= 1
    assert sorted(file.name for file in first.parents[1].iterdir() if file.is_file() and file.suffix != ".lock") == [
        "kept.json",
        "top",
        "top.v",
    ]
