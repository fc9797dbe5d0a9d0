"""The rows that index ranges stand for."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.host.call import Batch
from muntin.host.engine.row_log import empty_table
from muntin.host.errors import SchemaError, UnsupportedError
from muntin.host.frames import ArrowColumns, ArrowRows, as_schema, as_table
from muntin.host.join.sequencer import Sequencer
from muntin.host.keys.kept_types import kept
from muntin.host.public import public
from muntin.host.sides import OTHER, SIDES, Side, Sides
from muntin.host.spec import PAIRS_SCHEMA, RANGES_SCHEMA, JoinSpec

RUNS = b"muntin.runs"
"""What happened to the runs of each side during a call, in the metadata of its result's schema."""

_ROWS, _MERGE, _PAST, _DROP = range(4)


@dataclasses.dataclass
class _Run:
    """A sorted run: keys, arrival numbers and, in time windows, event times."""

    keys: np.ndarray
    rows: np.ndarray
    times: np.ndarray | None

    @classmethod
    def sorted(cls, keys: np.ndarray, rows: np.ndarray, times: np.ndarray | None) -> _Run:
        """Of rows in the order of arrival."""
        run = cls(keys, rows, times)
        return run.take(np.argsort(run.words, kind="stable"))

    @property
    def words(self) -> np.ndarray:
        """The core's, in whose order rows are: keys, above the low 32 bits of arrival numbers where keys are narrow."""
        if self.keys.dtype.itemsize == 4:
            return (self.keys.astype(np.int64) << 32) | (self.rows & 0xFFFFFFFF)
        return self.keys

    def take(self, which: np.ndarray) -> _Run:
        return _Run(self.keys[which], self.rows[which], None if self.times is None else self.times[which])

    def merged(self, newer: _Run) -> _Run:
        """With the rows of a newer run, which are looked up in this one: no row is sorted a second time."""
        places = np.searchsorted(self.words, newer.words, "right") + np.arange(len(newer.rows))
        own = np.ones(len(self.rows) + len(newer.rows), np.bool_)
        own[places] = False

        def both(one: np.ndarray, other: np.ndarray) -> np.ndarray:
            column = np.empty(len(own), one.dtype)
            column[own], column[places] = one, other
            return column

        times = None
        if self.times is not None and newer.times is not None:
            times = both(self.times, newer.times)
        return _Run(both(self.keys, newer.keys), both(self.rows, newer.rows), times)


@public("muntin.index")
class RangeMirror:
    """Follows the runs of a join with ``form="ranges"``, and gives the pairs that its ranges stand for.

    It takes the rows that the join takes, in the same calls, and what the join gives back: a few numbers for each
    probing row and run, however many rows those match. It keeps keys, arrival numbers and times of the windows.

    Source: PanJoin, section III-D (the manager's mirror of the main arrays).

    Parameters
    ----------
    spec : JoinSpec
        Of the join: `WindowJoin.spec`.
    left_schema, right_schema : pyarrow.Schema
        Columns of each side, or what `WindowJoin` takes for them.

    Raises
    ------
    UnsupportedError
        If the join's form is another.
    SchemaError, KeyTypeError, PredicateError
        As `JoinSpec.output_schema`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> bids, asks = pa.table({"limit": [10, 20]}), pa.table({"price": [11, 12, 40]})
    >>> from muntin import Band, Rows, WindowJoin
    >>> from muntin.index import RangeMirror
    >>> join = WindowJoin(on=Band("limit", "price", -5, 5), left=Rows(1000), right=Rows(1000), form="ranges")
    >>> mirror = RangeMirror(join.spec, bids.schema, asks.schema)
    >>> mirror.pairs(join.process(bids, asks), bids, asks).num_rows
    2
    """

    def __init__(self, spec: JoinSpec, left_schema: ArrowColumns, right_schema: ArrowColumns):
        if spec.form != "ranges":
            raise UnsupportedError(f"a mirror is for form='ranges', not {spec.form!r}")
        left_schema, right_schema = as_schema("left_schema", left_schema), as_schema("right_schema", right_schema)
        spec.output_schema(left_schema, right_schema)
        self._schemas = {"left": left_schema, "right": right_schema}
        self._columns = {side: spec.kept_columns(side, left_schema, right_schema) for side in SIDES}
        self._sequencer = Sequencer(spec, left_schema, right_schema)
        bits = max(kind.bits for kind in self._sequencer.generator.key_types.values())
        self._dtype = np.dtype(f"int{bits}")
        self._runs: Sides[dict[int, _Run]] = {side: {} for side in SIDES}

    @property
    def nbytes(self) -> int:
        """Memory of the mirrored runs."""
        return sum(
            run.keys.nbytes + run.rows.nbytes + (0 if run.times is None else run.times.nbytes)
            for runs in self._runs.values()
            for run in runs.values()
        )

    def pairs(self, ranges: pa.Table, left: ArrowRows | None = None, right: ArrowRows | None = None) -> pa.Table:
        """The pairs of one call.

        Parameters
        ----------
        ranges : pyarrow.Table
            What `WindowJoin.process` gave for these rows. Calls must come in order, each once, those too that found
            nothing.
        left, right : rows as of `WindowJoin.process`, or None
            The rows of the call.

        Returns
        -------
        pyarrow.Table
            `left_row`, `right_row`: those of ``form="pairs"``, in no particular order.

        Raises
        ------
        SchemaError
            If the table is no result of such a join, or calls are missing before it.
        """
        metadata = ranges.schema.metadata or {}
        if not ranges.schema.equals(RANGES_SCHEMA) or RUNS not in metadata:
            raise SchemaError("a mirror takes the result of a join with form='ranges', its metadata included")
        events = json.loads(metadata[RUNS])
        tables: Sides[pa.Table] = {}
        for side, given in zip(SIDES, (left, right), strict=True):
            schema = self._schemas[side]
            rows = empty_table(schema) if given is None else as_table(f"the {side} batch", given, schema)
            tables[side] = kept(rows.select(self._columns[side]))
        call = self._sequencer.sequence(tables, events["pushes"])
        try:
            ended = {side: self._follow(side, call.batches[side], events) for side in SIDES}
            parts = [part for side in SIDES for part in self._found(side, ranges)]
        except KeyError as error:
            raise SchemaError(f"run {error} is unknown: a mirror takes every call of its join, in order") from error
        self._sequencer.advance(call)
        for side in SIDES:
            for run in ended[side]:
                del self._runs[side][run]
        columns = [np.concatenate([np.zeros(0, np.int64), *column]) for column in zip(*parts, strict=True)]
        return pa.table(columns or [np.zeros(0, np.int64)] * 2, schema=PAIRS_SCHEMA)

    def _follow(self, side: Side, batch: Batch, events: dict[str, Any]) -> list[int]:
        """Does to the runs of a side what the join did; the runs that have ended, which ranges may still name."""
        runs, ended = self._runs[side], []
        partitions, places = events.get("partitions", 1), np.zeros(len(batch), np.int64)
        for partition, first, last in events["placed"][side] if partitions > 1 else ():
            places[np.searchsorted(batch.rows, first) : np.searchsorted(batch.rows, last, "right")] = partition
        for kind, number, first, second in events[side]:
            if kind == _ROWS:
                own = places == number % partitions
                which = np.flatnonzero((batch.rows >= first) & (batch.rows <= second) & own)
                times = None if batch.times is None else batch.times[which]
                runs[number] = _Run.sorted(batch.keys[which].astype(self._dtype), batch.rows[which], times)
            elif kind == _MERGE:
                runs[number] = runs[first].merged(runs[second])
                ended += [first, second]
            elif kind == _PAST:
                times = runs[first].times
                assert times is not None
                runs[number] = runs[first].take(np.flatnonzero(times > second))
                ended.append(first)
            else:
                ended.append(number)
        return ended

    def _found(self, side: Side, ranges: pa.Table) -> list[tuple[np.ndarray, np.ndarray]]:
        """Left and right rows of the pairs that rows of one side found, by run."""
        chosen = np.flatnonzero(ranges["side"].to_numpy() == side)
        column = {name: ranges[name].to_numpy()[chosen] for name in ("row", "run", "start", "end", "not")}
        limits = {name: ranges[name].take(chosen) for name in ("first_row", "last_row", "first_time", "last_time")}
        timed = limits["first_time"].null_count == 0
        limit = {name: limits[name].to_numpy() for name in limits if timed or name.endswith("row")}
        order = np.argsort(column["run"], kind="stable")
        borders = np.flatnonzero(np.diff(column["run"][order])) + 1
        found = []
        for own in np.split(order, borders) if len(order) else []:
            run = self._runs[OTHER[side]][int(column["run"][own[0]])]
            start, end = column["start"][own], column["end"][own]
            if column["not"][own[0]]:  # what lies before each range, and behind it
                own = np.concatenate([own, own])
                start, end = np.concatenate([0 * start, end]), np.concatenate([start, 0 * end + len(run.rows)])
            lengths = end - start
            probe = np.repeat(own, lengths)
            at = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths) + np.repeat(start, lengths)
            stored = run.rows[at]
            seen = (limit["first_row"][probe] <= stored) & (stored <= limit["last_row"][probe])
            if run.times is not None:
                times = run.times[at]
                seen &= (limit["first_time"][probe] <= times) & (times <= limit["last_time"][probe])
            pair = column["row"][probe][seen], stored[seen]
            found.append(pair if side == "left" else pair[::-1])
        return found
