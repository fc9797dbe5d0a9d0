"""How long a row takes through SplitJoin."""

import dataclasses
from typing import Any

from amaranth.sim import Simulator

from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.hw.splitjoin.splitjoin import SplitJoin


def splitjoin_latency(cores: int, fan_out: int) -> tuple[int, int]:
    """Cycles from a row's arrival to its first pair, with one row to compare with in each core.

    Parameters
    ----------
    cores : int
        J.
    fan_out : int
        k, of the distributor and of the merger trees.

    Returns
    -------
    cycles : int
    levels : int
        Of each tree, ``ceil(log(J) / log(k))``.
    """
    parameters = dataclasses.replace(
        SplitJoinParameters.preset("tiny"), time_bits=0, cores=cores, lanes=1, rows=2, fan_out=fan_out, fan_in=fan_out
    )
    join = SplitJoin(parameters)
    cycles = []

    async def send(ctx: Any, row: dict[str, int]) -> None:
        ctx.set(join.i.payload, row)
        ctx.set(join.i.valid, 1)
        while not ctx.get(join.i.ready):
            await ctx.tick()
        await ctx.tick()
        ctx.set(join.i.valid, 0)

    async def bench(ctx: Any) -> None:
        settings = join.settings
        ctx.set(settings.left_rows, cores)
        ctx.set(settings.right_rows, cores)
        ctx.set(join.o.ready, 1)
        await ctx.tick()  # for the cores' copies of the settings
        for number in range(cores):
            await send(ctx, {"side": 0, "row": number})
        await ctx.tick().until(join.idle)
        assert ctx.get(join.i.ready)
        await send(ctx, {"side": 1, "row": 77})
        for cycle in range(1, 60):
            if ctx.get(join.o.valid):
                cycles.append(cycle)
                return
            await ctx.tick()

    simulator = Simulator(join)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return cycles[0], parameters.levels
