"""What the burst splitter must do, beside the splitter itself."""

from __future__ import annotations

from amaranth.hdl import Assert, Elaboratable, Module, Mux, Signal, signed
from amaranth.utils import exact_log2

from muntin.hw.memory.burst_splitter import BurstSplitter
from muntin.hw.memory.layouts import TransferLayout, TransferStatus
from muntin.hw.memory.port_shape import PortShape
from tests.hw.formal.stream_law import law_domain, stream_law


class SplitterProof(Elaboratable):
    """A burst splitter with its rules, for any transfers and any readiness of the burst's taker."""

    def __init__(self, shape: PortShape):
        self._shape = shape
        self.dut = BurstSplitter(shape)
        self.ports = [self.dut.transfer.payload.as_value(), self.dut.transfer.valid, self.dut.burst.ready]

    def elaborate(self, platform: object) -> Module:
        m = Module()
        law = law_domain(platform)
        shape = self._shape
        m.submodules.dut = dut = self.dut
        transfer, burst = dut.transfer, dut.burst
        beat_bits = exact_log2(shape.beat_bytes)
        memory_bytes = shape.memory_bytes or 1 << shape.address_width
        room = -(-memory_bytes // shape.beat_bytes) * shape.beat_bytes  # the last beat may be partial
        longest = shape.max_transfer_bytes or (1 << shape.length_width) - 1

        busy = Signal()
        checked = Signal()  # a cycle has passed since the transfer was taken
        # These follow the splitter's own registers bit by bit, which is what makes the proof easy.
        asked = Signal(TransferLayout(shape.address_width, shape.length_width))
        address = Signal(shape.address_width + 1)  # of the next burst
        left = Signal(shape.length_width)  # beats
        expected = Signal(TransferStatus)
        beats = Signal(shape.length_width)
        m.d[law] += Assert(transfer.ready == ~busy)
        m.d.comb += beats.eq((asked.length + (shape.beat_bytes - 1)) >> beat_bits)
        with m.If(~busy):
            m.d.sync += [busy.eq(transfer.valid), checked.eq(0), asked.eq(transfer.payload)]
        with m.Elif(~checked):
            m.d.sync += [checked.eq(1), address.eq(asked.address), left.eq(beats)]

        verdict = Signal(TransferStatus)
        with m.If(asked.length == 0):
            m.d.comb += verdict.eq(TransferStatus.ZERO_LENGTH)
        with m.Elif(asked.address % shape.beat_bytes != 0):
            m.d.comb += verdict.eq(TransferStatus.MISALIGNED)
        with m.Elif(asked.length > longest):
            m.d.comb += verdict.eq(TransferStatus.TOO_LONG)
        with m.Elif(asked.address + asked.length > memory_bytes):
            m.d.comb += verdict.eq(TransferStatus.OUT_OF_RANGE)
        with m.If(busy & ~checked):
            m.d.sync += expected.eq(verdict)
        refused = expected != TransferStatus.OK

        stream_law(m, law, burst, "burst", given=False)
        m.d[law] += Assert(dut.admitted == (busy & ~checked & (verdict == TransferStatus.OK)))
        with m.If(dut.admitted):
            m.d[law] += Assert(dut.admitted_beats == beats)
        # What was taken is answered: the first burst after two cycles, the others at once.
        m.d[law] += Assert(burst.valid == (busy & checked))
        count = Signal(9)
        after = Signal(signed(shape.length_width + 2))
        end = Signal(shape.address_width + 1)  # the burst's last byte
        m.d.comb += [
            count.eq(burst.p.last_beat + 1),
            after.eq(left - count),
            end.eq(burst.p.address + (count << beat_bits) - 1),
        ]
        with m.If(busy & checked & ~refused):
            # What every burst leaves true, said so that the solver need not find it.
            m.d[law] += [Assert(left != 0), Assert(address + (left << beat_bits) <= room)]
        with m.If(burst.valid):
            m.d[law] += [Assert(burst.p.status == expected), Assert(burst.p.empty == refused)]
            with m.If(refused):
                m.d[law] += Assert(burst.p.final)
            with m.Else():
                block = exact_log2(shape.burst_bytes)
                m.d[law] += [
                    Assert(burst.p.address == address),  # contiguous
                    Assert(after >= 0),  # with the next two: they sum to the transfer, and one is final
                    Assert(burst.p.final == (after == 0)),
                    Assert(burst.p.tail == ((asked.length - 1) & (shape.beat_bytes - 1))),
                    Assert(end >> block == burst.p.address >> block),
                    Assert(end >> 12 == burst.p.address >> 12),
                    Assert(end < room),
                    # Not shorter than it has to be.
                    Assert(burst.p.final | ((end & (shape.burst_bytes - 1)) == shape.burst_bytes - 1)),
                ]
            with m.If(burst.ready):
                m.d.sync += [
                    address.eq(address + (count << beat_bits)),
                    left.eq(after),
                    busy.eq(Mux(burst.p.final, 0, busy)),
                ]
        return m
