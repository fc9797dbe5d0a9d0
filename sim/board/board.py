"""An engine wired to memory channels."""

from collections.abc import Sequence
from typing import Any

from amaranth import Cat, ClockSignal, Instance, Module, Mux, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.contract import ParameterError
from muntin.hw.memory.port_interleaver import PortInterleaver
from muntin.hw.memory.port_shape import PortShape
from muntin.sim.board.memories import MemoryCore

ACTIVITY = (
    "read",  # a beat read
    "read_held",  # a beat to read, held up by the engine
    "write",  # a beat written
    "write_held",  # a beat to write, held up by the memory
    "read_asked",  # an address to read
    "write_asked",  # an address to write
    "answer",  # an acknowledgement of a write
    "busy",  # any channel valid
    "turning",  # no beat: the memory is asked for the other direction than that of the last beat
    "memory",  # no beat: the memory is asked for more in the same direction: rows, refreshes, latency
    "engine",  # no beat, and nothing is asked of the memory
)
"""What a memory port did in a cycle: the bits of `Board.activity`.

In each cycle a port has a beat, or exactly one of the last three is so; with a beat in each direction at once there are
two beats.
"""


class BoardError(Exception):
    """Base of every error that a simulated board raises on purpose."""


class BoardBuildError(BoardError, RuntimeError):
    """Verilator or the C++ compiler refused the board, or is not there.

    Attributes
    ----------
    log : str
        What they printed.
    """

    def __init__(self, message: str, log: str = ""):
        super().__init__(f"{message}\n{log}" if log else message)
        self.log = log


class BoardTimeoutError(BoardError, TimeoutError):
    """The board did not do in time what was waited for."""


class BoardMemoryError(BoardError, IndexError):
    """An address or length lies outside the board's memory."""


class Board(wiring.Component):
    """An engine wired to memory channels; what else the engine has becomes the board's own ports.

    Parameters
    ----------
    engine : Component
        Has a member `axi`, an array of `Axi4Signature`.
    channels : sequence of MemoryCore
        One for each port of the engine, their modules named ``channel_0``, ``channel_1``, ... A port is
        spread over all the ports of its channel, row by row.
    shape : PortShape
        Of the engine's ports.

    Attributes
    ----------
    activity : Out(len(ACTIVITY) * channels)
        What each port of the engine did in this cycle: see `ACTIVITY`.
    channel_0_stall, ... : In
        The inputs that the channels' memories have besides AXI4, if any.

    Raises
    ------
    ParameterError
        If the engine does not have as many ports as there are channels.
    """

    def __init__(self, engine: wiring.Component, channels: Sequence[MemoryCore], shape: PortShape):
        if len(engine.axi) != len(channels):
            raise ParameterError(f"the engine has {len(engine.axi)} memory ports, for {len(channels)} channels")
        self._engine = engine
        self._channels = channels
        self._shape = shape
        members = {name: member for name, member in engine.signature.members.items() if name != "axi"}
        inputs = {
            f"channel_{number}_{name}": In(width)
            for number, core in enumerate(channels)
            for name, width in core.inputs.items()
        }
        super().__init__({**members, **inputs, "activity": Out(len(ACTIVITY) * len(channels))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.engine = engine = self._engine
        for name, member in engine.signature.members.items():
            if name == "axi":
                continue
            inner, outer = getattr(engine, name), getattr(self, name)
            if member.is_signature:
                wiring.connect(m, inner, wiring.flipped(outer))
            else:
                m.d.comb += outer.eq(inner) if member.flow == Out else inner.eq(outer)

        activity = []
        for number, (axi, core) in enumerate(zip(engine.axi, self._channels, strict=True)):
            ports = [axi]
            if core.ports > 1:
                spread = PortInterleaver(self._shape, ports=core.ports, stride=core.row_bytes)
                m.submodules[f"interleaver_{number}"] = spread
                wiring.connect(m, axi, spread.i)
                ports = list(spread.axi)
            wired = {}
            for index, port in enumerate(ports):
                for name, member in axi.signature.members.items():
                    direction = "i" if member.flow == Out else "o"
                    wired[f"{direction}_axi{index}_{name}"] = getattr(port, name)
            for name in core.inputs:
                wired[f"i_{name}"] = getattr(self, f"channel_{number}_{name}")
            m.submodules[f"channel_{number}"] = Instance(
                f"channel_{number}", i_clk=ClockSignal(), i_rst=ResetSignal(), **wired
            )
            activity += [
                axi.rvalid & axi.rready,
                axi.rvalid & ~axi.rready,
                axi.wvalid & axi.wready,
                axi.wvalid & ~axi.wready,
                axi.arvalid,
                axi.awvalid,
                axi.bvalid & axi.bready,
                axi.rvalid | axi.wvalid | axi.arvalid | axi.awvalid | axi.bvalid,
                *self._causes(m, number, axi),
            ]
        m.d.comb += self.activity.eq(Cat(activity))
        return m

    @staticmethod
    def _causes(m: Module, number: int, axi: Any) -> Any:
        """Why there is no beat: turning, memory, engine."""
        reads = Signal(20, name=f"due_reads_{number}")  # beats asked for and not there yet
        writes = Signal(20, name=f"due_writes_{number}")
        wrote = Signal(name=f"wrote_{number}")
        read, write = axi.rvalid & axi.rready, axi.wvalid & axi.wready
        m.d.sync += [
            reads.eq(reads + Mux(axi.arvalid & axi.arready, axi.arlen + 1, 0) - read),
            writes.eq(writes + Mux(axi.awvalid & axi.awready, axi.awlen + 1, 0) - write),
        ]
        with m.If(read | write):
            m.d.sync += wrote.eq(write)
        asks_read = (reads != 0) | axi.arvalid
        asks_write = (writes != 0) | axi.awvalid | axi.wvalid
        none = ~(read | write)
        other = Mux(wrote, asks_read & ~asks_write, asks_write & ~asks_read)
        return none & other, none & (asks_read | asks_write) & ~other, none & ~(asks_read | asks_write)
