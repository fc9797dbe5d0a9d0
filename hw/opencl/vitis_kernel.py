"""A kernel as an RTL kernel of Vitis."""

from typing import Any

from amaranth.hdl import Cat, ClockDomain, Const, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.opencl import WAIT_CYCLES, argument_map, arguments
from muntin.hw.control.control_registers import ControlRegisters
from muntin.hw.control.request_port import RequestPort
from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.memory.burst_reader import BurstReader
from muntin.hw.memory.burst_writer import BurstWriter
from muntin.hw.memory.port_guard import PortGuard
from muntin.hw.memory.port_shape import PortShape
from muntin.hw.memory.port_slice import PortSlice

POINTER_BITS = 64
CONTROL = "s_axi_control"
HOST = "m_axi_host"
HOST_SHAPE = PortShape(
    address_width=POINTER_BITS, data_width=64, length_width=35, burst_bytes=1024, outstanding=2, buffer_bytes=2048
)
"""Of the port at which requests are read, a beat each, and results written, two a beat."""
CACHE = 0b0011
"""AxCACHE: bufferable and modifiable, so that the interconnect may pack beats."""


class VitisKernel(wiring.Component):
    """A kernel as an RTL kernel of Vitis: a start carries out a list of requests that lies in memory, and writes their
    results.

    An OpenCL host cannot reach a kernel's registers, but to set arguments and to start it. So what the OpenCL kernel of
    other shells does in C is here done in RTL: of `count` requests, 64 bits each from `requests` on, each is carried
    out once the one before is, and its result goes to `results`, 32 bits each. A start is done once all results are in
    memory; one with a `count` of 0 at once. What the memory at `requests` answers is trusted: a platform reports its
    errors itself.

    Parameters
    ----------
    kernel : Component
        Has a control port `control`, an `Axi4LiteSignature`, and memory ports `axi`, an array of `Axi4Signature`.
    shape : PortShape
        Of its memory ports.
    parameters : Parameters or SplitJoinParameters
        What it is built with.
    wait_cycles : int
        As of `RequestPort`.

    Attributes
    ----------
    masters : dict of str to Axi4Signature
        The memory-mapped ports, by the prefix of their signals' names: ``m_axi_memory_0``, ..., one for each of the
        kernel's, and ``m_axi_host``. Addresses have 64 bits; those of the kernel's memory are `memory_N` and what the
        kernel asks for.
    registers : KernelMap
        Of the control port.
    ap_clk, ap_rst_n : In(1)
    interrupt : Out(1)
    s_axi_control_awvalid, ... : the members of an `Axi4LiteSignature`, seen from the slave
        Registers as of `muntin.contract.opencl.argument_map`. Arguments may change only between a start's end and the
        next one, and the pointers `memory_N` only before the first start and behind a RESET.
    m_axi_memory_0_araddr, ... : the members of an `Axi4Signature`
        With ``arcache``, ``awcache``, ``arprot`` and ``awprot``, which are constant.

    Timing
    ------
    A request takes four cycles, as of `RequestPort`, and longer where it waits for the kernel; requests are read ahead.

    Source
    ------
    AMD, Data Center Acceleration Using Vitis (UG1700), "Kernel Interface Requirements" and "Packaging the RTL Code as a
    Vitis XO"; Vitis Reference Guide (UG1702), "RTL Kernel XML File".
    """

    def __init__(self, kernel: wiring.Component, shape: PortShape, parameters: Any, *, wait_cycles: int = WAIT_CYCLES):
        self._kernel = kernel
        self._shape = shape
        self._wait_cycles = wait_cycles
        self._arguments = arguments(parameters)
        self.registers = argument_map(parameters)
        self._control = ControlRegisters(self.registers)
        lite = self._control.axi.signature
        ports = {f"m_axi_memory_{number}": shape for number in range(len(kernel.axi))}
        self.masters = {
            name: Axi4Signature(POINTER_BITS, of.data_width, of.id_width)
            for name, of in {**ports, HOST: HOST_SHAPE}.items()
        }
        members = {"ap_clk": In(1), "ap_rst_n": In(1), "interrupt": Out(1)}
        members |= {f"{CONTROL}_{name}": member for name, member in lite.members.items()}
        for prefix, axi in self.masters.items():
            members |= {f"{prefix}_{name}": member for name, member in axi.members.items()}
            for channel in ("ar", "aw"):
                members |= {f"{prefix}_{channel}cache": Out(4), f"{prefix}_{channel}prot": Out(3)}
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.sync = domain = ClockDomain()
        m.d.comb += [domain.clk.eq(self.ap_clk), domain.rst.eq(~self.ap_rst_n)]
        m.submodules.control = control = self._control
        m.d.comb += _wired(control.axi, self, CONTROL)
        m.d.comb += self.interrupt.eq(control.interrupt)

        # The kernel, and its ports to memory.
        kernel = self._kernel
        m.submodules.requests = requests = RequestPort(
            kernel.control.signature.address_width, wait_cycles=self._wait_cycles
        )
        m.submodules.kernel = ResetInserter(requests.reset)(kernel)
        wiring.connect(m, requests.control, kernel.control)
        quiet = []
        outer = PortShape(
            address_width=POINTER_BITS,
            data_width=self._shape.data_width,
            id_width=self._shape.id_width,
            burst_bytes=self._shape.burst_bytes,
            buffer_bytes=self._shape.buffer_bytes,
        )
        for number, axi in enumerate(kernel.axi):
            guard, cut = PortGuard(self._shape), PortSlice(outer)
            m.submodules[f"guard_{number}"], m.submodules[f"cut_{number}"] = guard, cut
            wiring.connect(m, axi, guard.i)
            base = self._pointer(control, f"memory_{number}")
            for name, member in guard.axi.signature.members.items():
                inner, out = getattr(guard.axi, name), getattr(cut.i, name)
                if name in ("araddr", "awaddr"):
                    m.d.comb += out.eq(base + inner)
                else:
                    m.d.comb += out.eq(inner) if member.flow == Out else inner.eq(out)
            m.d.comb += guard.halt.eq(requests.halt)
            m.d.comb += _wired(cut.axi, self, f"m_axi_memory_{number}")
            quiet.append(guard.quiet)
        m.d.comb += requests.quiet.eq(Cat(quiet).all())

        # The list of requests, and of results.
        m.submodules.reader = reader = BurstReader(HOST_SHAPE)
        m.submodules.writer = writer = BurstWriter(HOST_SHAPE)
        m.d.comb += [*_wired(reader.axi, self, HOST), *_wired(writer.axi, self, HOST)]
        count = control.settings["count"]
        left = Signal(32)
        low, odd = Signal(32), Signal()  # a result that waits for the one that shares its beat
        last = left == 1
        m.d.comb += [
            reader.transfer.p.address.eq(self._pointer(control, "requests")),
            reader.transfer.p.length.eq(count << 3),
            writer.transfer.p.address.eq(self._pointer(control, "results")),
            writer.transfer.p.length.eq(count << 2),
            requests.i.payload.eq(reader.o.p.data),
            requests.i.valid.eq(reader.o.valid),
            reader.o.ready.eq(requests.i.ready),
            writer.i.payload.eq(Cat(Mux(odd, low, requests.o.payload), Mux(odd, requests.o.payload, 0))),
            writer.i.valid.eq(requests.o.valid & (odd | last)),
            requests.o.ready.eq(writer.i.ready | ~(odd | last)),
            reader.status.ready.eq(1),
        ]
        with m.If(requests.o.valid & requests.o.ready):
            m.d.sync += [left.eq(left - 1), odd.eq(~odd & ~last), low.eq(requests.o.payload)]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += control.idle.eq(1)
                m.d.sync += left.eq(count)
                with m.If(control.start):
                    m.d.comb += control.idle.eq(0)
                    m.next = "ASK"
                    with m.If(count == 0):
                        m.next = "DONE"
            with m.State("ASK"):
                m.d.comb += writer.transfer.valid.eq(1)
                with m.If(writer.transfer.ready):
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += reader.transfer.valid.eq(1)
                with m.If(reader.transfer.ready):
                    m.next = "CARRY OUT"
            with m.State("CARRY OUT"):
                m.d.comb += writer.status.ready.eq(1)
                with m.If(writer.status.valid):
                    m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += [control.ready.eq(1), control.done.eq(1)]
                m.next = "IDLE AGAIN"
            with m.State("IDLE AGAIN"):
                # The start that was carried out falls.
                m.d.comb += control.idle.eq(1)
                m.next = "IDLE"

        for prefix in self.masters:
            for channel in ("ar", "aw"):
                m.d.comb += getattr(self, f"{prefix}_{channel}cache").eq(Const(CACHE, 4))
        return m

    @staticmethod
    def _pointer(control: ControlRegisters, name: str) -> Any:
        """An argument that is a pointer."""
        return Cat(control.settings[f"{name}_low"], control.settings[f"{name}_high"])


def _wired(port: Any, outer: wiring.Component, prefix: str) -> list[Any]:
    """Statements that join a port to the signals of a component with a prefix."""
    return [
        getattr(outer, f"{prefix}_{name}").eq(getattr(port, name))
        if member.flow == Out
        else getattr(port, name).eq(getattr(outer, f"{prefix}_{name}"))
        for name, member in port.signature.members.items()
    ]
