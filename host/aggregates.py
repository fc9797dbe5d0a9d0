"""Aggregates of the rows that a row matches: what ``form="aggregate"`` gives."""

from __future__ import annotations

import abc
import dataclasses
import re
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.host import aggregate_values as values
from muntin.host.columns import column_of, column_type, has_column, root_column
from muntin.host.errors import KeyTypeError, PredicateError, SchemaError, SqlError
from muntin.host.join.condition import Filter, condition_columns, in_words, parts_of
from muntin.host.key_type import _raw_values
from muntin.host.predicates import AllOf, AnyOf, Where, from_dict, one_sided

if TYPE_CHECKING:
    from muntin.host.join.engine import Batch
    from muntin.host.join.row_log import RowLog

_OTHER = {"left": "right", "right": "left"}
Kinds = dict[str, pa.DataType]  # of the columns of one side
Held = dict[str, Any]  # what the core gives, by the names of `aggregate_values.CORE`


@dataclasses.dataclass(frozen=True)
class Aggregate(abc.ABC):
    """One value made of a column of all rows of the other side that a row matches.

    Parameters
    ----------
    column : str
        A column, or a field of a struct (``"quote.price"``), of the other side.
    name : str, optional
        Of the column in the result; as Spark has it by default, such as ``"sum(price)"``.
    filter : str, Where, AnyOf or AllOf, optional
        Which of the rows count, by columns of the same side: ``"size > 5 AND venue = 'X'"``, or parts about one side.

    Raises
    ------
    PredicateError
        If one is no text, or the filter compares the two sides.
    """

    column: str | None
    name: str | None = dataclasses.field(default=None, kw_only=True)
    filter: Any = dataclasses.field(default=None, kw_only=True)
    function: ClassVar[str]
    paths: ClassVar[tuple[str, ...]] = ("column",)  # fields that name columns

    def __post_init__(self) -> None:
        for what in (*self.paths, "name"):
            value = getattr(self, what)
            optional = what in self._optional
            if not (isinstance(value, str) and value) and not (optional and value is None):
                raise PredicateError(f"{what} of {type(self).__name__} must be the name of a column, not {value!r}")
        if not (self.filter is None or isinstance(self.filter, str)):
            plain = isinstance(self.filter, (Where, AnyOf, AllOf))
            if not plain or not all(map(one_sided, parts_of(self.filter))):
                raise PredicateError(
                    f"filter of {type(self).__name__} must be a text, or Where(...) and AnyOf and AllOf of these, not "
                    f"{self.filter!r}"
                )

    _optional: ClassVar[tuple[str, ...]] = ("name",)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is made of, those of the filter aside."""
        return tuple(path for what in self.paths if (path := getattr(self, what)) is not None)

    @property
    def _asked(self) -> tuple[str, ...]:
        """Those of them that must have a value for a row to count."""
        return self.columns

    @property
    def output(self) -> str:
        """The name of the column in the result."""
        if self.name:
            return self.name
        told = "" if self.filter is None else self.filter if isinstance(self.filter, str) else in_words(self.filter)
        return f"{self._call}{told and f' filter (where {told})'}"

    @property
    def _call(self) -> str:
        return f"{self.function}({', '.join(self.columns)})"

    def alias(self, name: str) -> Aggregate:
        """The same under another name."""
        return dataclasses.replace(self, name=name)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form, read back by `aggregate_from_dict`."""
        given: dict[str, Any] = {"function": self.function, "column": self.column, "name": self.name}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None and field.name not in given:
                given[field.name] = value if isinstance(value, (str, int, float)) else value.to_dict()
        return given

    # Of columns of these types, all there

    @abc.abstractmethod
    def _type(self, kinds: Kinds) -> pa.DataType | None:
        """Of the result; None: there is no such aggregate."""

    @abc.abstractmethod
    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        """What is kept of each row, by the names of `aggregate_values.CORE`."""

    @abc.abstractmethod
    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        """The column of the result; rows for `_rows`."""


def _number(kind: pa.DataType) -> bool:
    decimal = pa.types.is_decimal(kind) and kind.precision <= values.MOST_DIGITS
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or decimal


def _ordered(kind: pa.DataType) -> bool:
    types = pa.types
    moment = types.is_date(kind) or types.is_timestamp(kind) or types.is_duration(kind) or types.is_time(kind)
    return _number(kind) or moment


@dataclasses.dataclass(frozen=True)
class Count(Aggregate):
    """How many rows match, int64; of a column, how many of them are not NULL there."""

    column: str | None = None
    function = "count"
    _optional = ("name", "column")

    @property
    def _call(self) -> str:
        return f"count({1 if self.column is None else self.column})"

    def _type(self, kinds: Kinds) -> pa.DataType | None:
        return pa.int64()

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        return ("some",)

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        return pa.array(held["some"])


@dataclasses.dataclass(frozen=True)
class Sum(Aggregate):
    """The sum of the values that are not NULL; NULL where there are none.

    Exact for integers, which give int64 (uint64: uint64), and for decimals of p digits, which give decimals of p + 10,
    38 at most; a sum that does not fit is a `SumOverflowError`. Floats give float64, off by at most 2**-51 of the sum
    of the absolute values that are added.
    """

    function = "sum"

    def _type(self, kinds: Kinds) -> pa.DataType | None:
        kind = kinds[str(self.column)]
        if pa.types.is_decimal(kind) and _number(kind):
            return values.decimal_of(kind, 10, 0)
        if pa.types.is_integer(kind):
            return pa.uint64() if pa.types.is_uint64(kind) else pa.int64()
        return pa.float64() if pa.types.is_floating(kind) or pa.types.is_null(kind) else None

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        return ("some", *values.sum_folds(kinds[str(self.column)]))

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        return values.sums(self.output, str(self.column), kinds[str(self.column)], out, held)


class _Extreme(Aggregate):
    def _type(self, kinds: Kinds) -> pa.DataType | None:
        kind = kinds[str(self.column)]
        return kind if _ordered(kind) or pa.types.is_null(kind) else None

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        wide = values.is_wide(kinds[str(self.column)]) and not pa.types.is_uint64(kinds[str(self.column)])
        return ("some", self.function + ("_wide" if wide else ""))

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        codes = held[self._folds(kinds)[1]]
        return values.extremes(~codes if self.function == "max" else codes, kinds[str(self.column)], held["some"] > 0)


@dataclasses.dataclass(frozen=True)
class Min(_Extreme):
    """The least value that is not NULL; NULL where there is none. NaN is above all others, as Spark orders it."""

    function = "min"


@dataclasses.dataclass(frozen=True)
class Max(_Extreme):
    """The greatest value that is not NULL; NULL where there is none. NaN is above all others, as Spark orders it."""

    function = "max"


@dataclasses.dataclass(frozen=True)
class Mean(Aggregate):
    """The mean of the values that are not NULL; NULL where there are none.

    float64: the sum, rounded, by their number; decimals of p digits, s of them behind the point, give p + 4 and s + 4,
    38 at most, rounded half up.

    Parameters
    ----------
    weight : str, optional
        A column of numbers: each value counts so many times, as in a volume-weighted average price. Rows whose weight
        is NULL do not count; where weights add up to 0 the mean is NULL. Products of integers and decimals are exact,
        so they must fit 127 bits; of floats the sum of products is off by at most 2**-50 of that of their absolute
        values.
    """

    weight: str | None = dataclasses.field(default=None, kw_only=True)
    paths = ("column", "weight")
    _optional = ("name", "weight")

    @property
    def function(self) -> str:  # type: ignore[override]
        return "avg" if self.weight is None else "weighted_avg"

    def _type(self, kinds: Kinds) -> pa.DataType | None:
        if not all(_number(kind) or pa.types.is_null(kind) for kind in kinds.values()):
            return None
        kind = kinds[str(self.column)]
        if any(map(pa.types.is_floating, kinds.values())) or not pa.types.is_decimal(kind):
            return pa.float64()
        return values.decimal_of(kind, 4, 4)

    def _check(self, kinds: Kinds) -> None:
        given = [kinds[path] for path in self.columns]
        if self.weight is not None and values.is_exact(given) and not values.product_fits(*given):
            raise KeyTypeError(
                f"{self.output!r} takes products of {given[0]} and {given[1]}, which may not fit 127 bits: cast column "
                f"{self.column!r} or {self.weight!r} to fewer digits, or to double"
            )

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        given = [kinds[path] for path in self.columns]
        if self.weight is None:
            return ("some", *values.sum_folds(given[0]))
        return ("some", *(values.EXACT_PRODUCT if values.is_exact(given) else values.PRODUCT))

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        return values.means(self.output, str(self.column), kinds[str(self.column)], out, held)


class _Spread(Aggregate):
    def _type(self, kinds: Kinds) -> pa.DataType | None:
        kind = kinds[str(self.column)]
        return pa.float64() if _number(kind) or pa.types.is_null(kind) else None

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        return ("some", "moments")

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        spread = values.variances(kinds[str(self.column)], held["some"], held["moments"])
        spread = np.sqrt(spread) if self.function == "stddev_samp" else spread
        return pa.array(spread, out, mask=held["some"] < 2)


@dataclasses.dataclass(frozen=True)
class Var(_Spread):
    """The sample variance of the values that are not NULL, float64; NULL of fewer than two.

    Of n values it is off by at most 2**-50 of itself and 2**-104 * n**2 of the sum of their squares over n - 1.
    Integers and decimals of more than 53 bits are rounded to float64 before. It is NaN where a value is NaN or
    infinite, or where squares do not fit float64.
    """

    function = "var_samp"


@dataclasses.dataclass(frozen=True)
class StdDev(_Spread):
    """The sample standard deviation of the values that are not NULL, float64: the square root of `Var`."""

    function = "stddev_samp"


class _OfRow(Aggregate):
    """The value of one row, which the core chooses."""

    @property
    def _asked(self) -> tuple[str, ...]:
        return self.columns[1:]

    def _type(self, kinds: Kinds) -> pa.DataType | None:
        return kinds[str(self.column)]

    def _folds(self, kinds: Kinds) -> tuple[str, ...]:
        return (self.function,)

    def _value(self, kinds: Kinds, out: pa.DataType, held: Held) -> pa.Array:
        return values.chosen_rows(held[self.function], last=self.function == "last")


@dataclasses.dataclass(frozen=True)
class First(_OfRow):
    """The value, of any type, of the first row by event time, of these the first to arrive, and without event times the
    first to arrive; NULL if it is NULL there."""

    function = "first"


@dataclasses.dataclass(frozen=True)
class Last(_OfRow):
    """The value, of any type, of the last row by event time, of these the last to arrive, and without event times the
    last to arrive; NULL if it is NULL there."""

    function = "last"


class _OfExtreme(_OfRow):
    by: str = ""
    paths = ("column", "by")

    def _type(self, kinds: Kinds) -> pa.DataType | None:
        by = kinds[self.by]
        return kinds[str(self.column)] if _ordered(by) or pa.types.is_null(by) else None


@dataclasses.dataclass(frozen=True)
class ArgMin(_OfExtreme):
    """The value, of any type, of the row with the least value of another column; of several the first to arrive.

    As Spark's ``min_by``: rows where `by` is NULL do not count, NULL in `column` does; NaN is above all other values.

    Parameters
    ----------
    by : str
        A column of numbers, dates, times or durations.
    """

    by: str
    function = "arg_min"


@dataclasses.dataclass(frozen=True)
class ArgMax(_OfExtreme):
    """The value, of any type, of the row with the greatest value of another column; of several the first to arrive.

    As Spark's ``max_by``: rows where `by` is NULL do not count, NULL in `column` does; NaN is above all other values.

    Parameters
    ----------
    by : str
        A column of numbers, dates, times or durations.
    """

    by: str
    function = "arg_max"


#: The functions: of texts and of what `Aggregate.to_dict` gives.
_KINDS: dict[str, type[Aggregate]] = {
    "count": Count, "sum": Sum, "min": Min, "max": Max, "avg": Mean, "mean": Mean, "weighted_avg": Mean, "vwap": Mean,
    "var_samp": Var, "variance": Var, "var": Var, "stddev_samp": StdDev, "stddev": StdDev, "first": First,
    "last": Last, "arg_min": ArgMin, "min_by": ArgMin, "arg_max": ArgMax, "max_by": ArgMax,
}  # fmt: skip
_TEXT = re.compile(
    r"\s*(\w+)\s*\(\s*([^()]*?)\s*\)\s*(?:filter\s*\(\s*where\s+(.*)\)\s*)?(?:(?<=[\s)])as\s+(\S+)\s*)?",
    re.IGNORECASE | re.DOTALL,
)


def aggregate_from_dict(data: dict[str, Any]) -> Aggregate:
    """What `Aggregate.to_dict` gave. Raises KeyError, TypeError for anything else."""
    more = dict(data)
    kind = _KINDS[more.pop("function")]
    if isinstance(more.get("filter"), dict):
        more["filter"] = from_dict(more["filter"])
    return kind(**more)


def open_aggregates(given: Any) -> tuple[Aggregate, ...]:
    """Aggregates, or their text such as ``"sum(price)"``, ``"count(*)"``, ``"avg(price) as mean"``, ``"arg_max(venue,
    price)"`` or ``"sum(size) filter (where venue = 'X')"``.

    Raises
    ------
    PredicateError
        If one is neither.
    """
    if isinstance(given, (str, Aggregate)):
        given = (given,)
    return tuple(each if isinstance(each, Aggregate) else _parsed(each) for each in given)


def _parsed(text: Any) -> Aggregate:
    found = _TEXT.fullmatch(text) if isinstance(text, str) else None
    kind = _KINDS.get(found[1].lower()) if found else None
    if found is not None and kind is not None:
        given = [each.strip() for each in found[2].split(",")]
        if kind is Count and given[0] in ("", "*", "1"):
            given = []
        names = [what for what in kind.paths if what != "weight" or found[1].lower() in ("weighted_avg", "vwap")]
        whole = len(given) == len(names) or (kind is Count and not given)
        if whole and all(each not in ("", "*", "1") for each in given):
            options = dict(zip(names, given, strict=False))
            return kind(**options, filter=found[3] and found[3].strip(), name=found[4])
    raise PredicateError(
        f"{text!r} is no aggregate: use count(*), count(column), {', '.join(_forms())}; behind it 'filter (where "
        "condition)' for some rows alone, and 'as name' where it is to have another name"
    )


def _forms() -> list[str]:
    kinds = {name: kind for name, kind in reversed(_KINDS.items()) if kind is not Count}
    first = {(kind, "weight" in kind.paths and name in ("weighted_avg", "vwap")): name for name, kind in kinds.items()}
    return [
        f"{name}({', '.join(what for what in kind.paths if what != 'weight' or weighted)})"
        for (kind, weighted), name in reversed(first.items())
    ]


def result_type(aggregate: Aggregate, kinds: Kinds) -> pa.DataType:
    """The type of an aggregate of columns of these types.

    Raises
    ------
    KeyTypeError
        If there is none.
    """
    kind = aggregate._type(kinds)
    if kind is None:
        told = " and ".join(f"column {path!r} of type {kinds[path]}" for path in aggregate.columns)
        raise KeyTypeError(
            f"there is no {aggregate.function} of {told}: use integers, floats, decimals of at most 38 digits"
            + (", dates or timestamps" if isinstance(aggregate, (_Extreme, _OfExtreme)) else "")
        )
    if isinstance(aggregate, Mean):
        aggregate._check(kinds)
    return kind


class _Kept(NamedTuple):
    """What is kept of each row: a fold, of what, and of which rows."""

    fold: str
    columns: tuple[str, ...]
    filter: Any


class _Tests(NamedTuple):
    """A filter as rows of one side are asked it."""

    columns: tuple[str, ...]
    tests: tuple[Filter, ...]


def _tests(given: Any, side: str, schema: pa.Schema) -> _Tests:
    """Raises SqlError if rows of this side cannot be asked it; KeyTypeError, PredicateError."""
    if given is None:
        return _Tests((), ())
    if isinstance(given, str):
        from muntin.host.sql import parse_condition

        none = pa.schema([])
        given = parse_condition(given, *((schema, none) if side == "left" else (none, schema)))
    columns = tuple(name for name, _ in condition_columns(given, side))
    for other, _ in condition_columns(given, _OTHER[side]):
        raise SqlError(f"a filter of rows of the {side} side names column {other!r} of the {_OTHER[side]} side")
    for column in columns:
        if not has_column(schema, column):
            raise SqlError(f"the {side} side has no column {column!r} of a filter: it has {', '.join(schema.names)}")
    parts = parts_of(given)
    if not all(map(one_sided, parts)):
        raise SqlError("a filter asks rows of one side: a column and a constant, joined by AND; OR over one column")
    return _Tests(columns, tuple(Filter(part, {side: schema}) for part in parts))


def columns_of(aggregate: Aggregate, side: str, schema: pa.Schema) -> tuple[str, ...]:
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

    Attributes
    ----------
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

    def __init__(self, aggregates: tuple[Aggregate, ...], schemas: dict[str, pa.Schema]):
        self._aggregates = aggregates
        self._schemas = schemas
        self._kept: dict[str, list[_Kept]] = {side: [] for side in schemas}
        self._tests: dict[str, dict[Any, tuple[Filter, ...]]] = {side: {} for side in schemas}
        self._kinds: list[dict[str, Kinds]] = []  # of the columns of each aggregate, by the sides that have them
        self.logged: dict[str, set[str]] = {side: set() for side in schemas}
        self.fields: list[pa.Field] = []
        for aggregate in aggregates:
            kinds = self._sides(aggregate)
            self._kinds.append(kinds)
            types = {side: result_type(aggregate, own) for side, own in kinds.items()}
            # NULL is of the other side's type too.
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
                if isinstance(aggregate, _OfRow):
                    self.logged[side].add(root_column(schemas[side], str(aggregate.column)))

    def _sides(self, aggregate: Aggregate) -> dict[str, Kinds]:
        """The types of the columns of an aggregate, by the sides whose rows have all of them; one at least."""
        given = "; ".join(f"the {side} side has {', '.join(schema.names)}" for side, schema in self._schemas.items())
        for path in aggregate.columns:
            if not any(has_column(schema, path) for schema in self._schemas.values()):
                raise SchemaError(f"there is no column {path!r}, of {aggregate.output!r}: {given}")
        found: dict[str, Kinds] = {}
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
    def folds(self) -> dict[str, list[str]]:
        """What is kept of the rows of each side, as `muntin.host.join.folds.FOLDS` has it."""
        return {side: [values.CORE[each.fold] for each in kept] for side, kept in self._kept.items()}

    def encode(self, side: str, table: pa.Table, batch: Batch, places: np.ndarray) -> tuple[np.ndarray, ...]:
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
            needed = [] if kept.fold == "some" else [column(path) for path in kept.columns]
            out.append(values.encoded(kept.fold, needed, counts, batch))
        return tuple(out)

    def columns(self, side: str, counts: np.ndarray, results: list[Any], log: RowLog | None) -> list[pa.ChunkedArray]:
        """The columns of the result for rows of one side.

        Parameters
        ----------
        side : str
            Whose rows have probed.
        counts : ndarray of int64, shape (n,)
            How many rows each has met.
        results : list
            What the core gives for each fold of the other side.
        log : RowLog or None
            Of the other side's rows.

        Raises
        ------
        SumOverflowError
            If a sum or mean does not fit its type.
        """
        other = _OTHER[side]
        held = dict(zip(self._kept[other], results, strict=True))
        out = []
        for aggregate, kinds, field in zip(self._aggregates, self._kinds, self.fields, strict=True):
            if aggregate.column is None and aggregate.filter is None:
                out.append(pa.array(counts))
            elif other not in kinds or not (keeps := _kept(aggregate, kinds[other])):
                out.append(pa.nulls(len(counts), field.type))
            else:
                own = {kept.fold: held[kept] for kept in keeps}
                value = aggregate._value(kinds[other], field.type, own)
                out.append(self._taken(aggregate, other, value, log) if isinstance(aggregate, _OfRow) else value)
        return out

    def _taken(self, aggregate: Aggregate, side: str, rows: np.ndarray, log: RowLog | None) -> pa.ChunkedArray:
        """The values of rows by their numbers, NULL for those below 0."""
        assert log is not None
        name = root_column(self._schemas[side], str(aggregate.column))
        taken = pa.table(log.take(rows, [name]), schema=pa.schema([log.schema.field(name)]))
        return column_of(taken, str(aggregate.column))


def _kept(aggregate: Aggregate, kinds: Kinds) -> list[_Kept]:
    """What an aggregate of columns of these types is made of; nothing where it is NULL, or the number of rows."""
    if isinstance(aggregate, Count):
        plain = aggregate.column is None and aggregate.filter is None
        return [] if plain else [_Kept("some", aggregate.columns, aggregate.filter)]
    if _is_null(kinds):
        return []
    return [_Kept(fold, aggregate._asked, aggregate.filter) for fold in aggregate._folds(kinds)]


def _is_null(kinds: Kinds) -> bool:
    """Whether a column has no values by its type."""
    return any(map(pa.types.is_null, kinds.values()))
