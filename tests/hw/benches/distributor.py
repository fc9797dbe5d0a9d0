"""The distributor, with a FIFO before each core, against its model."""

from __future__ import annotations

import random

import cocotb

from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.hw.splitjoin.distributor import rows_way
from muntin.hw.splitjoin.layouts import tagged_row
from muntin.sim.models.splitjoin import JoinRow, distribute
from muntin.sim.stream_bench import STALLS, StreamBench, settings
from tests.hw.benches.join_ports import pack_row

SETTINGS = settings()
TREES = {name: SplitJoinParameters(**values) for name, values in SETTINGS["trees"].items()}
SEED = SETTINGS["seed"]


def _bench(dut, tree: str, stalls: str = "none", only: tuple[str, ...] = ()) -> StreamBench:
    layout = tagged_row(TREES[tree])
    sinks = {f"{tree}__o__{core}": layout for core in range(TREES[tree].cores)}
    return StreamBench(dut, {f"{tree}__i": layout}, sinks, stalls=stalls, seed=SEED, only=only)


def _rows(count: int) -> list[JoinRow]:
    rng = random.Random(SEED)
    return [JoinRow(side=rng.randrange(2), row=at, key=rng.getrandbits(32)) for at in range(count)]


def _payload(tree: str, row: JoinRow) -> dict[str, int]:
    return pack_row(row, TREES[tree])


@cocotb.test()
@cocotb.parametrize(tree=list(TREES), stalls=list(STALLS))
async def every_core_gets_every_row(dut, tree, stalls):
    bench = _bench(dut, tree, stalls)
    source = bench.sources[f"{tree}__i"]
    await bench.reset()
    rows = _rows(150)
    source.queue += [_payload(tree, row) for row in rows]
    await bench.run(lambda: all(len(sink.received) == len(rows) for sink in bench.sinks.values()))
    await bench.idle(5)
    expected = distribute(rows, TREES[tree].cores)
    for sink, part in zip(bench.sinks.values(), expected, strict=True):
        assert sink.received == [_payload(tree, row) for row in part]
    assert not getattr(dut, f"{tree}__busy").value


@cocotb.test()
@cocotb.parametrize(tree=list(TREES))
async def a_row_a_cycle_and_a_cycle_a_level(dut, tree):
    bench = _bench(dut, tree)
    source = bench.sources[f"{tree}__i"]
    await bench.reset()
    source.queue += [_payload(tree, row) for row in _rows(40)]
    await bench.run(lambda: all(len(sink.received) == 40 for sink in bench.sinks.values()))
    assert source.taken == list(range(40))
    for sink in bench.sinks.values():
        assert sink.cycles == [cycle + TREES[tree].levels + 1 for cycle in range(40)]


@cocotb.test()
@cocotb.parametrize(tree=list(TREES))
async def one_core_that_stalls_holds_the_tree(dut, tree):
    """Others get no more than fits before the one that stalls, and go on when it does."""
    cores, depth = TREES[tree].cores, 2 * (rows_way(TREES[tree]) + 2)
    bench = _bench(dut, tree)
    source = bench.sources[f"{tree}__i"]
    await bench.reset()
    held = bench.sinks[f"{tree}__o__{cores // 2}"]
    held.stalls = iter([True] * 100 + [False] * 1000)
    rows = [_payload(tree, row) for row in _rows(60)]
    source.queue += rows
    for _ in range(100):
        await bench.step()
    assert not held.received
    for sink in bench.sinks.values():
        assert sink is held or depth // 2 < len(sink.received) <= depth
        assert sink.received == rows[: len(sink.received)]
    await bench.run(lambda: all(len(sink.received) == 60 for sink in bench.sinks.values()))
    assert all(sink.received == rows for sink in bench.sinks.values())
