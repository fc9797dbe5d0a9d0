"""Model of the SplitJoin kernel: registers, queue, and joins over a memory, without a clock."""

from __future__ import annotations

from collections import deque
from typing import ClassVar

import numpy as np

from muntin.contract.designs.splitjoin import (
    NUMBER_BITS,
    RESULT_BYTES,
    RESULT_FIELDS,
    ROW_FLAGS,
    SUMMARY_FIELDS,
    JoinSettings,
    Order,
    SplitJoinParameters,
    row_fields,
    row_words,
    second_column,
)
from muntin.contract.registers import Command, ErrorCode, Operation
from muntin.sim.models.kernel_shell import CommandFaultError, KernelShell
from muntin.sim.models.stored_stream import StoredRows, StoredStream

_LEFT, _RIGHT = 0, 1
_BLOCK_ROWS = 256  # rows that are joined together
_BLOCK_PAIRS = 1 << 20  # comparisons that are made together
_FLAGS = {flag.name: flag.mask for flag in ROW_FLAGS}
_STAR = RESULT_FIELDS[1][1].mask
_SUMMARY = {field.name: field for word in SUMMARY_FIELDS for field in word}


class SplitJoinKernelModel(KernelShell):
    """The SplitJoin kernel and its memory, command by command. It can stand in for a board.

    Parameters
    ----------
    parameters : SplitJoinParameters
    memory_bytes : int
        Zeros at first.

    Attributes
    ----------
    parameters : SplitJoinParameters
    memory_bytes : int
    memory : ndarray of uint8, shape (memory_bytes,)
    counters : dict of str to int
        Of `muntin.contract.designs.splitjoin.SPLITJOIN`. `cycles` and both stalls stay 0, as there is no clock, and
        `compared` is that of the hardware for count windows.
    frozen : set of int
        Cores that have stopped answering; a test may put some in. From then on their pairs are missing, and each JOIN
        says so; where CORE_TIMEOUT_CYCLES is 0, a JOIN never ends.
    interrupt : bool

    Notes
    -----
    *Handshake, queue and errors* as `muntin.sim.models.kernel.KernelModel` has them, but that a JOIN which fails with
    CORE_STUCK was carried out all the same.

    *Checks*, in this order, before anything is moved: UNKNOWN_OPERATION; ZERO_LENGTH (JOIN without room for a beat of
    results); then for rows (where there are any), results and summary MISALIGNED_ADDRESS, ADDRESS_RANGE and
    DECODE_ERROR.

    *Results* come out in an order that keeps what ORDER promises and no more: between two punctuations, each core's
    pairs before those of the next one, and without order so over several hundred rows. Where the room is full, the
    rest waits for the next JOIN; no row is taken while anything waits. The hardware may have taken more rows by then,
    or fewer: only the results of all JOINs together are its.

    *Time windows*: a core drops the rows at its old end that no later row can match, when it has compared a row or a
    mark of the other stream, up to the first one that can be matched; what drops out because it is full sets
    `overflow` in every summary until CLEAR. CLEAR also drops what waits, and forgets which cores stopped answering.

    Raises
    ------
    ValueError
        As `KernelShell`.
    """

    parameters: SplitJoinParameters

    def __init__(self, parameters: SplitJoinParameters, memory_bytes: int):
        self.frozen: set[int] = set()
        self._fields = row_fields(parameters)
        self._row_words = row_words(parameters)
        super().__init__(parameters, memory_bytes)

    def _clear(self) -> None:
        p = self.parameters
        self._pending: deque[np.ndarray] = deque()
        self._dead: list[int] = []
        self._streams = tuple(StoredStream(p.cores, p.rows) for _ in range(2))

    # Commands

    def _carry_out(self, c: Command) -> None:
        if c.operation not in self._OPERATIONS:
            raise CommandFaultError(ErrorCode.UNKNOWN_OPERATION)
        self._OPERATIONS[Operation(c.operation)](self, c)

    def _nop(self, c: Command) -> None:
        pass

    def _empty_windows(self, c: Command) -> None:
        self._clear()

    def _join(self, c: Command) -> None:
        beat = self.parameters.beat_bytes
        room = c.length_b * RESULT_BYTES // beat * beat // RESULT_BYTES
        if not room:
            raise CommandFaultError(ErrorCode.ZERO_LENGTH)
        row_bytes = 4 * self._row_words
        rows_at = [(c.keys_a, c.length_a * row_bytes)] if c.length_a else []
        self._check_arrays([*rows_at, (c.keys_out, room * RESULT_BYTES), (c.rows_out, beat)])
        records = np.zeros((0, self._row_words), np.uint32)
        if c.length_a:
            records = self._view(c.keys_a, c.length_a * self._row_words, np.dtype(np.uint32)).reshape(c.length_a, -1)
        rows = _Rows(self, records)
        out: list[np.ndarray] = []
        taken = 0
        while room:
            if self._pending:
                head = self._pending.popleft()
                out.append(head[:room])
                if len(head) > room:
                    self._pending.appendleft(head[room:])
                room -= len(out[-1])
            elif taken < c.length_a:
                stop = rows.block(taken)
                self._take(rows, taken, stop)
                taken = stop
            else:
                break
        results = np.concatenate(out) if out else np.zeros((0, 2), np.uint32)
        if len(results):
            self._write(c.keys_out, results)
        self._count(taken, len(results))
        self._write(c.rows_out, self._summary(taken, len(results), all_taken=taken == c.length_a))
        if self._dead:
            raise CommandFaultError(ErrorCode.CORE_STUCK, self._dead[0])

    def _summary(self, taken: int, written: int, *, all_taken: bool) -> np.ndarray:
        state = _SUMMARY["drained"].mask * (all_taken and not self._pending)
        state |= _SUMMARY["overflow"].mask * any(stream.overflow for stream in self._streams)
        if self._dead:
            state |= _SUMMARY["incomplete"].mask | self._dead[0] << _SUMMARY["core"].lsb
        summary = np.zeros(self.parameters.beat_bytes // 4, np.uint32)
        summary[:3] = taken, written, state
        return summary

    _OPERATIONS: ClassVar = {
        Operation.NOP: _nop,
        Operation.JOIN: _join,
        Operation.CLEAR: _empty_windows,
    }

    # Joining

    def _take(self, rows: _Rows, start: int, stop: int) -> None:
        """Joins and stores some rows; their results wait."""
        if self.frozen:
            if not rows.settings.core_timeout_cycles:
                raise TimeoutError("a core has stopped answering, and CORE_TIMEOUT_CYCLES is 0")
            self._dead += sorted(self.frozen - set(self._dead))
        place = slice(start, stop)
        side, stored = rows.side[place], rows.stored[place]
        seen = np.empty((2, stop - start), np.int64)  # rows of each stream that came before
        for number, stream in enumerate(self._streams):
            own = stored & (side == number)
            seen[number] = stream.arrived + np.cumsum(own) - own
            chosen = start + np.flatnonzero(own)
            stream.append(StoredRows(*(of[chosen] for of in (rows.key, rows.number, rows.null, rows.time, rows.key_2))))
        if rows.settings.timed and self._may_move(rows, place):
            found = [self._step(rows, at, seen[:, at - start]) for at in range(start, stop)]
        else:
            probing = [np.flatnonzero((side == number) & ~rows.mark[place]) for number in (_LEFT, _RIGHT)]
            found = [self._probe(rows, n, start + at, seen[1 - n][at]) for n, at in enumerate(probing)]
        made = np.concatenate(found)
        # Rows are as they may come out together up to the first behind which a punctuation comes, of either side.
        ends = rows.ends[place]
        together = (np.cumsum(ends) - ends)[made[:, 0] - start]
        made = made[np.lexsort((made[:, 3], made[:, 0], made[:, 1], made[:, 2], together))]
        if len(made):
            self._pending.append(made[:, 4:].astype(np.uint32))

    def _may_move(self, rows: _Rows, place: slice) -> bool:
        """Whether any core may drop a row of its time window while these are joined; all are stored."""
        for number, stream in enumerate(self._streams):
            if stream.would_overflow():
                return True
            passing = rows.side[place] != number
            if passing.any() and stream.drops(rows.horizon[place][passing].max()):
                return True
        return False

    def _step(self, rows: _Rows, at: int, seen: np.ndarray) -> np.ndarray:
        """One row by itself, with what it drops."""
        number = int(rows.side[at])
        if rows.stored[at]:
            self._streams[number].make_way(int(seen[number]))
        found = np.zeros((0, 6), np.int64)
        if not rows.mark[at]:
            found = self._probe(rows, number, np.array([at]), seen[1 - number : 2 - number])
        self._streams[1 - number].expire(rows.horizon[at], int(seen[1 - number]))
        return found

    def _probe(self, rows: _Rows, number: int, probing: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """The results of rows of one stream, of which `seen` rows of the other one may be met.

        Returns
        -------
        ndarray of int64, shape (m, 6)
            Place of the row, core, place among the punctuations, block, and the two words of the result.
        """
        stream, cores = self._streams[1 - number], self.parameters.cores
        window = self.parameters.capacity if rows.settings.timed else rows.settings.windows[1 - number]
        first = np.maximum(seen - window, 0)
        group = rows.settings.every if rows.settings.order == Order.INNER else 63
        made = []
        size = max(_BLOCK_PAIRS // max(window, 1), 1)
        for start in range(0, len(probing), size):
            at, low, high = (x[start : start + size] for x in (probing, first, seen))
            lowest, highest = int(low.min()), int(high.max())
            kept = stream.between(lowest, highest)
            index = np.arange(lowest, highest)
            inside = (index >= low[:, None]) & (index < high[:, None])
            if rows.settings.timed:
                inside &= index // cores >= stream.oldest[index % cores]
            self.counters["compared"] += int(inside[~rows.null[at] | rows.settings.timed].sum())
            hits = (kept.key >= rows.lower[at][:, None]) & (kept.key <= rows.upper[at][:, None])
            hits ^= rows.settings.complement
            if self.parameters.columns > 1:
                hits &= (kept.key_2 >= rows.lower_2[at][:, None]) & (kept.key_2 <= rows.upper_2[at][:, None])
            hits &= inside & ~kept.null & ~rows.null[at][:, None]
            if rows.settings.timed:
                hits &= (kept.time >= rows.earliest[at][:, None]) & (kept.time <= rows.latest[at][:, None])
            which, place = np.nonzero(hits)
            core, block = index[place] % cores, index[place] // cores
            alive = ~np.isin(core, self._dead)
            which, place, core, block = which[alive], place[alive], core[alive], block[alive]
            word = rows.number[at][which].astype(np.int64) | number << NUMBER_BITS
            made.append(np.stack([at[which], core, 2 * (block >> group), block, word, kept.number[place]], axis=1))
        if rows.settings.order == Order.INNER:
            made.append(self._stars(rows, number, probing, first, seen, group))
        ends = probing[rows.ends[probing]]
        made.append(_stars(rows, number, ends, np.full(len(ends), np.iinfo(np.int64).max), last=True))
        return np.concatenate(made)

    def _stars(
        self, rows: _Rows, number: int, probing: np.ndarray, first: np.ndarray, seen: np.ndarray, group: int
    ) -> np.ndarray:
        """The punctuation within rows that probe: behind each whole group of blocks but the last of the window."""
        cores = self.parameters.cores
        base, end = first // cores >> group, (-(-seen // cores) - 1) >> group
        counts = np.where(rows.null[probing], 0, np.maximum(end - base, 0))
        which = np.repeat(np.arange(len(probing)), counts)
        inner = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        return _stars(rows, number, probing[which], 2 * (base[which] + inner) + 1, last=False)


def _stars(rows: _Rows, number: int, probing: np.ndarray, place: np.ndarray, *, last: bool) -> np.ndarray:
    word = rows.number[probing].astype(np.int64) | number << NUMBER_BITS
    none = np.zeros(len(probing), np.int64)
    return np.stack([probing, none, place, none, word, none | _STAR | last], axis=1)


class _Rows:
    """The rows of a JOIN, taken apart, with what they compare as the settings have it."""

    def __init__(self, kernel: SplitJoinKernelModel, records: np.ndarray):
        p = kernel.parameters
        fields = row_fields(p)

        def column(name: str) -> np.ndarray:
            at, words = fields[name]
            low = records[:, at].astype(np.uint64)
            return low if words == 1 else low | records[:, at + 1].astype(np.uint64) << np.uint64(32)

        flags = records[:, fields["flags"][0]]
        self.number = records[:, fields["row"][0]] & np.uint32((1 << NUMBER_BITS) - 1)
        self.side = (flags & _FLAGS["side"] != 0).astype(np.int8)
        self.null = flags & _FLAGS["null"] != 0
        self.mark = (flags & _FLAGS["mark"] != 0) & bool(p.time_bits)
        again = (flags & _FLAGS["again"] != 0) & bool(p.bounds)
        self.stored = ~self.mark & ~again
        more = flags & _FLAGS["more"] != 0
        self.key = column("key")
        self.time = column("time") if p.time_bits else np.zeros(len(records), np.uint64)
        self.key_2 = self.lower_2 = self.upper_2 = np.zeros(len(records), np.uint64)
        if names := second_column(p):
            self.key_2, self.lower_2, self.upper_2 = map(column, names)

        now = self.settings = JoinSettings.of_words(
            {name: kernel._values[offset] for name, offset in kernel._offsets.items()}, p
        )
        silent = {Order.NONE: np.True_, Order.OUTER: more, Order.INNER: np.False_}[now.order]
        self.ends = ~(self.mark | silent)  # rows behind whose results a punctuation comes
        if now.own_bounds:
            self.lower, self.upper = column("lower"), column("upper")
        else:
            self.lower, self.upper = self._band(self.key, now.low, now.high, p.key_bits)
        if now.timed:
            low, high = now.time_low, now.time_high
            self.earliest, self.latest = self._band(self.time, low, high, p.time_bits)
            delay = np.array(now.late, np.uint64)[self.side]
            since = np.where(self.mark, self.time, self.time - np.minimum(self.time, delay)).astype(object)
            # What is stored on the right has a time of at least `low` more than a left row that it matches.
            least = np.where(self.side == _LEFT, since + low, since - high)
            self.horizon = np.clip(least, 0, 1 << p.time_bits)

    def block(self, start: int) -> int:
        """Where rows that are taken together end: marks and others never are, as marks alone drop much."""
        marks = self.mark[start : start + _BLOCK_ROWS]
        other = marks != marks[0]
        return start + (int(other.argmax()) if other.any() else len(marks))

    def _band(self, values: np.ndarray, low: int, high: int, bits: int) -> tuple[np.ndarray, np.ndarray]:
        """The least and the greatest number that each value's partner may have; turned round where there is none."""
        exact, most = values.astype(object), (1 << bits) - 1
        lower = np.where(self.side == _LEFT, exact + low, exact - high)
        upper = np.where(self.side == _LEFT, exact + high, exact - low)
        none = ((upper < 0) | (lower > most)).astype(bool)
        lower, upper = (np.clip(ends, 0, most).astype(np.uint64) for ends in (lower, upper))
        lower[none], upper[none] = most, 0
        return lower, upper
