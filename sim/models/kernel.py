"""Model of a kernel: registers, queue and commands over a memory, without a clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from muntin.contract.designs.bisort import Parameters
from muntin.contract.registers import RUN_PLACES, Command, ErrorCode, Operation
from muntin.sim.models.kernel_shell import CommandFaultError, KernelShell

_ROW = np.dtype(np.uint32)
_BLOCK_CANDIDATES = 1 << 22  # row numbers looked at together


class KernelModel(KernelShell):
    """A kernel and its memory, command by command. It can stand in for a board: it has all of a `BoardLink`.

    Parameters
    ----------
    parameters : Parameters
    memory_bytes : int
        On all channels together, each an equal share from the start of its addresses; zeros at first.

    Attributes
    ----------
    parameters : Parameters
    memory_bytes : int
    memory : ndarray of uint8, shape (memory_bytes,)
        The channels' memories, one behind the other.
    counters : dict of str to int
        The counters of `muntin.contract.registers`, by name. All of `commands`, `rows_in`, `rows_out`, `partitions`,
        `read_beats` and `write_beats` are those of the hardware where no command failed; as there is no clock, the
        others stay 0.
    interrupt : bool
        The interrupt line.
    buffered_rows : int
        Rows in the insertion buffer.

    Notes
    -----
    *Handshake.* Everything happens within the register write that causes it. A start is taken at once, which sets
    ready, and the queue is worked off, which sets done; so does a start when the queue is empty, or when ERROR_CODE
    is not 0 and so nothing is begun. With auto_restart a command is carried out when its last word is pushed, and
    done is set each time; setting auto_restart works off what waits. idle is always 1. An interrupt is noted in
    INTERRUPT_STATUS only where it is enabled.

    *Queue.* ``queue_rows`` commands. A command that is pushed in part has its place already. If the first word of a
    command finds no room, all its words are dropped, and QUEUE_OVERFLOW is reported, with 0 for ERROR_COMMAND; that
    alone does not set done.

    *Errors.* A command that fails sets ERROR_CODE, ERROR_COMMAND (its tag) and ERROR_ADDRESS (the start of the array
    at fault, 0 where it is none) unless ERROR_CODE was set before, leaves the queue, is not counted as completed, and
    sets done. Nothing is begun from then on until ERROR_CODE is written. That sets it, ERROR_COMMAND and
    ERROR_ADDRESS to 0 and empties the queue, a command that was pushed in part included. A failed command leaves
    memory, index and insertion buffer here as they were; the hardware may have written a part.

    *Checks*, in this order, before anything is moved:

    1. UNKNOWN_OPERATION. NOP is known, and completes.
    2. ZERO_LENGTH: a length that the operation uses is 0: length_a, and for MERGE, PROBE, GATHER and COUNT length_b; or
       a PROBE without `buffer` names no run. Here and below, a GATHER or COUNT with the flag `probe` is checked as a
       PROBE, but for its output.
    3. RUN_TOO_LONG: more than ``index_rows << k`` rows in length_a (INDEX, GATHER, COUNT) or length_a + length_b
       (MERGE).
    4. BUFFER_ROWS: INSERT of more rows than there is room for; with the flag `buffer`, length_b (MERGE) or length_a
       (PROBE, GATHER, COUNT) is not the number of rows in the buffer.
    5. BAD_INDEX: INDEX, and the index would end behind ``index_rows``, or there is no such place; PROBE without
       `buffer`, and at one of the places no index was loaded.
    6. For each array in the order of the fields: MISALIGNED_ADDRESS, then ADDRESS_RANGE where it would end beyond its
       channel's addresses. Only arrays that the command has are looked at: those that the flag `buffer` replaces, and
       limits without the flag `limits`, are not. INDEX has the keys and the row numbers of its run. GATHER's pairs and
       PROBE's ranges count as one beat here, where the command does not say how many there is room for.
    7. DECODE_ERROR: an array, in the same order, ends where there is no memory.

    Then, on the way:

    - BAD_RANGE (GATHER, COUNT): ``start > stop`` or ``stop > length_a``.
    - ADDRESS_RANGE, DECODE_ERROR: so many pairs or ranges that they pass the end; the address is that of their array.
    - What the memory answers to limits of a GATHER or COUNT with `probe` has the address of `keys_b`.
    - STUCK: runs of a MERGE, or lower or upper keys of a PROBE, that do not ascend. Here always; the hardware may also
      give wrong results. Runs and indexes that are probed are not looked at.

    *Operations.* Keys are compared as unsigned numbers, where `signed` is set after their top bit was inverted. Arrays
    that are written must not overlap arrays of the same command. Bytes behind the end of an array stay as they are.

    - MERGE writes the ascending run of both and, as its index, the key of every 2**k-th row. The order of equal keys
      is not specified; here older rows come first. With `buffer` the newer run is the insertion buffer, which is then
      empty.
    - INDEX loads the index of a run to entry `index_out` on chip, and notes at place `length_b` where its keys and its
      row numbers are. All stay there, through commands of any kind, until another index is loaded over it or to that
      place.
    - PROBE: start = keys below ``sat(lower + low_offset)``, stop = keys below ``sat(upper + high_offset)``, where the
      key has its top bit inverted if `signed`, and sat goes to 0..2**key_bits. Only the low ``key_bits + 2`` bits of
      an offset count. The ranges with start < stop are written: number of the probe, place of the run, start and stop;
      those of the first ``bound_rows / 2`` probes, run by run in the order of the places, then those of the next ones;
      and then a beat with their number, as by GATHER. Each partition of a run that any bound of these probes falls
      into is read once for them. All runs lie in one memory channel, which that of the address `rows_a` is. With
      `buffer` the run is the insertion buffer, at place 0, and no index is looked at.
    - GATHER writes a pair of uint32, number of the range and row number, for each position of each range, in the order
      of the ranges, positions ascending; with `limits` only where ``(row - first) mod 2**32 < span``. Then it writes
      one beat to rows_out: the number of pairs in its low 64 bits (all bits, where a beat has but 32), else zeros.
    - COUNT writes the number of such pairs of each range, uint32.
    - With the flag `probe`, both take the ranges that a PROBE of the same fields finds, from one block to the other on
      chip, and the limits of a probe for its ranges in all runs. GATHER numbers pairs by the probe. Without `buffer` it
      has room for `length_a` pairs, of which whole beats are used: what has no room is dropped, and then all bits of
      the number are set. COUNT writes one number for each probe, of all runs. Row numbers lie in the channel of the
      keys.
    - INSERT takes rows, in any order, into the insertion buffer, which stays in order of the keys, of equal ones the
      older first. Its keys are kept with the top bit inverted if `signed`; who reads them must use the same flag.
    - COPY copies bytes.
    - DISCARD empties the insertion buffer. It has no arrays, and lengths and flags do not matter.

    *Counters.* rows_in and rows_out of a MERGE: all rows; of a PROBE: 2 * length_b bounds and its ranges; of a
    GATHER: ranges and pairs; of a COUNT: ranges and counts; of both with `probe` bounds in place of ranges; of an
    INSERT: rows and none; of the others: none.
    partitions: those that are probed. A GATHER, and a COUNT with `limits`, reads all beats of row numbers that a
    range touches, again for each range. Every word HIGH is that of the counter whose word LOW was read last, at that
    moment.

    Raises
    ------
    ValueError
        If the memory does not fit the address space, or has no equal share of whole beats for each channel.
    """

    def __init__(self, parameters: Parameters, memory_bytes: int):
        self._key_type = np.dtype(np.uint32 if parameters.key_bits == 32 else np.uint64)
        self._signed_type = np.dtype(np.int32 if parameters.key_bits == 32 else np.int64)
        self._top = self._key_type.type(1 << (parameters.key_bits - 1))
        super().__init__(parameters, memory_bytes)

    def _clear(self) -> None:
        # Of each run: address of keys, rows, first entry of its index, address of row numbers.
        self._indexed: dict[int, tuple[int, int, int, int]] = {}
        self._index = np.zeros(self.parameters.index_rows, self._key_type)  # with the top bit inverted if signed
        self._buffer_keys = np.zeros(0, self._key_type)  # the same
        self._buffer_rows = np.zeros(0, np.uint32)

    @property
    def buffered_rows(self) -> int:
        return len(self._buffer_rows)

    def _carry_out(self, c: Command) -> None:
        self._check(c)
        self._OPERATIONS[Operation(c.operation)](self, c)

    # Checks

    def _check(self, c: Command) -> None:
        p = self.parameters
        if c.operation not in self._OPERATIONS:
            raise CommandFaultError(ErrorCode.UNKNOWN_OPERATION)
        operation = Operation(c.operation)
        merge, probe = operation is Operation.MERGE, _probes(c)
        ranges = operation in (Operation.GATHER, Operation.COUNT) and not probe
        index = operation is Operation.INDEX
        runs = probe and not c.buffer
        unused = operation in (Operation.NOP, Operation.DISCARD) or (runs and operation is not Operation.GATHER)
        if not unused and not c.length_a:
            raise CommandFaultError(ErrorCode.ZERO_LENGTH)
        if ((merge or probe or ranges) and not c.length_b) or (runs and not c.keys_a):
            raise CommandFaultError(ErrorCode.ZERO_LENGTH)
        rows = c.length_a + c.length_b if merge else c.length_a if index or ranges else 0
        if rows > p.run_rows:
            raise CommandFaultError(ErrorCode.RUN_TOO_LONG)
        held = len(self._buffer_keys)
        if operation is Operation.INSERT and held + c.length_a > p.buffer_rows:
            raise CommandFaultError(ErrorCode.BUFFER_ROWS)
        if c.buffer and ((merge and c.length_b != held) or ((probe or ranges) and c.length_a != held)):
            raise CommandFaultError(ErrorCode.BUFFER_ROWS)
        if index and (c.index_out + self._entries(c.length_a) > p.index_rows or c.length_b >= RUN_PLACES):
            raise CommandFaultError(ErrorCode.BAD_INDEX)
        if runs and not set(_places_of(c.keys_a)) <= set(self._indexed):
            raise CommandFaultError(ErrorCode.BAD_INDEX)
        self._check_arrays(list(self._arrays(c)))

    def _arrays(self, c: Command) -> Iterator[tuple[int, int]]:
        """Address and bytes of each array of a command, in the order of the fields."""
        key, row = self.parameters.key_bits // 8, 4
        a, b, both = c.length_a, c.length_b, c.length_a + c.length_b
        match c.operation:
            case Operation.COPY:
                yield from ((c.keys_a, a), (c.keys_out, a))
            case Operation.INSERT:
                yield from ((c.keys_a, a * key), (c.rows_a, a * row))
            case Operation.MERGE:
                yield from ((c.keys_a, a * key), (c.rows_a, a * row))
                if not c.buffer:
                    yield from ((c.keys_b, b * key), (c.rows_b, b * row))
                yield from ((c.keys_out, both * key), (c.rows_out, both * row))
                yield c.index_out, self._entries(both) * key
            case Operation.INDEX:
                yield from ((c.keys_a, a * key), (c.rows_a, self._entries(a) * key), (c.keys_b, a * row))
            case Operation.GATHER | Operation.COUNT if c.probe:
                yield from ((c.keys_b, b * key), (c.rows_b, b * key))
                if c.operation == Operation.COUNT:
                    yield c.keys_out, b * 4
                else:
                    yield c.keys_out, self.parameters.beat_bytes if c.buffer else a * 8
                    yield c.rows_out, self.parameters.beat_bytes
                if c.limits:
                    yield c.index_out, b * 8
            case Operation.PROBE:
                beat = self.parameters.beat_bytes
                yield from ((c.keys_b, b * key), (c.rows_b, b * key), (c.keys_out, beat), (c.rows_out, beat))
            case Operation.GATHER | Operation.COUNT:
                if c.limits:
                    yield c.keys_a, b * 8
                if not c.buffer:
                    yield c.rows_a, a * row
                yield from ((c.keys_b, b * 4), (c.rows_b, b * 4))
                if c.operation == Operation.COUNT:
                    yield c.keys_out, b * 4
                else:
                    yield from ((c.keys_out, self.parameters.beat_bytes), (c.rows_out, self.parameters.beat_bytes))

    def _entries(self, rows: int) -> int:
        """Index entries of a run."""
        return -(-rows >> self.parameters.partition_log2)

    # Arrays

    def _kind(self, c: Command) -> np.dtype:
        """The type under which keys in memory are in order."""
        return self._signed_type if c.signed else self._key_type

    def _as_kind(self, keys: np.ndarray, c: Command) -> np.ndarray:
        """Keys with their top bit inverted if signed, as they lie in memory; and the other way round."""
        return (keys.view(self._key_type) ^ self._top).view(self._signed_type) if c.signed else keys

    # Operations

    def _nop(self, c: Command) -> None:
        pass

    def _copy(self, c: Command) -> None:
        self._write(c.keys_out, self._view(c.keys_a, c.length_a, np.dtype(np.uint8)).copy())

    def _insert(self, c: Command) -> None:
        new = self._view(c.keys_a, c.length_a, self._key_type)
        keys = np.concatenate([self._buffer_keys, new ^ self._top if c.signed else new])
        rows = np.concatenate([self._buffer_rows, self._view(c.rows_a, c.length_a, _ROW)])
        order = np.argsort(keys, kind="stable")
        self._buffer_keys, self._buffer_rows = keys[order], rows[order]
        self._count(c.length_a, 0)

    def _discard(self, c: Command) -> None:
        self._buffer_keys, self._buffer_rows = self._buffer_keys[:0], self._buffer_rows[:0]

    def _merge(self, c: Command) -> None:
        kind, row = self._kind(c), _ROW
        keys_a, rows_a = self._view(c.keys_a, c.length_a, kind), self._view(c.rows_a, c.length_a, row)
        if c.buffer:
            keys_b, rows_b = self._as_kind(self._buffer_keys, c), self._buffer_rows
        else:
            keys_b, rows_b = self._view(c.keys_b, c.length_b, kind), self._view(c.rows_b, c.length_b, row)
        if not _ascends(keys_a) or not _ascends(keys_b):
            raise CommandFaultError(ErrorCode.STUCK)
        both = c.length_a + c.length_b
        place = np.searchsorted(keys_a, keys_b, "right") + np.arange(c.length_b)
        older = np.ones(both, bool)
        older[place] = False
        keys, rows = np.empty(both, kind), np.empty(both, row)
        keys[place], keys[older] = keys_b, keys_a
        rows[place], rows[older] = rows_b, rows_a
        self._write(c.keys_out, keys)
        self._write(c.rows_out, rows)
        self._write(c.index_out, np.ascontiguousarray(keys[:: self.parameters.partition_rows]))
        if c.buffer:
            self._discard(c)
        self._count(both, both)

    def _load_index(self, c: Command) -> None:
        keys = self._as_kind(self._view(c.rows_a, self._entries(c.length_a), self._kind(c)), c)
        self._index[c.index_out : c.index_out + len(keys)] = keys.view(self._key_type)
        self._indexed[c.length_b] = c.keys_a, c.length_a, c.index_out, c.keys_b

    def _probe(self, c: Command) -> None:
        self._write_counted(c, self._found(c))

    def _found(self, c: Command) -> np.ndarray:
        """The ranges of a PROBE that are not empty, uint32, shape (n, 4): probe, place, start and stop."""
        kind = self._kind(c)
        lower = self._bounds(self._view(c.keys_b, c.length_b, kind), c.low_offset, c)
        upper = self._bounds(self._view(c.rows_b, c.length_b, kind), c.high_offset, c)
        places = [0] if c.buffer else _places_of(c.keys_a)
        parts = []
        for first in range(0, c.length_b, self.parameters.probe_rows):
            part = slice(first, min(first + self.parameters.probe_rows, c.length_b))
            ends = [(values[part], above[part]) for values, above in (lower, upper)]
            for place in places:
                if c.buffer:
                    starts, stops = (_below(self._as_kind(self._buffer_keys, c), end) for end in ends)
                else:
                    starts, stops = self._positions(c, place, ends)
                some = np.flatnonzero(starts < stops)
                found = np.full((len(some), 4), place, np.uint32)
                found[:, 0], found[:, 2], found[:, 3] = first + some, starts[some], stops[some]
                parts.append(found)
        return np.concatenate(parts)

    def _positions(
        self, c: Command, place: int, ends: list[tuple[np.ndarray, np.ndarray]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where some probes start and stop in the run at a place, whose partitions are read for them."""
        p = self.parameters
        kind = self._kind(c)
        address, rows, entry, _ = self._indexed[place]
        at = self._place_in_channel(c, address, rows * kind.itemsize)
        keys = self.memory[at : at + rows * kind.itemsize].view(kind)
        index = self._as_kind(self._index[entry : entry + self._entries(rows)], c)
        found, touched = [], []
        for end in ends:
            partition = _below(index, end) - 1
            first = partition << p.partition_log2
            position = np.clip(_below(keys, end), first, np.minimum(first + p.partition_rows, rows))
            found.append(np.where(partition < 0, 0, position))
            touched.append(partition[partition >= 0])
        read = np.unique(np.concatenate(touched))
        self.counters["partitions"] += len(read)
        lengths = np.clip(rows - (read << p.partition_log2), 0, p.partition_rows) * kind.itemsize
        self.counters["read_beats"] += int((-(-lengths // p.beat_bytes)).sum())
        return found[0], found[1]

    def _place_in_channel(self, c: Command, address: int, length: int) -> int:
        """Where an array of a run lies in `memory`: in the channel that the command says."""
        channel = c.rows_a % (1 << self.parameters.address_bits) // self._channel_space
        at = self._place(address % self._channel_space + channel * self._channel_space, length)
        assert at is not None
        return at

    def _write_counted(self, c: Command, found: np.ndarray) -> None:
        """Writes pairs or ranges, and then their number; with `probe`, as many pairs as there is room for."""
        dropped = False
        if _probes(c) and c.operation == Operation.GATHER and not c.buffer:
            room = c.length_a * 8 // self.parameters.beat_bytes * self.parameters.beat_bytes // 8
            found, dropped = found[:room], len(found) > room
        if len(found):
            if not self._in_space(c.keys_out, found.nbytes):
                raise CommandFaultError(ErrorCode.ADDRESS_RANGE, c.keys_out)
            if self._place(c.keys_out, found.nbytes) is None:
                raise CommandFaultError(ErrorCode.DECODE_ERROR, c.keys_out)
            self._write(c.keys_out, found)
        beat = self.parameters.beat_bytes
        number = ((1 << 64) - 1 if dropped else len(found)).to_bytes(max(beat, 8), "little")[:beat]
        self._write(c.rows_out, np.frombuffer(number, np.uint8))
        self._count(2 * c.length_b if _probes(c) else c.length_b, len(found))

    def _bounds(self, keys: np.ndarray, offset: int, c: Command) -> tuple[np.ndarray, np.ndarray]:
        """``sat(key + offset)`` as keys lie in memory, and where it is 2**key_bits, above every key."""
        if not _ascends(keys):
            raise CommandFaultError(ErrorCode.STUCK)
        plain = self._as_kind(keys, c).view(self._key_type)
        all_keys = 1 << self.parameters.key_bits
        if offset >= all_keys:
            above = np.ones(len(plain), bool)
        elif offset >= 0:
            total = plain + self._key_type.type(offset)
            above = total < plain
            plain = total
        else:
            above = np.zeros(len(plain), bool)
            step = min(-offset, all_keys - 1)
            # From 2**key_bits - 1 on, every key but the greatest goes to 0, and that one too from 2**key_bits on.
            plain = plain - np.minimum(plain, self._key_type.type(step))
            if -offset >= all_keys:
                plain = np.zeros_like(plain)
        return self._as_kind(plain, c), above

    def _ranges(self, c: Command) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        """Of each range number, start and length, int64, and limits, if there are any; and what the starts are in: row
        numbers, uint32."""
        if _probes(c):
            found = self._found(c)
            probes, places, starts, stops = found.astype(np.int64).T
            limits = self._view(c.index_out, 2 * c.length_b, _ROW).reshape(-1, 2)[probes] if c.limits else None
            if c.buffer:
                return probes, starts, stops - starts, self._buffer_rows, limits
            bases = np.zeros(RUN_PLACES, np.int64)
            for at in _places_of(c.keys_a):
                _, length, _, address = self._indexed[at]
                bases[at] = self._place_in_channel(c, address, length * 4) // 4
            numbers = self.memory[: self.memory_bytes // 4 * 4].view(_ROW)
            return probes, bases[places] + starts, stops - starts, numbers, limits
        starts = self._view(c.keys_b, c.length_b, _ROW).astype(np.int64)
        stops = self._view(c.rows_b, c.length_b, _ROW).astype(np.int64)
        if ((starts > stops) | (stops > c.length_a)).any():
            raise CommandFaultError(ErrorCode.BAD_RANGE)
        limits = self._view(c.keys_a, 2 * c.length_b, _ROW).reshape(-1, 2) if c.limits else None
        rows = self._buffer_rows
        if not c.buffer:
            place = self._place(c.rows_a, c.length_a * 4)
            assert place is not None
            rows = self.memory[place : place + c.length_a * 4].view(_ROW)
        return np.arange(c.length_b), starts, stops - starts, rows, limits

    def _candidates(
        self,
        c: Command,
        numbers: np.ndarray,
        starts: np.ndarray,
        lengths: np.ndarray,
        rows: np.ndarray,
        limits: np.ndarray | None,
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Number and row number of what lies in the `_ranges` and within the limits, in blocks."""
        if not c.buffer:
            width = self.parameters.rows_per_beat
            beats = -(-(starts + lengths) // width) - starts // width
            self.counters["read_beats"] += int(beats[lengths > 0].sum())
        ends = np.cumsum(lengths)
        first = 0
        while first < len(lengths):
            done = int(ends[first - 1]) if first else 0
            last = max(int(np.searchsorted(ends, done + _BLOCK_CANDIDATES, "right")), first + 1)
            part = lengths[first:last]
            which = np.repeat(np.arange(first, last), part)
            before = ends[first:last] - part - done
            found = rows[np.arange(len(which)) + np.repeat(starts[first:last] - before, part)]
            if limits is not None:
                inside = found - limits[which, 0] < limits[which, 1]
                which, found = which[inside], found[inside]
            yield numbers[which], found
            first = last

    def _gather(self, c: Command) -> None:
        parts = [np.zeros((0, 2), np.uint32)]
        for which, rows in self._candidates(c, *self._ranges(c)):
            pairs = np.empty((len(which), 2), np.uint32)
            pairs[:, 0], pairs[:, 1] = which, rows
            parts.append(pairs)
        self._write_counted(c, np.concatenate(parts))

    def _count_pairs(self, c: Command) -> None:
        numbers, starts, lengths, rows, limits = self._ranges(c)
        counts = np.zeros(c.length_b, np.int64)
        if limits is None:  # at most 2**40 rows of all runs: exact in float64
            counts += np.bincount(numbers, lengths, c.length_b).astype(np.int64)
        else:
            for which, _ in self._candidates(c, numbers, starts, lengths, rows, limits):
                counts += np.bincount(which, minlength=c.length_b)
        self._write(c.keys_out, counts.astype(np.uint32))
        self._count(2 * c.length_b if _probes(c) else c.length_b, c.length_b)

    _OPERATIONS: ClassVar = {
        Operation.NOP: _nop,
        Operation.COPY: _copy,
        Operation.MERGE: _merge,
        Operation.PROBE: _probe,
        Operation.GATHER: _gather,
        Operation.COUNT: _count_pairs,
        Operation.INSERT: _insert,
        Operation.DISCARD: _discard,
        Operation.INDEX: _load_index,
    }


def _probes(c: Command) -> bool:
    """Whether a command looks for probes in runs."""
    return c.operation == Operation.PROBE or (c.operation in (Operation.GATHER, Operation.COUNT) and c.probe)


def _places_of(runs: int) -> list[int]:
    """The places that a PROBE names, ascending."""
    return [place for place in range(RUN_PLACES) if runs >> place & 1]


def _ascends(keys: np.ndarray) -> bool:
    return bool((keys[:-1] <= keys[1:]).all())


def _below(keys: np.ndarray, bound: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Keys below each bound, int64."""
    values, above = bound
    return np.where(above, len(keys), np.searchsorted(keys, values, "left"))
