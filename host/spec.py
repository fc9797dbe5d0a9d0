"""Everything that defines a join, apart from where it runs."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from functools import cached_property
from typing import Any

import pyarrow as pa

from muntin.host.aggregates import aggregate_from_dict, open_aggregates
from muntin.host.engines import EngineKind, Inner, Outer, engine_from_dict, open_engine_kind, open_order
from muntin.host.errors import KeyTypeError, PredicateError, SchemaError, UnsupportedError, WindowError
from muntin.host.index import Index, index_from_dict, open_index
from muntin.host.join.aggregate_plan import AggregatePlan, columns_of, window_of
from muntin.host.join.as_of_condition import AsOfAxis, AsOfCondition
from muntin.host.join.condition import Condition, check_side, condition_columns, in_words
from muntin.host.join.kept_types import first_known
from muntin.host.keys.columns import column_type, has_column, root_column
from muntin.host.keys.constants import whole_number
from muntin.host.keys.key_type import key_types
from muntin.host.predicates import AllOf, AsOf, Band, Compare, Predicate, Where, from_dict, one_sided
from muntin.host.public import public
from muntin.host.windows import Rows, Watermark, Within
from muntin.host.windows.time_axis import TimeAxis, check_time_type

FORMS = ("rows", "pairs", "counts", "ranges", "aggregate")
MOMENTS = ("arrival", "close")
HOWS = ("inner", "left", "right", "full", "left_semi", "left_anti", "right_anti")
_HOW_SPELLINGS = {
    "leftouter": "left", "rightouter": "right", "outer": "full", "fullouter": "full", "semi": "left_semi",
    "leftsemi": "left_semi", "anti": "left_anti", "leftanti": "left_anti", "rightanti": "right_anti",
    "cross": "inner",
}  # fmt: skip
_UNMATCHED = {
    "left": ("left",), "right": ("right",), "full": ("left", "right"), "left_anti": ("left",), "right_anti": ("right",),
}  # fmt: skip

#: Options of a watermark that its JSON form has where they are given.
_LEFT_OUT = ("idle_after", "left_column", "right_column")

PAIRS_SCHEMA = pa.schema([("left_row", pa.int64()), ("right_row", pa.int64())])
RANGES_SCHEMA = pa.schema(
    [
        ("side", pa.string()), ("row", pa.int64()), ("run", pa.int64()), ("start", pa.int64()), ("end", pa.int64()),
        ("not", pa.bool_()), ("first_row", pa.int64()), ("last_row", pa.int64()), ("first_time", pa.int64()),
        ("last_time", pa.int64()),
    ]
)  # fmt: skip
COUNTS_SCHEMA = pa.schema([("side", pa.string()), ("row", pa.int64()), ("matches", pa.int64())])


@public("muntin")
@dataclasses.dataclass(frozen=True)
class JoinSpec:
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

    on: Predicate | AllOf | AsOf | Where
    left: Any = None
    right: Any = None
    within: Within | None = None
    sequence: str | None = None
    form: str = "rows"
    order: str | Outer | Inner = "none"
    index: str | Index = "auto"
    engine: str | EngineKind = "auto"
    how: str = "inner"
    suffix: str = "_right"
    select: Any = None
    watermark: Watermark | None = None
    capacity: int | None = None
    self_join: bool = False
    itself: bool = False
    aggregates: Any = ()
    at: str = "arrival"
    static: str | None = None
    keys: Any = ()
    late: str = "drop"

    def __post_init__(self) -> None:
        object.__setattr__(self, "how", _how(self.how))
        if isinstance(self.within, tuple):
            object.__setattr__(self, "within", Within(*self.within))
        if isinstance(names := self.on, (list, tuple)):
            object.__setattr__(self, "keys", _names("on as a list", names))
            object.__setattr__(self, "on", AllOf(*(Compare(name, "=", name) for name in self.keys)))
        object.__setattr__(self, "keys", tuple(self.keys))
        if self.static is not None:
            self._check_static()
        if isinstance(self.on, AsOf):
            self._check_as_of()
        elif not isinstance(self.on, (Predicate, AllOf, Where)):
            raise PredicateError(f"on must be a Band, Compare, AnyOf, AllOf or AsOf, not {self.on!r}")
        elif one_sided(self.on):
            object.__setattr__(self, "on", AllOf(self.on))
        for side in ("left", "right"):
            window = getattr(self, side)
            if whole_number(window) is not None:
                object.__setattr__(self, side, Rows(window))
            elif window is not None and not isinstance(window, Rows):
                raise WindowError(f"{side} must be Rows(n), not {window!r}: a time window goes in within=Within(...)")
        if self.within is not None and not isinstance(self.within, Within):
            raise WindowError(f"within must be Within(left_time, right_time, low, high), not {self.within!r}")
        counted = [side for side in ("left", "right") if getattr(self, side) is not None]
        if self.within is not None and counted:
            raise WindowError("give either count windows (left= and right=) or a time window (within=), not both")
        if len(counted) == 1:
            missing = "right" if counted == ["left"] else "left"
            raise WindowError(
                f"the {missing} side has no window: give {missing}=Rows(n) too, or within=Within(...), or no window at "
                "all to keep every row"
            )
        if self.form not in FORMS:
            raise PredicateError(f"form must be one of {', '.join(FORMS)}, not {self.form!r}")
        object.__setattr__(self, "order", open_order(self.order))
        object.__setattr__(self, "aggregates", open_aggregates(self.aggregates))
        if self.index != "auto":
            object.__setattr__(self, "index", open_index(self.index))
        if self.engine != "auto":
            object.__setattr__(self, "engine", open_engine_kind(self.engine))
        if self.sequence is not None and not isinstance(self.sequence, str):
            raise SchemaError(f"sequence must be the name of a column, not {self.sequence!r}")
        if not isinstance(self.suffix, str) or not self.suffix:
            raise SchemaError(f"suffix must be text of at least one character, not {self.suffix!r}")
        if self.select is not None:
            object.__setattr__(self, "select", _names("select", self.select))
            if self.form != "rows":
                raise UnsupportedError(f"select= names columns of form='rows'; form={self.form!r} has its own")
        if self.watermark is not None:
            if not isinstance(self.watermark, Watermark):
                raise WindowError(f"watermark must be a Watermark, not {self.watermark!r}")
            if self.within is None and not isinstance(self.on, AsOf):
                raise WindowError("a watermark belongs to a time window (within=) or an as-of join")
        if self.capacity is not None:
            if counted:
                raise WindowError("capacity is not for count windows, which declare their rows")
            rows = whole_number(self.capacity)
            if rows is None or rows < 1:
                raise WindowError(f"capacity must be a positive number of rows, not {self.capacity!r}")
            object.__setattr__(self, "capacity", rows)
        if self.late not in ("drop", "keep"):
            raise PredicateError(f"late must be 'drop' or 'keep', not {self.late!r}")
        if self.late == "keep" and self.within is None and not isinstance(self.on, AsOf):
            raise WindowError("late='keep' belongs to a time window (within=) or an as-of join: no other row is late")
        self._check_self_join()
        self._check_aggregates()
        if self.how != "inner" and self.form in ("counts", "ranges", "aggregate"):
            raise UnsupportedError(
                f"form={self.form!r} is for inner joins, not for how={self.how!r}: use 'rows' or 'pairs'"
            )
        if self.form == "ranges" and (self.order != "none" or self.self_join):
            what = "a self join" if self.self_join else f"order={self.order!r}"
            raise UnsupportedError(f"form='ranges' is not for {what}: use 'pairs'")
        if self.watermark is not None:
            self.check_endless()

    def _check_static(self) -> None:
        """Raises PredicateError, UnsupportedError for what a stream and a table do not make; the bounds of the time
        window become a part of the condition."""
        if self.static not in ("left", "right"):
            raise PredicateError(f"static must be 'left' or 'right', not {self.static!r}")
        stream = "right" if self.static == "left" else "left"
        wrong = {
            "left= and right=, windows of the rows that came last: the whole table stays, so leave them out": not (
                self.left is self.right is None
            ),
            f"sequence={self.sequence!r}: the whole table is there before the stream; leave it out": (
                self.sequence is not None
            ),
            "a watermark: no row of the stream is late, and none waits": self.watermark is not None,
            "late='keep': no row of the stream is late": self.late == "keep",
            "a self join: a table is no stream": self.self_join,
            "form='ranges': use 'pairs'": self.form == "ranges",
            "at='close': a row of the stream has met all its matches as it arrives; use at='arrival'": self.closing,
        }
        for what in (text for text, found in wrong.items() if found):
            raise UnsupportedError(f"a join of a stream and a table (the {self.static} side) does not take {what}")
        if self.static in self.tracked:
            use = {"full": stream, "left": "inner", "left_semi": "inner"}.get(self.how, "inner")
            raise UnsupportedError(
                f"how={self.how!r} needs to know which rows of the table (the {self.static} side) match nothing, or "
                f"match first, and the {stream} side is a stream: a row that matches may always come. Use {use!r}, or "
                "join DataFrames that are not streams"
            )
        if isinstance(self.on, AsOf):
            if self.static == "left":
                raise UnsupportedError(
                    f"an as-of join answers the rows of its left side, and here that is a table: its nearest row of a "
                    f"stream, by {self.on.right_time!r}, may always come. Give the stream as the left side"
                )
        elif isinstance(self.within, Within) and isinstance(self.on, (Predicate, AllOf, Where)):
            parts = self.on.parts if isinstance(self.on, AllOf) else (self.on,)
            times = Band(self.within.left_time, self.within.right_time, self.within.low, self.within.high)
            object.__setattr__(self, "on", AllOf(*parts, times))
            object.__setattr__(self, "within", None)

    @property
    def stateless(self) -> bool:
        """Whether what a call gives depends on no call before it: rows of a stream that meet a table."""
        return self.static is not None and self.form == "rows"

    def _check_aggregates(self) -> None:
        if self.at not in MOMENTS:
            raise PredicateError(f"at must be one of {', '.join(MOMENTS)}, not {self.at!r}")
        if self.form != "aggregate":
            if self.aggregates or self.closing:
                raise PredicateError("aggregates= and at= belong to form='aggregate'")
            return
        if not self.aggregates:
            raise PredicateError("form='aggregate' takes aggregates=[Count(), Sum(\"price\"), ...]: there is none")
        for aggregate in self.aggregates:
            if (aggregate.within is not None or aggregate.prevailing) and self.within is None:
                raise WindowError(f"{aggregate.output!r} has a window in the time window of the join: give within=")
        if self.order != "none":
            raise UnsupportedError(
                f"form='aggregate' gives rows in the order of their arrival, not order={self.order!r}"
            )
        if self.closing and self.within is None:
            raise WindowError(
                "at='close' belongs to a time window: give within=, or bound the difference of two times at both ends "
                "in a condition that is text; in count windows, and without a window, a left row may always match once "
                "more"
            )
        if self.closing and self.self_join and not self.itself:
            raise UnsupportedError("at='close' is for self joins with itself=True alone: a row is among its matches")

    @property
    def prevailing(self) -> bool:
        """Whether a row that is too old for the windows may count as in one."""
        return any(aggregate.prevailing for aggregate in self.aggregates)

    @property
    def closing(self) -> bool:
        """Whether a left row comes out once no later row can match it, with aggregates of all that have."""
        return self.at == "close"

    def plan(self, left_schema: pa.Schema, right_schema: pa.Schema, *, apart: bool = False) -> AggregatePlan:
        """How the aggregates of columns of these types are made; `apart` as of `AggregatePlan`. Raises SchemaError,
        KeyTypeError."""
        schemas = {"right": right_schema} if self.closing else {"left": left_schema, "right": right_schema}
        kinds = [column_type(schema, name) for schema, name in self._times(left_schema, right_schema)]
        windows = [window_of(each, self.within, kinds) for each in self.aggregates]
        return AggregatePlan(self.aggregates, schemas, windows, apart=apart)

    @property
    def counted(self) -> bool:
        """Whether it has count windows."""
        return self.left is not None

    @property
    def unbounded(self) -> bool:
        """Whether it has no window: every row is kept."""
        return self.left is None and self.within is None and not isinstance(self.on, AsOf)

    @property
    def unmatched(self) -> tuple[str, ...]:
        """The sides whose rows come out where they have matched nothing."""
        return _UNMATCHED.get(self.how, ())

    @property
    def equalities(self) -> list[Compare]:
        """The parts of the condition that compare the two sides for equality."""
        parts = self.on.parts if isinstance(self.on, AllOf) else (self.on,)
        return [part for part in parts if isinstance(part, Compare) and part.equality]

    @property
    def left_alone(self) -> bool:
        """Whether the result has the columns of the left side alone."""
        return self.how in ("left_semi", "left_anti")

    @property
    def tracked(self) -> tuple[str, ...]:
        """The sides whose rows are remembered as matched or not."""
        return ("left",) if self.left_alone else self.unmatched

    @property
    def waits(self) -> bool:
        """Whether rows wait for the watermark to be emitted: unmatched left or right rows of a time window, left rows
        of an as-of join, closing aggregates."""
        return self.watermark is not None and (bool(self.unmatched) or self.closing or isinstance(self.on, AsOf))

    @property
    def anti(self) -> bool:
        """Whether no pair comes out."""
        return self.how in ("left_anti", "right_anti")

    def check_endless(self) -> None:
        """Raises UnsupportedError if unmatched rows of streams without an end could never come out."""
        if self.static is not None:  # nothing waits
            return
        if isinstance(self.on, AsOf):
            self._check_endless_as_of(self.on)
        if self.unbounded and self.unmatched:
            raise UnsupportedError(
                f"how={self.how!r} without a window could never let an unmatched row of a stream go: a row that "
                "matches it may always come. Give within= with a watermark, or left= and right="
            )
        if self.within is None:
            return
        delayed = [side for side in ("left", "right") if self.watermark and getattr(self.watermark, side) is not None]
        waiting = ("left",) if self.closing else self.unmatched
        for side, other in (("left", "right"), ("right", "left")):
            if side not in waiting:
                continue
            if (self.within.high if side == "left" else self.within.low) is None:
                end = "high" if side == "left" else "low"
                what = "at='close'" if self.closing else f"how={self.how!r}"
                row = f"{'a' if self.closing else 'an unmatched'} {side} row"
                raise UnsupportedError(
                    f"{what} could never let {row} go: {self.within.in_words()!r} has an open end, and a {other} row "
                    f"that matches it may always come. Give {end}="
                )
            if other not in delayed and not (delayed and self.within.equal_times):
                column = self.within.right_time if side == "left" else self.within.left_time
                what = "at='close'" if self.closing else f"how={self.how!r}"
                row = f"{'a' if self.closing else 'an unmatched'} {side} row"
                raise UnsupportedError(
                    f"{what} could never let {row} go: without a watermark of the {other} "
                    f"side, on {column!r}, a {other} row that matches it may always come. Give the {other} side a delay"
                )

    def _check_as_of(self) -> None:
        """Raises UnsupportedError for what an as-of join does not take."""
        wrong = {
            f"how={self.how!r}: use 'inner' or 'left'": self.how not in ("inner", "left"),
            f"form={self.form!r}: use 'rows' or 'pairs'": self.form not in ("rows", "pairs"),
            "a window: leave out left=, right= and within=": not self.left is self.right is self.within is None,
            f"index={self.index!r}: it has its own": self.index != "auto",
            f"engine={self.engine!r}: it has its own": self.engine != "auto",
            "a self join: give the stream as both sides": self.self_join,
            "capacity: what it holds is given by the rows and the watermark": self.capacity is not None,
        }
        for what in (text for text, found in wrong.items() if found):
            raise UnsupportedError(f"an as-of join does not take {what}")

    def _check_endless_as_of(self, on: AsOf) -> None:
        if self.watermark is None or self.watermark.right is None:
            raise UnsupportedError(
                f"an as-of join of streams without a watermark of the right side, on {on.right_time!r}, could never "
                "let a left row go: a nearer right row may always come. Give the right side a delay"
            )
        if self.how == "left" and on.direction != "backward" and on.tolerance is None:
            raise UnsupportedError(
                f"how='left' with direction={on.direction!r} could never let a left row go that no right row follows: "
                "give a tolerance"
            )

    def _check_self_join(self) -> None:
        for name in ("self_join", "itself"):
            if not isinstance(getattr(self, name), bool):
                raise PredicateError(f"{name} must be True or False, not {getattr(self, name)!r}")
        if not self.self_join:
            if self.itself:
                raise PredicateError("itself=True is for a self join: give self_join=True too")
            return
        if self.within is not None and self.within.left_time != self.within.right_time:
            raise WindowError(
                f"a self join has one event time, not {self.within.left_time!r} and {self.within.right_time!r}: "
                "name the same column for both"
            )
        if self.watermark is not None:
            delays = {delay for delay in (self.watermark.left, self.watermark.right) if delay is not None}
            if len(delays) > 1:
                raise WindowError(
                    f"a self join has one watermark, not the delays {self.watermark.left!r} and "
                    f"{self.watermark.right!r}: give one of them, or both alike"
                )
            both = (self.watermark.left_column, self.watermark.right_column)
            columns = {column for column in both if column is not None}
            if len(columns) > 1:
                raise WindowError(f"a self join has one watermark, not those of {' and '.join(sorted(columns))}")
            if self.watermark.idle_after is not None:
                raise WindowError(
                    "idle_after is for two streams: a self join has one, which holds its watermark itself"
                )
            delay, column = delays.pop(), columns.pop() if columns else None
            marks = {"left": delay, "right": delay, "left_column": column, "right_column": column}
            object.__setattr__(self, "watermark", dataclasses.replace(self.watermark, **marks))

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
        for side, schema in (("left", left_schema), ("right", right_schema)):
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
        for side, column, name in self.output_columns(left_schema, right_schema):
            field = (left_schema if side == "left" else right_schema).field(column).with_name(name)
            if side == "both":
                fields.append(self._key_field(column, left_schema, right_schema))
                continue
            # A side's columns are NULL where a row of the other side comes out unmatched.
            other = "right" if side == "left" else "left"
            fields.append(field.with_nullable(True) if other in self.unmatched and not self.left_alone else field)
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

    def output_columns(self, left_schema: pa.Schema, right_schema: pa.Schema) -> list[tuple[str, str, str]]:
        """Of each column of a result of rows: its side ("both": one of `keys` in a full join), its name there, its name
        in the result.

        Raises
        ------
        SchemaError
            If the suffix does not tell names apart, or `select` names a column that the result has not.
        """
        of_keys = "both" if self.how == "full" else "right" if self.how.startswith("right") else "left"
        columns = {name: (of_keys, name, name) for name in self.keys}
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

    def kept_columns(self, side: str, left_schema: pa.Schema, right_schema: pa.Schema) -> list[str]:
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

    def check_side(self, side: str, schema: pa.Schema) -> None:
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
        if "time" in columns and not (isinstance(self.on, AsOf) and self.watermark is None):
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

    def columns(self, side: str) -> dict[str, str]:
        """The columns a side must have beside those of the condition, by their role."""
        columns = {}
        if self.within is not None:
            columns["time"] = self.within.left_time if side == "left" else self.within.right_time
        if isinstance(self.on, AsOf):
            columns["time"] = self.on.time(side)
        if self.watermark is not None and (column := getattr(self.watermark, f"{side}_column")) is not None:
            columns["watermark"] = column
        if self.sequence is not None:
            columns["sequence"] = self.sequence
        return columns

    def needed_columns(self, side: str, schema: pa.Schema) -> set[str]:
        """Every column of a side that the join reads."""
        paths = [column for column, _ in condition_columns(self.on, side)] + list(self.columns(side).values())
        paths += [path for aggregate in self.aggregates for path in columns_of(aggregate, side, schema)]
        return {root_column(schema, path) for path in paths}

    def sequence_scales(self, left_schema: pa.Schema, right_schema: pa.Schema) -> dict[str, int]:
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

    def explain(self, left_schema: pa.Schema, right_schema: pa.Schema, key_bits: int = 64, driver: int = 0) -> str:
        """How the join is carried out: which part of the condition drives, and which are residual; a line each.

        `key_bits` as of `condition`, `driver` as of `Condition.explain`. Raises as `output_schema`.
        """
        self.output_schema(left_schema, right_schema)
        lines = [f"condition: {in_words(self.on)}"]
        if self.static is not None:
            lines.append(f"window:    none: the {self.static} side is a table, and each row of the other one meets it")
        elif isinstance(self.on, AsOf):
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
        return "\n".join([*lines, *condition.explain(indexed=indexed, driver=driver)])

    def time_axis(self, left_schema: pa.Schema, right_schema: pa.Schema) -> TimeAxis | AsOfAxis | None:
        """The time axis of a time window or an as-of join, else None. Raises KeyTypeError, WindowError."""
        if isinstance(self.on, AsOf):
            kinds = (column_type(s, self.on.time(side)) for side, s in (("left", left_schema), ("right", right_schema)))
            return AsOfAxis(self.on, self.watermark, *kinds)
        if self.within is None:
            return None
        kinds = (column_type(schema, name) for schema, name in self._times(left_schema, right_schema))
        return TimeAxis(self.within, self.watermark, *kinds)

    def _times(self, left: pa.Schema, right: pa.Schema) -> list[tuple[pa.Schema, str]]:
        """The event-time columns of a time window, where there is one."""
        within = self.within
        return [] if within is None else [(left, within.left_time), (right, within.right_time)]

    def to_json(self) -> str:
        """A text that `from_json` reads back to an equal specification."""
        return self._json

    @cached_property
    def _json(self) -> str:
        data: dict[str, Any] = {"on": self.on.to_dict()}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "on" or value is None or (field.name == "engine" and value == "auto"):
                continue
            if (field.name, value) in (("aggregates", ()), ("keys", ()), ("at", "arrival"), ("late", "drop")):
                continue
            if field.name == "aggregates":
                value = [aggregate.to_dict() for aggregate in value]
            if isinstance(value, Rows):
                value = value.count
            elif isinstance(value, (Index, EngineKind)):
                value = value.to_dict()
            elif isinstance(value, (Outer, Inner)):
                value = {"name": type(value).__name__, "every": value.every}
            elif isinstance(value, tuple):
                value = list(value)
            elif dataclasses.is_dataclass(value) and not isinstance(value, type):
                value = {
                    f.name: _duration_to_json(getattr(value, f.name))
                    for f in dataclasses.fields(value)
                    if f.name not in _LEFT_OUT or getattr(value, f.name) is not None
                }
            data[field.name] = value
        return json.dumps(data, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> JoinSpec:
        """The specification whose `to_json` gave this text.

        Raises
        ------
        PredicateError
            If the text is no specification; and what the constructor raises.
        """
        try:
            data = json.loads(text)
            data["on"] = from_dict(data["on"])
            for name, kind in (("within", Within), ("watermark", Watermark)):
                if data.get(name) is not None:
                    data[name] = kind(**{k: _duration_from_json(v) for k, v in data[name].items()})
            if isinstance(data.get("index"), dict):
                data["index"] = index_from_dict(data["index"])
            if isinstance(data.get("engine"), dict):
                data["engine"] = engine_from_dict(data["engine"])
            data["aggregates"] = [aggregate_from_dict(each) for each in data.get("aggregates", ())]
            if isinstance(data.get("order"), dict):
                data["order"] = {"Outer": Outer, "Inner": Inner}[data["order"]["name"]](data["order"]["every"])
            return cls(**data)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise PredicateError(f"not a join specification: {text[:200]!r} ({error})") from error


def _names(what: str, names: Any) -> tuple[str, ...]:
    """The columns that a list names."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise SchemaError(f"{what} must be a list of names of columns, not {names!r}")
    if not names:
        raise SchemaError(f"{what} must name at least one column")
    for name in names:
        if list(names).count(name) > 1:
            raise SchemaError(f"{what} names {name!r} twice")
    return tuple(names)


def _how(how: Any) -> str:
    """One of `HOWS`."""
    plain = str(how).lower().replace("_", "")
    known = _HOW_SPELLINGS.get(plain, plain)
    if known not in HOWS:
        raise PredicateError(f"there is no join how={how!r}: use one of {', '.join(HOWS)}")
    return known


def _duration_to_json(value: Any) -> Any:
    if isinstance(value, dt.timedelta):
        return {"microseconds": (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds}
    return value


def _duration_from_json(value: Any) -> Any:
    return dt.timedelta(microseconds=value["microseconds"]) if isinstance(value, dict) else value
