"""Writes runs of bytes to memory in bursts."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.memory.burst_sender import BurstSender
from muntin.hw.memory.burst_splitter import BurstSplitter
from muntin.hw.memory.layouts import TransferLayout, TransferStatus
from muntin.hw.memory.port_shape import PortShape


class BurstWriter(wiring.Component):
    """Writes runs of bytes to memory in bursts, many at a time.

    A burst is announced only once all its beats are here, so the writer never makes the memory wait: several
    writers can share a port.

    Parameters
    ----------
    shape : PortShape
        Widths and limits.

    Attributes
    ----------
    transfer : In(stream of TransferLayout)
        Where to write. Transfers are taken ahead.
    i : In(stream of unsigned(data_width))
        The beats of all transfers one after the other; each transfer takes `length` divided by the beat,
        rounded up. Beats are taken from when their transfer was found good until it has them all.
    status : Out(stream of TransferStatus)
        How each transfer ended, in order, once the memory has acknowledged its last burst. A refused transfer
        takes no beats. Two statuses are kept; while nobody takes them, the next transfer's last
        acknowledgement waits.
    axi : Out(Axi4Signature with write channels)
        To the memory.

    Timing
    ------
    The first beat is on `axi` once the whole burst is in the buffer, at the earliest six cycles after its
    transfer was taken. One beat a cycle, as long as `outstanding` bursts cover the latency of the
    acknowledgements.
    """

    def __init__(self, shape: PortShape):
        self._shape = shape
        super().__init__(
            {
                "transfer": In(stream.Signature(TransferLayout(shape.address_width, shape.length_width))),
                "i": In(stream.Signature(shape.data_width)),
                "status": Out(stream.Signature(TransferStatus)),
                "axi": Out(Axi4Signature(shape.address_width, shape.data_width, shape.id_width, read=False)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.splitter = splitter = BurstSplitter(self._shape)
        m.submodules.sender = sender = BurstSender(self._shape)
        wiring.connect(m, wiring.flipped(self.transfer), splitter.transfer)
        wiring.connect(m, splitter.burst, sender.burst)
        wiring.connect(m, sender.status, wiring.flipped(self.status))
        wiring.connect(m, sender.axi, wiring.flipped(self.axi))

        # Beats of the transfers that were admitted, a cycle ago at least: the next one may be while some are due.
        due = Signal(self._shape.length_width + 2)
        some = Signal()  # due is not 0: in a flip-flop, as all that gives beats waits for it
        admitted, taken = Signal(), Signal()
        more = Signal(self._shape.length_width)
        m.d.comb += [
            sender.i.p.eq(self.i.p),
            sender.i.valid.eq(self.i.valid & some),
            self.i.ready.eq(sender.i.ready & some),
            taken.eq(self.i.valid & self.i.ready),
        ]
        m.d.sync += [
            admitted.eq(splitter.admitted),
            more.eq(Mux(splitter.admitted, splitter.admitted_beats, 0)),
            due.eq(due + more - taken),
        ]
        with m.If(admitted):
            m.d.sync += some.eq(1)
        with m.Elif(taken):
            m.d.sync += some.eq(due != 1)
        return m
