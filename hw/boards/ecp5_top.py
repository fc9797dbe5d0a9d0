"""A design and its memory controller on an ECP5: clocks, resets and pins."""

from amaranth.hdl import ClockDomain, ClockSignal, Const, Instance, IOPort, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.boards.linked_kernel import LinkedKernel
from muntin.hw.ethernet.ecp5_ethernet import PADS_IN, PADS_OUT


class Ecp5Top(wiring.Component):
    """A design and its memory controller on an ECP5.

    The memory controller's module, `muntin.hw.dram.ecp5_dram`, makes all clocks from the board's one, and the reset;
    but Ethernet's, whose module is `muntin.hw.ethernet.ecp5_ethernet`, come with its wire.

    Parameters
    ----------
    design : LinkedKernel
    chip_bits : int
        Bits of the DRAM's data bus.
    row_bits, bank_bits : int
        Lines of its address.

    Attributes
    ----------
    clk100, rst_n : In(1)
        From the board.
    uart_rx, uart_tx : In(1), Out(1)
        The serial line.
    led_n : Out(1)
        Lit while a request of the host's is being carried out.
    led_clock_n : Out(1)
        Lit while the clocks are locked to the board's.
    led_memory_n : Out(1)
        Lit once the memory was started and levelled.
    ddram_a, ddram_ba, ddram_ras_n, ... : Out
        To the DRAM.
    eth_clk_rx, eth_rx_data, eth_tx_data, ... : In, Out
        To the Ethernet chip; only where the design is at a UDP core.
    pads : list of IOPort
        ``ddram_dq`` and ``ddram_dqs_p``, which are bidirectional.
    """

    def __init__(self, design: LinkedKernel, *, chip_bits: int, row_bits: int, bank_bits: int):
        self._design = design
        lanes = chip_bits // 8
        self._out = {"clk_p": 1, "cke": 1, "odt": 1, "ras_n": 1, "cas_n": 1, "we_n": 1}
        self._out |= {"a": row_bits, "ba": bank_bits, "dm": lanes}
        self.pads = [IOPort(chip_bits, name="ddram_dq"), IOPort(lanes, name="ddram_dqs_p")]
        super().__init__(
            {
                "clk100": In(1),
                "rst_n": In(1),
                "uart_rx": In(1),
                "uart_tx": Out(1),
                "led_n": Out(1),
                "led_clock_n": Out(1),
                "led_memory_n": Out(1),
                **{f"ddram_{name}": Out(width) for name, width in self._out.items()},
                **{f"eth_{name}": In(width) for name, width in PADS_IN.items() if design.ethernet},
                **{f"eth_{name}": Out(width) for name, width in PADS_OUT.items() if design.ethernet},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.sync = ClockDomain()
        m.submodules.design = design = self._design
        wired = design.memory_wires()
        wired |= {f"o_ddram_{name}": getattr(self, f"ddram_{name}") for name in self._out}
        wired |= {f"io_{pad.name}": pad for pad in self.pads}
        locked, started = Signal(), Signal()
        m.submodules.dram = Instance(
            "dram",
            i_clk=self.clk100,
            i_rst=~self.rst_n,
            o_user_clk=ClockSignal(),
            o_user_rst=ResetSignal(),
            o_pll_locked=locked,
            o_memory_started=started,
            **wired,
        )
        if design.ethernet:
            m.submodules.ethernet = Instance(
                "ethernet",
                i_clk=ClockSignal(),
                i_rst=ResetSignal(),
                **design.ethernet_wires(),
                **{f"i_eth_{name}": getattr(self, f"eth_{name}") for name in PADS_IN},
                **{f"o_eth_{name}": getattr(self, f"eth_{name}") for name in PADS_OUT},
            )
        # Quiet on the line until the clock runs and the reset is over.
        running = Signal()
        m.d.sync += running.eq(Const(1))
        m.d.comb += [
            design.rx.eq(self.uart_rx),
            self.uart_tx.eq(design.tx | ~running),
            self.led_n.eq(~design.busy),
            self.led_clock_n.eq(~locked),
            self.led_memory_n.eq(~(locked & started)),
        ]
        return m
