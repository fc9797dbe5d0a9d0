"""The operator: a sliding-window join of two streams of Arrow batches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from host.arrow_array import empty_array
from host.devices import Device, open_device
from host.engine.batch import Batch, Counts, OrderedPairs, Pairs
from host.engine.engine import OTHER, SIDES, Engine, EngineSpec, beyond_capacity
from host.engine.engines import open_engine
from host.engine.run_policy import RunPolicy, open_policy
from host.errors import DeviceError, IncompleteError, KeyTypeError, MullionError, OrderError, SchemaError
from host.key_type import key_type
from host.row_store import RowStore
from host.spec import COUNTS_SCHEMA, PAIRS_SCHEMA, JoinSpec
from host.stats import Stats

INCOMPLETE = b"mullion.incomplete"
"""Marks a result that lacks pairs, in the metadata of its schema; the value names what is missing."""

_INT64 = np.iinfo(np.int64)


class WindowJoin:
    """A sliding-window join of two streams.

    Takes the parameters of `JoinSpec`, and:

    Parameters
    ----------
    device : str or Device
        ``"opencl"``, ``"numpy"``, ``"opencl:<part of a name>"``, ``"sim:bisort"``, ``"sim:splitjoin"``, see
        `host.devices.list_devices`; or an open device, which stays open when the join is closed.
    left_schema, right_schema : pyarrow.Schema, optional
        Columns of each side. By default those of the first batch of the side; until both are known, the result
        of a call has the columns of the known side alone, and no rows.
    run_policy : RunPolicy, optional
        A run policy of one's own, instead of the one `policy` names.

    Raises
    ------
    PredicateError, WindowError, SchemaError, KeyTypeError, UnsupportedError
        If the join makes no sense.
    DeviceError
        If there is no such device.
    CapacityError
        If the windows do not fit it, with the bytes needed and available. Raised by the constructor where both
        schemas are given, else by the first call that knows both.

    Examples
    --------
    >>> join = WindowJoin(on=Band("limit", "price", -5, 5), left=Rows(1000), right=Rows(1000), device="numpy")
    >>> matches = join.process(bids, asks)
    """

    def __init__(
        self,
        *,
        device: str | Device = "opencl",
        left_schema: pa.Schema | None = None,
        right_schema: pa.Schema | None = None,
        run_policy: RunPolicy | None = None,
        **spec: Any,
    ):
        self._open(JoinSpec(**spec), device, left_schema, right_schema, run_policy)

    @classmethod
    def from_spec(
        cls,
        spec: JoinSpec,
        *,
        device: str | Device = "opencl",
        left_schema: pa.Schema | None = None,
        right_schema: pa.Schema | None = None,
    ) -> WindowJoin:
        """The join a specification describes. Raises as the constructor."""
        join = cls.__new__(cls)
        join._open(spec, device, left_schema, right_schema, None)
        return join

    def _open(
        self,
        spec: JoinSpec,
        device: str | Device,
        left_schema: pa.Schema | None,
        right_schema: pa.Schema | None,
        run_policy: RunPolicy | None,
    ) -> None:
        self.spec = spec
        self._stats = Stats()
        self._broken: str | None = None
        self._policy = open_policy(spec.policy) if run_policy is None else run_policy
        self._schemas: dict[str, pa.Schema | None] = {"left": None, "right": None}
        self._arrived = {"left": 0, "right": 0}
        self._last_sequence: int | None = None
        self._sequence_scales = {"left": 1, "right": 1}  # until both sides' columns are known
        self._pending: list[tuple[str, pa.Table | None]] = []  # calls before both sides' columns were known
        self._engine: Engine | None = None
        self._stores: dict[str, RowStore] = {}
        self._seconds = {"encode": 0.0, "output": 0.0}
        self._owns_device = not isinstance(device, Device)
        self._device = device if isinstance(device, Device) else open_device(device)
        try:
            for side, schema in (("left", left_schema), ("right", right_schema)):
                if schema is not None:
                    self._learn(side, schema)
        except MullionError:
            self.close()
            raise

    # Public

    def process(
        self, left: pa.Table | pa.RecordBatch | None = None, right: pa.Table | pa.RecordBatch | None = None
    ) -> pa.Table:
        """Joins the next rows of both streams.

        Parameters
        ----------
        left, right : pyarrow.Table, pyarrow.RecordBatch or None
            New rows of each side, any number.

        Returns
        -------
        pyarrow.Table
            The pairs whose later row is in this call, in the form and order of the specification.

        Raises
        ------
        SchemaError
            If a side's columns differ from those of earlier calls.
        KeyTypeError
            If a key or time does not fit 64 bits.
        OrderError
            If a sequence value is NULL or lies before one already processed.
        CapacityError
            If the rows do not fit.
        IncompleteError
            If a part of the device stopped answering. `partial` is the result without the pairs that it would have
            found. The join can then no longer be used.
        DeviceError
            If the device failed. The join can then no longer be used.

        Notes
        -----
        A call that raises any but the last two has changed nothing.
        """
        if self._broken is not None:
            raise DeviceError(f"this join is no longer usable: {self._broken}")
        tables = {"left": _as_table("left", left), "right": _as_table("right", right)}
        schemas = dict(self._schemas)
        try:
            for side, table in tables.items():
                if table is not None:
                    self._learn(side, table.schema)
            return self._process(tables)
        except MullionError as error:
            if self._broken is None and not isinstance(error, DeviceError) and self._engine is None:
                self._schemas = schemas  # a refused first call teaches nothing
            raise

    @property
    def stats(self) -> Stats:
        """Counters since the join was opened, as of now."""
        stats = self._stats
        stats.rows_left, stats.rows_right = self._arrived["left"], self._arrived["right"]
        stats.device = self._device.info.name
        stats.device_available_bytes = self._device.memory_bytes - self._device.used_bytes
        stats.seconds = dict(self._seconds)
        stats.row_bytes = sum(store.nbytes for store in self._stores.values())
        if self._engine is not None:
            stats.seconds |= self._engine.seconds
            stats.device_bytes = self._engine.device_bytes
            stats.probed_runs = self._engine.probed_runs
            for side in SIDES:
                if self.spec.within is None:
                    most = getattr(self.spec, side).count
                    rows = min(self._arrived[side], most)
                else:
                    most, rows = self.spec.capacity, self._engine.stored_rows(side)
                setattr(stats, f"window_{side}", rows)
                setattr(stats, f"fill_{side}", None if most is None else rows / most)
            stats.watermark = self._tracker.in_force if self._tracker is not None else None
        return stats

    @property
    def output_schema(self) -> pa.Schema | None:
        """The schema of the result, or None while a side's columns are unknown."""
        left, right = self._schemas["left"], self._schemas["right"]
        return None if left is None or right is None else self.spec.output_schema(left, right)

    def close(self) -> None:
        """Frees the device's memory. Idempotent."""
        if self._engine is not None:
            self._engine.close()
        if self._owns_device:
            self._device.close()
        if self._broken is None:
            self._broken = "it was closed"

    def __enter__(self) -> WindowJoin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Schemas

    def _learn(self, side: str, schema: pa.Schema) -> None:
        schema = schema.remove_metadata()
        known = self._schemas[side]
        if known is None:
            self.spec.check_side(side, schema)
            other = self._schemas[OTHER[side]]
            if other is not None:
                left, right = (schema, other) if side == "left" else (other, schema)
                self._start(left, right)
            self._schemas[side] = schema
            return
        if not schema.equals(known):
            for name in known.names:
                if name not in schema.names:
                    raise SchemaError(f"the {side} batch lacks the column {name!r} that earlier ones had")
                if schema.field(name).type != known.field(name).type:
                    raise SchemaError(
                        f"column {name!r} of the {side} batch has type {schema.field(name).type}, "
                        f"but had {known.field(name).type} before"
                    )
            extra = [name for name in schema.names if name not in known.names]
            if extra:
                raise SchemaError(f"the {side} batch has a column {extra[0]!r} that earlier ones had not")

    def _start(self, left: pa.Schema, right: pa.Schema) -> None:
        """Opens the engine: both schemas are known."""
        spec = self.spec
        spec.output_schema(left, right)
        self._axis = spec.time_axis(left, right)
        self._tracker = self._axis.tracker() if self._axis is not None else None
        generator = spec.boundary_generator(left, right)
        self._key_types = generator.key_types
        self._sequence_scales = spec.sequence_scales(left, right)
        if self._axis is None:
            counts = {side: getattr(spec, side).count for side in SIDES}
            engine_spec = EngineSpec(counts, None, order=spec.order)
        else:
            within = (self._axis.low, self._axis.high)
            engine_spec = EngineSpec(None, within, self._axis.delay, spec.capacity, spec.order)
        bits = {side: kind.bits for side, kind in self._key_types.items()}
        self._engine = open_engine(self._device, engine_spec, generator, bits, self._policy)
        for side, schema in (("left", left), ("right", right)):
            held = self._stores.get(side)
            if held is None:
                self._stores[side] = RowStore(schema)

    # One call

    def _process(self, tables: dict[str, pa.Table | None]) -> pa.Table:
        if self._engine is None:
            return self._wait(tables)
        if self._pending:
            self._replay()
        start = time.perf_counter()
        full = {}
        for side in SIDES:
            schema, table = self._schemas[side], tables[side]
            assert schema is not None
            full[side] = schema.empty_table() if table is None else table.select(schema.names).cast(schema)
        full, opposite, last_sequence = self._arrange(full)
        batches, newest, counters = self._encode(full, opposite)
        engine = self._engine
        engine.make_room({side: len(batch) for side, batch in batches.items()})
        self._seconds["encode"] += time.perf_counter() - start
        arrived = {side: self._arrived[side] + len(full[side]) for side in SIDES}
        try:
            found, incomplete = _found(engine.process(batches, opposite, arrived, counting=self.spec.form == "counts"))
            start = time.perf_counter()
            if self.spec.form == "rows":
                for side in SIDES:
                    self._stores[side].append(self._arrived[side], full[side])
            result, matches = self._output(found, arrived, opposite)
            if incomplete is not None:
                incomplete.partial = result.replace_schema_metadata({INCOMPLETE: f"core {incomplete.core}"})
                raise incomplete
            if self._tracker is not None and self._axis is not None:
                self._tracker.advance(newest)
                engine.expire_times(self._axis.useless(self._tracker))
            for side in SIDES:
                self._stores[side].trim(self._oldest(side, arrived))
        except BaseException as error:
            # The windows hold part of this call: going on would lose or double pairs.
            self._broken = f"a call failed half-way ({type(error).__name__}: {error})"
            engine.close()
            if isinstance(error, MullionError) or not isinstance(error, Exception):
                raise
            raise DeviceError(f"device {self._device.info.name} failed: {type(error).__name__}: {error}") from error
        self._arrived = arrived
        self._last_sequence = last_sequence
        self._stats.calls += 1
        self._stats.matches += matches
        for name, value in counters.items():
            setattr(self._stats, name, getattr(self._stats, name) + value)
        self._seconds["output"] += time.perf_counter() - start
        return result

    def _wait(self, tables: dict[str, pa.Table | None]) -> pa.Table:
        """A call while one side's columns are unknown: nothing can match yet, its rows wait for the engine."""
        side = next((side for side, table in tables.items() if table is not None), None)
        if side is None:
            if self.spec.watermark is not None:  # even a call without rows moves a watermark that lags
                self._pending.append(("left", None))
            return {"pairs": PAIRS_SCHEMA, "counts": COUNTS_SCHEMA}.get(self.spec.form, pa.schema([])).empty_table()
        schema, table = self._schemas[side], tables[side]
        assert schema is not None
        assert table is not None
        table = table.select(schema.names).cast(schema)
        column = self.spec.columns(side)["key"]
        key_type(schema.field(column).type, column).encode(table.column(column))  # refuses what fits no device
        waiting = sum(len(held) for _, held in self._pending if held is not None)
        if self.spec.capacity is not None and waiting + len(table) > self.spec.capacity:
            raise beyond_capacity(side, waiting + len(table), self.spec.capacity)
        full = {side: table, OTHER[side]: table.slice(0, 0)}
        full, opposite, self._last_sequence = self._arrange(full)
        base = dict(self._arrived)
        self._pending.append((side, full[side]))
        self._arrived[side] += len(table)
        if self.spec.within is None:
            most = getattr(self.spec, side).count
            while sum(len(held) for _, held in self._pending[1:] if held is not None) >= most:
                del self._pending[0]
        if self.spec.form == "counts":
            arrived, self._arrived = self._arrived, base
            try:
                return self._counts([], arrived, {side: opposite[side], OTHER[side]: np.zeros(0, np.int64)})[0]
            finally:
                self._arrived = arrived
        return PAIRS_SCHEMA.empty_table() if self.spec.form == "pairs" else schema.empty_table()

    def _replay(self) -> None:
        """Joins the calls that waited for the engine."""
        for side, held in self._pending:
            if held is None:
                continue
            # What can be refused only now, in the unit of both sides' times, is refused before anything is applied.
            if self._axis is not None:
                self._axis.encode(side, held.column(self.spec.columns(side)["time"]))
            if self.spec.sequence is not None:
                self._sequence(side, held)
        pending, self._pending = self._pending, []
        for side, held in pending:  # all of one side: the other one's columns were not known
            self._arrived[side] -= 0 if held is None else len(held)
        self._last_sequence = None
        for side, held in pending:
            self._process({side: held, OTHER[side]: None})

    def _oldest(self, side: str, arrived: dict[str, int]) -> int:
        """The oldest row of a side that may still be needed for output."""
        assert self._engine is not None
        if self.spec.within is None:
            return arrived[side] - getattr(self.spec, side).count
        oldest = self._engine.oldest_row(side)
        return arrived[side] if oldest is None else oldest

    def _arrange(self, full: dict[str, pa.Table]) -> tuple[dict[str, pa.Table], dict[str, np.ndarray], Any]:
        """Puts the rows of a call in arrival order.

        Returns the tables so ordered, for each row the number of rows of the other stream before it, and the
        last sequence value.
        """
        base = self._arrived
        if self.spec.sequence is None:
            return (
                full,
                {
                    "left": np.full(len(full["left"]), base["right"], np.int64),
                    "right": np.full(len(full["right"]), base["left"] + len(full["left"]), np.int64),
                },
                None,
            )
        values = {side: self._sequence(side, full[side]) for side in SIDES}
        last = self._last_sequence
        for side in SIDES:
            if len(values[side]):
                if np.any(values[side][1:] < values[side][:-1]):
                    order = np.argsort(values[side], kind="stable")
                    full[side], values[side] = full[side].take(pa.array(order)), values[side][order]
                if self._last_sequence is not None and int(values[side][0]) < self._last_sequence:
                    raise OrderError(
                        f"sequence value {int(values[side][0])} in column {self.spec.sequence!r} "
                        f"of the {side} side comes after "
                        f"{self._last_sequence}, which was processed in an earlier call: "
                        "rows must not go back between calls"
                    )
                newest = int(values[side][-1])
                last = newest if last is None else max(last, newest)
        left, right = (
            _same_width(values["left"], values["right"])
            if len(values["left"]) and len(values["right"])
            else (values["left"], values["right"])
        )
        opposite = {
            "left": base["right"] + np.searchsorted(right, left, "left"),
            "right": base["left"] + np.searchsorted(left, right, "right"),
        }
        return full, {side: o.astype(np.int64, copy=False) for side, o in opposite.items()}, last

    def _sequence(self, side: str, table: pa.Table) -> np.ndarray:
        column = table.column(self.spec.sequence)
        if column.null_count:
            row = next(i for i, value in enumerate(column) if not value.is_valid)
            raise OrderError(
                f"row {row} of the {side} batch has no value in the sequence column {self.spec.sequence!r}: "
                "every row needs one"
            )
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        elif pa.types.is_date(column.type):
            column = column.cast(pa.date32()).cast(pa.int32())
        values, scale = column.to_numpy(), self._sequence_scales[side]
        if scale == 1:
            return values
        top = _INT64.max // scale
        wrong = (values > top) | (values < -top)
        if wrong.any():
            raise OrderError(
                f"sequence value {values[wrong][0]} in column {self.spec.sequence!r} of the {side} side "
                "does not fit the unit of the other side's: cast both to one unit"
            )
        return values * scale

    def _encode(
        self, full: dict[str, pa.Table], opposite: dict[str, np.ndarray]
    ) -> tuple[dict[str, Batch], dict[str, int], dict[str, int]]:
        """Encodes keys and times, and leaves out the rows that cannot match."""
        batches, newest, counters = {}, {}, {}
        for side in SIDES:
            table = full[side]
            column = self.spec.columns(side)["key"]
            try:
                keys, valid = self._key_types[side].encode(table.column(column))
            except KeyTypeError as error:
                raise KeyTypeError(f"column {column!r} of the {side} side: {error}") from error
            rows = np.arange(self._arrived[side], self._arrived[side] + len(table), dtype=np.int64)
            times = late = None
            if self._axis is not None:
                times, timed = self._axis.encode(side, table.column(self.spec.columns(side)["time"]))
                seen = times if timed is None else times[timed]
                if len(seen):
                    newest[side] = int(seen.max())
                if self._tracker is not None:
                    late = self._tracker.late(side, times)
                    if late is not None and timed is not None:
                        late = late & timed
                if timed is not None:
                    valid = timed if valid is None else valid & timed
            if late is not None and late.any():
                counters[f"late_{side}"] = int(late.sum())
                if valid is not None:
                    counters[f"unmatchable_{side}"] = int((~valid & ~late).sum())
                valid = ~late if valid is None else valid & ~late
            elif valid is not None:
                counters[f"unmatchable_{side}"] = int((~valid).sum())
            batch = Batch(keys, rows, opposite[side], times)
            batches[side] = batch if valid is None or valid.all() else batch.take(np.flatnonzero(valid))
        return batches, newest, counters

    # Output

    def _output(
        self, found: list[Pairs | OrderedPairs | Counts], arrived: dict[str, int], opposite: dict[str, np.ndarray]
    ) -> tuple[pa.Table, int]:
        if self.spec.form == "counts":
            return self._counts([f for f in found if isinstance(f, Counts)], arrived, opposite)
        ordered = [f for f in found if isinstance(f, OrderedPairs)]
        pairs = [f for f in found if isinstance(f, Pairs)]
        parts = {side: [getattr(p, side) for p in ordered] for side in SIDES}
        for side in SIDES:
            parts[side] += [p.probing if p.side == side else p.stored for p in pairs]
        matches = sum(map(len, parts["left"]))
        if self.spec.form == "pairs" and self.spec.order == "none":
            columns = [pa.chunked_array([pa.array(part) for part in parts[side]], pa.int64()) for side in SIDES]
            return pa.table(columns, schema=PAIRS_SCHEMA), matches
        rows = {side: np.concatenate(p, out=empty_array(matches, np.int64)) for side, p in parts.items() if p}
        rows = rows or {side: np.zeros(0, np.int64) for side in SIDES}
        if self.spec.order != "none" and pairs and matches > 1:
            # A row's place in the total order is its own number plus the rows of the other stream before it.
            places = []
            for p in pairs:
                before = opposite[p.side][p.probing - self._arrived[p.side]]
                places.append(p.probing + before)
            stored = np.concatenate([p.stored for p in pairs])
            place = np.concatenate(places)
            order = _order(place - place.min(), stored - stored.min())
            rows = {side: r[order] for side, r in rows.items()}
        if self.spec.form == "pairs":
            return pa.table([pa.array(rows["left"]), pa.array(rows["right"])], schema=PAIRS_SCHEMA), matches
        schema = self.output_schema
        assert schema is not None
        columns = [c for side in SIDES for c in self._stores[side].take(rows[side]).columns]
        return pa.table(columns, schema=schema), matches

    def _counts(
        self, found: list[Counts], arrived: dict[str, int], opposite: dict[str, np.ndarray]
    ) -> tuple[pa.Table, int]:
        sides, numbers, totals, places = [], [], [], []
        for side in SIDES:
            base, n = self._arrived[side], arrived[side] - self._arrived[side]
            total = np.zeros(n, np.int64)
            for part in found:
                if part.side == side:
                    total[part.probing - base] += part.counts
            rows = np.arange(base, base + n, dtype=np.int64)
            sides.append(np.full(n, SIDES.index(side), np.int8))
            numbers.append(rows)
            totals.append(total)
            places.append(rows + opposite[side])
        order = np.argsort(np.concatenate(places), kind="stable")
        names = pa.DictionaryArray.from_arrays(pa.array(np.concatenate(sides)[order]), pa.array(SIDES)).cast(
            pa.string()
        )
        total = np.concatenate(totals)
        table = pa.table(
            [names, pa.array(np.concatenate(numbers)[order]), pa.array(total[order])], schema=COUNTS_SCHEMA
        )
        return table, int(total.sum())


def _found(
    parts: Iterator[Pairs | OrderedPairs | Counts],
) -> tuple[list[Pairs | OrderedPairs | Counts], IncompleteError | None]:
    """What an engine finds, and the error if the device lost some of it."""
    found = []
    try:
        for part in parts:
            found.append(part)  # noqa: PERF402 (what came before the error is kept)
    except IncompleteError as error:
        return found, error
    return found, None


def _order(place: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """Indices that sort by place, then by stored row; both start at 0."""
    if int(place.max()) < 1 << 31 and int(stored.max()) < 1 << 32:
        return np.argsort((place << 32) | stored)
    return np.lexsort((stored, place))


def _same_width(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as int64, or as exact Python integers where a uint64 does not fit."""
    if any(v.dtype == np.uint64 and len(v) and int(v[-1]) > _INT64.max for v in (a, b)):
        return a.astype(object), b.astype(object)
    return a.astype(np.int64), b.astype(np.int64)


def _as_table(side: str, batch: pa.Table | pa.RecordBatch | None) -> pa.Table | None:
    if batch is None or isinstance(batch, pa.Table):
        return batch
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    raise SchemaError(f"the {side} batch must be an Arrow table, record batch or None, not {type(batch).__name__}")
