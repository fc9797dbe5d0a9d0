"""Pairs of row numbers as the result that was asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from muntin.host.aggregates.folds import merged_aggregates
from muntin.host.aggregates.plan import AggregatePlan
from muntin.host.call import Aggregates, Counts, Found, OrderedPairs, Pairs, Punctuation, Ranges, RunEvents
from muntin.host.engine.as_of_engine import AsOfEngine, SlotLog
from muntin.host.engine.engine import PAIR_BYTES, beyond_memory
from muntin.host.engine.row_log import RowLog, empty_table
from muntin.host.errors import ResultTooLargeError
from muntin.host.join.match_bits import MatchBits
from muntin.host.join.range_mirror import RUNS
from muntin.host.join.sequencer import SequencedCall
from muntin.host.keys import kept_types
from muntin.host.sides import OTHER, SIDES, Side, Sides
from muntin.host.spec import COUNTS_SCHEMA, RANGES_SCHEMA, JoinSpec, OutputColumn
from muntin.host.windows.time_axis import reached_times

if TYPE_CHECKING:
    from muntin.host.memory import Memory

_NONE = np.zeros(0, np.int64)


class Materializer:
    """Turns what an engine finds into rows, pairs or counts, in the order of the specification.

    Outer, semi and anti joins know by `bits` which rows have met a partner.

    Parameters
    ----------
    spec : JoinSpec
    schema : pyarrow.Schema
        Of the result.
    columns : list of (side, name, name in the result)
        Of a result of rows, as `JoinSpec.output_columns` gives them.
    logs : dict of str to RowLog
        The rows of each side whose columns are in the result, for ``form="rows"``.
    first_row : dict of str to int
        Arrival number of the first row of each stream that comes.
    memory : Memory
        What is free of it limits a table.
    within : tuple of int, optional
        Bounds of right less left time, in the unit of encoded times, for ``form="ranges"``.
    plan : AggregatePlan, optional
        For ``form="aggregate"``.

    Attributes
    ----------
    bits : dict of str to MatchBits
        Of each side whose rows come out by whether they have matched.
    """

    def __init__(
        self, spec: JoinSpec, schema: pa.Schema, columns: list[OutputColumn], logs: Sides[RowLog],
        first_row: Sides[int], memory: Memory, within: tuple[int, int] | None = None,
        plan: AggregatePlan | None = None,
    ):  # fmt: skip
        self._spec = spec
        self._plan = plan
        self._schema = schema
        self._columns = columns
        self._logs = logs
        self._memory = memory
        self._within = within
        self._sides = SIDES[:1] if spec.left_alone else SIDES  # whose columns the result has
        self.bits: Sides[MatchBits] = {}
        for side in spec.tracked:
            count = getattr(spec, side).count if spec.counted else None
            self.bits[side] = MatchBits(first_row[side], count, placed=spec.how == "full")

    def result(self, found: list[Found], call: SequencedCall) -> tuple[pa.Table, int]:
        """The result of a call with neither rows nor pairs, and how many pairs it counts."""
        if self._spec.form == "counts":
            return self._counts([part for part in found if isinstance(part, Counts)], call)
        if self._spec.form == "aggregate":
            aggregates = [part for part in found if isinstance(part, Aggregates)]
            if self._spec.closing:
                return self._closed(aggregates, call.never["left"])
            return self._aggregates(aggregates, call)
        return self._ranges([part for part in found if isinstance(part, Ranges)], call)

    def blocks(self, call: SequencedCall, block_bytes: int | None) -> PairBlocks:
        """What makes the result of a call out of its pairs; see `PairBlocks`. The logs hold the rows of the call."""
        for side, bits in self.bits.items():
            bits.add(call.batches[side], call.other_position[side])
        return PairBlocks(self, call, block_bytes, self._memory)

    def load(self, call: SequencedCall, matched: Sides[np.ndarray]) -> None:
        """Repeats what a call of an earlier process has changed: `matched` are the rows that it has matched."""
        for side, bits in self.bits.items():
            bits.add(call.batches[side], call.other_position[side])
            bits.match(matched[side])
            bits.expire(call.batches[side], call.expiry[side])

    def rest(self, found: list[Found]) -> tuple[pa.Table, int]:
        """At the end of both streams: the rows that have not matched, and what the engine has `found` of those
        that waited; and how many pairs these count."""
        if self._spec.closing:
            return self._closed([part for part in found if isinstance(part, Aggregates)])
        gone = {side: bits.rest() for side, bits in self.bits.items()}
        if not self._spec.unmatched:
            return self.nothing, 0
        return self.whole_table({side: [part] for side, part in self._by_place(gone).items()}), 0

    # Pairs

    @property
    def ordered(self) -> bool:
        """Whether pairs come out in an order."""
        return self._spec.order != "none"

    def chosen(self, group: list[Pairs | OrderedPairs], call: SequencedCall) -> tuple[Sides[list[np.ndarray]], int]:
        """The row numbers that come out for some pairs, in the order of the specification, by side; and how many pairs
        there are."""
        pairs = [part for part in group if isinstance(part, Pairs)]
        parts = {side: [getattr(part, side) for part in group if isinstance(part, OrderedPairs)] for side in SIDES}
        for side in SIDES:
            parts[side] += [part.probing if part.side == side else part.stored for part in pairs]
        matches = sum(map(len, parts["left"]))
        if self._spec.how != "left_semi":
            for side, bits in self.bits.items():
                for part in parts[side]:
                    bits.match(part)
        if self._spec.anti:
            return {side: [] for side in SIDES}, matches
        parts = self._in_order(parts, pairs, matches, call)
        if self._spec.how == "left_semi":
            rows = np.concatenate([_NONE, *parts["left"]])
            parts = {"left": [rows[self.bits["left"].match_first(rows)]], "right": []}
        return parts, matches

    def _in_order(
        self, parts: Sides[list[np.ndarray]], pairs: list[Pairs], matches: int, call: SequencedCall
    ) -> Sides[list[np.ndarray]]:
        """The row numbers of the pairs, in the order of the specification."""
        if self._spec.order == "none" or not pairs or matches < 2:
            return parts
        rows = {side: np.concatenate(p) for side, p in parts.items()}
        order = self._order(rows, pairs, call)
        return {side: [r[order]] for side, r in rows.items()}

    # Unmatched rows

    def unmatched(self, call: SequencedCall) -> Sides[np.ndarray]:
        """The row numbers of the rows that from this call on can match nothing, -1 for the other side's."""
        gone = {}
        for side, bits in self.bits.items():
            rows, places = bits.expire(call.batches[side], call.expiry[side])
            never = call.never[side]
            if len(never):
                rows = np.concatenate([rows, never])
                places = rows if self._spec.how != "full" else np.concatenate(
                    [places, never + call.other_position[side][never - call.first[side]]]
                )  # fmt: skip
            gone[side] = rows, places
        return self._by_place(gone) if self._spec.unmatched else {}

    def _by_place(self, gone: Sides[tuple[np.ndarray, np.ndarray]]) -> Sides[np.ndarray]:
        """Rows of each side and their places in the order of arrival, as the row numbers of results in that order."""
        order = np.argsort(np.concatenate([places for _, places in gone.values()]), kind="stable")
        columns = {}
        for side in SIDES:
            rows = [own if side == of else np.full(len(own), -1) for of, (own, _) in gone.items()]
            columns[side] = np.concatenate(rows)[order]
        return columns

    # The result

    @property
    def nothing(self) -> pa.Table:
        """A result of no rows."""
        return empty_table(self._schema)

    @property
    def form(self) -> str:
        """As of `JoinSpec`."""
        return self._spec.form

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides whose columns the result has."""
        return self._sides

    def row_bytes(self, rows: Sides[np.ndarray]) -> np.ndarray | int:
        """Bytes of each row of the result that has these row numbers, int64, shape (n,); a number where all have the
        same."""
        if self._spec.form == "pairs":
            return 8 * len(self._sides)
        return sum((self._logs[side].row_bytes(rows[side]) for side in self._sides if side in self._logs), start=1)

    def whole_table(self, parts: Sides[list[np.ndarray]]) -> pa.Table:
        """As `table`, of all that a call gives. Raises ResultTooLargeError where there is no room for it."""
        if self._spec.form == "pairs":
            count = sum(map(len, parts[self._sides[0]]))
            check_room(self._memory, count, 8 * count * len(self._sides))
        else:
            check_rows(self._memory, self._logs, {side: parts[side] for side in self._sides if side in self._logs})
        return self.table(parts)

    def table(self, parts: Sides[list[np.ndarray]]) -> pa.Table:
        """Rows or pairs of these row numbers; -1 stands for NULLs."""
        if self._spec.form == "pairs":
            numbers = _numbers if self._spec.unmatched else pa.array
            count = sum(map(len, parts[self._sides[0]]))
            if 8 * count <= kept_types.MAX_CHUNK_BYTES:
                parts = {side: [_whole(parts[side])] for side in self._sides}
            columns = [pa.chunked_array([numbers(part) for part in parts[side]], pa.int64()) for side in self._sides]
            return pa.table(columns, schema=self._schema)
        taken: dict[tuple[str, str], pa.ChunkedArray] = {}
        for side in self._sides:
            names = [name for of, name, _ in self._columns if of in (side, "both")]
            if not names:
                continue
            rows = _whole(parts[side])
            for name, column in zip(names, self._logs[side].take(rows, names), strict=True):
                taken[side, name] = column
        for of, name, _ in self._columns:
            if of == "both":
                taken[of, name] = kept_types.first_known(taken["left", name], taken["right", name])
        return pa.table([taken[of, name] for of, name, _ in self._columns], schema=self._schema)

    def _order(self, rows: Sides[np.ndarray], pairs: list[Pairs], call: SequencedCall) -> np.ndarray:
        """Indices that sort the pairs by probing row, then by stored row."""
        if self._spec.self_join:
            place = np.maximum(rows["left"], rows["right"])
            stored = np.minimum(rows["left"], rows["right"])
            return np.lexsort((rows["right"] > rows["left"], stored, place))
        # A row's place in the total order is its own number plus the rows of the other stream before it.
        places = [part.probing + call.other_position[part.side][part.probing - call.first[part.side]] for part in pairs]
        place, stored = np.concatenate(places), np.concatenate([part.stored for part in pairs])
        place, stored = place - place.min(), stored - stored.min()
        if int(place.max()) < 1 << 31 and int(stored.max()) < 1 << 32:
            return np.argsort((place << 32) | stored)
        return np.lexsort((stored, place))

    def _counts(self, found: list[Counts], call: SequencedCall) -> tuple[pa.Table, int]:
        if len(call.itself):
            found = [*found, Counts("right", call.itself, np.ones(len(call.itself), np.int64))]
        sides, numbers, totals, places = [], [], [], []
        for side in SIDES:
            base, n = call.first[side], call.arrived[side] - call.first[side]
            total = np.zeros(n, np.int64)
            for part in found:
                if part.side == side:
                    total[part.probing - base] += part.counts
            rows = np.arange(base, base + n, dtype=np.int64)
            sides.append(np.full(n, SIDES.index(side), np.int8))
            numbers.append(rows)
            totals.append(total)
            places.append(rows + call.other_position[side])
        order = np.argsort(np.concatenate(places), kind="stable")
        names = pa.DictionaryArray.from_arrays(pa.array(np.concatenate(sides)[order]), pa.array(SIDES))
        total = np.concatenate(totals)
        columns = [names.cast(pa.string()), pa.array(np.concatenate(numbers)[order]), pa.array(total[order])]
        return pa.table(columns, schema=COUNTS_SCHEMA), int(total.sum())

    # Aggregates

    def _totals(self, side: Side, found: list[Aggregates], rows: np.ndarray) -> tuple[list[pa.Array], int]:
        """The columns of aggregates of rows of one side, ascending, and how many pairs they count."""
        assert self._plan is not None
        own = [part for part in found if part.side == side]
        whole = merged_aggregates(side, own, self._plan.found[OTHER[side]], rows, self._plan.ranks[OTHER[side]])
        columns = self._plan.columns(side, whole.counts, whole.results, self._logs.get(OTHER[side]))
        return columns, int(whole.counts.sum())

    def _aggregates(self, found: list[Aggregates], call: SequencedCall) -> tuple[pa.Table, int]:
        """A row for each of the call, by place in the order of arrival."""
        tables, places, matches = [], [], 0
        for side in SIDES:
            rows = np.arange(call.first[side], call.arrived[side], dtype=np.int64)
            columns, met = self._totals(side, found, rows)
            names = pa.DictionaryArray.from_arrays(
                pa.array(np.full(len(rows), SIDES.index(side), np.int8)), pa.array(SIDES)
            )
            tables.append(pa.table([names.cast(pa.string()), pa.array(rows), *columns], schema=self._schema))
            places.append(rows + call.other_position[side])
            matches += met
        order = np.argsort(np.concatenate(places), kind="stable")
        log = RowLog("result", self._schema)
        log.append(0, kept_types.kept(pa.concat_tables(tables)))
        return pa.table(log.take(order, self._schema.names), schema=self._schema), matches

    def _closed(self, found: list[Aggregates], never: np.ndarray = _NONE) -> tuple[pa.Table, int]:
        """The left rows whose windows are over, and those that match nothing, by arrival; and the pairs in them."""
        rows = np.sort(np.concatenate([never, *(part.probing for part in found)]))
        columns, matches = self._totals("left", found, rows)
        names = self._schema.names[: len(self._schema) - len(columns)]
        return pa.table([*self._logs["left"].take(rows, names), *columns], schema=self._schema), matches

    def _ranges(self, found: list[Ranges], call: SequencedCall) -> tuple[pa.Table, int]:
        """Ranges with the limits of their probing rows, and how many there are."""
        parts = []
        for part in found:
            rows, run, start, end = part.found.T
            other_position = call.other_position[part.side][rows - call.first[part.side]]
            other = SIDES[1 - SIDES.index(part.side)]
            times: list[pa.Array] = [pa.nulls(len(rows), pa.int64())] * 2
            if self._within is None:
                first = np.maximum(other_position - getattr(self._spec, other).count, 0)
            else:
                first = np.zeros_like(other_position)
                low, high = self._within if part.side == "left" else (-self._within[1], -self._within[0])
                batch = call.batches[part.side]
                assert batch.times is not None
                own = batch.times[np.searchsorted(batch.rows, rows)]
                times = [pa.array(ends) for ends in reached_times(own, low, high)]
            sides = pa.DictionaryArray.from_arrays(
                pa.array(np.full(len(rows), SIDES.index(part.side), np.int8)), pa.array(SIDES)
            )
            numbers = [pa.array(column) for column in (rows, run, start, end)]
            complement = pa.array(np.full(len(rows), part.complement))
            limits = [pa.array(first), pa.array(other_position - 1), *times]
            parts.append(pa.table([sides.cast(pa.string()), *numbers, complement, *limits], schema=RANGES_SCHEMA))
        table = pa.concat_tables([RANGES_SCHEMA.empty_table(), *parts]).combine_chunks()
        return table, len(table)


class WholeResult:
    """The result of one call of neither rows nor pairs, made once all is found.

    Parameters
    ----------
    materializer : Materializer
    call : SequencedCall
    block_bytes : int or None
        As of `PairBlocks`, by the mean of the rows; ranges are one table, as a mirror follows a call as a whole.

    Attributes
    ----------
    matches : int
        Pairs that it counts, at its end.
    """

    def __init__(self, materializer: Materializer, call: SequencedCall, block_bytes: int | None):
        self.matches = 0
        self._materializer, self._call, self._bytes = materializer, call, block_bytes
        self._found: list[Found] = []

    def add(self, part: Found) -> Iterator[pa.Table]:
        """Takes what an engine has found."""
        self._found.append(part)
        return iter(())

    def end(self, *, complete: bool) -> Iterator[pa.Table]:
        """The result, in one table at least; parameters as of `PairBlocks`."""
        table, self.matches = self._materializer.result(self._found, self._call)
        if self._materializer.form == "ranges":
            (told,) = (part.events for part in self._found if isinstance(part, RunEvents))
            yield table.replace_schema_metadata({RUNS: json.dumps(told | {"pushes": self._call.pushes})})
        elif self._bytes is None:
            yield table
        else:
            yield from slices(table, self._bytes)


class PairBlocks:
    """The result of one call, made of its pairs as they are found.

    Parameters
    ----------
    materializer : Materializer
    call : SequencedCall
    block_bytes : int or None
        Bytes of a table, or those of one row where that is larger; None: all is one table.
    memory : Memory
        What is free of it limits the pairs that are held at a time, and a table that is all.

    Attributes
    ----------
    matches : int
        Pairs so far.
    """

    def __init__(self, materializer: Materializer, call: SequencedCall, block_bytes: int | None, memory: Memory):
        self.matches = 0
        self._memory = memory
        self._materializer, self._call, self._bytes = materializer, call, block_bytes
        self._itself = call.itself  # that have not come yet
        self._group: list[Pairs | OrderedPairs] = []  # found since the last border
        self._ready: Sides[list[np.ndarray]] = {side: [] for side in SIDES}
        self._held = self._grouped = 0
        self._given = False  # a table
        self._full = 0  # rows that fill a table, as far as it is known
        if block_bytes is not None:
            size, self._full = materializer.row_bytes(dict.fromkeys(SIDES, _NONE)), max_pairs(block_bytes)
            if isinstance(size, int):
                self._full = min(self._full, max(block_bytes // size, 1))

    def add(self, part: Found) -> Iterator[pa.Table]:
        """Takes what an engine has found; the tables that are full now. Raises ResultTooLargeError."""
        if isinstance(part, Punctuation):
            if self._materializer.ordered:
                self._choose(part.left)
            yield self._materializer.nothing
        else:
            assert isinstance(part, Pairs | OrderedPairs)
            self._group.append(part)
            self._grouped += len(part.left if isinstance(part, OrderedPairs) else part.probing)
            if self._bytes is None or self._materializer.ordered:  # else they go on at once
                self._check_pairs(self._held + self._grouped)
            if not self._materializer.ordered:
                self._choose(0)
        if self._bytes is not None and self._held >= self._full:
            yield from self._tables(whole=False)

    def end(self, *, complete: bool) -> Iterator[pa.Table]:
        """The rest: at least one table, unless some were given before.

        Parameters
        ----------
        complete : bool
            Nothing is missing from what was found. Else no row counts as unmatched.
        """
        self._choose(None)
        if complete:
            for side, more in self._materializer.unmatched(self._call).items():
                self._ready[side] += [more] if len(more) else []
        yield from self._tables(whole=True)

    def _choose(self, left: int | None) -> None:
        """Takes the pairs of rows before a left one; None: of all."""
        end = len(self._itself) if left is None else int(np.searchsorted(self._itself, left))
        if end:
            self._group.append(Pairs("right", self._itself[:end], self._itself[:end]))
            self._itself = self._itself[end:]
        if not self._group:
            return
        parts, matches = self._materializer.chosen(self._group, self._call)
        self._group, self._grouped = [], 0
        self.matches += matches
        self._held += sum(map(len, parts[self._materializer.sides[0]]))
        for side, more in parts.items():
            self._ready[side] += more

    def _tables(self, *, whole: bool) -> Iterator[pa.Table]:
        """What is ready, in tables; with `whole` the last one too, which is not full."""
        parts, count = self._ready, self._held
        self._ready, self._held = {side: [] for side in SIDES}, 0
        if self._bytes is None:
            yield self._materializer.whole_table(parts)
            return
        sides, most = self._materializer.sides, max_pairs(self._bytes)
        rows = {side: np.concatenate([_NONE, *parts[side]]) for side in sides}
        count, start = len(rows[sides[0]]), 0
        while start < count:
            some = {side: part[start : start + most] for side, part in rows.items()}
            given = len(some[sides[0]])
            size = self._materializer.row_bytes(some)
            if isinstance(size, int):
                length = min(given, max(self._bytes // size, 1))
            else:
                length = min(given, max(int(np.searchsorted(np.cumsum(size), self._bytes, "right")), 1))
            if not whole and length == given < most:
                break
            yield self._materializer.table({side: [part[:length]] for side, part in some.items()})
            start, self._given = start + length, True
        if whole and not self._given:
            yield self._materializer.nothing
        if start < count:
            self._ready = {side: [rows[side][start:].copy()] if side in rows else [] for side in SIDES}
            self._held = count - start

    def _check_pairs(self, count: int) -> None:
        """Raises ResultTooLargeError where there is no room for so many, and they are more than those of a block."""
        room = self._memory.room
        if PAIR_BYTES * count > max(room, 2 * (self._bytes or 0)):
            raise beyond_memory("the result", count, room)


def check_room(memory: Memory, count: int, needed: int) -> None:
    """Raises ResultTooLargeError where a table of so many rows and bytes does not fit."""
    room = memory.room
    if needed > room:
        raise ResultTooLargeError(
            f"the result of this call has {count:,} rows, which take {needed:,} bytes of the {room:,} that are "
            "free for results: narrow the condition, give fewer rows in a call, select fewer columns, or take the "
            "result in blocks, by process_blocks()",
            needed,
            room,
        )


def check_rows(memory: Memory, logs: Mapping[Side, RowLog], parts: Sides[list[np.ndarray]]) -> None:
    """Raises ResultTooLargeError where a table of rows of these numbers, by side, does not fit."""
    counts = {side: sum(map(len, rows)) for side, rows in parts.items()}
    if sum(logs[side].max_row_bytes * count for side, count in counts.items()) <= memory.room:
        return
    sizes = [(logs[side].row_bytes(rows), len(rows)) for side, held in parts.items() for rows in held]
    needed = sum(size * count if isinstance(size, int) else int(size.sum()) for size, count in sizes)
    check_room(memory, max(counts.values()), needed)


def slices(table: pa.Table, block_bytes: int) -> Iterator[pa.Table]:
    """A table cut to about so many bytes each, by their mean; at least one."""
    rows = max(block_bytes * len(table) // max(table.nbytes, 1), 1)
    for start in range(0, max(len(table), 1), rows):
        yield table.slice(start, rows)


def max_pairs(block_bytes: int) -> int:
    """Pairs of row numbers that take as much as a block."""
    return max(block_bytes // PAIR_BYTES, 1)


def _whole(parts: list[np.ndarray]) -> np.ndarray:
    """Row numbers in one array."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([_NONE, *parts])


def _numbers(rows: np.ndarray) -> pa.Array:
    """Row numbers, NULL for -1."""
    if not len(rows) or int(rows.min()) >= 0:
        return pa.array(rows)
    valid = pa.py_buffer(np.packbits(rows >= 0, bitorder="little"))
    return pa.Array.from_buffers(pa.int64(), len(rows), [valid, pa.py_buffer(np.ascontiguousarray(rows))])


class AsOfMaterializer(Materializer):
    """Turns answered left rows into rows or pairs; its row numbers are slots.

    Parameters
    ----------
    spec, schema, columns, memory
        As of `Materializer`.
    engine : AsOfEngine
    logs : dict of str to SlotLog
        For ``form="rows"``.
    """

    def __init__(
        self, spec: JoinSpec, schema: pa.Schema, columns: list[OutputColumn], engine: AsOfEngine,
        logs: Sides[SlotLog], memory: Memory,
    ):  # fmt: skip
        super().__init__(spec, schema, columns, {**logs}, dict.fromkeys(SIDES, 0), memory)
        self.bits = {}  # which rows wait is known to the engine
        self._engine = engine
        self._alone: list[np.ndarray] = []  # left slots that have matched nothing

    def load(self, call: SequencedCall, matched: Sides[np.ndarray]) -> None:
        """Does nothing: what waits is the engine's."""

    def chosen(
        self, group: list[Pairs | OrderedPairs], call: SequencedCall | None
    ) -> tuple[Sides[list[np.ndarray]], int]:
        """The slots of the pairs, in the order of arrival of left rows; and how many there are."""
        parts: Sides[list[np.ndarray]] = {side: [] for side in SIDES}
        for answered in group:
            assert isinstance(answered, OrderedPairs)
            left, right = answered.left, answered.right
            if self._spec.how == "left" and len(right) and int(right.min()) < 0:
                matched = right >= 0
                self._alone.append(left[~matched])
                left, right = left[matched], right[matched]
            parts["left"].append(left)
            parts["right"].append(right)
        return parts, sum(map(len, parts["left"]))

    def unmatched(self, call: SequencedCall | None) -> Sides[np.ndarray]:
        """The slots of left rows that were answered by none, or can match nothing, and -1 for right ones."""
        alone, self._alone = self._alone, []
        if self._spec.how != "left":
            return {}
        if call is not None:
            alone.append(self._engine.slots("left", call.never["left"]))
        left = np.sort(np.concatenate([_NONE, *alone]))
        return {"left": left, "right": np.full(len(left), -1)}

    def rest(self, found: list[Found]) -> tuple[pa.Table, int]:
        """See `Materializer`."""
        parts, matches = self.chosen([part for part in found if isinstance(part, OrderedPairs)], None)
        for side, more in self.unmatched(None).items():
            parts[side].append(more)
        return self.whole_table(parts), matches

    def table(self, parts: Sides[list[np.ndarray]]) -> pa.Table:
        """See `Materializer`."""
        if self.form == "pairs":
            parts = {side: [self._engine.rows(side, slots) for slots in of] for side, of in parts.items()}
        return super().table(parts)
