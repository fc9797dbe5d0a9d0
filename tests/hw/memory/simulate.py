"""Runs cocotb tests on a component."""

import hashlib
import os
from pathlib import Path

import pytest
from amaranth.back import verilog
from amaranth.lib import wiring

from sim.board.verilator_environment import verilator_environment

BUILD = Path(__file__).parents[3] / "build" / "cocotb"


def simulate(component: wiring.Component, name: str, module: str, seed: int, **settings: object) -> None:
    """Compile a component with Verilator, once for each content, and run the cocotb tests of a module on it.

    Parameters
    ----------
    component : Component
        What to test; the top level of the simulation, under the name `top`.
    name : str
        Names the folder below `build/cocotb`.
    module : str
        Import path of the module with the cocotb tests.
    seed : int
        For everything random in them.
    settings
        Reach the tests as environment variables, in capitals.
    """
    runner_module = pytest.importorskip("cocotb_tools.runner")
    results_module = pytest.importorskip("cocotb_tools.check_results")
    os.environ.update(verilator_environment())
    text = verilog.convert(component, name="top", strip_internal_attrs=True)
    waves = os.environ.get("WAVES", "0") == "1"
    digest = hashlib.sha256(f"{waves}{text}".encode()).hexdigest()[:16]
    folder = BUILD / f"{name}-{digest}"
    source = folder / "top.v"
    folder.mkdir(parents=True, exist_ok=True)
    if not source.exists():
        source.write_text(text)
    runner = runner_module.get_runner("verilator")
    runner.build(
        sources=[source],
        hdl_toplevel="top",
        build_dir=folder,
        build_args=["-Wno-fatal", "-Wno-lint", "-CFLAGS", "-O1", "--output-split", "0"],
        timescale=("1ns", "1ps"),
        waves=waves,
    )
    results = runner.test(
        test_module=module,
        hdl_toplevel="top",
        build_dir=folder,
        seed=seed,
        waves=waves,
        extra_env={key.upper(): str(value) for key, value in settings.items()},
    )
    count, failed = results_module.get_results(results)
    assert count, f"{module} has no cocotb tests"
    assert not failed, f"{failed} of {count} cocotb tests of {module} failed (seed {seed})"
