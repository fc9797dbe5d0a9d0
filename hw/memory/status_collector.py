"""Makes one status of all answers to a transfer."""

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.memory.layouts import TransferStatus
from muntin.hw.memory.quick_fifo import QuickFifo


class StatusCollector(wiring.Component):
    """Makes one status of all answers of the memory to a transfer: the first error, or OK.

    Attributes
    ----------
    answer : In(stream of StructLayout)
        `response`, the two bits of RRESP or BRESP, and `final`, whether it is the transfer's last.
    end : In(stream of TransferStatus)
        Ends a transfer without an answer, with this status unless an answer before said otherwise. It must
        come when no answer is on its way, and not in the same cycle as one.
    status : Out(stream of TransferStatus)
        How each transfer ended, in order.

    Timing
    ------
    A status is out one cycle after the end came. Two are kept; the next end waits while nobody takes them.
    """

    def __init__(self):
        answer = data.StructLayout({"response": 2, "final": 1})
        super().__init__(
            {
                "answer": In(stream.Signature(answer)),
                "end": In(stream.Signature(TransferStatus)),
                "status": Out(stream.Signature(TransferStatus)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.results = results = QuickFifo(width=len(self.status.p), depth=2)
        answer, end = self.answer, self.end
        error = Signal(TransferStatus)
        current = Signal(TransferStatus)
        m.d.comb += [
            current.eq(error),
            answer.ready.eq(~answer.p.final | results.w_rdy),
            end.ready.eq(results.w_rdy),
            self.status.p.eq(results.r_data),
            self.status.valid.eq(results.r_rdy),
            results.r_en.eq(self.status.ready),
            results.w_data.eq(current),
        ]
        with m.If(error == TransferStatus.OK):
            with m.If(end.valid):
                m.d.comb += current.eq(end.p)
            with m.Elif(answer.p.response[1]):
                m.d.comb += current.eq(
                    Mux(answer.p.response[0], TransferStatus.DECODE_ERROR, TransferStatus.MEMORY_ERROR)
                )
        with m.If(end.valid & end.ready):
            m.d.comb += results.w_en.eq(1)
            m.d.sync += error.eq(TransferStatus.OK)
        with m.Elif(answer.valid & answer.ready):
            m.d.comb += results.w_en.eq(answer.p.final)
            m.d.sync += error.eq(Mux(answer.p.final, TransferStatus.OK, current))
        return m
