"""A board behind a serial line, or Ethernet, and how its memory is started."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from muntin.contract.boards import from_description
from muntin.contract.link import DESCRIPTION_BASE, DRAM_BASE, KERNEL_BASE
from muntin.contract.registers import CONTROL_REGISTERS, parameter_values
from muntin.host.errors import LinkIdentityError, MemoryStartError
from muntin.host.fpga.link import LinkClient

# Bits of a phase's command register and of the control register, as `muntin.hw.dram.start_description` numbers them.
_SELECT, _WRITE, _COLUMN, _ROW, _WRITE_DATA, _READ_DATA = (1 << bit for bit in range(6))
_HARDWARE, _CLOCK, _TERMINATION, _NO_RESET = (1 << bit for bit in range(4))
_SOFTWARE = _CLOCK | _TERMINATION | _NO_RESET
_ALL_BANKS = 1 << 10
_SEEDS = (1, 2, 3)
_WORDS = 16
_SETTLE_CYCLES = 64


@dataclasses.dataclass(frozen=True)
class LaneTiming:
    """Where the data of a byte of the memory's bus are taken.

    Attributes
    ----------
    bitslip, delay : int
    working : int
        Delays in a row with that bitslip, around that one, with which everything was read right.
    map : str
        For each bitslip its delays: ``#`` where everything was read right.
    """

    bitslip: int
    delay: int
    working: int
    map: str = dataclasses.field(default="", compare=False)


class DramStart:
    """Starts a board's memory: LiteDRAM's generated sequence, then read levelling.

    Levelling writes a pattern and reads it with every bitslip and delay that the physical layer has, all lanes at
    once, and sets each lane to the middle of the widest range of delays with which it was read right. A physical layer
    without delays has nothing to level.

    Parameters
    ----------
    client : LinkClient
    start : dict
        As `muntin.hw.dram.start_description` made it.
    clock_hz : int
        The board's clock.
    """

    def __init__(self, client: LinkClient, start: dict[str, Any], clock_hz: int):
        self._client = client
        self._start = start
        self._clock_hz = clock_hz
        self._registers: dict[str, list[int]] = start["registers"]
        self._lanes: int = start["lanes"]

    def run(self) -> list[LaneTiming]:
        """Starts the memory: how its lanes were set, none where there are no delays. What it held is lost.

        Raises
        ------
        MemoryStartError
            If a lane is read right with none of the settings, or wrong once it is started.
        """
        self._client.write([self._to("dram_dfii_control", _SOFTWARE)])
        self._sequence()
        chosen = self._level() if self._start["delays"] else []
        self._client.write([self._to("dram_dfii_control", _HARDWARE)])
        self._check()
        return chosen

    def _at(self, name: str, word: int = 0) -> int:
        return DRAM_BASE + self._registers[name][0] + 4 * word

    def _to(self, name: str, value: int) -> tuple[int, int]:
        return self._at(name), value

    def _command(self, phase: int, command: int, address: int, bank: int = 0) -> list[tuple[int, int]]:
        stem = f"dram_dfii_pi{phase}"
        return [
            self._to(f"{stem}_address", address),
            self._to(f"{stem}_baddress", bank),
            self._to(f"{stem}_command", command),
            self._to(f"{stem}_command_issue", 1),
        ]

    def _pause(self, cycles: int) -> None:
        """Lets so many cycles pass on the board. The kernel does nothing, so that it does not interrupt."""
        if cycles:
            self._client.wait(cycles, cycles / self._clock_hz)

    def _sequence(self) -> None:
        for _, address, bank, kind, value, cycles in self._start["steps"]:
            if kind == "control":
                stem = "dram_dfii_pi0"
                self._client.write(
                    [
                        self._to(f"{stem}_address", address),
                        self._to(f"{stem}_baddress", bank),
                        self._to("dram_dfii_control", value),
                    ]
                )
            else:
                self._client.write(self._command(0, value, address, bank))
            self._pause(cycles)

    def _level(self) -> list[LaneTiming]:
        every = (1 << self._lanes) - 1
        delays, bitslips = self._start["delays"], self._start["bitslips"]
        works = [[[False] * delays for _ in range(bitslips)] for _ in range(self._lanes)]
        for bitslip in range(bitslips):
            for delay in range(delays):
                self._set(every, bitslip, delay)
                for lane, right in enumerate(self._reads_right()):
                    works[lane][bitslip][delay] = right
        maps = [_map(of_lane) for of_lane in works]
        every_map = "".join(f"\n  lane {lane}: {text}" for lane, text in enumerate(maps))
        check = f"check the board's memory and its supply; by lane and bitslip, delays read right (#):{every_map}"
        chosen = []
        for lane, of_lane in enumerate(works):
            ranges = [_widest(of_bitslip) for of_bitslip in of_lane]
            bitslip = max(range(bitslips), key=lambda at: ranges[at][0])
            working, first = ranges[bitslip]
            if not working:
                raise MemoryStartError(
                    f"the memory's byte lane {lane} is read right with none of {bitslips} bitslips and {delays} "
                    f"delays: {check}"
                )
            chosen.append(LaneTiming(bitslip, first + working // 2, working, maps[lane]))
            self._set(1 << lane, bitslip, chosen[-1].delay)
        failed = [lane for lane, right in enumerate(self._reads_right()) if not right]
        if failed:
            set_to = ", ".join(f"bitslip {lane.bitslip} and delay {lane.delay}" for lane in chosen)
            raise MemoryStartError(
                f"the memory's byte lanes {', '.join(map(str, failed))} are read wrong with the settings chosen for "
                f"them ({set_to}): {check}"
            )
        return chosen

    def _check(self) -> None:
        """Writes the first words of the memory and reads them."""
        written = np.random.default_rng(_SEEDS[0]).integers(0, 1 << 32, _WORDS, np.uint32)
        self._client.write_memory(0, written.tolist())
        read = np.array(self._client.read_memory(0, _WORDS), np.uint32)
        different = (written ^ read).view(np.uint8).reshape(-1, self._lanes)
        if different.any():
            lanes = ", ".join(map(str, np.unique(different.nonzero()[1])))
            raise MemoryStartError(
                f"the memory was started, and its byte lanes {lanes} do not give back what was written: check "
                f"the board's memory and its supply; the first of {_WORDS} words was written as {written[0]:#010x} and "
                f"read as {read[0]:#010x}"
            )

    def _set(self, lanes: int, bitslip: int, delay: int) -> None:
        """Sets some lanes, then lets all of them, which were paused meanwhile, go on in step."""
        every = (1 << self._lanes) - 1
        self._client.write(
            [
                self._to("phy_dly_sel", lanes),
                self._to("phy_rdly_dq_bitslip_rst", 1),
                *[self._to("phy_rdly_dq_bitslip", 1)] * bitslip,
                self._to("phy_rdly_dq_rst", 1),
                *[self._to("phy_rdly_dq_inc", 1)] * delay,
                self._to("phy_dly_sel", 0),
                self._to("phy_dly_sel", every),
                self._to("phy_dly_sel", 0),
            ]
        )

    def _reads_right(self) -> list[bool]:
        """Whether each lane gives back what was written, for a few patterns."""
        right = [True] * self._lanes
        for seed in _SEEDS:
            if any(right):
                right = [so_far and same for so_far, same in zip(right, self._pattern(seed), strict=True)]
        return right

    def _pattern(self, seed: int) -> list[bool]:
        phases = range(self._start["phases"])
        words = self._registers["dram_dfii_pi0_wrdata"][1]
        generator = random.Random(seed)
        written = [[generator.getrandbits(32) for _ in range(words)] for _ in phases]
        writes = self._command(0, _ROW | _SELECT, 0)
        for phase in phases:
            # The highest word has the lowest address.
            writes += [
                (self._at(f"dram_dfii_pi{phase}_wrdata", words - 1 - word), written[phase][word])
                for word in range(words)
            ]
        writes += self._command(self._start["write_phase"], _COLUMN | _WRITE | _SELECT | _WRITE_DATA, 0)
        self._client.write(writes)
        self._client.write(
            [
                self._to("phy_burstdet_clr", 1),
                *self._command(self._start["read_phase"], _COLUMN | _SELECT | _READ_DATA, 0),
            ]
        )
        self._pause(_SETTLE_CYCLES)
        self._client.write(self._command(0, _ROW | _WRITE | _SELECT, _ALL_BANKS))
        asked = [self._at("phy_burstdet_seen")]
        asked += [
            self._at(f"dram_dfii_pi{phase}_rddata", words - 1 - word) for phase in phases for word in range(words)
        ]
        seen, *values = self._client.read(asked)
        sent = b"".join(word.to_bytes(4, "little") for of_phase in written for word in of_phase)
        got = b"".join(word.to_bytes(4, "little") for word in values)
        # The bytes of a lane are those of each transfer on the bus.
        return [
            bool(seen >> lane & 1) and got[lane :: self._lanes] == sent[lane :: self._lanes]
            for lane in range(self._lanes)
        ]


def _map(works: list[list[bool]]) -> str:
    """``0 ..###...  1 ........``: with which delays of each bitslip a lane is read right."""
    rows = ("".join("#" if right else "." for right in of_bitslip) for of_bitslip in works)
    return "  ".join(f"{bitslip} {row}" for bitslip, row in enumerate(rows))


def _widest(works: list[bool]) -> tuple[int, int]:
    """Length and begin of the widest range of what works."""
    best, begin = (0, 0), 0
    for at, right in enumerate([*works, False]):
        if not right:
            best = max(best, (at - begin, begin), key=lambda found: found[0])
            begin = at + 1
    return best


_OFFSETS = {register.name: register.offset for register in CONTROL_REGISTERS}
_WAIT_CYCLES = 1 << 17  # for each question whether it is done
_TIMEOUT_CYCLES = 1 << 20  # in which a memory may owe an answer
_WORD = 4


class SerialBoard:
    """A board behind a serial line, or Ethernet; a `BoardLink`.

    Its description is read and compared with what is expected, and its memory is started. What it held is lost.

    Parameters
    ----------
    client : LinkClient
    board : str
        The board expected.
    parameters : mapping of str to Parameters or SplitJoinParameters
        For each design that it may have, what that is built with.
    too_long : float
        Seconds after which a batch of commands is given up.
    behind : object
        What is closed with it: a simulated board.

    Attributes
    ----------
    description : dict
        What the board says of itself, as given to `muntin.contract.boards.to_description`.
    timings : list of LaneTiming
        How each byte lane of its memory was set.

    Raises
    ------
    LinkIdentityError
        If the board is another one, has an unknown design, or one with other parameters.
    MemoryStartError
        If its memory does not start.
    LinkError
        As `LinkClient`.
    """

    def __init__(
        self,
        client: LinkClient,
        board: str,
        parameters: Mapping[str, Any],
        *,
        too_long: float = 600.0,
        behind: Any = None,
    ):
        self._client = client
        self.behind = behind
        self._too_long = too_long
        client.open()
        self.description = self._described()
        self._parameters = self._expected(board, parameters)
        self._clock_hz: int = self.description["clock_hz"]
        self.reset()
        self.timings: list[LaneTiming] = DramStart(client, self.description["start"], self._clock_hz).run()

    @property
    def parameters(self) -> Any:
        """See `BoardLink`."""
        return self._parameters

    @property
    def memory_bytes(self) -> int:
        """See `BoardLink`."""
        return self.description["memory_bytes"]

    @property
    def banks(self) -> tuple[int, int]:
        """The memory's banks, and the bytes after which the next one follows."""
        banks, row_bytes = self.description["start"]["banks"]
        return banks, row_bytes

    @property
    def repeated(self) -> int:
        """As of `LinkClient`."""
        return self._client.repeated

    def _described(self) -> dict[str, Any]:
        (length,) = self._client.read([DESCRIPTION_BASE])
        if not 0 < length < 1 << 16:
            raise LinkIdentityError(f"the board's description cannot have {length} bytes: load a bitstream of Muntin's")
        words = self._client.read([DESCRIPTION_BASE + _WORD * (1 + word) for word in range(-(-length // _WORD))])
        raw = np.array(words, np.uint32).tobytes()[:length]
        try:
            return from_description(raw)
        except ValueError as error:
            raise LinkIdentityError(f"{error}: load a bitstream of this version") from error

    def _expected(self, board: str, parameters: Mapping[str, Any]) -> Any:
        found = self.description
        if found["board"] != board:
            raise LinkIdentityError(f"this is a board {found['board']!r}, not {board!r}")
        if found["design"] not in parameters:
            raise LinkIdentityError(
                f"the board has the design {found['design']!r}, not {' or '.join(map(repr, parameters))}: load one of "
                f"these onto it, or open what it has as board:{board}:design={found['design']}"
            )
        expected = parameter_values(parameters[found["design"]])
        differing = [
            f"{name} is {found['parameters'].get(name)}, not {expected.get(name)}"
            for name in sorted({*expected, *found["parameters"]})
            if found["parameters"].get(name) != expected.get(name)
        ]
        if differing:
            raise LinkIdentityError(
                "the design on the board was built with other parameters than this version's "
                f"({'; '.join(differing)}): load a bitstream of this version"
            )
        return parameters[found["design"]]

    def read_registers(self, offsets: Sequence[int]) -> list[int]:
        """See `BoardLink`."""
        return self._client.read([KERNEL_BASE + offset for offset in offsets])

    def write_registers(self, values: Sequence[tuple[int, int]]) -> None:
        """See `BoardLink`."""
        self._client.write([(KERNEL_BASE + offset, value) for offset, value in values])

    def push_words(self, offset: int, words: Sequence[int]) -> None:
        """See `BoardLink`."""
        self._client.push(KERNEL_BASE + offset, words)

    def write_memory(self, address: int, content: np.ndarray | bytes) -> None:
        """See `BoardLink`."""
        raw = content if isinstance(content, bytes) else np.ascontiguousarray(content).tobytes()
        if not raw:
            return
        # Words at the ends that are written in part are read first.
        before, behind = address % _WORD, -(address + len(raw)) % _WORD
        if before:
            raw = self.read_memory(address - before, before).tobytes() + raw
        if behind:
            raw += self.read_memory(address - before + len(raw), behind).tobytes()
        self._client.write_memory((address - before) // _WORD, np.frombuffer(raw, np.uint32).tolist())

    def read_memory(self, address: int, length: int) -> np.ndarray:
        """See `BoardLink`."""
        before = address % _WORD
        words = self._client.read_memory((address - before) // _WORD, -(-(before + length) // _WORD))
        return np.array(words, np.uint32).view(np.uint8)[before : before + length].copy()

    def wait(self) -> None:
        """See `BoardLink`."""
        until = time.monotonic() + self._too_long
        while not self._client.wait(_WAIT_CYCLES, _WAIT_CYCLES / self._clock_hz):
            if time.monotonic() > until:
                raise TimeoutError(f"the kernel was not done after {self._too_long:.0f} s")
        self.write_registers([(_OFFSETS["INTERRUPT_STATUS"], 1)])
        self.read_registers([_OFFSETS["CONTROL"]])  # which clears done

    def reset(self) -> None:
        """See `BoardLink`."""
        self._client.reset()
        settings = {"GLOBAL_INTERRUPT_ENABLE": 1, "INTERRUPT_ENABLE": 1, "TIMEOUT_CYCLES": _TIMEOUT_CYCLES}
        self.write_registers([(_OFFSETS[name], value) for name, value in settings.items()])

    def close(self) -> None:
        """See `BoardLink`."""
        self._client.close()
        if self.behind is not None:
            self.behind.close()
