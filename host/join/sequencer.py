"""The rows of both streams in one order of arrival, as an engine takes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from muntin.host.call import Batch, Call, Want
from muntin.host.engine.engine import EngineSpec
from muntin.host.engine.residual import ResidualPart
from muntin.host.engine.routes import RoutePlanner
from muntin.host.engine.row_log import picked
from muntin.host.engines import order_parts
from muntin.host.errors import MuntinError, OrderError, StateError
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.keys.columns import column_of
from muntin.host.sides import OTHER, SIDES, Side, Sides
from muntin.host.spec import JoinSpec

if TYPE_CHECKING:
    from muntin.host.join.batch_summary import BatchSummary

_INT64 = np.iinfo(np.int64)
_NONE = np.zeros(0, np.int64)


_WANTS = {"counts": Want.COUNTS, "ranges": Want.RANGES, "aggregate": Want.AGGREGATES}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequencedCall(Call):
    """A call as the operator has it: with its rows, and what became of those that no engine is given.

    Attributes
    ----------
    tables : dict of str to pyarrow.Table
        All rows of each side, those among them that are late or cannot match too.
    numbers : dict of str to ndarray of int64
        Arrival numbers of the rows in `tables`, ascending; with gaps where the rows are those of one partition.
    itself : ndarray of int64
        Of a self join that asks for it: rows that match themselves.
    newest : dict of str to int
        The newest event time of each side that has any.
    never : dict of str to ndarray of int64
        Arrival numbers of the rows of each side that can match nothing and are not late.
    late_rows : dict of str to ndarray of int64
        Of the sides that have late rows, the places of these in `tables`.
    orders : dict of str to ndarray of int64
        Of the sides that were put in order, the place that each row of `tables` had as the rows were given.
    last_sequence : int or None
        The greatest sequence value so far.
    whole : BatchSummary or None
        The summary of the rows of all partitions, where these belong to one.
    pushes : list of (int, int) or None
        As of `Sequencer.sequence`.
    tag : bytes or None
        What the caller has kept with the call.
    """

    tables: Sides[pa.Table]
    numbers: Sides[np.ndarray]
    itself: np.ndarray
    newest: Sides[int]
    never: Sides[np.ndarray]
    late_rows: Sides[np.ndarray]
    orders: Sides[np.ndarray]
    last_sequence: int | None
    whole: BatchSummary | None
    pushes: list[tuple[int, int]] | None
    tag: bytes | None

    @property
    def late(self) -> Sides[int]:
        """Rows of each side that are late."""
        return {side: len(self.late_rows.get(side, ())) for side in SIDES}

    @property
    def unmatchable(self) -> Sides[int]:
        """Rows of each side that are not late, but have no key or time, or fail a part about their side alone."""
        return {side: len(self.never[side]) for side in SIDES}


class _Encoded(NamedTuple):
    """The rows of one side, as `SequencedCall` has them."""

    batch: Batch
    newest: int | None
    never: np.ndarray
    late: np.ndarray


class Sequencer:
    """Gives rows their arrival numbers, encodes their keys and times, follows the watermark and sorts out late rows.

    Parameters
    ----------
    spec : JoinSpec
    left, right : pyarrow.Schema
        Columns of each side; of a self join, the same.
    first_row : int
        Arrival number of the first row of each stream.
    key_bits : int
        Of the widest composite key.

    Attributes
    ----------
    condition : Condition
    generator : BoundaryGenerator
        Of what drives.
    engine_spec : EngineSpec
    arrived : dict of str to int
        The arrival number that the next row of each stream will have.
    planner : RoutePlanner
        Plans the routes by which rows come, where these belong to one partition.

    Raises
    ------
    SchemaError, KeyTypeError, PredicateError, WindowError
        As `JoinSpec.output_schema`.
    """

    def __init__(self, spec: JoinSpec, left: pa.Schema, right: pa.Schema, first_row: int = 0, key_bits: int = 64):
        self._spec = spec
        self.condition = spec.condition(left, right, key_bits)
        self.generator = self.condition.generator
        self._axis = spec.time_axis(left, right)
        self._tracker = self._axis.tracker() if self._axis is not None else None
        self._scales = spec.sequence_scales(left, right)
        order, every = order_parts(spec.order)
        if spec.counted:
            counts = {side: getattr(spec, side).count for side in SIDES}
            self.engine_spec = EngineSpec(
                counts, None, order=order, every=every, self_join=spec.self_join, ranges=spec.form == "ranges"
            )
        else:
            # Without a window all rows have one time, and it never passes.
            axis = self._axis
            within = (0, 0) if axis is None else (axis.low, axis.high)
            self.engine_spec = EngineSpec(
                None,
                within,
                0 if axis is None else axis.delay,
                spec.capacity,
                order,
                every,
                self_join=spec.self_join,
                time_unit=None if axis is None else axis.nanoseconds,
                ranges=spec.form == "ranges",
            )
        self.arrived = dict.fromkeys(SIDES, first_row)
        self.planner = RoutePlanner(self.engine_spec.counts)
        self._last_sequence: int | None = None
        self._columns = {side: spec.columns(side) for side in SIDES}
        self._unbounded = spec.unbounded
        self._want = _WANTS.get(spec.form, Want.PAIRS)

    def residuals(self) -> list[ResidualPart]:
        """The residual parts of the condition, for one engine."""
        return self._parts(self.condition.residuals)

    def choices(self) -> list[ResidualPart]:
        """All parts that compare the two sides, what drives first, for an engine that chooses which one drives."""
        return self._parts([self.condition.generator, *self.condition.residuals])

    def _parts(self, generators: list[BoundaryGenerator]) -> list[ResidualPart]:
        shared = self._spec.self_join and self.condition.one_column
        return [ResidualPart(part, at, shared=shared) for at, part in enumerate(generators)]

    @property
    def watermark(self) -> int | None:
        """The watermark in force, in the unit of the time columns."""
        if self._tracker is None or self._axis is None or self._tracker.in_force is None:
            return None
        return self._tracker.in_force + self._axis.offset

    @property
    def watermark_seconds(self) -> float | None:
        """The same as seconds since 1970; None where times are plain integers."""
        unit = None if self._axis is None else self._axis.nanoseconds
        return None if unit is None or self.watermark is None else float(self.watermark * unit / 10**9)

    @property
    def watermark_side(self) -> str | None:
        """As `WatermarkTracker.side`."""
        return self._tracker.side if self._tracker is not None else None

    @property
    def state(self) -> dict[str, Any]:
        """What it knows of the rows so far, JSON-able; set to go on from there."""
        tracker = None if self._tracker is None else self._tracker.state
        return {
            "arrived": dict(self.arrived),
            "last_sequence": self._last_sequence,
            "watermark": tracker,
            "routes": self.planner.state,
        }

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self.arrived = dict(state["arrived"])
        self._last_sequence = state["last_sequence"]
        if self._tracker is not None:
            self._tracker.state = state["watermark"]
        self.planner.state = state.get("routes")  # None in states of before there were routes

    def sequence(
        self,
        tables: Sides[pa.Table],
        pushes: list[tuple[int, int]] | None = None,
        whole: BatchSummary | None = None,
        *,
        tag: bytes | None = None,
        max_pairs: int | None = None,
    ) -> SequencedCall:
        """Puts the rows of a call in order; changes nothing until `advance` is called, once they were joined.

        Parameters
        ----------
        tables : dict of str to pyarrow.Table
            New rows of each side; of a self join, of the left one.
        pushes : list of (int, int), optional
            Left and right rows that arrived together, in order: within each of them by the sequence column, else left
            before right. By default all rows of the call are one.
        whole : BatchSummary, optional
            The summary of the rows of all partitions, where these belong to one.
        tag : bytes, optional
            What the caller keeps with the call.
        max_pairs : int, optional
            As of `Call`, where pairs are wanted.

        Raises
        ------
        KeyTypeError
            If a key or time does not fit 64 bits.
        OrderError
            If a sequence value is NULL, or lies before one already processed or of an earlier push.
        StateError
            If the rows came by other routes than this partition knows to be in force.
        """
        loads = None if whole is None else whole.loads
        if loads is not None and loads.epoch != (epoch := self.planner.routes(loads.partitions).epoch):
            raise StateError(
                f"the rows came by routes of epoch {loads.epoch}, and those of epoch {epoch} are in force: a daemon "
                "that no longer owns its partition sent tasks its routes. Start the query again from its checkpoint"
            )
        if self._spec.self_join:
            tables = {"left": tables["left"]}
        more: dict[str, Any] = {"whole": whole, "pushes": pushes, "tag": tag}
        more |= {"want": self._want, "max_pairs": max_pairs if self._want is Want.PAIRS else None}
        ordered, orders, values, last_sequence = self._ordered(tables, pushes, whole)
        if whole is not None and whole.order is not None:
            placed = dict(tables)
            return self._encoded(placed, *self._placed(placed, whole), last_sequence, **more)
        first = dict(self.arrived)
        if self._spec.self_join:
            ordered["right"] = ordered["left"]
            numbers = first["left"] + np.arange(len(ordered["left"]), dtype=np.int64)
            other_position = dict.fromkeys(SIDES, numbers)
        elif self._spec.sequence is None and pushes is None:
            places = {"left": first["right"], "right": first["left"] + len(ordered["left"])}
            if self._spec.as_of is not None:  # which asks for their number alone
                other_position = {side: _repeated(places[side], len(ordered[side])) for side in SIDES}
            else:
                other_position = {side: np.full(len(ordered[side]), places[side], np.int64) for side in SIDES}
        else:
            earlier = np.zeros(len(ordered["left"]), np.int64)  # right rows of the pushes before a left row's
            through = np.full(len(ordered["right"]), len(ordered["left"]))  # left rows of a right row's push and before
            if pushes is not None:
                counts = np.array(pushes, np.int64).T
                earlier = np.repeat(np.cumsum(counts[1]) - counts[1], counts[0])
                through = np.repeat(np.cumsum(counts[0]), counts[1])
            if self._spec.sequence is not None:  # values do not go back from push to push, but may be equal
                left, right = _comparable(values["left"], values["right"])
                earlier = np.maximum(earlier, np.searchsorted(right, left, "left"))
                through = np.minimum(through, np.searchsorted(left, right, "right"))
            other_position = {"left": first["right"] + earlier, "right": first["left"] + through}
        rows = {side: np.arange(first[side], first[side] + len(ordered[side]), dtype=np.int64) for side in SIDES}
        return self._encoded(ordered, rows, other_position, orders, last_sequence, **more)

    def _placed(
        self, tables: Sides[pa.Table], whole: BatchSummary
    ) -> tuple[Sides[np.ndarray], Sides[np.ndarray], Sides[np.ndarray]]:
        """Puts tables in the order that the whole call gives their rows; their numbers, other positions, and orders."""
        sides = SIDES[:1] if self._spec.self_join else SIDES
        numbers, other_position, orders = {}, {}, {}
        for side in sides:
            orders[side] = order = np.argsort(whole.rows[side], kind="stable")
            tables[side] = picked(tables[side], order)
            numbers[side] = self.arrived[side] + whole.rows[side][order]
            other_position[side] = self.arrived[OTHER[side]] + whole.other_position(side)
        if self._spec.self_join:
            tables["right"], numbers["right"] = tables["left"], numbers["left"]
            own = self.arrived["left"] + np.arange(whole.arrived("left"), dtype=np.int64)
            other_position = dict.fromkeys(SIDES, own)
        return numbers, other_position, orders

    def _encoded(
        self,
        tables: Sides[pa.Table],
        numbers: Sides[np.ndarray],
        other_position: Sides[np.ndarray],
        orders: Sides[np.ndarray],
        last_sequence: int | None,
        *,
        whole: BatchSummary | None,
        **more: Any,
    ) -> SequencedCall:
        """The call of rows that are in order."""
        with self.as_given(orders):
            left = self._encode("left", tables["left"], numbers["left"], other_position["left"])
            right = left
            if not (self._spec.self_join and self.generator.one_column):
                right = self._encode("right", tables["right"], numbers["right"], other_position["right"])
        sides: Sides[_Encoded] = {"left": left, "right": right}
        batches: Sides[Batch] = {"left": left.batch, "right": right.batch}
        newest = {side: of.newest for side, of in sides.items() if of.newest is not None}
        if whole is not None:
            newest = dict(whole.newest)
        return SequencedCall(
            batches=batches,
            other_position=other_position,
            arrived={side: self.arrived[side] + len(other_position[side]) for side in SIDES},
            tables=tables,
            numbers=numbers,
            itself=self.itself(batches) if self._spec.itself else np.zeros(0, np.int64),
            newest=newest,
            expiry=self._expiry(newest),
            never={"left": left.never, "right": right.never},
            late_rows={side: of.late for side, of in sides.items() if len(of.late)},
            orders=orders,
            last_sequence=last_sequence,
            whole=whole,
            **more,
        )

    @contextmanager
    def as_given(self, orders: Sides[np.ndarray]) -> Iterator[None]:
        """Has an error of rows, which are in these orders, give their places as they were given."""
        try:
            yield
        except MuntinError as error:
            if error.rows and error.side is not None:
                side, rows = "left" if self._spec.self_join else error.side, np.array(error.rows)
                error.of_rows(side, np.sort(orders[side][rows]) if side in orders else rows)
            raise

    def advance(self, call: SequencedCall) -> None:
        """Ends a call: its rows have arrived, and move the watermark."""
        self.arrived = call.arrived
        self._last_sequence = call.last_sequence
        if self._tracker is not None:
            self._tracker.advance(call.newest)
        if call.whole is not None and call.whole.loads is not None:
            self.planner.advance(call.whole.loads, self.arrived, call.expiry)

    def _expiry(self, newest: Sides[int]) -> Sides[int | None]:
        """As of a call with these times."""
        if self._axis is None:
            # Without a window all rows have time 0. Those of a stream that meets a table are met by no later row.
            return {side: 0 if self._spec.static == OTHER[side] else None for side in SIDES}
        return self._axis.expiry(None if self._tracker is None else self._tracker.after(newest))

    def newest_time(self, side: Side, table: pa.Table) -> int | None:
        """The newest event time of rows of a side, for the watermark; None where there is none. Raises KeyTypeError."""
        if self._axis is None:
            return None
        columns = self._spec.columns(side)
        return self._greatest(side, table, columns.get("watermark", columns["time"]))

    def greatest_time(self, side: Side, table: pa.Table) -> int | None:
        """The greatest time of rows of a side, for the window; as `newest_time`."""
        return None if self._axis is None else self._greatest(side, table, self._spec.columns(side)["time"])

    def _greatest(self, side: Side, table: pa.Table, column: str) -> int | None:
        assert self._axis is not None
        times, timed = self._axis.encode(side, column_of(table, column))
        times = times if timed is None else times[timed]
        return int(times.max()) if len(times) else None

    def _ordered(
        self, tables: Sides[pa.Table], pushes: list[tuple[int, int]] | None, whole: BatchSummary | None
    ) -> tuple[Sides[pa.Table], Sides[np.ndarray], Sides[np.ndarray], int | None]:
        """The tables by sequence value, the order in which their rows then are, those values, and the greatest so
        far."""
        if self._spec.sequence is None:
            return dict(tables), {}, {}, None
        ordered, orders, values, last = dict(tables), {}, {}, self._last_sequence
        if whole is not None and whole.sequence is not None:
            least, greatest = whole.sequence
            if last is not None and least < last:
                raise self._goes_back(least, "one")
            last = greatest if last is None else max(last, greatest)
        for side, table in tables.items():
            own = self.sequence_values(side, table)
            assert own is not None
            values[side] = own
        if pushes is not None and len(pushes) > 1:
            self._check_pushes(values, np.array(pushes, np.int64).T)
        for side, table in tables.items():
            own = values[side]
            if len(own):
                if self._last_sequence is not None and (least := int(own.min())) < self._last_sequence:
                    back = np.flatnonzero([each < self._last_sequence for each in own.tolist()])
                    raise self._goes_back(least, f"the {side}").of_rows(side, back, self._spec.sequence)
                if np.any(own[1:] < own[:-1]):
                    orders[side] = order = np.argsort(own, kind="stable")
                    ordered[side], own = picked(table, order), own[order]
                newest = int(own[-1])
                last = newest if last is None else max(last, newest)
            values[side] = own
        return ordered, orders, values, last

    def _check_pushes(self, values: Sides[np.ndarray], counts: np.ndarray) -> None:
        """Raises OrderError if a sequence value lies before one of an earlier push."""
        both = np.concatenate(_comparable(values["left"], values.get("right", np.zeros(0, np.int64))))
        pushes = np.concatenate([np.repeat(np.arange(len(of)), of) for of in counts])
        order = np.argsort(pushes, kind="stable")
        earlier = np.searchsorted(pushes[order], pushes)  # rows of earlier pushes
        newest = np.maximum.accumulate(both[order])[earlier - 1]
        wrong = np.flatnonzero((earlier > 0) & (both < newest))
        if len(wrong):
            row, lefts = wrong[0], len(values["left"])
            side: Side = "left" if row < lefts else "right"
            rows = wrong[wrong < lefts] if side == "left" else wrong - lefts
            raise self._goes_back(int(both[row]), f"the {side}", int(newest[row])).of_rows(
                side, rows, self._spec.sequence
            )

    def _goes_back(self, value: int, side: str, pushed: int | None = None) -> OrderError:
        newest, what = (self._last_sequence, "call") if pushed is None else (pushed, "push")
        return OrderError(
            f"sequence value {value} in column {self._spec.sequence!r} of {side} side comes after {newest}, which came "
            f"in an earlier {what}: rows must not go back between {'calls' if what == 'call' else 'pushes'}"
        )

    def sequence_values(self, side: Side, table: pa.Table) -> np.ndarray | None:
        """The sequence values of rows of a side in the finer unit of both; None without a sequence column.

        Raises
        ------
        OrderError
            If a value is NULL, or does not fit that unit.
        """
        if self._spec.sequence is None:
            return None
        column = table.column(self._spec.sequence)
        if column.null_count:
            rows = np.flatnonzero(column.is_null().to_numpy())
            raise OrderError(
                f"row {rows[0]} of the {side} batch has no value in the sequence column {self._spec.sequence!r}: "
                "every row needs one"
            ).of_rows(side, rows, self._spec.sequence)
        if pa.types.is_timestamp(column.type) or pa.types.is_null(column.type):  # of no rows
            column = column.cast(pa.int64())
        elif pa.types.is_date(column.type):
            column = column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
        values, scale = column.to_numpy(), self._scales[side]
        if scale == 1:
            return values
        top = _INT64.max // scale
        wrong = (values > top) | (values < -top)
        if wrong.any():
            raise OrderError(
                f"sequence value {values[wrong][0]} in column {self._spec.sequence!r} of the {side} side "
                "does not fit the unit of the other side's: cast both to one unit"
            ).of_rows(side, np.flatnonzero(wrong), self._spec.sequence)
        return values * scale

    def _encode(self, side: Side, table: pa.Table, rows: np.ndarray, other_position: np.ndarray) -> _Encoded:
        """Encodes keys and times of one side, and leaves out the rows that cannot match."""
        columns = self._columns[side]
        keys, valid, others = self.condition.encode(side, table, rows)
        times = np.zeros(len(rows), np.int64) if self._unbounded else None
        late, newest = None, None
        if self._axis is not None:
            times, timed = self._axis.encode(side, column_of(table, columns["time"]))
            clock, there = times, timed
            if "watermark" in columns:
                clock, there = self._axis.encode(side, column_of(table, columns["watermark"]))
            seen = clock if there is None else clock[there]
            if len(seen):
                newest = int(seen.max())
            if self._tracker is not None:
                late = self._tracker.late(side, times)
                if late is not None and timed is not None:
                    late = late & timed
            if timed is not None:
                valid = timed if valid is None else valid & timed
        never = late_rows = _NONE
        if late is not None and late.any():
            late_rows = np.flatnonzero(late)
            if valid is not None:
                never = rows[~valid & ~late]
            valid = ~late if valid is None else valid & ~late
        elif valid is not None:
            never = rows[~valid]
        if len(rows) != len(other_position):  # of one partition's rows
            other_position = other_position[rows - self.arrived[side]]
        batch = Batch(keys, rows, other_position, times, others)
        if valid is not None and not valid.all():
            batch = batch.take(np.flatnonzero(valid))
        return _Encoded(batch, newest, never, late_rows)

    def itself(self, batches: Sides[Batch]) -> np.ndarray:
        """The rows of a call's batches whose own two keys, and whose time twice, satisfy the join: their arrival
        numbers, int64."""
        left, right = batches["left"], batches["right"]
        if self._axis is not None and not self._axis.low <= 0 <= self._axis.high:
            return np.zeros(0, np.int64)
        rows, own, other = np.intersect1d(left.rows, right.rows, assume_unique=True, return_indices=True)
        found = self.generator.matches(left.keys[own], right.keys[other])
        for residual, a, b in zip(self.condition.residuals, left.others, right.others, strict=True):
            found &= residual.matches(a[own], b[other])
        return rows[found]


def _repeated(value: int, count: int) -> np.ndarray:
    """The same number, int64, so many times, in the memory of one."""
    return np.ndarray((count,), np.int64, np.array([value], np.int64), strides=(0,))


def _comparable(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as int64, or as exact Python integers where a uint64 does not fit."""
    if any(v.dtype == np.uint64 and len(v) and int(v.max()) > _INT64.max for v in (a, b)):
        return a.astype(object), b.astype(object)
    return a.astype(np.int64), b.astype(np.int64)
