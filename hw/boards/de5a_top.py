"""The plain Quartus project's top: pins, and the system that Platform Designer makes."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Elaboratable, Instance, Module

SYSTEM = "muntin_system"
"""The module that Platform Designer generates."""


class De5aTop(Elaboratable):
    """Pins of the DE5a-Net, joined to the system in which kernel, memory controllers and JTAG bridge are.

    All logic is in the system; see `muntin.hw.boards.de5a_system`.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()

        def pads(name: str, number: int = 0) -> Any:
            return platform.request(name, number, dir="-")

        wired = {"i_clk_clk": pads("clk_50_b2j").io, "i_reset_reset_n": pads("cpu_reset_n").io}
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
