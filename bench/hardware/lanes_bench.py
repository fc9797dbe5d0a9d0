"""Runs commands of the BI-Sort kernel on one lane and on several, each with simulated DRAM of its own."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.hardware.figures import LanesFigure
from muntin.contract.designs.bisort import BISORT
from muntin.contract.registers import ERROR_TEXT, LANE_STRIDE, Command, ErrorCode, Operation
from muntin.contract.simulations import board_parameters
from muntin.sim.board.kernel_board import open_board

Ki, Mi = 1 << 10, 1 << 20
KEY_BYTES = 4
HALF_BAND = 1 << 11
_PUSH = next(register.offset for register in BISORT.registers() if register.name == "QUEUE_PUSH")


class LanesBench:
    """Commands cut into one part for each lane of a simulated board, their results checked, their cycles counted.

    Rows are cut where a sample of them is cut into parts of the same length, as a host does it.

    Parameters
    ----------
    lanes : int
    seed : int
        Of the keys.
    memory : str
        As in `board_parameters`.

    Attributes
    ----------
    share : float
        Rows of the largest part of the last command, of all rows.
    """

    def __init__(self, lanes: int, seed: int, memory: str):
        self.lanes = lanes
        self.share = 1.0
        self._board = open_board(board_parameters(8 * KEY_BYTES, memory, lanes=lanes), memory)
        self._size = self._board.channel_bytes // 8  # from one array to the next, in the memory of a lane
        self._random = np.random.default_rng(seed)
        self._cut = self._keys(Ki)[np.arange(1, lanes) * Ki // lanes]

    def __enter__(self) -> "LanesBench":
        return self

    def __exit__(self, *_: object) -> None:
        self._board.close()

    def _keys(self, rows: int) -> NDArray[np.int32]:
        """Ascending keys, uniform over all int32."""
        return np.sort(self._random.integers(-(1 << 31), 1 << 31, rows, dtype=np.int64).astype(np.int32))

    def _parts(self, keys: NDArray[np.int32]) -> list[NDArray[np.int32]]:
        return np.split(keys, np.searchsorted(keys, self._cut))

    def _put(self, lane: int, array: int, content: NDArray[np.generic]) -> None:
        self._board.write_memory((lane << self._board.parameters.address_bits) + array * self._size, content)

    def _get(self, lane: int, array: int, count: int) -> NDArray[np.uint8]:
        address = (lane << self._board.parameters.address_bits) + array * self._size
        return self._board.read_memory(address, count * KEY_BYTES)

    def _run(self, operation: Operation, parts: list[dict[str, Any]]) -> tuple[int, int]:
        """Cycles and beats of a command that every lane carries out on its part.

        Raises
        ------
        RuntimeError
            If a lane reports an error.
        """
        for lane in range(self.lanes):
            self._board.write("COUNTER_CLEAR", 1, lane)
        before = self._board.board.cycles
        for lane, fields in enumerate(parts):
            command = Command(operation=operation, signed=True, **fields)
            self._board.push_words(_PUSH + lane * LANE_STRIDE, command.words(0))
            self._board.write("CONTROL", 1, lane)
        self._board.wait()
        cycles = self._board.board.cycles - before
        for lane in range(self.lanes):
            if code := self._board.read("ERROR_CODE", lane):
                raise RuntimeError(f"{operation.name} on lane {lane}: {ERROR_TEXT[ErrorCode(code)]}")
        moved = (self._board.read(name, lane) for lane in range(self.lanes) for name in ("read_beats", "write_beats"))
        return cycles, sum(moved)

    def merge(self, rows_a: int, rows_b: int) -> tuple[int, int]:
        """Merge two runs of uniform keys: cycles and beats.

        Raises
        ------
        AssertionError
            If a merged run is wrong.
        """
        parts = list(zip(self._parts(self._keys(rows_a)), self._parts(self._keys(rows_b)), strict=True))
        self.share = max(len(a) + len(b) for a, b in parts) / (rows_a + rows_b)
        places = ("keys_a", "rows_a", "keys_b", "rows_b", "keys_out", "rows_out", "index_out")
        commands = []
        for lane, (a, b) in enumerate(parts):
            numbers = np.arange(len(a) + len(b), dtype=np.uint32)
            for array, content in enumerate((a, numbers[: len(a)], b, numbers[len(a) :])):
                self._put(lane, array, content)
            commands.append(
                {"length_a": len(a), "length_b": len(b)} | {name: at * self._size for at, name in enumerate(places)}
            )
        counted = self._run(Operation.MERGE, commands)
        for lane, pair in enumerate(parts):
            both = np.concatenate(pair)
            keys, numbers = self._get(lane, 4, len(both)).view(np.int32), self._get(lane, 5, len(both)).view(np.uint32)
            assert np.array_equal(keys, np.sort(both)), "the merged run is not the sorted rows"
            assert np.array_equal(both[numbers], keys), "row numbers are not with their keys"
            assert np.array_equal(np.sort(numbers), np.arange(len(both))), "a row is lost or doubled"
        return counted

    def probes(self, rows: int, probes: int) -> Iterator[tuple[int, int]]:
        """Probe a run with bands, the index loaded first, and again with the index on chip: cycles and beats.

        Raises
        ------
        AssertionError
            If a range is wrong.
        """
        parts = self._parts(self._keys(rows))
        middle = self._keys(probes).astype(np.int64)
        lower, upper = (
            np.clip(middle + side, -(1 << 31), (1 << 31) - 1).astype(np.int32) for side in (-HALF_BAND, HALF_BAND)
        )
        firsts = [0, *np.searchsorted(upper, self._cut).tolist()]
        lasts = [*np.searchsorted(lower, self._cut).tolist(), probes]
        self.share = max(last - first for first, last in zip(firsts, lasts, strict=True)) / probes
        places = {"keys_b": 2, "rows_b": 3, "keys_out": 4, "rows_out": 5}
        loads, commands = [], []
        for lane, (part, first, last) in enumerate(zip(parts, firsts, lasts, strict=True)):
            index = np.ascontiguousarray(part[:: self._board.parameters.partition_rows])
            for array, content in enumerate((part, index, lower[first:last], upper[first:last])):
                self._put(lane, array, content)
            loads.append({"length_a": len(part), "keys_a": 0, "rows_a": self._size})
            commands.append(
                {"length_b": last - first, "keys_a": 1, "high_offset": 1}
                | {name: at * self._size for name, at in places.items()}
            )
        for loaded in (self._run(Operation.INDEX, loads), (0, 0)):
            probed = self._run(Operation.PROBE, commands)
            yield loaded[0] + probed[0], loaded[1] + probed[1]
            for lane, (part, first, last) in enumerate(zip(parts, firsts, lasts, strict=True)):
                starts = np.searchsorted(part, lower[first:last], "left")
                stops = np.searchsorted(part, upper[first:last], "right")
                some = np.flatnonzero(starts < stops)
                found = self._get(lane, 4, 4 * len(some)).view(np.uint32).reshape(-1, 4)
                due = np.stack([some, np.zeros_like(some), starts[some], stops[some]], axis=1)
                assert np.array_equal(found, due), "wrong ranges"


def lanes_bench(
    rows: int, seed: int, *, memory: str = "litedram", counts: tuple[int, ...] = (1, 2)
) -> Iterator[LanesFigure]:
    """Measure a merge and a probe on kernels of one lane and of several.

    Parameters
    ----------
    rows : int
        Of the large run, all lanes together: at most those of a run with an index on chip, less the small run.
    seed : int
    memory : str
        Of each lane, as in `board_parameters`.
    counts : tuple of int
        Lanes, 1 first.

    Yields
    ------
    LanesFigure
        As soon as it is known; a board that was not used before takes some minutes to compile.
    """
    few = 64 * Ki
    large = f"{rows // Mi} Mi" if rows >= Mi else f"{rows // Ki} Ki"
    alone: dict[str, int] = {}
    for lanes in counts:
        with LanesBench(lanes, seed, memory) as bench:

            def figure(case: str, counted: tuple[int, int], bench: LanesBench = bench) -> LanesFigure:
                cycles, beats = counted
                return LanesFigure(case, bench.lanes, cycles, alone.setdefault(case, cycles), beats, bench.share)

            yield figure(f"merge {few // Ki} Ki into {large}", bench.merge(rows, few))
            for state, counted in zip(("index loaded first", "index on chip"), bench.probes(rows, few), strict=True):
                yield figure(f"probe {few // Ki} Ki bands against {large}, {state}", counted)
