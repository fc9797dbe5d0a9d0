"""What engines keep of rows for aggregates, and how results become columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.host.aggregates import Aggregate, Collect, Count, Kinds, OfRow, result_type, values
from muntin.host.aggregates.folds import FOLDS
from muntin.host.errors import KeyTypeError, SchemaError, SqlError, SumOverflowError, WindowError
from muntin.host.keys.columns import column_of, column_type, has_column, root_column
from muntin.host.keys.condition import Filter, condition_columns
from muntin.host.keys.key_type import _raw_values, of_column
from muntin.host.predicates import one_sided
from muntin.host.sides import OTHER, Side, Sides
from muntin.host.windows import Within
from muntin.host.windows.time_axis import TimeAxis

if TYPE_CHECKING:
    from muntin.host.call import Batch


class KeptRows(Protocol):
    """Rows that can be taken by their numbers, as `muntin.host.engine.row_log.RowLog` has them."""

    @property
    def schema(self) -> pa.Schema:
        """Of all their columns."""

    def take(self, rows: np.ndarray, names: list[str]) -> list[pa.ChunkedArray]:
        """Columns, by their names, of the rows of these numbers, int64, shape (n,)."""


class Window(NamedTuple):
    """A window of some aggregates within that of the join.

    Attributes
    ----------
    low, high : int
        Of right less left time, both included, as times are encoded.
    prevailing : bool
        And the newest row before it.
    """

    low: int
    high: int
    prevailing: bool


def window_of(aggregate: Aggregate, within: Within | None, kinds: Sequence[pa.DataType]) -> Window | None:
    """The window of an aggregate's own in that of a join, whose time columns have these types.

    Raises
    ------
    WindowError
        If it reaches beyond.
    """
    if within is None or (aggregate.within is None and not aggregate.prevailing):
        return None
    low, high = aggregate.within or (None, None)
    ends = {"low": within.low if low is None else low, "high": within.high if high is None else high}
    whole, own = (TimeAxis(each, None, *kinds) for each in (within, dataclasses.replace(within, **ends)))
    if own.low < whole.low or own.high > whole.high:
        raise WindowError(
            f"{aggregate.output!r} reaches beyond the window of the join, {within.in_words()}: widen that"
        )
    return Window(own.low, own.high, aggregate.prevailing)


class _Kept(NamedTuple):
    """What is kept of each row: a fold, of what, and of which rows."""

    fold: str
    columns: tuple[str, ...]
    filter: Any


class _Found(NamedTuple):
    """What a probe brings: of what is kept, in the window of the join or in one within it."""

    kept: _Kept
    window: Window | None
    earlier: bool = False  # of the row before the window alone


#: By which newest rows of several engines are compared.
_NEWEST = _Kept("last", (), None)


class Probe(NamedTuple):
    """What is asked of rows in a window.

    Attributes
    ----------
    window : Window or None
        None: that of the join.
    folds, places : list of int
        Which of `AggregatePlan.folds`, and where in `AggregatePlan.found` they belong.
    prevailing, own : bool
        Of the newest row before it, of those in it.
    """

    window: Window | None
    folds: list[int]
    places: list[int]
    prevailing: bool
    own: bool


class _Tests(NamedTuple):
    """A filter as rows of one side are asked it."""

    columns: tuple[str, ...]
    tests: tuple[Filter, ...]


def _tests(given: Any, side: Side, schema: pa.Schema) -> _Tests:
    """Raises SqlError if rows of this side cannot be asked it; KeyTypeError, PredicateError."""
    if given is None:
        return _Tests((), ())
    if isinstance(given, str):
        from muntin.host.sql import parse_condition

        none = pa.schema([])
        given = parse_condition(given, *((schema, none) if side == "left" else (none, schema)))
    columns = tuple(name for name, _ in condition_columns(given, side))
    for other, _ in condition_columns(given, OTHER[side]):
        raise SqlError(f"a filter of rows of the {side} side names column {other!r} of the {OTHER[side]} side")
    for column in columns:
        if not has_column(schema, column):
            raise SqlError(f"the {side} side has no column {column!r} of a filter: it has {', '.join(schema.names)}")
    parts = given.conjuncts
    if not all(map(one_sided, parts)):
        raise SqlError("a filter asks rows of one side: a column and a constant, joined by AND; OR over one column")
    return _Tests(columns, tuple(Filter(part, {side: schema}) for part in parts))


def columns_of(aggregate: Aggregate, side: Side, schema: pa.Schema) -> tuple[str, ...]:
    """The columns of a side that an aggregate of its rows reads; none where it has not all of them."""
    if not all(has_column(schema, path) for path in aggregate.columns):
        return ()
    try:
        return (*aggregate.columns, *_tests(aggregate.filter, side, schema).columns)
    except SqlError:
        return ()


class AggregatePlan:
    """What an engine keeps of the rows of each side, and what it makes of that.

    Parameters
    ----------
    aggregates : tuple of Aggregate
    schemas : dict of str to pyarrow.Schema
        Columns of each side whose rows may be met.
    windows : sequence of Window or None
        Of each aggregate, the one of its own.
    apart : bool
        The rows of a value may lie in several engines, so the row before a window is found apart from those in it.

    Attributes
    ----------
    windows : list of Window or None
        All windows, None that of the join, which comes first.
    prevailing : bool
        Some windows have the newest row before them.
    found : dict of str to list of str
        What probes bring of the rows of each side, as `muntin.host.aggregates.folds.FOLDS` has it.
    logged : dict of str to set of str
        The columns of each side whose values come out of single rows.
    fields : list of pyarrow.Field
        The columns of the result.

    Raises
    ------
    SchemaError
        If no side has a column, or two columns of the result have one name.
    SqlError
        If a filter's text is no condition on the columns of one side.
    KeyTypeError
        If a column's type has no such aggregate, or the two sides differ in it.
    """

    def __init__(
        self, aggregates: tuple[Aggregate, ...], schemas: Sides[pa.Schema], windows: Sequence[Window | None], *,
        apart: bool = False,
    ):  # fmt: skip
        self._apart = apart
        self._of = windows
        self.windows = [None, *sorted({window for window in windows if window is not None})]
        self.prevailing = any(window is not None and window.prevailing for window in windows)
        self._found: Sides[list[_Found]] = {side: [] for side in schemas}
        self._aggregates = aggregates
        self._schemas = schemas
        self._kept: Sides[list[_Kept]] = {side: [] for side in schemas}
        self._tests: Sides[dict[Any, tuple[Filter, ...]]] = {side: {} for side in schemas}
        self._kinds: list[Sides[Kinds]] = []  # of the columns of each aggregate, by the sides that have them
        self.logged: Sides[set[str]] = {side: set() for side in schemas}
        self.fields: list[pa.Field] = []
        for aggregate, window in zip(aggregates, windows, strict=True):
            kinds = self._sides(aggregate)
            self._kinds.append(kinds)
            types = {side: result_type(aggregate, own) for side, own in kinds.items()}
            # NULL takes the other side's type too.
            types = {side: kind for side, kind in types.items() if not _is_null(kinds[side])} or types
            first, *others = types.values()
            if any(not kind.equals(first) for kind in others):
                raise KeyTypeError(
                    f"{aggregate.output!r} has type {types['left']} of left rows and {types['right']} of right rows: "
                    f"cast column {aggregate.column!r} on one side"
                )
            if any(field.name == aggregate.output for field in self.fields):
                raise SchemaError(f"the result would have two columns {aggregate.output!r}: give one of them a name=")
            self.fields.append(pa.field(aggregate.output, first))
            for side, own in kinds.items():
                for kept in _kept(aggregate, own):
                    if kept not in self._kept[side]:
                        self._kept[side].append(kept)
                    self._find(side, kept, window)
                if isinstance(aggregate, OfRow):
                    self.logged[side].add(root_column(schemas[side], str(aggregate.column)))

    def _find(self, side: Side, kept: _Kept, window: Window | None) -> None:
        """Has probes bring what is kept, in a window."""
        wanted = [_Found(kept, window)]
        if self._apart and window is not None and window.prevailing:
            self._tests[side].setdefault(None, ())
            if _NEWEST not in self._kept[side]:
                self._kept[side].append(_NEWEST)
            wanted += [_Found(_NEWEST, window, True), _Found(kept, window, True)]
        self._found[side] += [found for found in dict.fromkeys(wanted) if found not in self._found[side]]

    @property
    def ranks(self) -> Sides[list[int | None]]:
        """Of each of `found` that takes its value from one row, before a window, which of them tells it."""
        return {
            side: [found.index(each._replace(kept=_NEWEST)) if each.earlier else None for each in found]
            for side, found in self._found.items()
        }

    def _sides(self, aggregate: Aggregate) -> Sides[Kinds]:
        """The types of the columns of an aggregate, by the sides whose rows have all of them; one at least."""
        given = "; ".join(f"the {side} side has {', '.join(schema.names)}" for side, schema in self._schemas.items())
        for path in aggregate.columns:
            if not any(has_column(schema, path) for schema in self._schemas.values()):
                raise SchemaError(f"there is no column {path!r}, of {aggregate.output!r}: {given}")
        found: Sides[Kinds] = {}
        failed: SqlError | None = None
        for side, schema in self._schemas.items():
            if not all(has_column(schema, path) for path in aggregate.columns):
                continue
            try:
                self._tests[side][aggregate.filter] = _tests(aggregate.filter, side, schema)[1]
            except SqlError as error:
                failed = error
                continue
            found[side] = {path: column_type(schema, path) for path in aggregate.columns}
        if not found:
            raise failed or SchemaError(
                f"no side has all columns of {aggregate.output!r}, {', '.join(aggregate.columns)}: {given}"
            )
        return found

    @property
    def folds(self) -> Sides[list[str]]:
        """What is kept of the rows of each side, as `muntin.host.aggregates.folds.FOLDS` has it."""
        return {side: [values.CORE[each.fold] for each in kept] for side, kept in self._kept.items()}

    @property
    def found(self) -> Sides[list[str]]:
        return {side: [values.CORE[each.kept.fold] for each in found] for side, found in self._found.items()}

    def probes(self, side: Side) -> list[Probe]:
        """What is asked of the rows of a side."""
        out = []
        for window, earlier in [(window, earlier) for window in self.windows for earlier in (False, True)]:
            places = [at for at, each in enumerate(self._found[side]) if each[1:] == (window, earlier)]
            if places or (window is None and not earlier):  # the number of all rows is asked for in any case
                which = [self._kept[side].index(self._found[side][at].kept) for at in places]
                prevailing = window is not None and window.prevailing and earlier == self._apart
                out.append(Probe(window, which, places, prevailing, not earlier))
        return out

    def encode(self, side: Side, table: pa.Table, batch: Batch, places: np.ndarray) -> tuple[np.ndarray, ...]:
        """What is kept of rows of a side: an array for each fold, shape (n,), or (n, words).

        Parameters
        ----------
        side : str
        table : pyarrow.Table
            With the rows, and others.
        batch : Batch
            The rows, n of them.
        places : ndarray of int64, shape (n,)
            Where they stand in the table.

        Raises
        ------
        KeyTypeError
            If a decimal has more digits than its type says.
        SumOverflowError
            If a row has a value of which a sum or mean may not fit its type.
        """
        given = {path: column_of(table, path) for kept in self._kept[side] for path in kept.columns}
        valid = {path: pc.is_valid(each).to_numpy().astype(np.bool_)[places] for path, each in given.items()}
        passing: dict[Any, np.ndarray] = {}
        for filter_, tests in self._tests[side].items():
            passing[filter_] = np.logical_and.reduce(
                [np.ones(len(places), np.bool_), *(t.holds(table)[places] for t in tests)]
            )
        columns: dict[str, values.Column] = {}

        def column(path: str) -> values.Column:
            if path not in columns:
                kind = column_type(self._schemas[side], path)
                raw = _raw_values(pa.concat_arrays([pa.array([], kind), *given[path].chunks]))
                columns[path] = values.Column(kind, raw[places])
            return columns[path]

        out = []
        for kept in self._kept[side]:
            counts = np.logical_and.reduce([passing[kept.filter], *(valid[path] for path in kept.columns)])
            needed = [] if kept.fold in ("some", "each") else [column(path) for path in kept.columns]
            try:
                with of_column(", ".join(kept.columns), side):
                    out.append(values.encoded(kept.fold, needed, counts, batch))
            except KeyTypeError as error:
                error.of_rows(side, places[list(error.rows)])
                raise
        for aggregate, kinds, field in zip(self._aggregates, self._kinds, self.fields, strict=True):
            plain = side in kinds and not _is_null(kinds[side])
            for path, (least, greatest, why) in aggregate._ends(kinds[side]).items() if plain else ():
                paths = (path, *aggregate.columns)
                counts = np.logical_and.reduce([passing[aggregate.filter], *(valid[each] for each in paths)])
                if (wrong := counts & values.beyond(column(path), least, greatest)).any():
                    at = int(np.argmax(wrong))
                    raise SumOverflowError(
                        f"{aggregate.output!r} is {field.type}, and {why}: column {path!r} of the "
                        f"{side} side has {column_of(table, path)[int(places[at])].as_py()}. Nothing of the call "
                        "has been applied: leave the row out, by filter= too, or cast the column to fewer digits or to "
                        "double"
                    ).of_rows(side, places[wrong], path)
        return tuple(out)

    def columns(
        self, side: Side, counts: np.ndarray, results: list[Any], log: KeptRows | None
    ) -> list[pa.ChunkedArray]:
        """The columns of the result for rows of one side.

        Parameters
        ----------
        side : str
            Whose rows have probed.
        counts : ndarray of int64, shape (n,)
            How many rows each has met.
        results : list
            What the core gives for each fold of the other side.
        log : KeptRows or None
            Of the other side's rows.
        """
        other = OTHER[side]
        held = dict(zip(self._found[other], results, strict=True))
        out = []
        given = zip(self._aggregates, self._kinds, self.fields, self._of, strict=True)
        for aggregate, kinds, field, window in given:
            if _counts_all(aggregate):
                out.append(pa.array(counts))
            elif other not in kinds or not (keeps := _kept(aggregate, kinds[other])):
                if isinstance(aggregate, Collect) and other in kinds:  # of a column that is NULL by its type
                    starts, nothing = np.zeros(len(counts) + 1, np.int32), pa.nulls(0, field.type.value_type)
                    out.append(pa.ListArray.from_arrays(pa.array(starts), nothing))
                else:
                    out.append(pa.nulls(len(counts), field.type))
            else:
                own = {kept.fold: self._whole(held, _Found(kept, window), len(counts)) for kept in keeps}
                value = aggregate._value(kinds[other], field.type, own)
                out.append(self._taken(aggregate, other, value, log) if isinstance(aggregate, OfRow) else value)
        return out

    @staticmethod
    def _whole(held: dict[_Found, Any], found: _Found, count: int) -> Any:
        """What was found in a window, with that of the row before it."""
        parts = [held[each] for each in (found, found._replace(earlier=True)) if each in held]
        merge, rows = FOLDS[values.CORE[found.kept.fold]].merge, np.arange(count)
        return parts[0] if len(parts) == 1 else merge(count, [rows, rows], parts)

    def _taken(self, aggregate: Aggregate, side: Side, chosen: Any, log: KeptRows | None) -> pa.ChunkedArray:
        """The values of rows by their numbers, NULL for those below 0; or lists of these."""
        assert log is not None
        name = root_column(self._schemas[side], str(aggregate.column))

        def take(rows: np.ndarray) -> pa.ChunkedArray:
            taken = pa.table(log.take(rows, [name]), schema=pa.schema([log.schema.field(name)]))
            return column_of(taken, str(aggregate.column))

        if isinstance(aggregate, Collect):
            starts, rows = chosen
            return values.lists(aggregate.output, starts, rows, take)
        return take(chosen)


def _kept(aggregate: Aggregate, kinds: Kinds) -> list[_Kept]:
    """What an aggregate of columns of these types is made of; nothing where it is NULL, or the number of rows."""
    if isinstance(aggregate, Count):
        return [] if _counts_all(aggregate) else [_Kept("some", aggregate.columns, aggregate.filter)]
    if _is_null(kinds):
        return []
    return [_Kept(fold, aggregate._asked, aggregate.filter) for fold in aggregate._folds(kinds)]


def _counts_all(aggregate: Aggregate) -> bool:
    """Whether an aggregate is the number of all rows that are met."""
    plain = aggregate.filter is None and aggregate.within is None and not aggregate.prevailing
    return aggregate.column is None and plain


def _is_null(kinds: Kinds) -> bool:
    """Whether a column has no values by its type."""
    return any(map(pa.types.is_null, kinds.values()))
