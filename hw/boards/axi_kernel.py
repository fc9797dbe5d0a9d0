"""The kernel as a component of a vendor's interconnect that speaks AXI."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.control.axi4_lite_signature import Axi4LiteSignature


class AxiKernel(wiring.Component):
    """The kernel with the protection signals that interconnects ask of an AXI4 master; they are always 0.

    Parameters
    ----------
    kernel : Component
        Has a control port `control`, an `Axi4LiteSignature`, memory ports `axi`, an array of `Axi4Signature`, and
        `irq`.

    Attributes
    ----------
    control : In(Axi4LiteSignature)
    irq : Out(1)
    axi_0, axi_1, ... : Out(Axi4Signature)
        The kernel's memory ports, each of which addresses its channel's memory from 0 on.
    arprot_0, awprot_0, ... : Out(3)
    """

    def __init__(self, kernel: wiring.Component):
        self._kernel = kernel
        ports = len(self._kernel.axi)
        axi = self._kernel.axi[0].signature
        super().__init__(
            {
                "control": In(Axi4LiteSignature(self._kernel.control.signature.address_width)),
                "irq": Out(1),
                **{f"axi_{number}": Out(axi) for number in range(ports)},
                **{f"{name}_{number}": Out(3) for number in range(ports) for name in ("arprot", "awprot")},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.kernel = kernel = self._kernel
        wiring.connect(m, wiring.flipped(self.control), kernel.control)
        m.d.comb += self.irq.eq(kernel.irq)
        for number, axi in enumerate(kernel.axi):
            wiring.connect(m, axi, wiring.flipped(getattr(self, f"axi_{number}")))
        return m
