"""Everything that defines a join, apart from where it runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Literal

import pyarrow as pa

from muntin.host.aggregates.plan import AggregatePlan, columns_of, window_of
from muntin.host.errors import KeyTypeError, SchemaError, UnsupportedError
from muntin.host.index import Index
from muntin.host.keys.as_of_condition import AsOfAxis, AsOfCondition
from muntin.host.keys.columns import column_type, has_column, root_column
from muntin.host.keys.condition import Condition, check_side, condition_columns, in_words
from muntin.host.keys.kept_types import first_known
from muntin.host.keys.key_type import key_types
from muntin.host.predicates import AllOf, AsOf
from muntin.host.public import public
from muntin.host.sides import OTHER, SIDES, Side, Sides
from muntin.host.spec.fields import JoinFields
from muntin.host.windows.time_axis import TimeAxis, check_time_type

PAIRS_SCHEMA = pa.schema([("left_row", pa.int64()), ("right_row", pa.int64())])
RANGES_SCHEMA = pa.schema(
    [
        ("side", pa.string()), ("row", pa.int64()), ("run", pa.int64()), ("start", pa.int64()), ("end", pa.int64()),
        ("not", pa.bool_()), ("first_row", pa.int64()), ("last_row", pa.int64()), ("first_time", pa.int64()),
        ("last_time", pa.int64()),
    ]
)  # fmt: skip
COUNTS_SCHEMA = pa.schema([("side", pa.string()), ("row", pa.int64()), ("matches", pa.int64())])

OutputSide = Side | Literal["both"]
OutputColumn = tuple[OutputSide, str, str]
"""The side of a column of the result ("both": one of `keys` in a full join), its name there, its name in the result."""


@public("muntin")
@dataclasses.dataclass(frozen=True)
class JoinSpec(JoinFields):
    """A sliding-window join.

    Parameters
    ----------
    on : Band, Compare, AnyOf, AllOf or AsOf, or sequence of str
        The join condition; `AllOf()` holds for every pair of rows (a cross join), `AnyOf()` for none. An as-of join has
        no window beside it. A list of names is equality of the columns that both sides have by them, which are then
        `keys`.
    left, right : Rows or int, optional
        Count windows: how many rows of each stream are kept. Both, or neither.
    within : Within, optional
        The time window, instead of count windows. Without either there is no window: every row is kept, and meets every
        row of the other side.
    sequence : str, optional
        Column of both sides that gives the arrival order across them; without it all left rows of a call come
        before all its right rows.
    form : str
        ``"rows"``: all columns of both sides; ``"pairs"``: `left_row`, `right_row`, int64 numbers of arrival
        within each stream; ``"counts"``: `side`, `row`, `matches` for each row of the call; ``"ranges"``: for each row
        of the call, ranges of sorted runs, read by a `RangeMirror` (device ``"cpu"``); ``"aggregate"``: `aggregates` of
        what rows match (device ``"cpu"``).
    aggregates : Aggregate, str, or several
        For ``form="aggregate"``: `Count`, `Sum`, `Min`, `Max`, `Mean`, `Var`, `StdDev`, `First`, `Last`, `ArgMin`,
        `ArgMax`, `Quantile` and `Collect` of columns of the other side, or their text such as ``"sum(price)"``. Where
        the other side has no such column they are NULL.
    at : str
        For ``form="aggregate"``: ``"arrival"``: `side`, `row` and the aggregates for each row of the call, of the rows
        that it meets as it arrives; ``"close"``, for time windows: the columns of the left side and the aggregates for
        each left row that from now on no right row can match, of all that have.
    order : str
        ``"none"``, ``"outer"`` (by probing row) or ``"inner"`` (by probing row, then by stored row); or `Outer` or
        `Inner` with an interval, at which a device may put no pair before those of an earlier interval.
    index : str or Index
        What the windows are kept in: ``"sorted_runs"``, ``"bisort"``, `SortedRuns(growth=4)` and so on, as far as the
        device has it; ``"auto"``: the device's default.
    engine : str or EngineKind
        How the join runs: ``"steps"``, ``"splitjoin"``, ``"shared"``, `SplitJoin(cores=8)` and so on, as far as the
        device has it; ``"auto"``: the device's default.
    how : str
        ``"inner"``, ``"left"``, ``"right"``, ``"full"``, ``"left_semi"`` or ``"left_anti"``, or as Spark spells them
        (``"left_outer"``, ``"leftanti"``, ...). The last two have the columns of the left side alone. ``"right_anti"``:
        what a full join has beyond a left one, right rows that match nothing, with NULL for the left side's columns.
    suffix : str
        Appended to the names of right columns that the left side has too.
    select : sequence of str, optional
        The columns of the result, by their names in it (with the suffix, where there is one) and in this order; all by
        default. For ``form="rows"``. Columns that neither these nor the join need are not kept.
    watermark : Watermark, optional
        For time windows and as-of joins: drops late rows and state that no later row can match.
    capacity : int, optional
        For time windows, and without a window: most rows kept per side; by default what the device's memory allows.
    self_join : bool
        Both sides are one stream: each row meets the earlier rows in both roles.
    itself : bool
        In a self join, and each row itself, where its own keys (and its time, twice) satisfy the join.
    static : str, optional
        ``"left"`` or ``"right"``: the side that is a table. All its rows are there before the first one of the other
        side, a stream, of which each row meets those that match, at its arrival. There are no windows, and the bounds
        of `within` are a part of the condition. `inner`; outer, semi and anti joins of the stream's side, whose
        unmatched rows are emitted with their call; and as-of joins with a table on the right.
    late : str
        ``"drop"``, or ``"keep"``: rows that come too late for the watermark are in no result, but are given apart, with
        all their columns, once: by `WindowJoin.late`, and where a result comes from a daemon or through Spark in its
        rows, marked in a column ``_late``. For time windows and as-of joins.
    keys : sequence of str
        Columns that `on` compares for equality with those of the same name. A result of rows has one column for each,
        before all others: in right joins the right side's, in full ones the one that is not NULL.

    Raises
    ------
    PredicateError, WindowError, UnsupportedError
        If the parts do not make a join.

    Examples
    --------
    >>> from muntin import Band, JoinSpec, Rows, WindowJoin
    >>> spec = JoinSpec(on=Band("limit", "price", -5, 5), left=Rows(1000), right=Rows(1000), how="left")
    >>> JoinSpec.from_json(spec.to_json()) == spec
    True
    >>> join = WindowJoin.from_spec(spec)
    """

    def plan(self, left_schema: pa.Schema, right_schema: pa.Schema, *, apart: bool = False) -> AggregatePlan:
        """How the aggregates of columns of these types are made; `apart` as of `AggregatePlan`. Raises SchemaError,
        KeyTypeError."""
        schemas: Sides[pa.Schema] = {"left": left_schema, "right": right_schema}
        if self.closing:
            del schemas["left"]
        kinds = [column_type(schema, name) for schema, name in self._times(left_schema, right_schema)]
        windows = [window_of(each, self.within, kinds) for each in self.aggregates]
        return AggregatePlan(self.aggregates, schemas, windows, apart=apart)

    def output_schema(self, left_schema: pa.Schema, right_schema: pa.Schema) -> pa.Schema:
        """The schema of the result; checks the columns the join uses.

        Raises
        ------
        SchemaError
            If a column is missing or stands twice, or the suffix does not tell names apart.
        KeyTypeError
            If a key, time or sequence column has a type that cannot be joined on exactly.
        PredicateError, WindowError
            If a bound does not fit the type of its column.
        """
        for side, schema in zip(SIDES, (left_schema, right_schema), strict=True):
            self.check_side(side, schema)
        if self.self_join and not left_schema.equals(right_schema):
            raise SchemaError("the two sides of a self join are one stream, but their columns differ")
        self.sequence_scales(left_schema, right_schema)
        condition = self.condition(left_schema, right_schema)
        if self.form == "ranges" and (condition.residuals or not condition.ordered):
            what = f"leaves {condition.explain()[-1]}" if condition.residuals else "compares values without an order"
            raise UnsupportedError(
                f"form='ranges' takes a condition that one pair of columns decides, and this one {what}: use 'pairs'"
            )
        self.time_axis(left_schema, right_schema)
        if self.form == "aggregate":
            return self._aggregate_schema(left_schema, right_schema)
        if self.form == "pairs":
            return pa.schema([PAIRS_SCHEMA.field(0)]) if self.left_alone else PAIRS_SCHEMA
        if self.form in ("counts", "ranges"):
            return COUNTS_SCHEMA if self.form == "counts" else RANGES_SCHEMA
        fields = []
        for of, column, name in self.output_columns(left_schema, right_schema):
            if of == "both":
                fields.append(self._key_field(column, left_schema, right_schema))
                continue
            field = (left_schema if of == "left" else right_schema).field(column).with_name(name)
            # A side's columns are NULL where a row of the other side comes out unmatched.
            fields.append(field.with_nullable(True) if OTHER[of] in self.unmatched and not self.left_alone else field)
        return pa.schema(fields)

    @staticmethod
    def _key_field(column: str, left_schema: pa.Schema, right_schema: pa.Schema) -> pa.Field:
        """Of a key in a full join. Raises SchemaError, UnsupportedError."""
        left, right = left_schema.field(column), right_schema.field(column)
        if left.type != right.type:
            raise SchemaError(
                f"the column {column!r} of on= has type {left.type} on the left and {right.type} on the right side, "
                "and a full join makes one column of them: cast one, or give on=Compare(...), which keeps both"
            )
        try:
            first_known(*[pa.chunked_array([pa.nulls(1, left.type)])] * 2)
        except pa.ArrowException as error:
            raise UnsupportedError(
                f"a full join cannot make one column {column!r} of type {left.type}: give on=Compare(...), which keeps "
                "both"
            ) from error
        field = left if left.metadata == right.metadata else left.remove_metadata()  # such as an enumeration's values
        return field.with_nullable(left.nullable or right.nullable)

    def output_columns(self, left_schema: pa.Schema, right_schema: pa.Schema) -> list[OutputColumn]:
        """The columns of a result of rows.

        Raises
        ------
        SchemaError
            If the suffix does not tell names apart, or `select` names a column that the result has not.
        """
        of_keys: OutputSide = "both" if self.how == "full" else "right" if self.how.startswith("right") else "left"
        columns: dict[str, OutputColumn] = {name: (of_keys, name, name) for name in self.keys}
        columns |= {name: ("left", name, name) for name in left_schema.names if name not in columns}
        for column in () if self.left_alone or self.closing else right_schema.names:
            if column in self.keys:
                continue
            name = column + self.suffix if column in left_schema.names else column
            if name in columns:
                raise SchemaError(
                    f"the output would have two columns {name!r}: choose another suffix than {self.suffix!r}"
                )
            columns[name] = ("right", column, name)
        if self.select is None:
            return list(columns.values())
        for name in self.select:
            if name not in columns:
                raise SchemaError(f"select= names {name!r}, which the result has not: it has {', '.join(columns)}")
        return [columns[name] for name in self.select]

    def kept_columns(self, side: Side, left_schema: pa.Schema, right_schema: pa.Schema) -> list[str]:
        """The columns of a side that the join reads or gives out, in the order in which the side has them; one at
        least, as Arrow does not count the rows of tables without columns."""
        schema = left_schema if side == "left" else right_schema
        if self.late == "keep":
            return schema.names
        kept = self.needed_columns(side, schema)
        if self.form == "rows" or self.closing:
            kept |= {column for of, column, _ in self.output_columns(left_schema, right_schema) if of in (side, "both")}
        return [name for name in schema.names if name in kept] or schema.names[:1]

    def _aggregate_schema(self, left: pa.Schema, right: pa.Schema) -> pa.Schema:
        plan = self.plan(left, right)
        fields = plan.fields
        if plan.prevailing and not self.condition(left, right, key_bits=128).equality_alone:
            raise UnsupportedError(
                "prevailing=True takes a condition that compares for equality alone, as the newest row before a window "
                "is kept for each value: leave the other parts out"
            )
        first = [*left] if self.closing else [COUNTS_SCHEMA.field("side"), COUNTS_SCHEMA.field("row")]
        for field in fields:
            if any(field.name == other.name for other in first):
                raise SchemaError(f"the result would have two columns {field.name!r}: give the aggregate a name=")
        if not self.closing:
            return pa.schema([*first, *fields])
        condition = self.condition(left, right, key_bits=128)  # what gives aggregates has such keys
        if condition.residuals:
            raise UnsupportedError(
                "at='close' takes a condition that one pair of columns decides, beside equalities and one range, "
                f"and this one leaves {condition.explain()[-1]}: use at='arrival', or form='rows' and a group by"
            )
        return pa.schema([*first, *fields])

    def check_side(self, side: Side, schema: pa.Schema) -> None:
        """Checks the columns of one side for themselves. Raises as `output_schema`."""
        names = schema.names
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise SchemaError(f"the {side} side has several columns named {min(twice)!r}: rename all but one")
        if not names:
            raise SchemaError(f"the {side} side has no columns: Arrow does not count the rows of such tables")
        there = ", ".join(names)
        for column, part in condition_columns(self.on, side):
            if not has_column(schema, column):
                of = f", of {part!r}" if isinstance(self.on, AllOf) else ""
                raise SchemaError(f"the {side} side has no key column {column!r}{of}: it has {there}")
        columns = self.columns(side)
        for role, column in columns.items():
            if not has_column(schema, column):
                raise SchemaError(f"the {side} side has no {role} column {column!r}: it has {there}")
        try:
            check_side(self.on, side, schema)
        except KeyTypeError as error:
            raise KeyTypeError(f"{side} side: {error}") from error
        if "time" in columns and not (self.as_of is not None and self.watermark is None):
            check_time_type(column_type(schema, columns["time"]), columns["time"])
        if "watermark" in columns:
            kinds = [column_type(schema, columns[role]) for role in ("time", "watermark")]
            if kinds[0] != kinds[1] and not any(map(pa.types.is_null, kinds)):
                raise KeyTypeError(
                    f"the watermark of the {side} side is that of {columns['watermark']!r} ({kinds[1]}), but its time "
                    f"column {columns['time']!r} has type {kinds[0]}: cast one of them"
                )
        if self.sequence is not None:
            kind = schema.field(self.sequence).type
            if not any(
                test(kind) for test in (pa.types.is_integer, pa.types.is_timestamp, pa.types.is_date, pa.types.is_null)
            ):
                raise KeyTypeError(
                    f"the sequence column {self.sequence!r} of the {side} side has type {kind}: "
                    "use integers, timestamps or dates"
                )

    def columns(self, side: Side) -> dict[str, str]:
        """The columns a side must have beside those of the condition, by their role."""
        columns = {}
        if self.within is not None:
            columns["time"] = self.within.left_time if side == "left" else self.within.right_time
        if self.as_of is not None:
            columns["time"] = self.as_of.time(side)
        if self.watermark is not None and (column := getattr(self.watermark, f"{side}_column")) is not None:
            columns["watermark"] = column
        if self.sequence is not None:
            columns["sequence"] = self.sequence
        return columns

    def needed_columns(self, side: Side, schema: pa.Schema) -> set[str]:
        """Every column of a side that the join reads."""
        paths = [column for column, _ in condition_columns(self.on, side)] + list(self.columns(side).values())
        paths += [path for aggregate in self.aggregates for path in columns_of(aggregate, side, schema)]
        return {root_column(schema, path) for path in paths}

    def sequence_scales(self, left_schema: pa.Schema, right_schema: pa.Schema) -> Sides[int]:
        """What each side's sequence values are multiplied by to meet the finer unit of the two.

        Raises
        ------
        KeyTypeError
            If the two sequence columns cannot be compared.
        """
        if self.sequence is None:
            return {"left": 1, "right": 1}
        kinds = [schema.field(self.sequence).type for schema in (left_schema, right_schema)]
        try:
            left, right = key_types(kinds[0], self.sequence, kinds[1], self.sequence)
        except KeyTypeError as error:
            raise KeyTypeError(
                f"the sequence column {self.sequence!r} has type {kinds[0]} on the left and {kinds[1]} "
                "on the right side, which cannot be compared: cast one of them"
            ) from error
        unit = min(left.unit, right.unit)
        return {"left": int(left.unit / unit), "right": int(right.unit / unit)}

    def condition(self, left_schema: pa.Schema, right_schema: pa.Schema, key_bits: int = 64) -> Condition:
        """The condition on columns of these types, with composite keys of at most `key_bits`.

        Raises SchemaError, KeyTypeError, PredicateError.
        """
        if isinstance(self.on, AsOf):
            return AsOfCondition(self.on, left_schema, right_schema)
        return Condition(self.on, left_schema, right_schema, key_bits)

    def explain(
        self,
        left_schema: pa.Schema,
        right_schema: pa.Schema,
        key_bits: int = 64,
        driver: int = 0,
        beside: Collection[int] = (),
    ) -> str:
        """How the join is carried out: which part of the condition drives, and which are residual; a line each.

        `key_bits` as of `condition`, `driver` and `beside` as of `Condition.explain`. Raises as `output_schema`.
        """
        self.output_schema(left_schema, right_schema)
        lines = [f"condition: {in_words(self.on)}"]
        if self.static is not None:
            lines.append(f"window:    none: the {self.static} side is a table, and each row of the other one meets it")
        elif self.as_of is not None:
            lines.append("window:    rows that a left row to come can meet, by the watermark")
        elif self.within is not None:
            lines.append(f"window:    {self.within.in_words()}")
        elif self.unbounded:
            lines.append("window:    none: every row is kept")
        else:
            lines.append(f"window:    the last {self.left.count:,} left and {self.right.count:,} right rows")
        indexed = isinstance(self.index, Index) and self.index.conjunctive
        condition = self.condition(left_schema, right_schema, key_bits)
        if self.aggregates:
            names = ", ".join(aggregate.output for aggregate in self.aggregates)
            way = (
                "pairs, added up: residual conditions leave no ranges"
                if condition.residuals
                else "ranges of sorted runs"
            )
            lines.append(f"aggregate: {names}, from {way}")
        return "\n".join([*lines, *condition.explain(indexed=indexed, beside=beside, driver=driver)])

    def time_axis(self, left_schema: pa.Schema, right_schema: pa.Schema) -> TimeAxis | AsOfAxis | None:
        """The time axis of a time window or an as-of join, else None. Raises KeyTypeError, WindowError."""
        if (on := self.as_of) is not None:
            kinds = (column_type(s, on.time(side)) for side, s in zip(SIDES, (left_schema, right_schema), strict=True))
            return AsOfAxis(on, self.watermark, *kinds)
        if self.within is None:
            return None
        kinds = (column_type(schema, name) for schema, name in self._times(left_schema, right_schema))
        return TimeAxis(self.within, self.watermark, *kinds)

    def _times(self, left: pa.Schema, right: pa.Schema) -> list[tuple[pa.Schema, str]]:
        """The event-time columns of a time window, where there is one."""
        within = self.within
        return [] if within is None else [(left, within.left_time), (right, within.right_time)]
