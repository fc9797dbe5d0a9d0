"""A linked kernel and its memory controller, as one design for the simulator."""

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.boards.linked_kernel import LinkedKernel

_ETHERNET = {"clk": In(1), "rx_valid": In(1), "rx_data": In(8), "tx_valid": Out(1), "tx_data": Out(8)}


class LinkedTop(wiring.Component):
    """A linked kernel and its memory controller, a module ``dram`` with ``clk`` and ``rst``.

    Where it is at Ethernet, with its UDP core too, a module ``ethernet``.

    Parameters
    ----------
    design : LinkedKernel

    Attributes
    ----------
    rx, tx, busy : In(1), Out(1), Out(1)
        As of the design.
    eth_clk, eth_rx_valid, eth_rx_data, eth_tx_valid, eth_tx_data : In(1), In(1), In(8), Out(1), Out(8)
        As of `muntin.sim.linked.models`; only where it is at Ethernet.
    """

    def __init__(self, design: LinkedKernel):
        self._design = design
        wire = {f"eth_{name}": member for name, member in _ETHERNET.items() if design.ethernet}
        super().__init__({"rx": In(1, init=1), "tx": Out(1), "busy": Out(1), **wire})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.design = design = self._design
        m.submodules.dram = Instance("dram", i_clk=ClockSignal(), i_rst=ResetSignal(), **design.memory_wires())
        if design.ethernet:
            wires = design.ethernet_wires()
            for name, member in _ETHERNET.items():
                wires[f"{'i' if member.flow == In else 'o'}_eth_{name}"] = getattr(self, f"eth_{name}")
            m.submodules.ethernet = Instance("ethernet", i_clk=ClockSignal(), i_rst=ResetSignal(), **wires)
        m.d.comb += [design.rx.eq(self.rx), self.tx.eq(design.tx), self.busy.eq(design.busy)]
        return m
