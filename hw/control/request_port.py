"""Requests, carried out on a kernel's control port."""

from amaranth import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.opencl import WAIT_CYCLES, Request
from muntin.hw.control.layouts import Axi4LiteSignature, RequestLayout


class RequestPort(wiring.Component):
    """Carries out requests on a kernel's control port, one after the other, with a result for each.

    Parameters
    ----------
    address_width : int
        Bits of the control port's addresses; those of an offset above are ignored.
    wait_cycles : int
        Cycles after which WAIT and RESET give up.

    Attributes
    ----------
    i : In(stream of RequestLayout)
    o : Out(stream of 32 bits)
        The results, in order: see `muntin.contract.opencl.Request`.
    control : Out(Axi4LiteSignature)
    halt : Out(1)
        A reset waits for `quiet`, or is under way.
    quiet : In(1)
        A reset would cut nothing off.
    reset : Out(1)
        To the kernel, for two cycles.

    Timing
    ------
    With `muntin.hw.control.control_registers.ControlRegisters` behind it, the result of a READ or a WRITE is there
    three cycles after the request was taken; the next request is taken in the cycle after the result was, so one every
    four.
    """

    def __init__(self, address_width: int, *, wait_cycles: int = WAIT_CYCLES):
        self._wait_cycles = wait_cycles
        super().__init__(
            {
                "i": In(stream.Signature(RequestLayout())),
                "o": Out(stream.Signature(32)),
                "control": Out(Axi4LiteSignature(address_width)),
                "halt": Out(1),
                "quiet": In(1),
                "reset": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        control = self.control
        request = Signal(RequestLayout())
        waited = Signal(range(self._wait_cycles))
        last = waited == self._wait_cycles - 1
        m.d.comb += [
            control.awaddr.eq(request.offset),
            control.araddr.eq(request.offset),
            control.wdata.eq(request.value),
            control.wstrb.eq(15),
        ]
        m.d.sync += waited.eq(Mux(last, waited, waited + 1))
        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += [request.eq(self.i.p), waited.eq(0)]
                    with m.Switch(self.i.p.kind):
                        with m.Case(Request.WRITE):
                            m.d.sync += [control.awvalid.eq(1), control.wvalid.eq(1)]
                            m.next = "WRITE"
                        with m.Case(Request.RESET):
                            m.next = "QUIET"
                        with m.Default():
                            m.d.sync += control.arvalid.eq(1)
                            m.next = "READ"
            with m.State("WRITE"):
                m.d.comb += control.bready.eq(1)
                with m.If(control.awready):
                    m.d.sync += control.awvalid.eq(0)
                with m.If(control.wready):
                    m.d.sync += control.wvalid.eq(0)
                with m.If(control.bvalid):
                    m.d.sync += self.o.payload.eq(0)
                    m.next = "ANSWER"
            with m.State("READ"):
                m.d.comb += control.rready.eq(1)
                with m.If(control.arready):
                    m.d.sync += control.arvalid.eq(0)
                with m.If(control.rvalid):
                    m.d.sync += self.o.payload.eq(control.rdata)
                    m.next = "ANSWER"
                    with m.If((request.kind == Request.WAIT) & ((control.rdata & request.value) == 0) & ~last):
                        m.d.sync += control.arvalid.eq(1)
                        m.next = "READ"
            with m.State("QUIET"):
                m.d.comb += self.halt.eq(1)
                m.d.sync += self.o.payload.eq(~self.quiet)
                with m.If(self.quiet):
                    m.next = "RESET"
                with m.Elif(last):
                    m.next = "ANSWER"
            with m.State("RESET"):
                m.d.comb += [self.halt.eq(1), self.reset.eq(1)]
                m.next = "RESET AGAIN"
            with m.State("RESET AGAIN"):
                m.d.comb += [self.halt.eq(1), self.reset.eq(1)]
                m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "TAKE"
        return m
