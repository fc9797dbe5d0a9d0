"""The simulated board: its memory, its clock, and a copy through the DRAM controller."""

import numpy as np
import pytest

pytest.importorskip("amaranth")
pytest.importorskip("litedram")

from muntin.hw.memory.layouts import CopyOperation, TransferStatus
from muntin.sim.board.board import BoardMemoryError, BoardTimeoutError
from muntin.sim.board.copy_board import CopyBoard


@pytest.fixture(scope="module")
def board():
    with CopyBoard(turn_bytes=8192) as board:
        yield board


def test_memory_is_one_address_space(board, seed):
    content = np.random.default_rng(seed).integers(0, 256, 100_001, dtype=np.uint8)
    for address in (0, 5, 2047, 12_345_678, board.memory_bytes[0] - len(content)):
        board.write_memory(0, address, content)
        np.testing.assert_array_equal(board.read_memory(0, address, len(content)), content)
    with pytest.raises(BoardMemoryError, match="do not fit"):
        board.read_memory(0, board.memory_bytes[0] - 10, 11)
    with pytest.raises(BoardMemoryError, match="do not fit"):
        board.write_memory(0, -1, b"x")


@pytest.mark.parametrize("length", [1, 16, 100, 4096, 65_537, 300_000])
def test_copy_through_the_controller(board, seed, length):
    rng = np.random.default_rng([seed, length])
    content = rng.integers(0, 256, length, dtype=np.uint8)
    around = rng.integers(0, 256, length + 64, dtype=np.uint8)
    source, destination = 0x12340, 0x4000_020
    board.write_memory(0, source, content)
    board.write_memory(0, destination - 32, around)
    status, _ = board.command(CopyOperation.COPY, source, destination, length)
    assert status == TransferStatus.OK
    around[32 : 32 + length] = content
    np.testing.assert_array_equal(board.read_memory(0, destination - 32, length + 64), around)


def test_fill_is_in_the_order_of_the_addresses(board):
    status, _ = board.command(CopyOperation.FILL, 0, 0x10_0000, 1 << 18)
    assert status == TransferStatus.OK
    beats = board.read_memory(0, 0x10_0000, 1 << 18).view(np.uint64).reshape(-1, 2)
    np.testing.assert_array_equal(beats[:, 0], np.arange(len(beats)))
    assert not beats[:, 1].any()


def test_refusals_reach_the_host(board):
    assert board.command(CopyOperation.COPY, 1, 0, 16)[0] == TransferStatus.MISALIGNED
    assert board.command(CopyOperation.COPY, 0, 0, 0)[0] == TransferStatus.ZERO_LENGTH
    assert board.command(CopyOperation.READ, 0, 0, (1 << 27) + 1)[0] == TransferStatus.TOO_LONG
    assert board.command(CopyOperation.FILL, 0, (1 << 28) - 16, 32)[0] == TransferStatus.OUT_OF_RANGE


def test_activity_counts_every_beat(board):
    board.watch(1000)
    _, cycles = board.command(CopyOperation.COPY, 0, 0x100_0000, 1 << 18)
    windows, activity = board.watched()
    board.watch(0)
    assert windows.sum() == cycles
    assert activity["read"].sum() == activity["write"].sum() == (1 << 18) // 16
    assert activity["answer"].sum() == (1 << 18) // 2048
    assert (windows[:-1] == 1000).all()


def test_waiting_ends(board):
    with pytest.raises(BoardTimeoutError, match="status__valid"):
        board.run_until("status__valid", 1, 1000)


def test_rates(board):
    """The data bus is busy but for refreshes and, in a copy, its turns."""
    length = 1 << 20
    least = {CopyOperation.READ: 0.965, CopyOperation.FILL: 0.965, CopyOperation.COPY: 0.91}
    for operation, rate in least.items():
        status, cycles = board.command(operation, 0, 0x400_0000, length)
        assert status == TransferStatus.OK
        beats = length // 16 * (2 if operation == CopyOperation.COPY else 1)
        assert beats / cycles >= rate, operation
