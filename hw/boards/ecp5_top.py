"""A design and its memory controller on an ECP5: clocks, resets and pins."""

from collections.abc import Collection
from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, Const, Instance, IOPort, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.boards.linked_kernel import LinkedKernel
from muntin.hw.dram.dram_settings import DramSettings
from muntin.hw.link.ecp5_ethernet import PADS_IN, PADS_OUT


class Ecp5Top(wiring.Component):
    """A design and its memory controller on an ECP5.

    The memory controller's module, `muntin.hw.dram.ecp5_dram`, makes all clocks from the board's one, and the reset;
    but Ethernet's, whose module is `muntin.hw.link.ecp5_ethernet`, come with its wire.

    Parameters
    ----------
    design : LinkedKernel
    ports : collection of str
        What the board has: a port whose name ends with ``_n`` is inverted.
    clock : str
        Which of them is the board's clock.
    high : collection of str
        Ports that the board needs to be 1.
    dram : DramSettings
    row_bits, bank_bits : int
        Lines of its address.

    Attributes
    ----------
    clk100, rst : In(1)
        From the board.
    uart_rx, uart_tx : In(1), Out(1)
        The serial line.
    led : Out(1)
        Lit while a request of the host's is being carried out.
    led_clock : Out(1)
        Lit while the clocks are locked to the board's.
    led_memory : Out(1)
        Lit once the memory was started, and levelled where it has to be.
    ddram_a, ddram_ba, ddram_ras_n, ... : Out
        To the DRAM.
    eth_clk_rx, eth_rx_data, eth_tx_data, ... : In, Out
        To the Ethernet chip; only where the design is at a UDP core.
    pads : list of IOPort
        Those of the DRAM that are bidirectional.
    """

    def __init__(
        self,
        design: LinkedKernel,
        *,
        ports: Collection[str],
        clock: str,
        high: Collection[str],
        dram: DramSettings,
        row_bits: int,
        bank_bits: int,
    ):
        self._design = design
        self._clock = clock
        self._high = high
        self._names = {name.removesuffix("_n"): name for name in ports}
        self._out = {f"{dram.pads}_{pad}": width for pad, width in dram.out(row_bits, bank_bits).items()}
        self.pads = [IOPort(width, name=f"{dram.pads}_{pad}") for pad, width in dram.both().items()]
        super().__init__(
            {
                clock: In(1),
                self._names["rst"]: In(1),
                "uart_rx": In(1),
                "uart_tx": Out(1),
                **{self._names[led]: Out(1) for led in ("led", "led_clock", "led_memory")},
                **{name: Out(1) for name in high},
                **{name: Out(width) for name, width in self._out.items()},
                **{f"eth_{name}": In(width) for name, width in PADS_IN.items() if design.ethernet},
                **{f"eth_{name}": Out(width) for name, width in PADS_OUT.items() if design.ethernet},
            }
        )

    def _at(self, name: str, value: Value) -> Any:
        """Sets an output to what it is to be before it is inverted."""
        port = self._names[name]
        return getattr(self, port).eq(value if port == name else ~value)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.domains.sync = ClockDomain()
        m.submodules.design = design = self._design
        wired = design.memory_wires()
        wired |= {f"o_{name}": getattr(self, name) for name in self._out}
        wired |= {f"io_{pad.name}": pad for pad in self.pads}
        locked, started = Signal(), Signal()
        reset = self._names["rst"]
        m.submodules.dram = Instance(
            "dram",
            i_clk=getattr(self, self._clock),
            i_rst=getattr(self, reset) if reset == "rst" else ~getattr(self, reset),
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
            self._at("led", design.busy),
            self._at("led_clock", locked),
            self._at("led_memory", locked & started),
            *(getattr(self, name).eq(1) for name in self._high),
        ]
        return m
