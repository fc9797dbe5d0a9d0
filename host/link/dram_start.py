"""Starts a board's memory through the registers of its controller."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from muntin.contract.link import DRAM_BASE
from muntin.host.errors import MemoryStartError
from muntin.host.link.link_client import LinkClient

# Bits of a phase's command register and of the control register, as `muntin.hw.dram.start_description` numbers them.
_SELECT, _WRITE, _COLUMN, _ROW, _WRITE_DATA, _READ_DATA = (1 << bit for bit in range(6))
_HARDWARE, _CLOCK, _TERMINATION, _NO_RESET = (1 << bit for bit in range(4))
_SOFTWARE = _CLOCK | _TERMINATION | _NO_RESET
_ALL_BANKS = 1 << 10
_SEEDS = (1, 2, 3)
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
    once, and sets each lane to the middle of the widest range of delays with which it was read right.

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
        """Starts the memory: how its lanes were set. What it held is lost.

        Raises
        ------
        MemoryStartError
            If a lane is read right with none of the settings.
        """
        self._client.write([self._to("dram_dfii_control", _SOFTWARE)])
        self._sequence()
        chosen = self._level()
        self._client.write([self._to("dram_dfii_control", _HARDWARE)])
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

    def _set(self, lanes: int, bitslip: int, delay: int) -> None:
        """Sets some lanes, then lets all of them, which stood still meanwhile, go on in step."""
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
