"""What a memory port must do between readers and writers that keep their word and a memory that answers in order."""

from __future__ import annotations

from amaranth.hdl import Array, Assert, Assume, Cat, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from muntin.hw.memory.memory_port import MemoryPort
from muntin.hw.memory.port_shape import PortShape
from tests.hw.formal.axi_proof import axi_law
from tests.hw.formal.stream_law import law_domain


def _taken(port: wiring.PureInterface, channel: str) -> Value:
    return getattr(port, f"{channel}valid") & getattr(port, f"{channel}ready")


class PortProof(Elaboratable):
    """A `MemoryPort`, whatever readers and writers ask for, whenever the memory answers, and with a halt at any time.

    Bursts are followed in the order of their addresses: each beat and each acknowledgement must go to, or come from,
    just the one whose burst is the oldest under way. AXI's handshake (AXI4, A3.2.1) is assumed of readers, writers and
    memory, and shown of the port.

    Parameters
    ----------
    shape : PortShape
    settings
        Of the port, beside readers and writers, of which there are two each.
    """

    def __init__(self, shape: PortShape, **settings: int | None):
        self._shape = shape
        self.dut = MemoryPort(shape, readers=2, writers=2, turn_bytes=shape.burst_bytes, **settings)
        self.ports = [
            port.as_value() if hasattr(port, "as_value") else port
            for _, member, port in self.dut.signature.flatten(self.dut)
            if member.flow == In
        ]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        law = law_domain(platform)
        m.submodules.dut = dut = self.dut
        axi, readers, writers = dut.axi, list(dut.readers), list(dut.writers)
        for number, reader in enumerate(readers):
            axi_law(m, law, reader, f"reader_{number}", ("ar",), given=True)
            m.d[law] += Assume(reader.arlen < self._shape.burst_beats)
        for number, writer in enumerate(writers):
            axi_law(m, law, writer, f"writer_{number}", ("aw", "w"), given=True)
            m.d[law] += Assume(writer.awlen < self._shape.burst_beats)
        axi_law(m, law, axi, "memory", ("r", "b"), given=True)
        axi_law(m, law, axi, "port", ("ar", "aw", "w"), given=False)

        reads = self._bursts(m, law, "read", [_taken(reader, "ar") for reader in readers], readers, "ar")
        writes = self._bursts(m, law, "write", [_taken(writer, "aw") for writer in writers], writers, "aw")
        asks = [reader.arvalid for reader in readers], [writer.awvalid for writer in writers]

        # The memory answers what was sent to it, beat by beat.
        sent = self._counted(m, "sent", _taken(axi, "ar"), _taken(axi, "r") & axi.rlast)
        m.d[law] += Assume(~axi.rvalid | (sent != 0))
        m.d[law] += Assume(axi.rlast == (reads.left == 0))
        # What was read goes to the one that asked, and to no other.
        for number, reader in enumerate(readers):
            mine = axi.rvalid & reads.some & (reads.who == number)
            m.d[law] += [Assert(reader.rvalid == mine), Assert(~mine | (reader.rdata == axi.rdata))]
        m.d[law] += Assert(~_taken(axi, "r") | dut.halt | Array([r.rready for r in readers])[reads.who])
        m.d.comb += [reads.beat.eq(_taken(axi, "r")), reads.ended.eq(_taken(axi, "r") & axi.rlast)]

        # What is written comes from the one that asked, and its acknowledgement goes there.
        m.d.comb += [writes.beat.eq(_taken(axi, "w")), writes.ended.eq(_taken(axi, "w") & axi.wlast)]
        for number, writer in enumerate(writers):
            mine = writes.some & (writes.who == number)
            m.d[law] += Assert(~writer.wready | (mine & axi.wready))
            with m.If(mine):
                m.d[law] += [
                    Assume(~writer.wvalid | (writer.wlast == (writes.left == 0))),
                    Assert(axi.wvalid == writer.wvalid),
                    Assert(axi.wdata == writer.wdata),
                ]
        m.d[law] += Assert(~axi.wvalid | writes.some)
        written = self._counted(m, "written", writes.ended, _taken(axi, "b"))
        announced = self._counted(m, "announced", _taken(axi, "aw"), _taken(axi, "b"))
        m.d[law] += Assume(~axi.bvalid | ((written != 0) & (announced != 0)))
        answers = self._order(m, law, "answer", [_taken(writer, "aw") for writer in writers], _taken(axi, "b"))
        for number, writer in enumerate(writers):
            m.d[law] += Assert(writer.bvalid == (axi.bvalid & answers.some & (answers.who == number)))

        # Turns: an address of one direction at a time, none under a halt, and nothing under way where it is quiet.
        m.d[law] += [
            Assert(~(Cat(reads.begun, writes.begun).all())),
            Assert(~dut.halt | ~(reads.begun | writes.begun)),
        ]
        with m.If(dut.quiet):
            m.d[law] += [
                Assert(~reads.some & ~writes.some & ~answers.some),
                Assert((sent == 0) & (announced == 0)),
                Assert(~axi.arvalid & ~axi.awvalid),
            ]
        self._fair(m, law, "read", asks[0], [_taken(reader, "ar") for reader in readers])
        self._fair(m, law, "write", asks[1], [_taken(writer, "aw") for writer in writers])
        return m

    def _counted(self, m: Module, name: str, more: Value, less: Value) -> Signal:
        """How many are under way."""
        count = Signal(range(self._shape.outstanding + 3), name=name)
        m.d.sync += count.eq(count + more - less)
        return count

    def _order(self, m: Module, law: str, name: str, begun: list[Value], ended: Value) -> _Bursts:
        """The bursts under way, the oldest one first, of which no more may begin than `outstanding`."""
        most = self._shape.outstanding
        bursts = _Bursts(name, most)
        m.d.comb += bursts.begun.eq(Cat(begun).any())
        m.d[law] += [Assert(~(begun[0] & begun[1])), Assert(bursts.count <= most)]
        m.d[law] += [Assert(~bursts.begun | (bursts.count != most)), Assert(~ended | bursts.some)]
        m.d.sync += bursts.count.eq(bursts.count + bursts.begun - ended)
        place = bursts.count - ended
        for at in range(most):
            with m.If(bursts.begun & (place == at)):
                m.d.sync += bursts.whose[at].eq(begun[1])
            with m.Elif(ended & (at + 1 < most)):
                m.d.sync += bursts.whose[at].eq(bursts.whose[min(at + 1, most - 1)])
        return bursts

    def _bursts(
        self, m: Module, law: str, name: str, begun: list[Value], ports: list[wiring.PureInterface], channel: str
    ) -> _Bursts:
        """The same with their beats."""
        ended = Signal(name=f"{name}_ended")
        bursts = self._order(m, law, name, begun, ended)
        bursts.ended, most = ended, self._shape.outstanding
        bits = range(self._shape.burst_beats)
        lengths = [Signal(bits, name=f"{name}_length_{at}") for at in range(most)]
        done = Signal(bits, name=f"{name}_done")
        length = Mux(begun[1], getattr(ports[1], f"{channel}len"), getattr(ports[0], f"{channel}len"))
        place = bursts.count - ended
        for at in range(most):
            with m.If(bursts.begun & (place == at)):
                m.d.sync += lengths[at].eq(length)
            with m.Elif(ended & (at + 1 < most)):
                m.d.sync += lengths[at].eq(lengths[min(at + 1, most - 1)])
        m.d.comb += bursts.left.eq(lengths[0] - done)
        with m.If(bursts.beat):
            m.d.sync += done.eq(Mux(ended, 0, done + 1))
        return bursts

    def _fair(self, m: Module, law: str, name: str, asks: list[Value], begun: list[Value]) -> None:
        """Of two that ask, each is served after at most one burst of the other; with `alternate_bytes` after four."""
        bound = 1 if self.dut._alternate_bytes is None else 4
        for mine in range(2):
            passed = Signal(range(bound + 2), name=f"{name}_{mine}_passed_over")
            with m.If(~asks[mine] | begun[mine]):
                m.d.sync += passed.eq(0)
            with m.Elif(begun[1 - mine]):
                m.d.sync += passed.eq(passed + (passed != bound + 1))
            m.d[law] += Assert(passed <= bound)


class _Bursts:
    """Bursts of one direction: `who` has the oldest one, of which beats behind this one are `left`."""

    def __init__(self, name: str, most: int):
        self.count = Signal(range(most + 2), name=f"{name}_count")
        self.whose = [Signal(name=f"{name}_whose_{at}") for at in range(most)]
        self.left = Signal(9, name=f"{name}_left")
        self.begun = Signal(name=f"{name}_begun")
        self.beat = Signal(name=f"{name}_beat")
        self.ended: Signal
        self.who = self.whose[0]
        self.some = self.count != 0
