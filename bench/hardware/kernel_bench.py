"""Runs commands of the BI-Sort kernel on simulated DRAM, and counts cycles."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.hardware.kernel_figure import KernelFigure
from muntin.contract.designs.bisort import BISORT, Parameters
from muntin.contract.registers import ERROR_TEXT, Command, ErrorCode, Operation
from muntin.contract.simulations import board_parameters
from muntin.hw.memory.layouts import CopyOperation, TransferStatus
from muntin.sim.board.copy_board import CopyBoard
from muntin.sim.board.kernel_board import KernelBoard, open_board
from muntin.sim.board.litedram_settings import LitedramSettings

Ki, Mi = 1 << 10, 1 << 20
KEY_BYTES = 4
INDEX_ROWS = 1 << 18  # for the index of a run of 8 Mi rows and more; 1 MiB on chip


@dataclass(frozen=True)
class Trace:
    """What a memory port did while a command ran.

    Attributes
    ----------
    title : str
    cycles : ndarray of uint32, shape (windows,)
        Length of each window.
    activity : dict of str to ndarray of uint32, shape (windows, ports)
        As `SimulatedBoard.watched` gives it.
    """

    title: str
    cycles: NDArray[np.uint32]
    activity: dict[str, NDArray[np.uint32]]


class KernelBench:
    """Commands on one simulated board, their results checked, their cycles counted.

    Parameters
    ----------
    channels : int
    seed : int
        Of the keys.

    Attributes
    ----------
    traces : list of Trace
        Of the commands that were traced.
    """

    def __init__(self, channels: int, seed: int):
        self.channels = channels
        self.board: KernelBoard = open_board(
            board_parameters(8 * KEY_BYTES, "litedram", channels=channels, index_rows=INDEX_ROWS), "litedram"
        )
        self.parameters: Parameters = self.board.parameters
        self.traces: list[Trace] = []
        self._random = np.random.default_rng(seed)

    def __enter__(self) -> "KernelBench":
        return self

    def __exit__(self, *_: object) -> None:
        self.board.close()

    def run(self, operation: Operation, *, trace: str = "", **fields: Any) -> dict[str, int]:
        """Carry out a command; fields and flags by the names of `muntin.contract.registers`.

        Returns
        -------
        dict of str to int
            The counters, of this command alone.

        Raises
        ------
        RuntimeError
            If the kernel reports an error.
        """
        for word in Command(operation=operation, **fields).words(0):
            self.board.write("QUEUE_PUSH", word)
        self.board.write("COUNTER_CLEAR", 1)
        if trace:
            self.board.board.watch(256)
        self.board.write("CONTROL", 1)
        self.board.wait()
        if trace:
            self.traces.append(Trace(trace, *self.board.board.watched()))
            self.board.board.watch(0)
        if code := self.board.read("ERROR_CODE"):
            raise RuntimeError(f"{operation.name}: {ERROR_TEXT[ErrorCode(code)]}")
        return {name: self.board.read(name) for name, _ in BISORT.counters}

    def sorted_keys(self, rows: int) -> NDArray[np.int32]:
        """Ascending keys, uniform over all int32."""
        return np.sort(self._random.integers(-(1 << 31), 1 << 31, rows, dtype=np.int64).astype(np.int32))

    def copy(self, beats: int, *, trace: str = "") -> dict[str, int]:
        """Copy so many beats, from the first channel to the last."""
        half = self.board.channel_bytes // 2
        destination = half + (self.channels - 1) * self.board.channel_bytes
        return self.run(
            Operation.COPY,
            length_a=beats * self.parameters.beat_bytes,
            keys_a=0,
            keys_out=destination,
            trace=trace,
        )

    def merge(self, rows_a: int, rows_b: int, *, trace: str = "") -> dict[str, int]:
        """Merge two runs of uniform keys, from the first channel to the last.

        Raises
        ------
        AssertionError
            If the merged run or its index is wrong.
        """
        a, b = self.sorted_keys(rows_a), self.sorted_keys(rows_b)
        size = 64 * Mi
        out = 5 * size if self.channels == 1 else self.board.channel_bytes
        places = {
            "keys_a": 0,
            "rows_a": size,
            "keys_b": 2 * size,
            "rows_b": 3 * size,
            "keys_out": out,
            "rows_out": out + size,
            "index_out": out + 2 * size,
        }
        contents = a, np.arange(rows_a, dtype=np.uint32), b, np.arange(rows_a, rows_a + rows_b, dtype=np.uint32)
        for name, content in zip(("keys_a", "rows_a", "keys_b", "rows_b"), contents, strict=True):
            self.board.write_memory(places[name], content)
        counters = self.run(Operation.MERGE, signed=1, length_a=rows_a, length_b=rows_b, **places, trace=trace)
        rows = rows_a + rows_b
        keys = self.board.read_memory(places["keys_out"], KEY_BYTES * rows).view(np.int32)
        numbers = self.board.read_memory(places["rows_out"], 4 * rows).view(np.uint32)
        index = self.board.read_memory(
            places["index_out"], KEY_BYTES * -(-rows >> self.parameters.partition_log2)
        ).view(np.int32)
        both = np.concatenate([a, b])
        assert np.array_equal(keys, np.sort(both)), "the merged run is not the sorted rows"
        assert np.array_equal(both[numbers], keys), "row numbers are not with their keys"
        assert np.array_equal(np.sort(numbers), np.arange(rows)), "a row is lost or doubled"
        assert np.array_equal(index, keys[:: self.parameters.partition_rows]), "a wrong index"
        return counters

    def load_probed(self, rows: int) -> NDArray[np.int32]:
        """Put a run of uniform keys, with its index, where `probe` looks for it."""
        run = self.sorted_keys(rows)
        self.board.write_memory(0, run)
        self.board.write_memory(64 * Mi, np.ascontiguousarray(run[:: self.parameters.partition_rows]))
        return run

    def probe(
        self, run: NDArray[np.int32], probes: int, *, width: int, reuse: bool, trace: str = ""
    ) -> tuple[dict[str, int], int]:
        """Probe the run that `load_probed` gave with bands of some width.

        Parameters
        ----------
        run : ndarray of int32, shape (rows,)
        probes, width : int
        reuse : bool
            Whether the run's index is on chip, from a probe before.

        Returns
        -------
        counters : dict of str to int
        touched : int
            Beats of the partitions that hold the answer to a bound.

        Raises
        ------
        AssertionError
            If a range is wrong.
        """
        middle = self.sorted_keys(probes).astype(np.int64)
        lower = np.clip(middle - width // 2, -(1 << 31), (1 << 31) - 1).astype(np.int32)
        upper = np.clip(middle + width // 2, -(1 << 31), (1 << 31) - 1).astype(np.int32)
        size = 64 * Mi
        places = {"keys_b": 2 * size, "rows_b": 3 * size, "keys_out": 4 * size, "rows_out": 5 * size}
        for name, content in (("keys_b", lower), ("rows_b", upper)):
            self.board.write_memory(places[name], content)
        loaded = {} if reuse else self.run(Operation.INDEX, signed=1, length_a=len(run), keys_a=0, rows_a=size)
        counters = self.run(Operation.PROBE, signed=1, length_b=probes, keys_a=1, **places, high_offset=1, trace=trace)
        counters = {name: value + loaded.get(name, 0) for name, value in counters.items()}
        partition_rows = self.parameters.partition_rows
        index = run[::partition_rows]
        positions = [np.searchsorted(run, lower, "left"), np.searchsorted(run, upper, "right")]
        some = np.flatnonzero(positions[0] < positions[1])
        count = int(self.board.read_memory(places["rows_out"], 8).view(np.uint64)[0])
        found = self.board.read_memory(places["keys_out"], 16 * count).view(np.uint32).reshape(-1, 4)
        due = np.stack([some, np.zeros_like(some), *(ends[some] for ends in positions)], axis=1)
        assert np.array_equal(found, due), "wrong ranges"
        partition = np.concatenate([np.searchsorted(index, lower, "left"), np.searchsorted(index, upper, "right")])
        touched = set((partition[partition > 0] - 1).tolist())
        rows = (min(partition_rows, len(run) - number * partition_rows) for number in touched)
        return counters, sum(-(-count * KEY_BYTES // self.parameters.beat_bytes) for count in rows)


def _moved(counters: dict[str, int]) -> int:
    return counters["read_beats"] + counters["write_beats"]


def _rate(counters: dict[str, int]) -> float:
    return _moved(counters) / counters["cycles"]


def kernel_bench(rows: int, seed: int, traces: list[Trace]) -> Iterator[KernelFigure]:
    """Measure merges and probes beside what the memory can do.

    Parameters
    ----------
    rows : int
        Rows of the large run, 8 Mi for the figures in the README.
    seed : int
    traces : list of Trace
        Gets the traces of some commands.

    Yields
    ------
    KernelFigure
        As soon as it is known; a board that was not used before takes a minute or more to compile.
    """
    medium = min(rows, Mi)
    few, many = 64 * Ki, Ki
    with KernelBench(1, seed) as bench:
        for large in dict.fromkeys((medium, rows)):
            draw = large == medium  # the larger merge looks the same
            title = f"merge {few // Ki} Ki into {_short(large)}"
            counters = bench.merge(large, few, trace=title if draw else "")
            copied = bench.copy(_moved(counters) // 2, trace="copy of as many bytes" if draw else "")
            yield KernelFigure(
                f"merge {few // Ki} Ki into {_short(large)}",
                1,
                "beats/cycle",
                _rate(counters),
                _rate(copied),
                "a copy of as many bytes",
                0.97,
                True,
                counters["cycles"],
                _moved(counters),
                counters,
            )
        yield KernelFigure(
            "that copy",
            1,
            "beats/cycle",
            _rate(copied),
            1.0,
            "the data bus",
            0.85,
            True,
            copied["cycles"],
            _moved(copied),
            copied,
        )
        run = bench.load_probed(rows)
        for probes, reuse, share in ((few, False, None), (few, True, 1.05), (many, True, 1.2)):
            state = "index on chip" if reuse else "index loaded first"
            name = f"probe {probes // Ki} Ki bands against {_short(rows)}, {state}"
            counters, touched = bench.probe(run, probes, width=1 << 12, reuse=reuse, trace=name)
            copied = bench.copy(_moved(counters))
            alone = _alone(CopyOperation.READ, counters["read_beats"])
            cycles = counters["cycles"]
            for quantity, value, limit, beside, target in (
                ("beats read", counters["read_beats"], touched, "the touched partitions'", share),
                ("cycles", cycles, copied["cycles"], "copying as many bytes", 1.15 if reuse else None),
                ("cycles", cycles, alone, "reading as many, one behind the other", None),
            ):
                yield KernelFigure(
                    name,
                    1,
                    quantity,
                    value,
                    limit,
                    beside,
                    target,
                    False,
                    cycles,
                    _moved(counters),
                    counters,
                )
        traces += bench.traces
    with KernelBench(2, seed) as bench:
        for large in dict.fromkeys((medium, rows)):
            name = f"merge {few // Ki} Ki into {_short(large)}"
            draw = large == medium
            counters = bench.merge(large, few, trace=f"{name}, from one channel to another" if draw else "")
            for direction, operation in (("read", CopyOperation.READ), ("write", CopyOperation.FILL)):
                beats = counters[f"{direction}_beats"]
                yield KernelFigure(
                    name,
                    2,
                    f"{direction} beats/cycle",
                    beats / counters["cycles"],
                    beats / _alone(operation, beats),
                    f"only {direction[:4]}ing as many" if direction == "read" else "only writing as many",
                    0.97,
                    True,
                    counters["cycles"],
                    _moved(counters),
                    counters,
                )
        traces += bench.traces


def _short(rows: int) -> str:
    return f"{rows // Mi} Mi" if rows >= Mi else f"{rows // Ki} Ki"


def _alone(operation: CopyOperation, beats: int) -> int:
    """Cycles to only read, or only write, so many beats on one channel."""
    with CopyBoard(channels=2, turn_bytes=16384, settings=LitedramSettings(module="MT41K256M16")) as board:
        status, cycles = board.command(operation, 0, 0, beats * board.shape.beat_bytes)
        if status != TransferStatus.OK:
            raise RuntimeError(f"{operation.name} of {beats} beats ended with {status.name}")
        return cycles
