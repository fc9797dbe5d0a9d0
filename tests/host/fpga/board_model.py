"""A board at the far end of a line, as models: link, kernel and memory controller; and a line with faults."""

import os
import threading
import tty

from muntin.contract.boards import to_description
from muntin.contract.designs.bisort import Parameters
from muntin.contract.link import DESCRIPTION_BASE, DRAM_BASE
from muntin.host.fpga.serial_board import LaneTiming
from muntin.sim.models.kernel import KernelModel
from muntin.sim.models.link import LinkModel

PARAMETERS = Parameters.preset("tiny")
MEMORY_BYTES = 1 << 16
CLOCK_HZ = 1_000_000_000
WORKING = ((1, 2, 5), (3, 1, 6))  # of each lane the bitslip, the first and the last delay that work
TIMINGS = [LaneTiming(1, 4, 4), LaneTiming(3, 4, 6)]
REGISTERS = {
    "dram_dfii_control": 1,
    **{
        f"dram_dfii_pi{phase}_{name}": words
        for phase in range(2)
        for name, words in (
            ("command", 1),
            ("command_issue", 1),
            ("address", 1),
            ("baddress", 1),
            ("wrdata", 2),
            ("rddata", 2),
        )
    },
    **{
        f"phy_{name}": 1
        for name in (
            "dly_sel",
            "rdly_dq_rst",
            "rdly_dq_inc",
            "rdly_dq_bitslip_rst",
            "rdly_dq_bitslip",
            "burstdet_clr",
            "burstdet_seen",
        )
    },
}


def start():
    """What the description says of the start, as `muntin.hw.dram.start_description` has it."""
    places, at = {}, 0
    for name, words in REGISTERS.items():
        places[name] = [at, words]
        at += 4 * words
    return {
        "phases": 2,
        "read_phase": 0,
        "write_phase": 1,
        "banks": [8, 256],
        "lanes": 2,
        "delays": 8,
        "bitslips": 4,
        "registers": places,
        "steps": [["Release reset", 0, 0, "control", 12, 500], ["Load Mode Register 2", 512, 2, "command", 15, 0]],
    }


class BoardModel:
    """What is behind the link of a board; see `muntin.sim.models.link.Behind`.

    Parameters
    ----------
    board, design
        What it says it is.
    parameters
        What it says it was built with.
    working
        As `WORKING`.
    kernel
        What it has, with `MEMORY_BYTES` of memory.
    delays
        Of a lane; 0 for a memory that is not levelled.
    """

    def __init__(self, board="ecpix5", design="bisort", parameters=PARAMETERS, working=WORKING, kernel=None, delays=8):
        self.kernel = kernel or KernelModel(PARAMETERS, MEMORY_BYTES)
        self.started = []  # steps of the memory's start, and what the control register became
        self.resets = 0
        self._working = working
        self._words = {}
        self._names = {
            place + 4 * word: (name, word)
            for name, (place, words) in start()["registers"].items()
            for word in range(words)
        }
        self._settings = [[0, 0] for _ in working]  # bitslip, delay
        self._burst = None
        told = to_description(
            board=board,
            design=design,
            parameters=parameters,
            clock_hz=CLOCK_HZ,
            memory_bytes=MEMORY_BYTES,
            start=start() | {"delays": delays},
        )
        self._description = len(told).to_bytes(4, "little") + told + bytes(-len(told) % 4)

    def read(self, address):
        region, low = address & 0xF0000000, address & 0x0FFFFFFF
        if region == DRAM_BASE:
            return self._read_dram(*self._names[low])
        if region == DESCRIPTION_BASE:
            return int.from_bytes(self._description[low : low + 4], "little") if low < len(self._description) else None
        return self.kernel.read_register(low)

    def write(self, address, value):
        if address & 0xF0000000 == DRAM_BASE:
            self._write_dram(*self._names[address & 0x0FFFFFFF], value)
        else:
            self.kernel.write_register(address, value)
        return True

    def read_memory(self, word):
        return int.from_bytes(self.kernel.read_memory(4 * word, 4).tobytes(), "little")

    def write_memory(self, word, value):
        self.kernel.write_memory(4 * word, value.to_bytes(4, "little"))
        return True

    def wait(self, cycles):
        return self.kernel.interrupt if hasattr(self.kernel, "interrupt") else True

    def reset(self):
        self.resets += 1
        self.kernel.reset()

    def _write_dram(self, name, word, value):
        self._words[name, word] = value
        chosen = [lane for lane in range(2) if self._words.get(("phy_dly_sel", 0), 0) >> lane & 1]
        for lane in chosen:
            bitslip, delay = self._settings[lane]
            self._settings[lane] = {
                "phy_rdly_dq_bitslip_rst": [0, delay],
                "phy_rdly_dq_bitslip": [(bitslip + 1) % 4, delay],
                "phy_rdly_dq_rst": [bitslip, 0],
                "phy_rdly_dq_inc": [bitslip, (delay + 1) % 8],
            }.get(name, [bitslip, delay])
        if name == "dram_dfii_control":
            self.started.append(value)
        elif name.endswith("command_issue"):
            command = self._words[name.removesuffix("_issue"), 0]
            if command & 0x10:  # data are written
                self._burst = [
                    self._words.get((f"dram_dfii_pi{phase}_wrdata", at), 0) for phase in (0, 1) for at in (0, 1)
                ]
            elif command & 8:
                self.started.append(command)

    def _read_dram(self, name, word):
        if name == "phy_burstdet_seen":
            return 3
        if not name.endswith("rddata"):
            return self._words.get((name, word), 0)
        raw = self._burst[2 * int(name[len("dram_dfii_pi")]) + word]
        wrong = 0
        for lane, (bitslip, first, last) in enumerate(self._working):
            if self._settings[lane][0] != bitslip or not first <= self._settings[lane][1] <= last:
                wrong |= 0x00FF00FF << 8 * lane
        return raw ^ wrong


class FaultyLine:
    """A port whose far end is a board's model; a `Port` as `LinkClient` needs it. Time does not pass on it.

    Parameters
    ----------
    behind : BoardModel
    fault : callable
        Given a direction, ``"to"`` or ``"from"``, the number of the frame in that direction, and its bytes, gives what
        arrives of it.
    """

    path = "a faulty line"
    baud = 10_000_000
    check = "what is faulty"

    def __init__(self, behind, fault=lambda direction, number, content: content):
        self._link = LinkModel(behind)
        self._fault = fault
        self._numbers = {"to": 0, "from": 0}
        self._received = b""

    def send(self, content):
        for answer in [self._link.feed(self._pass("to", content))]:
            self._received += self._pass("from", answer)

    def _pass(self, direction, content):
        self._numbers[direction] += 1
        return self._fault(direction, self._numbers[direction] - 1, content)

    def receive(self, until):
        received, self._received = self._received, b""
        return received

    def discard(self):
        self._received = b""

    def close(self):
        pass


class TerminalBoard:
    """A board's model at a pseudo-terminal. A context manager."""

    def __init__(self, behind):
        self._link = LinkModel(behind)
        self._near, self._far = os.openpty()
        tty.setraw(self._far)
        self.path = os.ttyname(self._far)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self):
        try:
            while content := os.read(self._near, 4096):
                os.write(self._near, self._link.feed(content))
        except OSError:
            pass  # it was unplugged

    def unplug(self):
        """The terminal hangs up."""
        for file in (self._near, self._far):
            if file >= 0:
                os.close(file)
        self._near = self._far = -1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.unplug()
