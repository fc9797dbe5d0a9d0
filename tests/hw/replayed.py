"""What a component's ports do in Amaranth's simulator, done again on Verilator: with counts, or on the netlist."""

import json
import os
from typing import Any

from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amaranth.sim import Simulator

from muntin.sim.kept import CACHE, digest


def run_and_replay(simulator: Simulator, component: wiring.Component, name: str, seed: int = 0) -> None:
    """Run a simulation; with COVERAGE=1 or NETLIST=1 again: inputs are given, and outputs must be the same each cycle.

    Parameters
    ----------
    simulator : Simulator
        Of a design with the component in it, which has a clock and is reset at no time.
    component : Component
    name : str
        Names the folder, as of `muntin.sim.block_runner.run_bench`.
    seed : int
    """
    if "1" not in (os.environ.get("COVERAGE"), os.environ.get("NETLIST")):
        simulator.run()
        return
    from muntin.sim.block_runner import run_bench  # it needs cocotb

    ports = list(component.signature.flatten(component))
    cycles: list[tuple[int, ...]] = []

    async def record(ctx: Any) -> None:
        async for _, _, *now in ctx.tick().sample(*(Value.cast(value) for *_, value in ports)):
            cycles.append(tuple(now))

    simulator.add_testbench(record, background=True)
    simulator.run()
    recording = [[("__".join(map(str, path)), member.flow == In) for path, member, _ in ports], cycles]
    place = CACHE / "recordings" / f"{digest(recording)}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(recording))
    run_bench(component, name, "tests.hw.benches.replay", seed=seed, recording=str(place))
