"""A kernel as an RTL module of the OpenCL SDK for Intel FPGAs."""

from amaranth.hdl import Cat, ClockDomain, Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.contract import ParameterError
from muntin.contract.opencl import REQUEST_BITS, WAIT_CYCLES
from muntin.hw.control.request_port import RequestPort
from muntin.hw.memory.avalon_reader import AvalonReader
from muntin.hw.memory.avalon_writer import AvalonWriter
from muntin.hw.memory.port_shape import PortShape

POINTER_BITS = 64


class RtlModule(wiring.Component):
    """A kernel as an RTL module of the OpenCL SDK for Intel FPGAs: what a call of its function hands over is a request
    and where the kernel's memory lies, and what the call gives back is the result.

    The ports are those that the SDK prescribes: one Avalon streaming interface for the arguments, one for the result,
    and Avalon memory-mapped ports, of which each either reads or writes.

    Parameters
    ----------
    kernel : Component
        Has a control port `control`, an `Axi4LiteSignature`, and memory ports `axi`, an array of `Axi4Signature`.
    shape : PortShape
        Of its memory ports. `data_width` and `burst_bytes` must be what the board's global memory takes, as the SDK
        adapts neither.
    address_bits : int
        Bits of an address of the board's global memory.
    wait_cycles, settle_cycles : int
        As of `RequestPort` and `AvalonWriter`.

    Attributes
    ----------
    memory_ports : dict of str to AvalonSignature
        The memory-mapped ports, by the prefix of their signals' names.
    clock, resetn : In(1)
    ivalid, oready : In(1), Out(1)
        The arguments are there; they are taken.
    memory_0, memory_1, ... : In(64)
        Global address of the memory behind each of the kernel's ports, a multiple of `burst_bytes`. May change only
        while nothing is under way: it is the same in every call but for the first after a reset.
    state : In(64)
        Unused: it is for the model in C that takes the module's place where kernels are emulated.
    request : In(64)
        See `muntin.contract.opencl`.
    ovalid, iready : Out(1), In(1)
        The result is there; it is taken.
    result : Out(32)
    read_0_address, ..., write_0_address, ...
        The members of an `AvalonSignature` that reads, and of one that writes, for each of the kernel's ports, and
        `read_0_enable`, ..., always 1.

    Timing
    ------
    As of `RequestPort`; a call that waits for the kernel lasts as long.

    Raises
    ------
    ParameterError
        If an address of the board's memory does not fit a pointer, or the kernel's longest burst is longer than its
        memory's address space allows.

    Source
    ------
    Intel FPGA SDK for OpenCL Pro Edition Programming Guide (683846), sections 11.1.2 to 11.1.4: ports, their names and
    widths, `enable` and `writeack` (support article 000077341), no burst across a burst boundary, requests that pause.
    """

    def __init__(
        self,
        kernel: wiring.Component,
        shape: PortShape,
        *,
        address_bits: int,
        wait_cycles: int = WAIT_CYCLES,
        settle_cycles: int = 4096,
    ):
        if not shape.burst_bytes.bit_length() <= address_bits <= POINTER_BITS:
            raise ParameterError(f"address_bits must lie in 1..{POINTER_BITS} and hold a burst, not {address_bits!r}")
        self._kernel = kernel
        self._wait_cycles = wait_cycles
        ports = range(len(kernel.axi))
        self._readers = [AvalonReader(shape, address_bits) for _ in ports]
        self._writers = [AvalonWriter(shape, address_bits, settle_cycles=settle_cycles) for _ in ports]
        members = {
            "clock": In(1),
            "resetn": In(1),
            "ivalid": In(1),
            "oready": Out(1),
            **{f"memory_{number}": In(POINTER_BITS) for number in ports},
            "state": In(POINTER_BITS),
            "request": In(REQUEST_BITS),
            "ovalid": Out(1),
            "iready": In(1),
            "result": Out(32),
        }
        self.memory_ports = {
            f"{kind}_{number}": adapters[number].avalon.signature
            for number in ports
            for kind, adapters in (("read", self._readers), ("write", self._writers))
        }
        for prefix, avalon in self.memory_ports.items():
            members[f"{prefix}_enable"] = Out(1)
            members |= {f"{prefix}_{name}": member for name, member in avalon.members.items()}
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.sync = domain = ClockDomain()
        m.d.comb += [domain.clk.eq(self.clock), domain.rst.eq(~self.resetn)]

        kernel = self._kernel
        m.submodules.requests = requests = RequestPort(
            kernel.control.signature.address_width, wait_cycles=self._wait_cycles
        )
        m.submodules.kernel = ResetInserter(requests.reset)(kernel)
        wiring.connect(m, requests.control, kernel.control)
        m.d.comb += [
            requests.i.valid.eq(self.ivalid),
            requests.i.payload.eq(self.request),
            self.oready.eq(requests.i.ready),
            self.ovalid.eq(requests.o.valid),
            self.result.eq(requests.o.payload),
            requests.o.ready.eq(self.iready),
        ]

        bases = []
        for number in range(len(self._readers)):
            base = Signal(self._readers[0].base.shape(), name=f"base_{number}")
            with m.If(self.ivalid & self.oready):
                m.d.sync += base.eq(getattr(self, f"memory_{number}"))
            bases.append(base)

        busy = []
        for number, axi in enumerate(kernel.axi):
            for kind, adapter in (("read", self._readers[number]), ("write", self._writers[number])):
                m.submodules[f"{kind}_{number}"] = adapter
                for name, member in adapter.axi.signature.members.items():
                    ours, its = getattr(adapter.axi, name), getattr(axi, name)
                    m.d.comb += ours.eq(its) if member.flow == In else its.eq(ours)
                m.d.comb += [
                    adapter.base.eq(bases[number]),
                    getattr(self, f"{kind}_{number}_enable").eq(1),
                ]
                for name, member in adapter.avalon.signature.members.items():
                    ours, its = getattr(adapter.avalon, name), getattr(self, f"{kind}_{number}_{name}")
                    m.d.comb += its.eq(ours) if member.flow == Out else ours.eq(its)
                busy.append(adapter.busy)
        m.d.comb += requests.quiet.eq(~Cat(busy).any())
        return m
