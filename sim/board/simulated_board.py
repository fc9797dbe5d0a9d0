"""A compiled board, driven from Python."""

import ctypes
import functools
import json
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from muntin.sim.board.board import ACTIVITY, BoardMemoryError, BoardTimeoutError

_NEVER = 2**64 - 1


class SimulatedBoard:
    """A compiled board, driven from Python one command at a time; its clock runs in C++.

    Parameters
    ----------
    folder : Path
        What `compile_board` returned.

    Attributes
    ----------
    ports : dict of str to int
        Names of the board's ports, and their bits.
    memory_bytes : list of int
        Size of each channel's memory.

    Notes
    -----
    The board is reset when it is made. Memory starts as zeros.
    """

    def __init__(self, folder: Path):
        description = json.loads((folder / "board.json").read_text())
        self.ports = {name: width for name, width, _ in description["ports"]}
        self._index = {name: index for index, name in enumerate(self.ports)}
        self._library = _load(folder / "board.so")
        self._board = self._library.board_new(str(folder / "dump.vcd").encode())
        self._free = weakref.finalize(self, self._library.board_delete, self._board)
        self._banks: list[list[NDArray[np.uint8]]] = []
        array = 0
        for banks, rows, row_bytes in description["channels"]:
            channel = []
            for _ in range(banks):
                address = self._library.board_array(self._board, array)
                raw = (ctypes.c_uint8 * (rows * row_bytes)).from_address(address)
                channel.append(np.frombuffer(raw, dtype=np.uint8).reshape(rows, row_bytes))
                array += 1
            self._banks.append(channel)
        self.memory_bytes = [sum(bank.size for bank in channel) for channel in self._banks]
        self.reset()

    def close(self) -> None:
        """Free the board; its memory must not be touched any more. Idempotent; done also when it is dropped."""
        self._banks = []
        self._board = None
        self._free()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def cycles(self) -> int:
        """Clock cycles since the board was made."""
        return self._library.board_cycles(self._board)

    def reset(self) -> None:
        """Reset everything but the memory."""
        self.poke("rst", 1)
        self.run(8)
        self.poke("rst", 0)

    def poke(self, port: str, value: int) -> None:
        """Set an input port."""
        words = -(-self.ports[port] // 32) + 1
        raw = (ctypes.c_uint32 * words).from_buffer_copy(value.to_bytes(4 * words, "little"))
        self._library.board_set(self._board, self._index[port], raw)

    def peek(self, port: str) -> int:
        """The value of a port now."""
        raw = (ctypes.c_uint32 * (-(-self.ports[port] // 32) + 1))()
        self._library.board_get(self._board, self._index[port], raw)
        return int.from_bytes(bytes(raw), "little")

    def run(self, cycles: int) -> None:
        """Let the clock run."""
        self._library.board_run(self._board, cycles, -1, 0)

    def run_until(self, port: str, value: int, limit: int) -> int:
        """Let the clock run until a port of at most 32 bits has a value.

        Returns
        -------
        int
            Cycles run.

        Raises
        ------
        BoardTimeoutError
            If the port does not have it after `limit` cycles.
        """
        run = self._library.board_run(self._board, limit, self._index[port], value)
        if run == _NEVER:
            raise BoardTimeoutError(f"{port} was not {value} within {limit} cycles; it is {self.peek(port)}")
        return run

    def send(self, stream: str, payload: int, limit: int = 1_000_000) -> None:
        """Put one payload into a stream of the board; raises as `run_until` does."""
        self.poke(f"{stream}__payload", payload)
        self.poke(f"{stream}__valid", 1)
        self.run_until(f"{stream}__ready", 1, limit)
        self.run(1)
        self.poke(f"{stream}__valid", 0)

    def take(self, stream: str, limit: int = 1_000_000_000) -> int:
        """Take one payload from a stream of the board; raises as `run_until` does."""
        self.run_until(f"{stream}__valid", 1, limit)
        payload = self.peek(f"{stream}__payload")
        self.poke(f"{stream}__ready", 1)
        self.run(1)
        self.poke(f"{stream}__ready", 0)
        return payload

    def write_register(self, address: int, words: Sequence[int], limit: int = 1000) -> None:
        """Write words to a register behind the AXI4-Lite port `control`, one after the other.

        The port's `bready` and `wstrb` must be set, and stay so.

        Raises
        ------
        BoardTimeoutError
            If one is not taken within `limit` cycles.
        """
        raw = (ctypes.c_uint32 * len(words))(*words)
        if not self._library.board_write(self._board, address, raw, len(words), limit):
            raise BoardTimeoutError(f"the register at {address:#x} was not written within {limit} cycles")

    def read_register(self, address: int, limit: int = 1000) -> int:
        """The register at a byte address behind the AXI4-Lite port `control`, whose `rready` must be set.

        Raises
        ------
        BoardTimeoutError
            If it does not answer within `limit` cycles.
        """
        raw = (ctypes.c_uint32 * 1)()
        if not self._library.board_read(self._board, address, raw, limit):
            raise BoardTimeoutError(f"the register at {address:#x} did not answer within {limit} cycles")
        return raw[0]

    def write_memory(self, channel: int, address: int, content: NDArray[np.generic] | bytes) -> None:
        """Put bytes into a channel's memory behind the controller's back.

        Raises
        ------
        BoardMemoryError
            If they do not fit.
        """
        raw = np.frombuffer(content, dtype=np.uint8) if isinstance(content, bytes) else content
        data = np.ascontiguousarray(raw).view(np.uint8).reshape(-1)

        def put(part: NDArray[np.uint8], at: int) -> None:
            part[...] = data[at : at + part.size].reshape(part.shape)

        self._each_part(channel, address, data.size, put)

    def read_memory(self, channel: int, address: int, length: int) -> NDArray[np.uint8]:
        """Bytes of a channel's memory; raises as `write_memory` does."""
        data = np.empty(length, np.uint8)

        def get(part: NDArray[np.uint8], at: int) -> None:
            data[at : at + part.size] = part.reshape(-1)

        self._each_part(channel, address, length, get)
        return data

    def _each_part(
        self, channel: int, address: int, length: int, visit: Callable[[NDArray[np.uint8], int], None]
    ) -> None:
        """Visit the pieces of an address range: rows of consecutive banks follow each other."""
        if not 0 <= address <= address + length <= self.memory_bytes[channel]:
            size = self.memory_bytes[channel]
            raise BoardMemoryError(f"{length} bytes at {address:#x} do not fit channel {channel} of {size} bytes")
        banks = self._banks[channel]
        row_bytes = banks[0].shape[1]
        done = 0
        while done < length:
            number, offset = divmod(address + done, row_bytes)
            row, bank = divmod(number, len(banks))
            size = min(row_bytes - offset, length - done)
            visit(banks[bank][row, offset : offset + size], done)
            done += size

    def serve(self, file: int, divisor: int, wire: int, stop: ctypes.c_int32) -> bool:
        """Join the board's lines to open files that do not block, until `stop` is set, by another thread.

        The clock runs while the board has something to do. Nothing else may be done with the board meanwhile.

        Parameters
        ----------
        file : int
            Of the serial line: a descriptor.
        divisor : int
            Cycles of a bit.
        wire : int
            Of its Ethernet: a socket that keeps packets apart; -1 if it has none. The wire's clock is three times as
            fast as the board's, and stands still until a packet comes.
        stop : c_int32
            0 until it is to end.

        Returns
        -------
        bool
            False if the file failed, or the board has no serial line.
        """
        return self._library.board_serve(self._board, file, divisor, wire, ctypes.byref(stop))

    def watch(self, window: int) -> None:
        """From now on, sum what the memory ports do over windows of so many cycles; 0 stops."""
        self._library.board_watch(self._board, window, self.ports["activity"])

    def watched(self) -> tuple[NDArray[np.uint32], dict[str, NDArray[np.uint32]]]:
        """The windows since `watch`.

        Returns
        -------
        cycles : ndarray of uint32, shape (windows,)
            Length of each; only the last may be shorter.
        activity : dict of str to ndarray of uint32, shape (windows, ports)
            For each name of `ACTIVITY`, in how many cycles it was so.
        """
        count = ctypes.c_size_t()
        start = self._library.board_history(self._board, ctypes.byref(count))
        bits = self.ports["activity"]
        flat = np.ctypeslib.as_array(start, (count.value,)).copy() if count.value else np.empty(0, np.uint32)
        table = flat.reshape(-1, 1 + bits)
        sums = table[:, 1:].reshape(len(table), bits // len(ACTIVITY), len(ACTIVITY))
        return table[:, 0], {name: sums[:, :, bit] for bit, name in enumerate(ACTIVITY)}


@functools.cache
def _load(path: Path) -> ctypes.CDLL:
    """The library, loaded once: a process never unloads what it has loaded."""
    library = ctypes.CDLL(str(path))
    words = ctypes.POINTER(ctypes.c_uint32)
    board = ctypes.c_void_p
    for name, result, arguments in (
        ("board_new", board, [ctypes.c_char_p]),
        ("board_delete", None, [board]),
        ("board_cycles", ctypes.c_uint64, [board]),
        ("board_set", None, [board, ctypes.c_int, words]),
        ("board_get", None, [board, ctypes.c_int, words]),
        ("board_array", ctypes.c_void_p, [board, ctypes.c_int]),
        ("board_run", ctypes.c_uint64, [board, ctypes.c_uint64, ctypes.c_int, ctypes.c_uint32]),
        ("board_write", ctypes.c_bool, [board, ctypes.c_uint32, words, ctypes.c_size_t, ctypes.c_uint64]),
        ("board_read", ctypes.c_bool, [board, ctypes.c_uint32, words, ctypes.c_uint64]),
        (
            "board_serve",
            ctypes.c_bool,
            [board, ctypes.c_int, ctypes.c_uint32, ctypes.c_int, ctypes.POINTER(ctypes.c_int32)],
        ),
        ("board_watch", None, [board, ctypes.c_uint64, ctypes.c_size_t]),
        ("board_history", words, [board, ctypes.POINTER(ctypes.c_size_t)]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
