"""A linked kernel and its memory controller, as one design for the simulator."""

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hw.boards.linked_kernel import LinkedKernel


class LinkedTop(wiring.Component):
    """A linked kernel and its memory controller, a module ``dram`` with ``clk`` and ``rst``.

    Parameters
    ----------
    design : LinkedKernel

    Attributes
    ----------
    rx, tx, busy : In(1), Out(1), Out(1)
        As of the design.
    """

    def __init__(self, design: LinkedKernel):
        self._design = design
        super().__init__({"rx": In(1, init=1), "tx": Out(1), "busy": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.design = design = self._design
        m.submodules.dram = Instance("dram", i_clk=ClockSignal(), i_rst=ResetSignal(), **design.memory_wires())
        m.d.comb += [design.rx.eq(self.rx), self.tx.eq(design.tx), self.busy.eq(design.busy)]
        return m
