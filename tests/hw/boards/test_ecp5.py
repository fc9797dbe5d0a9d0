"""What is made for a board with an ECP5: constraints, the memory controller, and a small bitstream with all tools."""

import dataclasses
import functools
import json
import math
import os
import re
import subprocess
import sys
import time
import zlib
from collections import Counter
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Const, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from litedram import modules

from muntin.contract.boards import from_description
from muntin.contract.registers import parameter_values
from muntin.hw.boards.board_build import build_of
from muntin.hw.boards.build import build
from muntin.hw.boards.ecp5_board import Ecp5Board
from muntin.hw.boards.ecp5_free_rows import keep_rows_free
from muntin.hw.boards.ecp5_scripts import ecp5_constraints
from muntin.hw.boards.tools import BuildError, TimingError, run_tool
from muntin.hw.dram.ecp5_dram import ecp5_dram
from muntin.hw.link.ecp5_ethernet import PADS_IN, PADS_OUT, ecp5_ethernet
from muntin.hw.link.link import Link
from muntin.hw.link.signatures import DatagramSignature
from muntin.hw.memory.port_shape import PortShape
from muntin.sim.board.link_models import simulated_dram, simulated_ethernet

ECPIX5 = build_of("ecpix5")
ULX3S = build_of("ulx3s")
DESIGNS = [(board, design) for board in (ECPIX5, ULX3S) for design in board.designs]
each_design = pytest.mark.parametrize(("board", "design"), DESIGNS, ids=[f"{b.name}-{d}" for b, d in DESIGNS])


@pytest.mark.parametrize("board", [ECPIX5, ULX3S], ids=lambda board: board.name)
def test_every_pin_is_placed_once(board):
    text = ecp5_constraints(board.platform, board.pins, {}, board.pulled_up)
    placed = re.findall(r'LOCATE COMP "(.*)" SITE "(.*)";', text)
    assert len({port for port, _ in placed}) == len({site for _, site in placed}) == len(placed)
    widths = board.dram.out(board.row_bits, board.bank_bits) | board.dram.both()
    bits = {f"{board.dram.pads}_{pad}": width for pad, width in widths.items()}
    assert set(bits) <= set(board.pins)
    bits = {port: width for port, width in (bits | {"eth_rx_data": 4, "eth_tx_data": 4}).items() if width > 1}
    expected = set(board.pins) - set(bits)
    expected |= {f"{port}[{bit}]" for port in bits.keys() & board.pins.keys() for bit in range(bits[port])}
    assert {port for port, _ in placed} == expected


def test_attributes_of_pins():
    clocks = {"clk100": 100_000_000, "eth_clk_rx": 125_000_000}
    text = ecp5_constraints(ECPIX5.platform, ECPIX5.pins, clocks, ("rst_n",))
    assert 'IOBUF PORT "ddram_dqs_p[1]" IO_TYPE=SSTL15D_I SLEWRATE=FAST TERMINATION=OFF DIFFRESISTOR=100;' in text
    assert 'IOBUF PORT "rst_n" IO_TYPE=LVCMOS33 PULLMODE=UP;' in text
    assert 'IOBUF PORT "clk100" IO_TYPE=LVCMOS33;' in text
    assert text.endswith('FREQUENCY PORT "clk100" 100 MHZ;\nFREQUENCY PORT "eth_clk_rx" 125 MHZ;\n')


def test_a_resource_that_the_platform_lacks():
    with pytest.raises(KeyError, match="nothing"):
        ecp5_constraints(ECPIX5.platform, {"clk": "nothing"}, {"clk": 1})


@each_design
def test_the_simulated_memory_is_started_as_the_real_one(board, design):
    dram = board.dram_of(design)
    real = ecp5_dram(dram, "dram", input_hz=board.input_hz, row_bits=board.row_bits)
    simulated = simulated_dram(dram, "dram")
    for field in ("row_bytes", "memory_bytes", "start"):
        assert getattr(real, field) == getattr(simulated, field), field
    assert real.memory_bytes == board.memory_bytes
    assert real.start["banks"] == [1 << board.bank_bits, {"ecpix5": 2048, "ulx3s": 1024}[board.name]]
    for pad in dram.both():
        assert re.search(rf"^\s*inout  wire .*\b{dram.pads}_{pad},?$", real.verilog, re.M)
    told = from_description(board.description_of(design, real.start))
    assert (told["board"], told["design"], told["start"]) == (board.name, design, json.loads(json.dumps(real.start)))
    assert told["parameters"] == parameter_values(board.parameters[design])
    assert told["clock_hz"] == dram.clock_hz == board.parameters[design].clock_hz
    assert dram.beat_bits == board.parameters[design].data_bits


@pytest.mark.parametrize("chip", ["MT48LC16M16", "IS42S16160", "AS4C16M16", "AS4C32M16", "W9825G6KH6"])
def test_the_memory_of_each_ulx3s_is_served(chip):
    """Its rows, columns and banks are there, and no timing of it is longer than those that the controller keeps."""
    dram = ULX3S.dram
    built = getattr(modules, dram.module)(dram.clock_hz, dram.rate)
    found = getattr(modules, chip)(dram.clock_hz, dram.rate)
    geometry = built.geom_settings
    assert (geometry.bankbits, geometry.rowbits) == (found.geom_settings.bankbits, found.geom_settings.rowbits)
    assert geometry.colbits <= found.geom_settings.colbits
    for timing in ("tRP", "tRCD", "tWR", "tRFC", "tRAS", "tRRD"):
        refresh = (0, dram.refresh_ns)
        kept, needed = (refresh if timing == "tRFC" else built.get(timing)), found.get(timing)
        cycles = [math.ceil(max(of[0], of[1] * dram.clock_hz / 1e9)) if of else 0 for of in (kept, needed)]
        assert cycles[0] >= cycles[1], timing
    assert built.timing_settings.tREFI <= found.timing_settings.tREFI


def test_the_clock_of_sdram_is_a_quarter_behind():
    text = ecp5_dram(ULX3S.dram, "dram", input_hz=ULX3S.input_hz, row_bits=ULX3S.row_bits).verilog
    pll = {name: int(value) for name, value in re.findall(r"\.(CLK\w+|CLKI_DIV)\s*\(\d+'d(\d+)\)", text)}
    assert ULX3S.input_hz / pll["CLKI_DIV"] * pll["CLKFB_DIV"] / pll["CLKOP_DIV"] == ULX3S.dram.clock_hz
    assert pll["CLKOS_DIV"] == pll["CLKOP_DIV"]
    later = pll["CLKOS_CPHASE"] - pll["CLKOP_CPHASE"] + (pll["CLKOS_FPHASE"] - pll["CLKOP_FPHASE"]) / 8
    assert later / pll["CLKOS_DIV"] == 0.25
    # The reset ends once the clocks are locked.
    assert re.search(r"FD1S3BX FD1S3BX\(\s*\.CK \(sys_clk\),\s*\.D  \(1'd0\),\s*\.PD \(\(~core_locked\)\),", text)


@functools.cache
def _core(clock_hz):
    dram = dataclasses.replace(ECPIX5.dram, clock_hz=clock_hz)
    return ecp5_dram(dram, "dram", input_hz=ECPIX5.input_hz, row_bits=ECPIX5.row_bits)


@pytest.mark.parametrize(("clock_hz", "delay", "rtt_nom"), [(64_000_000, 100, 0), (75_000_000, 0, 0b100)])
def test_the_memory_is_set_by_its_clock(clock_hz, delay, rtt_nom):
    core = _core(clock_hz)
    ((address, bank),) = [step[1:3] for step in core.start["steps"] if step[0] == "Load Mode Register 1"]
    assert (address, bank) == (rtt_nom | 0b10, 1)  # with drivers of 34 ohms
    # The clock and the commands: the other delays, of the data, are aligned to their strobe.
    delays = re.findall(r"DELAYG #\(\s*\.DEL_VALUE\s*\(.*?(\d+)\)", core.verilog)
    assert delays == [str(delay)] * (6 + ECPIX5.row_bits + ECPIX5.bank_bits)
    built = {design: ECPIX5.dram_of(design) for design in ECPIX5.designs}
    assert {design: dram.command_delay for design, dram in built.items()} == {
        "bisort": 100,
        "bisort-ethernet": 100,
        "splitjoin": 100,
    }
    assert dataclasses.replace(ECPIX5.dram, clock_hz=64_000_001).termination == "60ohm"


def test_the_pause_of_the_lanes_crosses_into_their_clock():
    verilog = _core(64_000_000).verilog
    pauses = set(re.findall(r"\.PAUSE\s*\(\((\w+) \| ", verilog))
    assert len(pauses) == 1
    (driver,) = re.findall(rf"assign {pauses.pop()} = (\w+);", verilog)
    clocked = re.search(r"^always @\(posedge sys_clk\) begin.*?^end", verilog, re.M | re.S)[0]
    (before,) = re.findall(rf"^\s*{driver} <= (\w+);", clocked, re.M)
    assert re.search(rf"^\s*{before} <= \w*pause\w*;", clocked, re.M)


@pytest.mark.parametrize(("design", "hz"), [("bisort", 40_000_000), ("splitjoin", 60_000_000)])
def test_each_design_has_a_clock_of_its_own(design, hz):
    """The PLL, whose feedback is its own frequency, makes twice the kernel's clock for the memory's pins."""
    dram = ECPIX5.dram_of(design)
    assert ECPIX5.parameters[design].clock_hz == dram.clock_hz == hz
    text = ecp5_dram(dram, "dram", input_hz=ECPIX5.input_hz, row_bits=ECPIX5.row_bits).verilog
    pll = {name: int(value) for name, value in re.findall(r"\.(CLK\w+_DIV)\s*\(\d+'d(\d+)\)", text)}
    frequency = ECPIX5.input_hz / pll["CLKI_DIV"] * pll["CLKFB_DIV"] * pll["CLKOS2_DIV"]
    assert frequency / pll["CLKOP_DIV"] == 2 * hz


def test_the_simulated_ethernet_differs_in_its_pins_alone():
    real, simulated = (
        make(ECPIX5.ethernet, "ethernet", clock_hz=ECPIX5.dram.clock_hz) for make in (ecp5_ethernet, simulated_ethernet)
    )
    assert real == ecp5_ethernet(ECPIX5.ethernet, "ethernet", clock_hz=ECPIX5.dram.clock_hz)
    pins = [re.findall(r"^ +(?:in|out)put +wire .*\b(\w+),?$", text, re.M) for text in (real, simulated)]
    of_link = set(DatagramSignature().members) | {"clk", "rst"}
    pads = {f"eth_{pad}" for pad in (*PADS_IN, *PADS_OUT)}
    assert set(pins[0]) == of_link | pads
    assert set(pins[1]) == of_link | {f"eth_{pin}" for pin in ("clk", "rx_valid", "rx_data", "tx_valid", "tx_data")}
    assert pads <= set(ECPIX5.pins)
    assert f"DEL_VALUE (7'd{ECPIX5.ethernet.transmit_delay_ps // 25})" in real


def test_a_description_that_lacks_something():
    with pytest.raises(ValueError, match="lacks board, clock_hz"):
        from_description(zlib.compress(b'{"design": 1, "memory_bytes": 2, "parameters": 3, "start": 4}'))


class _LinkAlone(wiring.Component):
    """The link at both its lines, with nothing behind it."""

    def __init__(self):
        pads = {f"eth_{pad}": In(bits) for pad, bits in PADS_IN.items()}
        pads |= {f"eth_{pad}": Out(bits) for pad, bits in PADS_OUT.items()}
        super().__init__({"clk100": In(1), "uart_rx": In(1), "uart_tx": Out(1), "led_n": Out(1), **pads})

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = domain = ClockDomain(reset_less=True)
        shape = PortShape(address_width=16, data_width=32, burst_bytes=64, buffer_bytes=64)
        m.submodules.link = link = Link(
            divisor=100, control_address_width=8, shape=shape, description=b"alone", ethernet=True
        )
        udp = link.udp.signature.members.items()
        wires = {f"{'i' if member.flow == Out else 'o'}_{name}": getattr(link.udp, name) for name, member in udp}
        wires |= {f"i_eth_{pad}": getattr(self, f"eth_{pad}") for pad in PADS_IN}
        wires |= {f"o_eth_{pad}": getattr(self, f"eth_{pad}") for pad in PADS_OUT}
        m.submodules.ethernet = Instance("ethernet", i_clk=self.clk100, i_rst=Const(0), **wires)
        m.d.comb += [
            domain.clk.eq(self.clk100),
            link.rx.eq(self.uart_rx),
            self.uart_tx.eq(link.tx),
            self.led_n.eq(~link.busy),
            link.control.rvalid.eq(1),
            link.control.rdata.eq(link.control.araddr),
            link.csr.dat_r.eq(link.csr.adr),
            link.axi.rvalid.eq(1),
            link.axi.rdata.eq(link.axi.araddr),
        ]
        return m


@dataclasses.dataclass(frozen=True, kw_only=True)
class _SmallBoard(Ecp5Board):
    """The board, with the link alone on it."""

    said_hz: int

    def files(self, design, steps):
        top = _LinkAlone()
        ports = [getattr(top, name) for name in top.signature.members]
        pins = {port: place for port, place in self.pins.items() if port in top.signature.members}
        return {
            "top.il": rtlil.convert(top, name="top", ports=ports, emit_src=False),
            "ethernet.v": ecp5_ethernet(self.ethernet, "ethernet", clock_hz=self.said_hz),
            "top.lpf": ecp5_constraints(
                self.platform, pins, {"clk100": self.said_hz, "eth_clk_rx": 125_000_000}, self.pulled_up
            ),
            "synthesize.ys": "read_rtlil top.il\nread_verilog ethernet.v\nsynth_ecp5 -top top -json top.json\n",
        }


class _Counter(wiring.Component):
    """What tools are tried on that are to fail: it is placed in seconds."""

    def __init__(self):
        super().__init__({"clk100": In(1), "led_n": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.domains.sync = domain = ClockDomain(reset_less=True)
        count = Signal(32)
        m.d.sync += count.eq(count + 1)
        m.d.comb += [domain.clk.eq(self.clk100), self.led_n.eq(count[-1])]
        return m


class _CountingBoard(_SmallBoard):
    """The board, with a counter alone on it."""

    def files(self, design, steps):
        top = _Counter()
        ports = [getattr(top, name) for name in top.signature.members]
        pins = {port: self.pins[port] for port in top.signature.members}
        return {
            "top.il": rtlil.convert(top, name="top", ports=ports, emit_src=False),
            "top.lpf": ecp5_constraints(self.platform, pins, {"clk100": self.said_hz}, ()),
            "synthesize.ys": "read_rtlil top.il\nsynth_ecp5 -top top -json top.json\n",
        }


def _small(kind=_SmallBoard, **change):
    fields = {field.name: getattr(ECPIX5, field.name) for field in dataclasses.fields(ECPIX5)}
    return kind(**{**fields, "said_hz": 50_000_000, **change})


def test_a_bitstream(tmp_path, capsys):
    board = _small(_CountingBoard, seeds=(1,), output_registers=(), free_rows=())
    folder = build(board, root=tmp_path)
    report = json.loads((folder / "report.json").read_text())
    assert (folder / report["bitstream"]).stat().st_size == report["bitstream_bytes"] > 10_000
    (clock,) = report["clocks"].values()
    assert clock["reached_mhz"] >= clock["declared_mhz"] == 50.0
    assert 32 <= report["used"]["TRELLIS_COMB"][0] < 200
    assert report["seed"] == 1
    assert "place and route, seed 1: " in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.long
def test_a_bitstream_with_block_ram_two_clocks_and_free_rows(tmp_path, capsys):
    board = _small(seeds=(1,), output_registers=("bisort",), free_rows=("bisort",))
    folder = build(board, root=tmp_path)
    report = json.loads((folder / "report.json").read_text())
    assert (folder / report["bitstream"]).stat().st_size == report["bitstream_bytes"] > 10_000
    assert sorted(clock["declared_mhz"] for clock in report["clocks"].values()) == [50.0, 125.0]
    assert all(clock["reached_mhz"] >= clock["declared_mhz"] for clock in report["clocks"].values())
    # The datagrams of the UDP core, which the lines' clock brings and takes.
    assert {frozenset(pair.split(" -> ")) for pair in report["crossings"]} == {frozenset(report["clocks"])}
    assert report["used"]["DP16KD"][0] >= 2
    assert 100 < report["used"]["TRELLIS_COMB"][0] < 20_000  # without those that keep rows free
    assert report["seed"] == 1
    said = capsys.readouterr().err
    assert "place and route, seed 1: " in said
    assert re.search(r"registers behind \d+ ports of block RAM are in it", said)
    assert "22632 look-up tables are kept free for wires" in said
    tables = re.findall(
        r"^word: SLICE.\.K.\.INIT (\d+)$|^\.tile R(\d+)C\d+:PLC2$", (folder / "top-1.config").read_text(), re.M
    )
    row, used = 0, Counter()
    for content, tile in tables:
        row = int(tile or row)
        used[row] += "1" in content  # a table that does something
    assert sum(used.values()) > 100
    assert not any(count for row, count in used.items() if row % 3 == 1)


def test_a_clock_that_nothing_reaches(tmp_path):
    """The command fails with the path."""
    with pytest.raises(
        TimingError, match=r"seeds 1; the nearest: .*clk100\S* \d+\.\d of 900\.\d MHz.*; worst path of clk100"
    ):
        build(_small(_CountingBoard, seeds=(1,), free_rows=(), output_registers=(), said_hz=900_000_000), root=tmp_path)


def test_a_tool_that_refuses(tmp_path):
    refused = dataclasses.replace(_small(_CountingBoard, seeds=(1,)), device="um5g-999k")
    with pytest.raises(
        BuildError,
        match=r"run_nextpnr_ecp5 failed with exit status \d+, with --um5g-999k .*; all of it is in .*route-1\.log",
    ):
        build(refused, root=tmp_path)


def test_rows_of_an_unknown_device_are_not_kept_free(tmp_path):
    with pytest.raises(
        BuildError, match="rows can be kept free on um5g-85k, um-85k, not on 'um5g-25k': leave free_rows"
    ):
        keep_rows_free(tmp_path / "top.json", "um5g-25k")


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ("os.kill(os.getpid(), 11)", "broken.run was ended by SIGSEGV, with -q 'a b' in .*:\nit printed nothing"),
        ("exit(print('at', arguments) or 3)", "exit status 3, with -q 'a b' in .*:\nat \\['-q', 'a b'\\]"),
        ("os.kill(os.getpid(), 40)", "ended by signal 40,"),
    ],
)
def test_how_a_tool_ended(tmp_path, ends, said):
    (tmp_path / "broken.py").write_text(f"import os\ndef run(arguments):\n    {ends}\n")
    with pytest.raises(BuildError, match=said):
        run_tool("broken", "run", ["-q", "a b"], tmp_path)


def test_a_tool_ends_with_the_process_that_runs_it(tmp_path):
    (tmp_path / "endless.py").write_text(
        "import os, pathlib, time\n"
        "def run(arguments):\n"
        "    pathlib.Path('pid.part').write_text(str(os.getpid()))\n"
        "    os.rename('pid.part', 'pid')\n"
        "    time.sleep(600)\n"
    )
    code = (
        "from pathlib import Path; from muntin.hw.boards.tools import run_tool; run_tool('endless', 'run', [], Path())"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}) as build:
        try:
            assert _until((tmp_path / "pid").exists)
        finally:
            build.kill()  # so that no line of its own ends the tool
    tool = int((tmp_path / "pid").read_text())
    assert _until(lambda: _gone(tool))


def _until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return holds()


def _gone(pid):
    """Whether a process has ended; one that its parent has not waited for has."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z"
    except ProcessLookupError:
        return True


def test_first_runs_at_once_compile_a_tool_once(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import os, pathlib, time\n"
        "def run(arguments):\n"
        "    code = pathlib.Path(os.environ['YOWASP_CACHE_DIR'], 'code')\n"
        "    if not code.exists():\n"
        "        print('compiling', file=open('../../count', 'a'))\n"
        "        code.parent.mkdir()\n"
        "        code.write_text('')\n"
        "        time.sleep(0.3)\n"  # as a cache that is not whole yet
        "        code.write_text('whole')\n"
        "    return code.read_text() != 'whole'\n"
    )
    first = (
        "from pathlib import Path; from muntin.hw.boards import tools; tools._COMPILED = (('slow', 'run', []),);"
        "tools.importlib.metadata.version = lambda name: '1';"
        "tools.run_tool('slow', 'run', [], Path.cwd())"
    )
    there = os.environ | {
        "YOWASP_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    runs = [
        subprocess.Popen([sys.executable, "-c", first], cwd=tmp_path, env=there, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    told = [run.communicate()[1] for run in runs]
    assert [run.returncode for run in runs] == [0] * 4, told
    assert (tmp_path / "count").read_text() == "compiling\n"
    assert sum("compiling slow.run for this machine, once: " in text for text in told) == 1
