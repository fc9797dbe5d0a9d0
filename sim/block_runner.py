"""Compiles a block with Verilator and runs a cocotb bench on it."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from amaranth.back import verilog
from amaranth.lib import wiring
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

from sim.board.verilator_environment import verilator_environment
from sim.colliding_reads import colliding_reads
from sim.compact_verilog import compact_verilog

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "blocks"


def run_bench(component: wiring.Component, name: str, bench: str, *, seed: int, **settings: Any) -> Path:
    """Runs the cocotb tests of a bench on a block; the block is compiled once for each content.

    Memories are as of `colliding_reads`: what a read gives that meets a write is wrong.

    With ``WAVES=1`` in the environment the waveforms are written next to the build, as ``dump.vcd``.

    Parameters
    ----------
    component : Component
    name : str
        Names the build folder.
    bench : str
        Import path of the module of cocotb tests.
    seed : int
        Seeds the bench.
    settings
        Read by the bench with `sim.stream_bench.settings`; they must fit JSON.

    Returns
    -------
    Path
        The log.

    Raises
    ------
    AssertionError
        If a cocotb test failed, or the simulation ended without results; it names the log and the design.
    """
    text = verilog.convert(component, name="top", strip_internal_attrs=True, emit_src=False)
    text = colliding_reads(compact_verilog(text))
    waves = os.environ.get("WAVES", "0") == "1"
    digest = hashlib.sha256(f"{waves} {text}".encode()).hexdigest()[:12]
    folder = BUILD / f"{name}-{digest}"
    source = folder / "top.v"
    folder.mkdir(parents=True, exist_ok=True)
    if not source.exists():
        source.write_text(text)
    ports = folder / "ports.vlt"
    names = re.search(r"^module top\((.*?)\);", text, re.M | re.S)
    assert names is not None
    public = [f'public_flat_rw -module "top" -var "{name.strip()}"' for name in names[1].split(",")]
    ports.write_text("\n".join(["`verilator_config", *public, ""]))
    os.environ.update(verilator_environment())
    os.environ["MAKEFLAGS"] = "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O1"
    if str(ROOT) not in sys.path:  # the runner hands sys.path on to the simulator
        sys.path.insert(0, str(ROOT))
    # Verilator's own runtime takes longer to compile than a block: one build makes it for all others.
    runtime = BUILD / f"runtime-{importlib.metadata.version('verilator')}-{'waves' if waves else 'plain'}"
    for part in runtime.glob("*.o"):
        if not (folder / part.name).exists():
            shutil.copy(part, folder)
    runner = get_runner("verilator")
    runner.build(
        sources=[source],
        hdl_toplevel="top",
        build_dir=folder,
        # Only ports are seen from outside: with every signal public, compiling takes several times as long.
        # One source file needs no precompiled header, for which the wheel's makefile lacks a flag. Compiling
        # takes longer than running.
        build_args=["-Wno-fatal", "-Wno-lint", "--no-public-flat-rw", "--output-split", "0", str(ports)],
        timescale=("1ns", "1ps"),
        waves=waves,
        log_file=folder / "build.log",
    )
    if not runtime.exists():
        with tempfile.TemporaryDirectory(dir=BUILD) as fresh:
            for part in folder.glob("verilated*.o"):
                shutil.copy(part, fresh)
            with contextlib.suppress(OSError):  # another process was first
                os.rename(fresh, runtime)
            os.makedirs(fresh, exist_ok=True)
    log = folder / f"{bench}.log"
    try:
        results = runner.test(
            test_module=bench,
            hdl_toplevel="top",
            build_dir=folder,
            results_xml=str(folder / f"{bench}.xml"),
            seed=seed,
            waves=waves,
            extra_env={"BENCH_SETTINGS": json.dumps(settings | {"seed": seed})},
            log_file=log,
        )
        _, failed = get_results(results)
        if failed:  # the runner itself looks at the results under pytest alone
            raise SystemExit(1)
    except (SystemExit, RuntimeError) as error:
        failures = [line.strip() for line in log.read_text().splitlines() if "Error" in line or " FAIL " in line]
        raise AssertionError(
            "\n".join([f"{bench} failed with seed {seed}; log {log}, design {source}", *failures])
        ) from error
    return log
