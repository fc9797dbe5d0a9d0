"""The DE5a-Net's pins, and the top of a project of its own."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

from amaranth.build import Attrs, Clock, Pins, Resource, Subsignal
from amaranth.hdl import Elaboratable, Instance, Module, Signal
from amaranth.lib import io
from amaranth.vendor import AlteraPlatform

CONSTRAINTS = Path(__file__).resolve().parents[2] / "constraints" / "de5a"
_TERMINATED = {"DDR3A_REFCLK_p": "DIFFERENTIAL", "DDR3B_REFCLK_p": "DIFFERENTIAL"}  # by a resistor in the FPGA
# Which way the signals of a memory channel go, seen from the FPGA.
_DDR3 = {
    **dict.fromkeys(("A", "BA", "CAS_n", "CK", "CK_n", "CKE", "CS_n", "DM", "ODT", "RAS_n", "RESET_n", "WE_n"), "o"),
    **dict.fromkeys(("DQ", "DQS", "DQS_n"), "io"),
}
_RANKED = ("CK", "CK_n", "CKE", "CS_n", "ODT")  # one for each rank; the board's modules have one


class _Signals:
    """The signals of `pins.csv`: vectors by their name, lowest bit first."""

    def __init__(self, path: Path):
        self._pins: dict[str, dict[int, str]] = {}
        self._standards: dict[str, str] = {}
        self._hertz: dict[str, int] = {}
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        for row in csv.DictReader(lines):
            found = re.fullmatch(r"(\w+?)(?:\[(\d+)\])?", row["signal"])
            assert found is not None, row
            name = found[1]
            self._pins.setdefault(name, {})[int(found[2] or 0)] = row["pin"]
            assert self._standards.setdefault(name, row["standard"]) == row["standard"], row
            if row["hz"]:
                self._hertz[name] = int(row["hz"])

    def pins(self, name: str, direction: str, most: int | None = None) -> list[object]:
        """What makes a resource, or part of one, of a signal, or of so many of its pins."""
        pins = [pin for _, pin in sorted(self._pins[name].items())][:most]
        attributes = {"IO_STANDARD": self._standards[name]}
        if name in _TERMINATED:
            attributes["INPUT_TERMINATION"] = _TERMINATED[name]
        made: list[object] = [Pins(" ".join(pins), dir=direction), Attrs(**attributes)]
        if name in self._hertz:
            made.append(Clock(self._hertz[name]))
        return made


def _resources() -> list[Resource]:
    signals = _Signals(CONSTRAINTS / "pins.csv")
    clocks = ("CLK_50_B2J", "CLK_50_B2L", "CLK_50_B3D", "CLK_50_B3F", "CLK_50_B3H", "CLK_100_B3D", "CLKUSR_100")
    resources = [Resource(name.lower(), 0, *signals.pins(name, "i")) for name in clocks]
    resources += [
        Resource("cpu_reset_n", 0, *signals.pins("CPU_RESET_n", "i")),
        Resource("button", 0, *signals.pins("BUTTON", "i")),
        Resource("switch", 0, *signals.pins("SW", "i")),
        Resource("led", 0, *signals.pins("LED", "o")),
        Resource("led_bracket", 0, *signals.pins("LED_BRACKET", "o")),
    ]
    for number, letter in enumerate("AB"):
        resources.append(
            Resource(
                "ddr3",
                number,
                *(
                    Subsignal(name.lower(), *signals.pins(f"DDR3{letter}_{name}", way, 1 if name in _RANKED else None))
                    for name, way in _DDR3.items()
                ),
                Subsignal("rzq", *signals.pins(f"RZQ_DDR3_{letter}", "i")),
            )
        )
        resources.append(Resource("ddr3_refclk", number, *signals.pins(f"DDR3{letter}_REFCLK_p", "i")))
    resources.append(
        Resource(
            "pcie",
            0,
            Subsignal("refclk", *signals.pins("PCIE_REFCLK_p", "i")),
            Subsignal("perst_n", *signals.pins("PCIE_PERST_n", "i")),
            Subsignal("rx", *signals.pins("PCIE_RX_p", "i")),
            Subsignal("tx", *signals.pins("PCIE_TX_p", "o")),
        )
    )
    return resources


class De5aPlatform(AlteraPlatform):
    """Terasic's DE5a-Net: an Arria 10, two DDR3 SO-DIMMs, PCIe.

    Source
    ------
    `constraints/de5a/pins.csv`, which names its own.
    """

    device = "10AX115N2"
    package = "F45"
    speed = "E1"
    suffix = "SG"
    default_clk = "clk_50_b2j"
    resources = _resources()
    connectors = ()


SYSTEM = "muntin_system"
"""The module that Platform Designer generates."""


class De5aTop(Elaboratable):
    """Pins of the DE5a-Net, joined to the system in which kernel, memory controllers and JTAG bridge are.

    All logic is in the system but for one gate: what runs at the kernel's clock is held in reset until the PLL that
    makes this clock has locked. See `constraints/de5a/system.tcl`.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()

        def pads(name: str, number: int = 0) -> Any:
            return platform.request(name, number, dir="-")

        m.submodules.reset = reset = io.Buffer("i", pads("cpu_reset_n"))
        locked, released = Signal(name="pll_locked"), Signal(name="kernel_reset_n")
        m.d.comb += released.eq(reset.i & locked)
        wired = {
            "i_clk_clk": pads("clk_50_b2j").io,
            "i_reset_reset_n": reset.i,
            "i_kernel_reset_reset_n": released,
            "o_pll_locked_export": locked,
        }
        for number, letter in enumerate("ab"):
            wired[f"i_refclk_{letter}_clk"] = pads("ddr3_refclk", number).io
            signals = platform.lookup("ddr3", number).ios
            memory = platform.request("ddr3", number, dir={signal.name: "-" for signal in signals})
            for signal in signals:
                port, way = getattr(memory, signal.name).io, signal.ios[0].dir
                name = f"oct_{letter}_oct_rzqin" if signal.name == "rzq" else f"mem_{letter}_mem_{signal.name}"
                wired[f"{way}_{name}"] = port
        m.submodules.system = Instance(SYSTEM, **wired)
        return m
