"""The kernel of each design, and a kernel with a link to its host, as a board carries it."""

import importlib
from typing import Any

from amaranth.hdl import Module, ResetInserter, ValueLike
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.contract import ParameterError
from muntin.contract.design import design_of
from muntin.hw.link.link import Link
from muntin.hw.link.signatures import CsrSignature, DatagramSignature
from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.memory.port_guard import PortGuard
from muntin.hw.memory.port_interleaver import PortInterleaver
from muntin.hw.memory.port_shape import PortShape
from muntin.hw.memory.port_slice import PortSlice


def kernel_of(parameters: Any, **options: Any) -> tuple[wiring.Component, PortShape]:
    """The kernel that is built with these parameters, and options of its own; and the shape of its memory ports.

    Raises
    ------
    ParameterError
        If no design is built with such parameters.
    """
    module, name = design_of(parameters).kernel.split(":")
    kernel = getattr(importlib.import_module(f"muntin.hw.{module}"), name)(parameters, **options)
    return kernel, kernel.shape


class LinkedKernel(wiring.Component):
    """A kernel with a link to its host: all of a board's design but the memory controller, the clocks and the pins.

    The same stands on a board and in simulation.

    Parameters
    ----------
    kernel : Component
        Has `control`, an AXI4-Lite port, `irq`, and `axi`, an array of one `Axi4Signature`.
    shape : PortShape
        Of the kernel's memory port.
    divisor : int
        Cycles of a bit on the serial line.
    description : bytes
        What the host reads to know what was built.
    ports, stride : int
        The kernel's memory accesses are spread over so many ports of the memory controller, the next one following
        after `stride` bytes.
    ethernet : bool
        The link is at a UDP core, too.

    Attributes
    ----------
    rx, tx : In(1), Out(1)
        The serial line.
    busy : Out(1)
        A request of the host's is not answered yet.
    axi : array of Out(Axi4Signature), shape (ports + 1,)
        To the memory controller; the last one is the link's.
    csr : Out(CsrSignature)
        To the memory controller's registers.
    udp : Out(DatagramSignature)
        To the UDP core; only with `ethernet`.

    Timing
    ------
    That of its parts.

    Raises
    ------
    ParameterError
        If the kernel has more than one memory port.
    """

    def __init__(
        self,
        kernel: wiring.Component,
        shape: PortShape,
        *,
        divisor: int,
        description: bytes,
        ports: int,
        stride: int,
        ethernet: bool = False,
    ):
        if len(kernel.axi) != 1:
            raise ParameterError(f"the kernel must have one memory port, not {len(kernel.axi)}")
        self._kernel = kernel
        self._shape = shape
        self._ports = ports
        self.ethernet = ethernet
        self._stride = stride
        self._link = Link(
            divisor=divisor,
            control_address_width=kernel.control.signature.address_width,
            shape=shape,
            description=description,
            ethernet=ethernet,
        )
        axi = Axi4Signature(shape.address_width, shape.data_width, shape.id_width)
        super().__init__(
            {
                "rx": In(1, init=1),
                "tx": Out(1),
                "busy": Out(1),
                "axi": Out(axi).array(ports + 1),
                "csr": Out(CsrSignature()),
                **({"udp": Out(DatagramSignature())} if ethernet else {}),
            }
        )

    def memory_wires(self) -> dict[str, ValueLike]:
        """What to wire an `Instance` of the memory controller with, but for its clocks and pads."""
        ports = [*((f"axi{number}_", port) for number, port in enumerate(self.axi)), ("csr_", self.csr)]
        return {name: wire for stem, port in ports for name, wire in _wires(stem, port).items()}

    def ethernet_wires(self) -> dict[str, ValueLike]:
        """What to wire an `Instance` of the UDP core with, but for its clocks and pads."""
        return _wires("", self.udp)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.link = link = self._link
        kernel = self._kernel
        m.submodules.kernel = ResetInserter(link.reset)(kernel)
        m.submodules.guard = guard = PortGuard(self._shape)
        wiring.connect(m, link.control, kernel.control)
        wiring.connect(m, link.csr, wiring.flipped(self.csr))
        if self.ethernet:
            wiring.connect(m, link.udp, wiring.flipped(self.udp))
        wiring.connect(m, link.axi, wiring.flipped(self.axi[self._ports]))
        m.submodules.cut = cut = PortSlice(self._shape)
        wiring.connect(m, kernel.axi[0], guard.i)
        wiring.connect(m, guard.axi, cut.i)
        if self._ports > 1:
            m.submodules.spread = spread = PortInterleaver(self._shape, ports=self._ports, stride=self._stride)
            wiring.connect(m, cut.axi, spread.i)
            for number in range(self._ports):
                wiring.connect(m, spread.axi[number], wiring.flipped(self.axi[number]))
        else:
            wiring.connect(m, cut.axi, wiring.flipped(self.axi[0]))
        m.d.comb += [
            link.rx.eq(self.rx),
            self.tx.eq(link.tx),
            self.busy.eq(link.busy),
            link.interrupt.eq(kernel.irq),
            guard.halt.eq(link.halt),
            link.quiet.eq(guard.quiet),
        ]
        return m


def _wires(stem: str, port: wiring.PureInterface) -> dict[str, ValueLike]:
    return {
        f"{'i' if member.flow == Out else 'o'}_{stem}{name}": getattr(port, name)
        for name, member in port.signature.members.items()
    }
