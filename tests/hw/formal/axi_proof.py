"""What passes an AXI port on must do: AXI's handshake on all channels, and that a halt ends what is under way."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Assert, Assume, Cat, Elaboratable, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from muntin.hw.memory.port_guard import PortGuard
from muntin.hw.memory.port_interleaver import PortInterleaver
from muntin.hw.memory.port_shape import PortShape
from muntin.hw.memory.port_slice import CHANNELS
from tests.hw.formal.stream_law import law_domain

BACK = ("r", "b")
"""Channels from the memory."""


def axi_law(
    m: Module, law: str, port: wiring.PureInterface, name: str, channels: Sequence[str], *, given: bool
) -> None:
    """Valid stays, and what goes with it stands still, until ready: AXI4, A3.2.1.

    Parameters
    ----------
    m, law, name, given
        As of `stream_law`.
    port : Axi4Signature interface
    channels : sequence of str
        ``"ar"`` and so on, that the law is of.
    """
    property_ = Assume if given else Assert
    for channel in channels:
        valid, ready = getattr(port, f"{channel}valid"), getattr(port, f"{channel}ready")
        payload = Cat(getattr(port, f"{channel}{field}") for field in CHANNELS[channel])
        waits = Signal(name=f"{name}_{channel}_waits")
        last = Signal(len(payload), name=f"{name}_{channel}_last")
        m.d.sync += [waits.eq(valid & ~ready), last.eq(payload)]
        with m.If(waits):
            m.d[law] += [property_(valid), property_(payload == last)]


def _taken(port: wiring.PureInterface, channel: str) -> Value:
    return getattr(port, f"{channel}valid") & getattr(port, f"{channel}ready")


class AxiProof(Elaboratable):
    """A component between a master at its port `i` and memories at `axi`, of which both keep the law."""

    def __init__(self, dut: wiring.Component):
        self.dut = dut
        self.ports = [
            port.as_value() if hasattr(port, "as_value") else port
            for _, member, port in dut.signature.flatten(dut)
            if member.flow == In
        ]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        law = law_domain(platform)
        m.submodules.dut = dut = self.dut
        forth = [channel for channel in CHANNELS if channel not in BACK]
        axi_law(m, law, dut.i, "inner", forth, given=True)
        axi_law(m, law, dut.i, "inner", BACK, given=False)
        for number, port in enumerate(dut.axi if isinstance(dut.axi, list) else [dut.axi]):
            axi_law(m, law, port, f"outer_{number}", forth, given=False)
            axi_law(m, law, port, f"outer_{number}", BACK, given=True)
        self.rules(m, law)
        return m

    def rules(self, m: Module, law: str) -> None:
        """Further ones."""


class GuardProof(AxiProof):
    """A `PortGuard`: what it lets end under a halt, with a master and a memory that owe each other nothing else."""

    def __init__(self, shape: PortShape):
        super().__init__(PortGuard(shape))
        self._shape = shape

    def rules(self, m: Module, law: str) -> None:
        dut, axi = self.dut, self.dut.axi
        most = self._shape.outstanding
        count = range(2 * most + 2)
        reads, writes, data = (Signal(count, name=name) for name in ("reads", "writes", "data"))

        def done(channel: str) -> Value:
            return _taken(axi, channel)

        # Nothing is lost on the way, and nothing added.
        for channel, fields in CHANNELS.items():
            m.d[law] += Assert(_taken(dut.i, channel) == done(channel))
            with m.If(done(channel)):
                m.d[law] += [
                    Assert(getattr(dut.i, f"{channel}{at}") == getattr(axi, f"{channel}{at}")) for at in fields
                ]
        ended = done("w") & axi.wlast
        m.d.sync += [
            reads.eq(reads + done("ar") - (done("r") & axi.rlast)),
            writes.eq(writes + done("aw") - done("b")),  # answered by the memory
            data.eq(data + done("aw") - ended),  # given by the master
        ]
        # The master asks for no more at a time, and the memory answers what was asked, and written whole.
        with m.If(reads == most):
            m.d[law] += Assume(~dut.i.arvalid)
        with m.If(writes == most):
            m.d[law] += Assume(~dut.i.awvalid)
        with m.If(reads == 0):
            m.d[law] += Assume(~axi.rvalid)
        with m.If(writes == data):
            m.d[law] += Assume(~axi.bvalid)
        # No beat to write comes before its address, nothing is under way where it is quiet, and nothing begins.
        with m.If(data == 0):
            m.d[law] += Assert(~axi.wvalid)
        with m.If(dut.quiet):
            m.d[law] += [Assert(reads == 0), Assert(writes == 0), Assert(data == 0)]
            m.d[law] += [Assert(~axi.arvalid), Assert(~axi.awvalid), Assert(~axi.wvalid)]
        # Under a halt what the memory has seen goes on, and no other address comes.
        halted, seen = Signal(), Signal(2)
        m.d.sync += [halted.eq(dut.halt), seen.eq(Cat(axi.arvalid & ~axi.arready, axi.awvalid & ~axi.awready))]
        with m.If(halted):
            m.d[law] += [Assert(~axi.arvalid | seen[0]), Assert(~axi.awvalid | seen[1])]


class InterleaverProof(AxiProof):
    """A `PortInterleaver`: each burst goes to the port of its address, with its data, and comes back from there."""

    def __init__(self, shape: PortShape, *, stride: int):
        super().__init__(PortInterleaver(shape, ports=2, stride=stride))
        self._shape = shape
        self._stride = stride

    def rules(self, m: Module, law: str) -> None:
        dut = self.dut
        for channel in CHANNELS:
            taken = [_taken(port, channel) for port in dut.axi]
            m.d[law] += [Assert(_taken(dut.i, channel) == Cat(taken).any()), Assert(~(taken[0] & taken[1]))]
        count = range(self._shape.outstanding + 1)
        for number, port in enumerate(dut.axi):
            for channel in ("ar", "aw"):
                with m.If(getattr(port, f"{channel}valid")):
                    m.d[law] += Assert((getattr(port, f"{channel}addr") // self._stride)[0] == number)
            data = Signal(count, name=f"data_{number}")
            m.d.sync += data.eq(data + _taken(port, "aw") - (_taken(port, "w") & port.wlast))
            with m.If(data == 0):
                m.d[law] += Assert(~port.wvalid)
