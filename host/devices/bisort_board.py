"""A board with a BI-Sort kernel: runs in its memory, and the commands over them."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator

import numpy as np

from host.devices.arena import Arena
from host.devices.board_link import BoardLink
from host.devices.index_slots import IndexSlots
from host.devices.kernel_command import KernelCommand
from host.devices.kernel_driver import KernelDriver
from host.errors import CapacityError, DeviceError
from hw.register_map import Operation

_ROW_BYTES = 4  # of a row number, a position, a count
_LIMIT_BYTES = 8
_PAIR_BYTES = 8
_GRANULE_BEATS = 16  # of row numbers; a granule has a beat for its index beside them


@dataclasses.dataclass(eq=False)
class BoardRun:
    """A run on a board.

    Attributes
    ----------
    length : int
        Rows.
    granules : int
        Size of its place in memory; 0 while it is in the insertion buffer.
    channel, start : int
        Where that is: the channel, and the granule there.
    """

    length: int
    granules: int = 0
    channel: int = 0
    start: int = 0


@dataclasses.dataclass(frozen=True)
class Ranges:
    """Ranges of one run, none of them empty, with what each probe that has one may meet.

    Attributes
    ----------
    run : BoardRun
    probes : ndarray of int64, shape (m,)
        The probe of each, ascending.
    starts, stops : ndarray of int64, shape (m,)
        Positions in the run.
    limits : ndarray of uint32, shape (m, 2), or None
        First row and span of each.
    """

    run: BoardRun
    probes: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    limits: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.probes)

    @property
    def lengths(self) -> np.ndarray:
        """Positions in each, int64."""
        return self.stops - self.starts

    def part(self, first: int, last: int) -> Ranges:
        """Those from `first` to before `last`."""
        limits = None if self.limits is None else self.limits[first:last]
        return Ranges(self.run, self.probes[first:last], self.starts[first:last], self.stops[first:last], limits)

    def cut(self, most: int) -> Ranges:
        """The same positions in ranges of at most so many."""
        lengths = self.lengths
        if not len(lengths) or lengths.max() <= most:
            return self
        pieces = -(-lengths // most)
        which = np.repeat(np.arange(len(self)), pieces)
        number = np.arange(len(which)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        starts = self.starts[which] + number * most
        stops = np.minimum(starts + most, self.stops[which])
        return Ranges(self.run, self.probes[which], starts, stops, None if self.limits is None else self.limits[which])


class BisortBoard:
    """A board with one kernel. All stores on it share its memory, its scratch memory and its insertion buffer.

    Of its memory, a part is scratch: inputs of commands at the start of the first channel, outputs at the start of
    the last one. The rest of each channel is cut into granules, and every run lies in granules of its own: its keys,
    its row numbers, its index. A run of few rows lies in the kernel's insertion buffer instead, where that is free.

    Any thread may call; a call is done when its results are there.

    Parameters
    ----------
    link : BoardLink
    name : str
        Of the device, for messages.
    scratch_bytes : int
        A quarter is for inputs, the rest for outputs.

    Attributes
    ----------
    parameters : Parameters
    granule_rows : int
        Rows of a granule.
    granule_bytes : int
        Bytes of a granule, index included.

    Raises
    ------
    DeviceError
        If the board does not answer, has another kernel than the link says, or too little memory.
    """

    def __init__(self, link: BoardLink, name: str, scratch_bytes: int):
        self._name = name
        self._driver = KernelDriver(link, name)
        self._lock = threading.RLock()
        p = self.parameters = self._driver.parameters
        self._key_bytes = p.key_bits // 8
        self._key_dtype = np.dtype(np.int32 if p.key_bits == 32 else np.int64)
        self.granule_rows = min(p.partition_rows, _GRANULE_BEATS * p.rows_per_beat)
        self.granule_bytes = self.granule_rows * (self._key_bytes + _ROW_BYTES) + p.beat_bytes

        beat = p.beat_bytes
        self._in_bytes = scratch_bytes // 4 // beat * beat
        self._out_bytes = scratch_bytes * 3 // 4 // beat * beat
        buffer_bytes = self._aligned(p.buffer_rows * self._key_bytes) + self._aligned(p.buffer_rows * _ROW_BYTES)
        least = 2 * buffer_bytes + 8 * beat
        if min(self._in_bytes, self._out_bytes) < least:
            raise DeviceError(
                f"scratch_bytes must be at least {4 * (least + beat)} on device {name}, not {scratch_bytes}"
            )
        space = p.address_bits - (p.channels.bit_length() - 1)
        bases = [channel << space for channel in range(p.channels)]
        taken = [0] * p.channels
        taken[0] += self._in_bytes
        self._in, self._out = bases[0], bases[-1] + taken[-1]
        taken[-1] += self._out_bytes
        channel_bytes = self._driver.memory_bytes // p.channels
        granules = [(channel_bytes - used) // self.granule_bytes for used in taken]
        if min(granules) < 1:
            raise DeviceError(
                f"device {name} has {channel_bytes:,} bytes a memory channel, which leaves none beside "
                f"{scratch_bytes:,} of scratch memory: use less scratch memory"
            )
        self._bases = [base + used for base, used in zip(bases, taken, strict=True)]
        self._arenas = [Arena(count, 1) for count in granules]
        self._runs: list[set[BoardRun]] = [set() for _ in bases]
        self._indexes = IndexSlots(p.index_rows)
        self._buffered: BoardRun | None = None  # which run is in the insertion buffer
        self._buffer_rows = 0  # in the insertion buffer, though they may be nobody's any more

    @property
    def buffered(self) -> BoardRun | None:
        """The run in the insertion buffer."""
        return self._buffered

    def granules(self, rows: int) -> int:
        """Granules of a run of so many rows."""
        return -(-rows // self.granule_rows)

    def close(self) -> None:
        """Gives the board back, once nobody is using it. Idempotent."""
        with self._lock:
            self._driver.close()

    def counters(self) -> dict[str, int]:
        """See `KernelDriver.counters`."""
        with self._lock:
            return self._driver.counters()

    # Places

    def _aligned(self, length: int) -> int:
        beat = self.parameters.beat_bytes
        return -(-length // beat) * beat

    def _places(self, run: BoardRun) -> tuple[int, int, int]:
        """Addresses of keys, row numbers and index."""
        keys = self._bases[run.channel] + run.start * self.granule_bytes
        rows = keys + run.granules * self.granule_rows * self._key_bytes
        return keys, rows, rows + run.granules * self.granule_rows * _ROW_BYTES

    def _place(self, run: BoardRun, avoid: int | None = None) -> None:
        """Finds a place for a run, on another channel than `avoid` where there is room. Raises CapacityError."""
        needed = self.granules(run.length)
        free = [arena.free_rows for arena in self._arenas]
        order = sorted(range(len(free)), key=lambda channel: (channel == avoid, -free[channel]))
        for compact in (False, True):
            for channel in order:
                if compact and free[channel] >= needed:
                    self._compact(channel)
                start = self._arenas[channel].take(needed)
                if start is not None:
                    run.granules, run.channel, run.start = needed, channel, start
                    self._runs[channel].add(run)
                    return
        raise CapacityError(
            f"a run of {run.length} rows needs {needed * self.granule_bytes:,} bytes in one memory channel of device "
            f"{self._name}, where {max(free) * self.granule_bytes:,} are free: use smaller windows or another device",
            needed * self.granule_bytes,
            max(free) * self.granule_bytes,
        )

    def _leave(self, run: BoardRun) -> None:
        """Frees a run's place, or the insertion buffer."""
        if run is self._buffered:
            self._buffered = None
            return
        self._runs[run.channel].remove(run)
        self._arenas[run.channel].give(run.start, run.granules)
        self._indexes.forget(run)

    def _compact(self, channel: int) -> None:
        """Moves the runs of a channel together."""
        arena = Arena(self._arenas[channel].rows, 1)
        commands = []
        for run in sorted(self._runs[channel], key=lambda run: run.start):
            old, _, _ = self._places(run)
            start = arena.take(run.granules)
            assert start is not None
            run.start = start
            new, _, _ = self._places(run)
            size = run.granules * self.granule_bytes
            for at in range(0, size if old != new else 0, self._out_bytes):
                length = min(self._out_bytes, size - at)
                # Source and destination of a copy must not overlap.
                through = [new + at] if old - new >= length else [self._out, new + at]
                source = old + at
                for to in through:
                    commands.append(
                        KernelCommand(operation=Operation.COPY, length_a=length, keys_a=source, keys_out=to)
                    )
                    source = to
        self._arenas[channel] = arena
        self._driver.run(commands)

    def _check_length(self, rows: int) -> None:
        if rows > self.parameters.run_rows:
            raise CapacityError(
                f"a run of {rows} rows is longer than device {self._name} takes, which is {self.parameters.run_rows}: "
                f"its kernel has an index of {self.parameters.index_rows} partitions of "
                f"{self.parameters.partition_rows} rows; use smaller windows or a kernel that is built with more",
                rows,
                self.parameters.run_rows,
            )

    # Runs

    def load(self, keys: np.ndarray, rows: np.ndarray) -> BoardRun:
        """Stores ascending keys (int32 or int64), shape (n,), n >= 1, with their row numbers (uint32).

        Raises
        ------
        CapacityError
            If the run is longer than the index on chip covers, or there is no place for it.
        DeviceError
            If the board fails.
        """
        run = BoardRun(len(keys))
        self._check_length(run.length)
        keys = np.ascontiguousarray(keys, self._key_dtype)
        rows = np.ascontiguousarray(rows, np.uint32)
        with self._lock:
            if run.length <= self.parameters.buffer_rows and self._buffered is None:
                size = self._aligned(keys.nbytes)
                self._put(self._in, [(0, keys), (size, rows)])
                self._insert(run.length, self._in, self._in + size)
                self._buffered = run
                return run
            self._place(run)
            places = self._places(run)
            index = np.ascontiguousarray(keys[:: self.parameters.partition_rows])
            arrays = zip(places, (keys, rows, index), strict=True)
            self._put(places[0], [(place - places[0], array) for place, array in arrays])
            return run

    def _put(self, address: int, arrays: list[tuple[int, np.ndarray]]) -> None:
        """Writes arrays, each so many bytes behind the address, in one transfer; what lies between becomes zeros."""
        content = np.zeros(max(offset + array.nbytes for offset, array in arrays), np.uint8)
        for offset, array in arrays:
            content[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)
        self._driver.write_memory(address, content)

    def _insert(self, count: int, keys: int, rows: int) -> None:
        """Takes rows at these addresses into the insertion buffer, after what is nobody's has gone from it."""
        commands = []
        if self._buffer_rows and self._buffered is None:
            commands.append(KernelCommand(operation=Operation.DISCARD))
            self._buffer_rows = 0
        commands.append(
            KernelCommand(operation=Operation.INSERT, signed=True, length_a=count, keys_a=keys, rows_a=rows)
        )
        self._driver.run(commands)
        self._buffer_rows += count

    def merge(self, older: BoardRun, newer: BoardRun) -> BoardRun:
        """Merges two runs into one and frees both. Raises as `load` does, and then both stay."""
        merged = BoardRun(older.length + newer.length)
        self._check_length(merged.length)
        with self._lock:
            if newer is self._buffered:
                older, newer = newer, older  # the order of equal keys is nobody's concern
            if older is self._buffered and merged.length <= self.parameters.buffer_rows:
                keys, rows, _ = self._places(newer)
                self._insert(newer.length, keys, rows)
                self._leave(newer)
                self._buffered = merged
                return merged
            buffered = older is self._buffered
            if buffered:
                older, newer = newer, older
            self._place(merged, avoid=older.channel)
            keys_a, rows_a, _ = self._places(older)
            keys_b, rows_b, _ = (0, 0, 0) if buffered else self._places(newer)
            keys_out, rows_out, index_out = self._places(merged)
            self._driver.run(
                [
                    KernelCommand(
                        operation=Operation.MERGE,
                        signed=True,
                        buffer=buffered,
                        length_a=older.length,
                        length_b=newer.length,
                        keys_a=keys_a,
                        rows_a=rows_a,
                        keys_b=keys_b,
                        rows_b=rows_b,
                        keys_out=keys_out,
                        rows_out=rows_out,
                        index_out=index_out,
                    )
                ]
            )
            if buffered:
                self._buffer_rows = 0
            self._leave(older)
            self._leave(newer)
            return merged

    def drop(self, run: BoardRun) -> None:
        """Frees a run."""
        with self._lock:
            self._leave(run)

    # Probing

    def probe(self, runs: list[BoardRun], lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where in each run the keys with ``lower <= key <= upper`` start and stop.

        Parameters
        ----------
        runs : list of BoardRun
        lower, upper : ndarray, shape (n,)
            Ascending, of the type of the keys, n >= 1, ``lower <= upper``.

        Returns
        -------
        starts, stops : ndarray of uint32, shape (number of runs, n)

        Raises
        ------
        DeviceError
            If the board fails.
        """
        n = len(lower)
        lower = np.ascontiguousarray(lower, self._key_dtype)
        upper = np.ascontiguousarray(upper, self._key_dtype)
        found = np.empty((2, len(runs), n), np.uint32)
        beat = self.parameters.beat_bytes
        most = min(
            (self._in_bytes - 2 * beat) // (2 * self._key_bytes), (self._out_bytes - 2 * beat) // (2 * _ROW_BYTES)
        )
        for first in range(0, n, most):
            part = slice(first, min(first + most, n))
            self._probe_part(runs, lower[part], upper[part], found[:, :, part])
        return found[0], found[1]

    def _probe_part(self, runs: list[BoardRun], lower: np.ndarray, upper: np.ndarray, found: np.ndarray) -> None:
        """As `probe`, of as many probes as fit the scratch memory, into an array of shape (2, runs, probes)."""
        n = len(lower)
        keys_size, size = self._aligned(lower.nbytes), self._aligned(n * _ROW_BYTES)
        together = self._out_bytes // (2 * size)
        with self._lock:
            self._put(self._in, [(0, lower), (keys_size, upper)])
            for first in range(0, len(runs), together):
                group = range(first, min(first + together, len(runs)))
                commands = []
                for place, at in enumerate(group):
                    run = runs[at]
                    buffered = run is self._buffered
                    keys, index, slot, there = 0, 0, 0, False
                    if not buffered:
                        keys, _, index = self._places(run)
                        entries = -(-run.length // self.parameters.partition_rows)
                        slot, there = self._indexes.place(run, entries)
                    commands.append(
                        KernelCommand(
                            operation=Operation.PROBE,
                            signed=True,
                            buffer=buffered,
                            reuse=there,
                            length_a=run.length,
                            length_b=n,
                            keys_a=keys,
                            rows_a=index,
                            keys_b=self._in,
                            rows_b=self._in + keys_size,
                            keys_out=self._out + 2 * place * size,
                            rows_out=self._out + (2 * place + 1) * size,
                            index_out=slot,
                            high_offset=1,
                        )
                    )
                self._driver.run(commands)
                raw = self._driver.read_memory(self._out, 2 * len(group) * size).view(np.uint32)
                positions = raw.reshape(len(group), 2, -1)[:, :, :n]
                for place, at in enumerate(group):
                    found[:, at] = positions[place]

    def gather(self, ranges: list[Ranges]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The row numbers at positions of runs.

        Yields
        ------
        probes, rows : ndarray of uint32, shape (m,)
            The probe and the row number of each position that lies within the limits.

        Raises
        ------
        DeviceError
            If the board fails.
        """
        beat = self.parameters.beat_bytes
        most_pairs = (self._out_bytes - 2 * beat) // _PAIR_BYTES
        parts = (part for whole in ranges for part in self._parts(whole.cut(most_pairs), most_pairs))

        def output(part: Ranges) -> int:
            return beat + self._aligned(int(part.lengths.sum()) * _PAIR_BYTES)

        for batch in self._batches(parts, output):
            with self._lock:
                raw = self._run_ranges(Operation.GATHER, batch, output)
            at = 0
            for part in batch:
                most = int(part.lengths.sum())
                count = int.from_bytes(raw[at : at + min(beat, 8)].tobytes(), "little")
                if count > most or (part.limits is None and count != most):
                    raise DeviceError(
                        f"device {self._name} gathered {count} pairs where the positions promise {most}: this is a "
                        "defect of Mullion's"
                    )
                pairs = raw[at + beat : at + beat + count * _PAIR_BYTES].view(np.uint32).reshape(-1, 2)
                if count:
                    yield part.probes[pairs[:, 0]].astype(np.uint32), pairs[:, 1]
                at += output(part)

    def count(self, ranges: list[Ranges]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """How many positions of each range lie within its limits.

        Yields
        ------
        probes, counts : ndarray, int64 and uint32, shape (m,)
            No probe stands twice in one block.

        Raises
        ------
        DeviceError
            If the board fails.
        """
        most = (self._out_bytes - self.parameters.beat_bytes) // _ROW_BYTES
        parts = (part for whole in ranges for part in self._parts(whole, None, most))

        def output(part: Ranges) -> int:
            return self._aligned(len(part) * _ROW_BYTES)

        for batch in self._batches(parts, output):
            with self._lock:
                raw = self._run_ranges(Operation.COUNT, batch, output)
            at = 0
            for part in batch:
                yield part.probes, raw[at : at + len(part) * _ROW_BYTES].view(np.uint32)
                at += output(part)

    def _parts(self, ranges: Ranges, most_pairs: int | None, most_ranges: int | None = None) -> Iterator[Ranges]:
        """Ranges in parts whose input fits the scratch memory, and their output by the numbers given."""
        room = self._in_bytes - 3 * self.parameters.beat_bytes
        most = room // (2 * _ROW_BYTES + (0 if ranges.limits is None else _LIMIT_BYTES))
        most = most if most_ranges is None else min(most, most_ranges)
        ends = np.cumsum(ranges.lengths)
        first = 0
        while first < len(ranges):
            last = min(first + most, len(ranges))
            if most_pairs is not None:
                done = int(ends[first - 1]) if first else 0
                last = min(last, max(int(np.searchsorted(ends, done + most_pairs, "right")), first + 1))
            yield ranges.part(first, last)
            first = last

    def _input(self, part: Ranges) -> int:
        """Bytes of a command's input."""
        limits = 0 if part.limits is None else self._aligned(len(part) * _LIMIT_BYTES)
        return 2 * self._aligned(len(part) * _ROW_BYTES) + limits

    def _batches(self, parts: Iterator[Ranges], output: Callable[[Ranges], int]) -> Iterator[list[Ranges]]:
        """Parts that fit the scratch memory together."""
        batch: list[Ranges] = []
        in_bytes = out_bytes = 0
        for part in parts:
            more_in, more_out = self._input(part), output(part)
            if batch and (in_bytes + more_in > self._in_bytes or out_bytes + more_out > self._out_bytes):
                yield batch
                batch, in_bytes, out_bytes = [], 0, 0
            batch.append(part)
            in_bytes, out_bytes = in_bytes + more_in, out_bytes + more_out
        if batch:
            yield batch

    def _run_ranges(self, operation: Operation, batch: list[Ranges], output: Callable[[Ranges], int]) -> np.ndarray:
        """Carries out one GATHER or COUNT for each part; their outputs, one behind the other: of a GATHER first the
        beat that has the number of pairs."""
        arrays, commands = [], []
        at, to = 0, self._out
        for part in batch:
            run, size = part.run, self._aligned(len(part) * _ROW_BYTES)
            buffered = run is self._buffered
            arrays += [(at, part.starts.astype(np.uint32)), (at + size, part.stops.astype(np.uint32))]
            if part.limits is not None:
                arrays.append((at + 2 * size, np.ascontiguousarray(part.limits)))
            pairs = operation is Operation.GATHER
            commands.append(
                KernelCommand(
                    operation=operation,
                    limits=part.limits is not None,
                    buffer=buffered,
                    length_a=run.length,
                    length_b=len(part),
                    keys_a=self._in + at + 2 * size if part.limits is not None else 0,
                    rows_a=0 if buffered else self._places(run)[1],
                    keys_b=self._in + at,
                    rows_b=self._in + at + size,
                    keys_out=to + self.parameters.beat_bytes if pairs else to,
                    rows_out=to,
                )
            )
            at, to = at + self._input(part), to + output(part)
        self._put(self._in, arrays)
        self._driver.run(commands)
        return self._driver.read_memory(self._out, to - self._out)
