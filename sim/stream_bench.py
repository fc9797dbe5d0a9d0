"""Drives and watches the streams of a block under cocotb."""

from __future__ import annotations

import itertools
import json
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib import data
from cocotb.triggers import Timer

STALLS: dict[str, Callable[[random.Random], Iterator[bool]]] = {
    "none": lambda rng: itertools.repeat(False),
    "some": lambda rng: (rng.random() < 0.25 for _ in itertools.count()),
    "most": lambda rng: (rng.random() < 0.8 for _ in itertools.count()),
    "bursts": lambda rng: (
        stall
        for _ in itertools.count()
        for stall, length in ((False, rng.randrange(1, 12)), (True, rng.randrange(1, 12)))
        for _ in range(length)
    ),
}
"""Ways to hold a stream up: each gives, cycle by cycle, whether the bench withholds its valid or ready."""

PATIENCE = 400
"""Cycles in which something must move on some stream."""


def settings() -> dict[str, Any]:
    """What the runner's `settings` said."""
    return json.loads(os.environ["BENCH_SETTINGS"])


def pack(layout: Any, value: Any) -> int:
    """The bits of a payload: a number as it is, a structure from a dict, an array from a list."""
    if isinstance(layout, data.ArrayLayout):
        fields: Any = [(field, value[at]) for at, (_, field) in enumerate(layout) if at < len(value)]
    elif isinstance(layout, data.StructLayout):
        fields = [(layout[name], part) for name, part in value.items()]
    else:
        return int(value) & ((1 << _width(layout)) - 1)
    return sum(pack(field.shape, part) << field.offset for field, part in fields)


def unpack(layout: Any, bits: int) -> Any:
    """The opposite of `pack`."""
    if isinstance(layout, data.ArrayLayout):
        return [_part(field, bits) for _, field in layout]
    if isinstance(layout, data.StructLayout):
        return {name: _part(field, bits) for name, field in layout}
    return bits


def _part(field: data.Field, bits: int) -> Any:
    return unpack(field.shape, (bits >> field.offset) & ((1 << field.width) - 1))


def _width(shape: Any) -> int:
    return shape if isinstance(shape, int) else Shape.cast(shape).width


class StreamLawError(AssertionError):
    """The block broke the law of streams: valid never waits for ready, a payload stands still until taken."""


class _Port:
    def __init__(self, dut: Any, name: str, layout: Any, stalls: Iterator[bool]):
        self.name = name
        self.layout = layout
        self.payload = getattr(dut, f"{name}__payload")
        self.valid = getattr(dut, f"{name}__valid")
        self.ready = getattr(dut, f"{name}__ready")
        self.stalls = stalls


class Source(_Port):
    """Offers payloads to a stream the block takes.

    Attributes
    ----------
    queue : list
        Payloads still to be offered, as `pack` takes them.
    taken : list of int
        The cycle in which each was taken.
    """

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.queue: list[Any] = []
        self.taken: list[int] = []
        self.offered = False


class Sink(_Port):
    """Takes payloads from a stream the block offers.

    Attributes
    ----------
    received : list
        Payloads, as `unpack` gives them.
    cycles : list of int
        The cycle in which each was taken.
    """

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.received: list[Any] = []
        self.cycles: list[int] = []
        self.standing: int | None = None


class StreamBench:
    """One clock and any number of streams, each held up in its own way.

    In every cycle the bench first shows all valids with every ready low, then raises the readies: an output
    whose valid or payload changes by that, or between two cycles without being taken, breaks the law and
    fails the test. While a source offers nothing, its payload is noise.

    Parameters
    ----------
    dut : handle
        The top level, with `clk` and `rst`.
    sources, sinks : dict of str to layout
        Streams by name.
    stalls : str
        A key of `STALLS`.
    seed : int
    only : collection of str
        Streams that the stalls apply to; all where empty.
    """

    def __init__(
        self,
        dut: Any,
        sources: dict[str, Any],
        sinks: dict[str, Any],
        *,
        stalls: str = "none",
        seed: int = 0,
        only: tuple[str, ...] = (),
    ):
        self.dut = dut
        self.cycle = 0
        self.moved = 0
        self._rng = random.Random(seed)

        def pattern(name: str) -> Iterator[bool]:
            kind = stalls if not only or name in only else "none"
            return STALLS[kind](random.Random(f"{seed} {name}"))

        self.sources = {name: Source(dut, name, layout, pattern(name)) for name, layout in sources.items()}
        self.sinks = {name: Sink(dut, name, layout, pattern(name)) for name, layout in sinks.items()}
        self.on_cycle: list[Callable[[], None]] = []

    async def reset(self) -> None:
        """Resets the block."""
        self.dut.clk.value = 0
        self.dut.rst.value = 1
        for source in self.sources.values():
            source.valid.value = 0
        for sink in self.sinks.values():
            sink.ready.value = 0
        for level in (1, 0, 1, 0):
            await Timer(1, "ns")
            self.dut.clk.value = level
        self.dut.rst.value = 0

    async def step(self) -> None:
        """One cycle."""
        for source in self.sources.values():
            if not source.offered and source.queue and not next(source.stalls):
                source.payload.value = pack(source.layout, source.queue[0])
                source.offered = True
            elif not source.offered:
                source.payload.value = self._rng.getrandbits(len(source.payload))
            source.valid.value = int(source.offered)
        for sink in self.sinks.values():
            sink.ready.value = 0
        await Timer(1, "ns")
        before = {
            sink: (int(sink.valid.value), int(sink.payload.value) if sink.valid.value else None)
            for sink in self.sinks.values()
        }
        ready = {}
        for sink in self.sinks.values():
            ready[sink] = not next(sink.stalls)
            sink.ready.value = int(ready[sink])
        await Timer(1, "ns")
        for sink, (valid, payload) in before.items():
            if int(sink.valid.value) != valid or (valid and int(sink.payload.value) != payload):
                raise StreamLawError(f"{sink.name}: valid or payload changed with a ready, cycle {self.cycle}")
            if sink.standing is not None and payload != sink.standing:
                raise StreamLawError(f"{sink.name}: a payload did not stand still, cycle {self.cycle}")
            sink.standing = None if ready[sink] else payload
            if payload is not None and ready[sink]:
                sink.received.append(unpack(sink.layout, payload))
                sink.cycles.append(self.cycle)
                self.moved = self.cycle
        for source in self.sources.values():
            if source.offered and source.ready.value:
                source.queue.pop(0)
                source.taken.append(self.cycle)
                source.offered = False
                self.moved = self.cycle
        for action in self.on_cycle:
            action()
        self.dut.clk.value = 1
        await Timer(1, "ns")
        self.dut.clk.value = 0
        self.cycle += 1

    async def run(self, until: Callable[[], bool]) -> None:
        """Runs until a condition holds.

        Raises
        ------
        AssertionError
            If nothing moves on any stream for `PATIENCE` cycles, or all is not over after a hundred times as
            many.
        """
        start = self.moved = self.cycle
        while not until():
            if self.cycle - self.moved > PATIENCE or self.cycle - start > 100 * PATIENCE:
                left = {source.name: len(source.queue) for source in self.sources.values()}
                got = {sink.name: len(sink.received) for sink in self.sinks.values()}
                raise AssertionError(f"no end in cycle {self.cycle}; not taken: {left}, received: {got}")
            await self.step()

    async def idle(self, cycles: int) -> None:
        """Runs for some cycles, in which nothing more may come out."""
        got = {name: len(sink.received) for name, sink in self.sinks.items()}
        for _ in range(cycles):
            await self.step()
        more = {name: len(sink.received) - got[name] for name, sink in self.sinks.items()}
        assert not any(more.values()), f"unexpected payloads: {more}"
