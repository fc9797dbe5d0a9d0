"""A lane of a BI-Sort kernel: runs in its memory, and the commands over them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from typing import TypeVar

import numpy as np

from muntin.contract.registers import Command, Operation
from muntin.host.errors import CapacityError, DeviceError
from muntin.host.fpga.driver import KernelDriver
from muntin.host.fpga.lane_runs import IndexSlots, LaneRun, Ranges
from muntin.host.memory import Arena

_ROW_BYTES = 4  # of a row number, a position, a count
_LIMIT_BYTES = 8
_PAIR_BYTES = 8
_RANGE_BYTES = 16
_GRANULE_BEATS = 16  # of row numbers; a granule has a beat for its index beside them

_T = TypeVar("_T")
Steps = Generator[list[Command], None, _T]
"""Work of a lane in steps: commands, which whoever takes the steps carries out before the next one; then a result."""


class BisortLane:
    """A lane, with the memory that is its own: an engine, its insertion buffer, and its room for indexes.

    Of its memory, a part is scratch: inputs of commands at the start of the first channel, outputs at the start of
    the last one. The rest of each channel is cut into granules, and every run lies in granules of its own: its keys,
    its row numbers, its index. A run of few rows lies in the lane's insertion buffer instead, where that is free.

    What needs commands is done in `Steps`, so that lanes can be at work at the same time. Not for several threads at
    once; the steps of one lane follow each other.

    Parameters
    ----------
    driver : KernelDriver
    number : int
        Of the lane.
    name : str
        Of the device, for messages.
    scratch_bytes : int
        A quarter is for inputs, the rest for outputs.

    Attributes
    ----------
    number : int
    parameters : Parameters
    arenas : list of Arena
        The granules of each channel.
    granule_rows : int
        Rows of a granule.
    granule_bytes : int
        Bytes of a granule, index included.

    Raises
    ------
    DeviceError
        If there is too little memory.
    """

    def __init__(self, driver: KernelDriver, number: int, name: str, scratch_bytes: int):
        self._driver = driver
        self.number = number
        p = self.parameters = driver.parameters
        self._name = f"{name}, lane {number}" if p.lanes > 1 else name
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
        channel_bytes = driver.lane_bytes // p.channels
        granules = [(channel_bytes - used) // self.granule_bytes for used in taken]
        if min(granules) < 1:
            raise DeviceError(
                f"device {name} has {channel_bytes:,} bytes a memory channel, which leaves none beside "
                f"{scratch_bytes:,} of scratch memory: use less scratch memory"
            )
        self._bases = [base + used for base, used in zip(bases, taken, strict=True)]
        self.arenas = [Arena(count, 1) for count in granules]
        self._runs: list[set[LaneRun]] = [set() for _ in bases]
        self._indexes = IndexSlots(p.index_rows)
        self._buffered: LaneRun | None = None  # which run is in the insertion buffer
        self._pair_probes = 1 << 30  # whose pairs have had room at once
        self._buffer_rows = 0  # in the insertion buffer, though they may be nobody's any more

    @property
    def buffered(self) -> LaneRun | None:
        """The run in the insertion buffer."""
        return self._buffered

    def granules(self, rows: int) -> int:
        """Granules of a run of so many rows."""
        return -(-rows // self.granule_rows)

    def forget_indexes(self) -> None:
        """Loads every index again before it is used again; for who has changed what is on chip."""
        self._indexes = IndexSlots(self.parameters.index_rows)

    # Places

    def _aligned(self, length: int) -> int:
        beat = self.parameters.beat_bytes
        return -(-length // beat) * beat

    def _places(self, run: LaneRun) -> tuple[int, int, int]:
        """Addresses of keys, row numbers and index."""
        keys = self._bases[run.channel] + run.start * self.granule_bytes
        rows = keys + run.granules * self.granule_rows * self._key_bytes
        return keys, rows, rows + run.granules * self.granule_rows * _ROW_BYTES

    def _place(self, run: LaneRun, avoid: int | None = None) -> None:
        """Finds a place for a run, on another channel than `avoid` where there is room. Raises CapacityError."""
        needed = self.granules(run.length)
        free = [arena.free_rows for arena in self.arenas]
        order = sorted(range(len(free)), key=lambda channel: (channel == avoid, -free[channel]))
        for compact in (False, True):
            for channel in order:
                if compact and free[channel] >= needed:
                    self._compact(channel)
                start = self.arenas[channel].take(needed)
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

    def leave(self, run: LaneRun) -> None:
        """Frees a run's place, or the insertion buffer."""
        if not run.granules:
            if run is self._buffered:
                self._buffered = None
            return
        self._runs[run.channel].remove(run)
        self.arenas[run.channel].give(run.start, run.granules)
        self._indexes.forget(run)

    def _compact(self, channel: int) -> None:
        """Moves the runs of a channel together."""
        arena = Arena(self.arenas[channel].rows, 1)
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
                    commands.append(Command(operation=Operation.COPY, length_a=length, keys_a=source, keys_out=to))
                    source = to
        self.arenas[channel] = arena
        self._driver.run(commands, self.number)

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

    def place(self, rows: int) -> LaneRun:
        """Finds a place for a run of so many rows, which `load` then fills.

        Raises
        ------
        CapacityError
            If the run is longer than the index on chip covers, or there is no place for it; nothing changes.
        DeviceError
            If the board fails.
        """
        run = LaneRun(self.number, rows)
        self._check_length(rows)
        if rows > self.parameters.buffer_rows or self._buffered is not None:
            self._place(run)
        return run

    def place_merged(self, older: LaneRun, newer: LaneRun) -> LaneRun:
        """Finds a place for what `merge` will make of two runs. Raises as `place` does."""
        run = LaneRun(self.number, older.length + newer.length)
        self._check_length(run.length)
        if self._buffered not in (older, newer) or run.length > self.parameters.buffer_rows:
            self._place(run, avoid=(newer if older is self._buffered else older).channel)
        return run

    def load(self, run: LaneRun, keys: np.ndarray, rows: np.ndarray) -> Steps[None]:
        """Fills a run with ascending keys (int32 or int64), shape (n,), and their row numbers (uint32)."""
        keys = np.ascontiguousarray(keys, self._key_dtype)
        rows = np.ascontiguousarray(rows, np.uint32)
        if not run.granules:
            size = self._aligned(keys.nbytes)
            self._put(self._in, [(0, keys), (size, rows)])
            yield from self._insert(run, run.length, self._in, self._in + size)
            return
        places = self._places(run)
        index = np.ascontiguousarray(keys[:: self.parameters.partition_rows])
        arrays = zip(places, (keys, rows, index), strict=True)
        self._put(places[0], [(place - places[0], array) for place, array in arrays])

    def _put(self, address: int, arrays: list[tuple[int, np.ndarray]]) -> None:
        """Writes arrays, each so many bytes behind the address, in one transfer; what lies between becomes zeros."""
        content = np.zeros(max(offset + array.nbytes for offset, array in arrays), np.uint8)
        for offset, array in arrays:
            content[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)
        self._driver.write_memory(address, content, self.number)

    def _insert(self, run: LaneRun, count: int, keys: int, rows: int) -> Steps[None]:
        """Makes a run of the insertion buffer with rows at these addresses, after what is nobody's has gone from it."""
        commands = []
        if self._buffer_rows and self._buffered is None:
            commands.append(Command(operation=Operation.DISCARD))
        commands.append(Command(operation=Operation.INSERT, signed=True, length_a=count, keys_a=keys, rows_a=rows))
        yield commands
        self._buffer_rows = run.length
        self._buffered = run

    def merge(self, merged: LaneRun, older: LaneRun, newer: LaneRun) -> Steps[None]:
        """Merges two runs into the place that `place_merged` found, and frees both."""
        if newer is self._buffered:
            older, newer = newer, older  # the order of equal keys is nobody's concern
        if not merged.granules:
            keys, rows, _ = self._places(newer)
            yield from self._insert(merged, newer.length, keys, rows)
            self.leave(newer)
            return
        buffered = older is self._buffered
        if buffered:
            older, newer = newer, older
        keys_a, rows_a, _ = self._places(older)
        keys_b, rows_b, _ = (0, 0, 0) if buffered else self._places(newer)
        keys_out, rows_out, index_out = self._places(merged)
        yield [
            Command(
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
        if buffered:
            self._buffer_rows = 0
        self.leave(older)
        self.leave(newer)

    # Probing

    def probe(self, runs: list[LaneRun], lower: np.ndarray, upper: np.ndarray) -> Steps[list[np.ndarray]]:
        """Where in each run the keys with ``lower <= key <= upper`` start and stop.

        Parameters
        ----------
        runs : list of LaneRun
        lower, upper : ndarray, shape (n,)
            Ascending, of the type of the keys, n >= 1, ``lower <= upper``.

        Returns
        -------
        list of ndarray of uint32, shape (m, 3)
            For each run the ranges that are not empty: the number of the probe, start and stop, by ascending probe.
        """
        lower = np.ascontiguousarray(lower, self._key_dtype)
        upper = np.ascontiguousarray(upper, self._key_dtype)
        beat = self.parameters.beat_bytes
        # One range of each run at least, and the beat with their number.
        together = self._out_bytes // (2 * (beat + self._aligned(_RANGE_BYTES)))
        found: list[list[np.ndarray]] = [[] for _ in runs]
        for first_run in range(0, len(runs), together):
            part = runs[first_run : first_run + together]
            room = self._out_bytes - len(part) * (beat + self._aligned(_RANGE_BYTES))
            most = min((self._in_bytes - 2 * beat) // (2 * self._key_bytes), room // (_RANGE_BYTES * len(part)))
            for first in range(0, len(lower), most):
                probes = slice(first, first + most)
                ranges = yield from self._probe_part(part, lower[probes], upper[probes])
                for at, more in enumerate(ranges, first_run):
                    more[:, 0] += np.uint32(first)
                    found[at].append(more)
        return [np.concatenate(parts) for parts in found]

    def _probe_part(self, runs: list[LaneRun], lower: np.ndarray, upper: np.ndarray) -> Steps[list[np.ndarray]]:
        """As `probe`, of as many runs and probes as fit the scratch memory."""
        beat = self.parameters.beat_bytes
        self._put_bounds(lower, upper)
        commands: list[Command] = []
        outputs: list[tuple[int, dict[int, int]]] = []  # where each PROBE writes, and which of the runs is at a place
        out = self._out
        for loads, places in self._groups(runs):
            first = runs[next(iter(places.values()))]
            commands += loads
            commands.append(
                self._probing(Operation.PROBE, first, places, len(lower), keys_out=out + beat, rows_out=out)
            )
            outputs.append((out, places))
            out += beat + self._aligned(len(places) * len(lower) * _RANGE_BYTES)
        yield commands
        found: list[np.ndarray] = [np.zeros((0, 3), np.uint32)] * len(runs)
        for out, places in outputs:
            raw = self._driver.read_memory(out, beat, self.number)
            count = int.from_bytes(raw[: min(beat, 8)].tobytes(), "little")
            if count > len(places) * len(lower):
                raise DeviceError(
                    f"device {self._name} found {count} ranges where there are {len(lower)} probes of {len(places)} "
                    "runs: this is a defect of Muntin's"
                )
            raw = self._driver.read_memory(out + beat, count * _RANGE_BYTES, self.number) if count else raw[:0]
            ranges = raw.view(np.uint32).reshape(-1, 4)
            for place, at in places.items():
                found[at] = ranges[ranges[:, 1] == place][:, [0, 2, 3]]
        return found

    def _put_bounds(self, lower: np.ndarray, upper: np.ndarray, limits: np.ndarray | None = None) -> None:
        """Writes the bounds of some probes, and their limits behind them, to the input of commands."""
        size = self._aligned(lower.nbytes)
        self._put(
            self._in,
            [(0, np.ascontiguousarray(lower, self._key_dtype)), (size, np.ascontiguousarray(upper, self._key_dtype))]
            + ([] if limits is None else [(2 * size, np.ascontiguousarray(limits))]),
        )

    def _probing(
        self,
        operation: Operation,
        first: LaneRun,
        places: Collection[int],
        probes: int,
        *,
        limited: bool = False,
        room: int = 0,
        **outputs: int,
    ) -> Command:
        """A command that looks for the probes whose bounds were put in runs: a group's, or the insertion buffer."""
        buffered = first is self._buffered
        size = self._aligned(probes * self._key_bytes)
        return Command(
            operation=operation,
            signed=True,
            buffer=buffered,
            probe=operation is not Operation.PROBE,
            limits=limited,
            length_a=first.length if buffered else room,
            length_b=probes,
            keys_a=0 if buffered else sum(1 << place for place in places),
            rows_a=0 if buffered else self._places(first)[0],
            keys_b=self._in,
            rows_b=self._in + size,
            index_out=self._in + 2 * size if limited else 0,
            high_offset=1,
            **outputs,
        )

    def probe_counts(
        self,
        runs: list[LaneRun],
        lower: np.ndarray,
        upper: np.ndarray,
        limits: tuple[np.ndarray, np.ndarray] | None,
    ) -> Steps[np.ndarray]:
        """How many rows of runs each probe meets, int64, shape (n,).

        Parameters
        ----------
        runs, lower, upper
            As of `probe`.
        limits : (ndarray of uint32, shape (n, 2), ndarray of bool, one for each run), or None
            First row and span for each probe, and the runs in which they hold.
        """
        beat = self.parameters.beat_bytes
        total = np.zeros(len(lower), np.int64)
        together = self._out_bytes // (2 * beat)
        for first_run in range(0, len(runs), together):
            part = runs[first_run : first_run + together]
            checked = np.zeros(len(part), bool)
            first_and_span = None
            if limits is not None and limits[1][first_run : first_run + together].any():
                first_and_span, checked = limits[0], limits[1][first_run : first_run + together]
            # Bounds and limits of the probes, and a count of each for every run, as all may be groups of their own.
            most = (self._in_bytes - 3 * beat) // (2 * self._key_bytes + _LIMIT_BYTES)
            most = min(most, (self._out_bytes // len(part) - beat) // _ROW_BYTES)
            for first in range(0, len(lower), most):
                probes = slice(first, first + most)
                count = len(lower[probes])
                its = None if first_and_span is None else first_and_span[probes]
                self._put_bounds(lower[probes], upper[probes], its)
                commands, out = [], self._out
                for limited in (False, True):
                    some = [run for run, check in zip(part, checked, strict=True) if check == limited]
                    for loads, places in self._groups(some):
                        commands += loads
                        run = some[next(iter(places.values()))]
                        commands.append(
                            self._probing(Operation.COUNT, run, places, count, limited=limited, keys_out=out)
                        )
                        out += self._aligned(count * _ROW_BYTES)
                yield commands
                raw = self._driver.read_memory(self._out, out - self._out, self.number).view(np.uint32)
                for row in raw.reshape(-1, self._aligned(count * _ROW_BYTES) // _ROW_BYTES):
                    total[probes] += row[:count]
        return total

    def pairs(
        self, runs: list[LaneRun], lower: np.ndarray, upper: np.ndarray, limits: np.ndarray | None
    ) -> Steps[tuple[int, list[tuple[np.ndarray, np.ndarray]]]]:
        """The rows of runs that the first probes meet: of so many of them as have room in the scratch memory.

        How many that are is learned from the pairs that come, and where one probe has more than there is room for, its
        ranges are fetched first.

        Parameters
        ----------
        runs, lower, upper
            As of `probe`.
        limits : ndarray of uint32, shape (n, 2), or None
            First row and span for each probe, in all runs.

        Returns
        -------
        count : int
            How many of the probes these are.
        pairs : list of (probes, rows)
            As of `gather`.
        """
        beat = self.parameters.beat_bytes
        most = (self._in_bytes - 3 * beat) // (2 * self._key_bytes + _LIMIT_BYTES)
        count = min(len(lower), self._pair_probes, most)
        lower, upper, limits = lower[:count], upper[:count], None if limits is None else limits[:count]
        stored = [run for run in runs if run is not self._buffered]
        groups = list(self._groups(stored))
        share = self._out_bytes // max(len(groups), 1) // beat * beat
        room = (share - beat) // _PAIR_BYTES
        if groups and room < count:
            return count, (yield from self._fetched_pairs(runs, lower, upper, limits))
        commands: list[Command] = []
        for number, (loads, places) in enumerate(groups):
            out = self._out + number * share
            first = stored[next(iter(places.values()))]
            outputs = {"keys_out": out + beat, "rows_out": out}
            limited = limits is not None
            commands += loads
            commands.append(
                self._probing(Operation.GATHER, first, places, count, limited=limited, room=room, **outputs)
            )
        if groups:
            self._put_bounds(lower, upper, limits)
            yield commands
        found = []
        for number in range(len(groups)):
            out = self._out + number * share
            raw = self._driver.read_memory(out, beat, self.number)
            pairs = int.from_bytes(raw[: min(beat, 8)].tobytes(), "little")
            if pairs > room:
                self._pair_probes = max(count // 2, 1)
                if count == 1:
                    return 1, (yield from self._fetched_pairs(runs, lower, upper, limits))
                return (yield from self.pairs(runs, lower, upper, limits))
            if pairs:
                raw = self._driver.read_memory(out + beat, pairs * _PAIR_BYTES, self.number)
                both = raw.view(np.uint32).reshape(-1, 2)
                found.append((both[:, 0], both[:, 1]))
                if 4 * pairs < room:
                    self._pair_probes = max(self._pair_probes, 2 * count)
        buffered = [run for run in runs if run is self._buffered]
        if buffered:
            found += yield from self._fetched_pairs(buffered, lower, upper, limits)
        return count, found

    def _fetched_pairs(
        self, runs: list[LaneRun], lower: np.ndarray, upper: np.ndarray, limits: np.ndarray | None
    ) -> Steps[list[tuple[np.ndarray, np.ndarray]]]:
        """The pairs of some probes by their ranges."""
        found = yield from self.probe(runs, lower, upper)
        ranges = []
        for run, part in zip(runs, found, strict=True):
            probes, starts, stops = part.astype(np.int64).T
            ranges.append(Ranges(run, probes, starts, stops, None if limits is None else limits[probes]))
        pieces = []
        for batch in self.gathers(ranges):
            pieces += yield from self.gather(batch)
        return pieces

    def _groups(self, runs: list[LaneRun]) -> Iterator[tuple[list[Command], dict[int, int]]]:
        """Runs that can be probed together: what loads their indexes, and which of them is at each place.

        All of a group lie in one memory channel, and their indexes are on chip together; the insertion buffer is a
        group of its own.
        """
        loads: list[Command] = []
        places: dict[int, int] = {}
        channel = 0
        for at in sorted(range(len(runs)), key=lambda at: runs[at].channel):
            run = runs[at]
            if run is self._buffered:
                yield [], {0: at}
                continue
            entries = -(-run.length // self.parameters.partition_rows)
            slot = self._indexes.place(run, entries, [runs[other] for other in places.values()])
            if places and (slot is None or run.channel != channel):
                yield loads, places
                loads, places = [], {}
            channel = run.channel
            placed = slot or self._indexes.place(run, entries)
            assert placed is not None  # every run's index fits alone
            place, start, there = placed
            if not there:
                keys, numbers, index = self._places(run)
                loads.append(
                    Command(
                        operation=Operation.INDEX,
                        signed=True,
                        length_a=run.length,
                        length_b=place,
                        keys_a=keys,
                        rows_a=index,
                        keys_b=numbers,
                        index_out=start,
                    )
                )
            places[place] = at
        if places:
            yield loads, places

    def gathers(self, ranges: list[Ranges]) -> Iterator[list[Ranges]]:
        """Ranges in batches that `gather` can take."""
        max_pairs = (self._out_bytes - 2 * self.parameters.beat_bytes) // _PAIR_BYTES
        parts = (part for whole in ranges for part in self._parts(whole.cut(max_pairs), max_pairs))
        return self._batches(parts, self._gathered_bytes)

    def gather(self, batch: list[Ranges]) -> Steps[list[tuple[np.ndarray, np.ndarray]]]:
        """The row numbers at positions of runs.

        Returns
        -------
        list of (probes, rows) : ndarray of uint32, shape (m,)
            The probe and the row number of each position that lies within the limits.

        Raises
        ------
        DeviceError
            If the board gathers more, or less, than there can be.
        """
        beat = self.parameters.beat_bytes
        raw = yield from self._run_ranges(Operation.GATHER, batch, self._gathered_bytes)
        found = []
        at = 0
        for part in batch:
            most = int(part.lengths.sum())
            count = int.from_bytes(raw[at : at + min(beat, 8)].tobytes(), "little")
            if count > most or (part.limits is None and count != most):
                raise DeviceError(
                    f"device {self._name} gathered {count} pairs where the positions promise {most}: this is a "
                    "defect of Muntin's"
                )
            pairs = raw[at + beat : at + beat + count * _PAIR_BYTES].view(np.uint32).reshape(-1, 2)
            if count:
                found.append((part.probes[pairs[:, 0]].astype(np.uint32), pairs[:, 1]))
            at += self._gathered_bytes(part)
        return found

    def _gathered_bytes(self, part: Ranges) -> int:
        """Room for the output of a GATHER."""
        return self.parameters.beat_bytes + self._aligned(int(part.lengths.sum()) * _PAIR_BYTES)

    def counts(self, ranges: list[Ranges]) -> Iterator[list[Ranges]]:
        """Ranges in batches that `count` can take."""
        most = (self._out_bytes - self.parameters.beat_bytes) // _ROW_BYTES
        parts = (part for whole in ranges for part in self._parts(whole, None, most))
        return self._batches(parts, self._counted_bytes)

    def count(self, batch: list[Ranges]) -> Steps[list[tuple[np.ndarray, np.ndarray]]]:
        """How many positions of each range lie within its limits.

        Returns
        -------
        list of (probes, counts) : ndarray, int64 and uint32, shape (m,)
            No probe stands twice in one of them.
        """
        raw = yield from self._run_ranges(Operation.COUNT, batch, self._counted_bytes)
        found = []
        at = 0
        for part in batch:
            found.append((part.probes, raw[at : at + len(part) * _ROW_BYTES].view(np.uint32)))
            at += self._counted_bytes(part)
        return found

    def _counted_bytes(self, part: Ranges) -> int:
        """Room for the output of a COUNT."""
        return self._aligned(len(part) * _ROW_BYTES)

    def _parts(self, ranges: Ranges, max_pairs: int | None, max_ranges: int | None = None) -> Iterator[Ranges]:
        """Ranges in parts whose input fits the scratch memory, and their output by the numbers given."""
        room = self._in_bytes - 3 * self.parameters.beat_bytes
        most = room // (2 * _ROW_BYTES + (0 if ranges.limits is None else _LIMIT_BYTES))
        most = most if max_ranges is None else min(most, max_ranges)
        ends = np.cumsum(ranges.lengths)
        first = 0
        while first < len(ranges):
            last = min(first + most, len(ranges))
            if max_pairs is not None:
                done = int(ends[first - 1]) if first else 0
                last = min(last, max(int(np.searchsorted(ends, done + max_pairs, "right")), first + 1))
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

    def _run_ranges(
        self, operation: Operation, batch: list[Ranges], output: Callable[[Ranges], int]
    ) -> Steps[np.ndarray]:
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
                Command(
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
        yield commands
        return self._driver.read_memory(self._out, to - self._out, self.number)
