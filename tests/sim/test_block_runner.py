"""A bench that fails is told, wherever it is run; a model is compiled once."""

import cocotb
import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles

from muntin.sim import block_runner
from muntin.sim.block_runner import run_bench
from muntin.sim.kept import COUNTS
from tests.sim.test_undefined import Store


class Forgetful(Store):
    """The ports of a memory with nothing behind them."""

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.sync += self.o.eq(0)
        return m


class Held(wiring.Component):
    """A register that takes `i` where `take` is set."""

    def __init__(self, reset: bool):
        self._reset = reset
        super().__init__({"i": In(64), "take": In(1), "o": Out(64)})

    def elaborate(self, platform) -> Module:
        m = Module()
        held, passed = Signal(64, reset_less=not self._reset), Signal()
        m.d.sync += passed.eq(self.take)  # what the port of the reset is there for, in either case
        with m.If(self.take):
            m.d.sync += held.eq(self.i)
        m.d.comb += self.o.eq(held)
        return m


@cocotb.test()
async def holds_zero(dut):
    """A bench that leaves inputs undriven, and asks what the register holds behind a reset."""
    cocotb.start_soon(Clock(dut.clk, 10, unit="ns").start())
    dut.rst.value = 1
    await ClockCycles(dut.clk, 2)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 2)
    assert dut.o.value == 0


@pytest.mark.parametrize("under_pytest", [True, False])
def test_a_bench_that_fails(under_pytest, seed, monkeypatch):
    if not under_pytest:
        monkeypatch.delenv("PYTEST_CURRENT_TEST")
    with pytest.raises(AssertionError, match=rf"colliding_reads failed with seed {seed}; log \S+, design \S+top\.v"):
        run_bench(Forgetful(), "forgetful", "tests.hw.benches.colliding_reads", seed=seed)


def test_what_registers_hold_first_is_drawn(seed, monkeypatch):
    """What is reset is as without, inputs that a bench leaves alone are 0, and a register without a reset is found."""
    log = run_bench(Held(True), "held", __name__, seed=seed, drawn=True).read_text()
    assert "begins_in_reset" in log
    monkeypatch.setenv("POWER_UP", "1")
    with pytest.raises(AssertionError, match=r"holds_zero.* FAIL"):
        run_bench(Held(False), "never_reset", __name__, seed=seed)


@pytest.mark.full
def test_the_runtime_is_compiled_once(seed, tmp_path, monkeypatch):
    """Two blocks take it from one place; no makefile makes it again."""
    left = []
    monkeypatch.setattr(block_runner, "BUILD", tmp_path / "blocks")
    monkeypatch.setattr(block_runner, "_leave", lambda place, *names: left.append({f.name for f in place.iterdir()}))
    for name in ("first", "second"):
        run_bench(Store(), name, "tests.hw.benches.colliding_reads", seed=seed)
    runtime, first, second = left
    assert "verilated_vpi.o" in runtime
    assert "Vtop__ALL.o" in first & second
    assert not [file for file in first | second if file.startswith("verilated")]


def test_a_model_is_compiled_once(seed, monkeypatch):
    def run(number):
        return run_bench(Store(), "kept_store", "tests.hw.benches.colliding_reads", seed=seed + number)

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
