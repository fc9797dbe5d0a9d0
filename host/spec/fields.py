"""What defines a join, as data: without its columns, and apart from where it runs."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from functools import cached_property
from typing import Any, Self

from muntin.host.aggregates import aggregate_from_dict, open_aggregates
from muntin.host.engines import EngineKind, Inner, Outer, engine_from_dict, open_engine_kind, open_order
from muntin.host.errors import PredicateError, SchemaError, UnsupportedError, WindowError
from muntin.host.index import Index, index_from_dict, open_index
from muntin.host.keys.constants import whole_number
from muntin.host.predicates import AllOf, AsOf, Band, Compare, Predicate, Where, from_dict, one_sided
from muntin.host.sides import Side
from muntin.host.windows import Rows, Watermark, Within

FORMS = ("rows", "pairs", "counts", "ranges", "aggregate")
MOMENTS = ("arrival", "close")
HOWS = ("inner", "left", "right", "full", "left_semi", "left_anti", "right_anti")
_HOW_SPELLINGS = {
    "leftouter": "left", "rightouter": "right", "outer": "full", "fullouter": "full", "semi": "left_semi",
    "leftsemi": "left_semi", "anti": "left_anti", "leftanti": "left_anti", "rightanti": "right_anti",
    "cross": "inner",
}  # fmt: skip
_UNMATCHED: dict[str, tuple[Side, ...]] = {
    "left": ("left",), "right": ("right",), "full": ("left", "right"), "left_anti": ("left",), "right_anti": ("right",),
}  # fmt: skip

#: Options of a watermark that its JSON form has where they are given.
_LEFT_OUT = ("idle_after", "left_column", "right_column")


@dataclasses.dataclass(frozen=True)
class JoinFields:
    """The parameters of `JoinSpec`, which says what they mean, and what they tell without the columns of the sides.

    Raises
    ------
    PredicateError, WindowError, UnsupportedError
        If the parts do not make a join.
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
    static: Side | None = None
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
        if self.as_of is not None:
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
            if self.within is None and self.as_of is None:
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
        if self.late == "keep" and self.within is None and self.as_of is None:
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

    @cached_property
    def as_of(self) -> AsOf | None:
        """The condition, where it is that of an as-of join."""
        return self.on if isinstance(self.on, AsOf) else None

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
        if self.as_of is not None:
            if self.static == "left":
                raise UnsupportedError(
                    f"an as-of join answers the rows of its left side, and here that is a table: its nearest row of a "
                    f"stream, by {self.as_of.right_time!r}, may always come. Give the stream as the left side"
                )
        elif isinstance(self.within, Within) and isinstance(self.on, (Predicate, AllOf, Where)):
            parts = self.on.conjuncts
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

    @cached_property
    def prevailing(self) -> bool:
        """Whether a row that is too old for the windows may count as in one."""
        return any(aggregate.prevailing for aggregate in self.aggregates)

    @cached_property
    def closing(self) -> bool:
        """Whether a left row comes out once no later row can match it, with aggregates of all that have."""
        return self.at == "close"

    @cached_property
    def counted(self) -> bool:
        """Whether it has count windows."""
        return self.left is not None

    @cached_property
    def unbounded(self) -> bool:
        """Whether it has no window: every row is kept."""
        return self.left is None and self.within is None and self.as_of is None

    @cached_property
    def unmatched(self) -> tuple[Side, ...]:
        """The sides whose rows come out where they have matched nothing."""
        return _UNMATCHED.get(self.how, ())

    @property
    def equalities(self) -> list[Compare]:
        """The parts of the condition that compare the two sides for equality."""
        parts = self.on.conjuncts
        return [part for part in parts if isinstance(part, Compare) and part.equality]

    @cached_property
    def left_alone(self) -> bool:
        """Whether the result has the columns of the left side alone."""
        return self.how in ("left_semi", "left_anti")

    @cached_property
    def tracked(self) -> tuple[Side, ...]:
        """The sides whose rows are remembered as matched or not."""
        return ("left",) if self.left_alone else self.unmatched

    @property
    def waits(self) -> bool:
        """Whether rows wait for the watermark to be emitted: unmatched left or right rows of a time window, left rows
        of an as-of join, closing aggregates."""
        return self.watermark is not None and (bool(self.unmatched) or self.closing or self.as_of is not None)

    @cached_property
    def anti(self) -> bool:
        """Whether no pair comes out."""
        return self.how in ("left_anti", "right_anti")

    def check_endless(self) -> None:
        """Raises UnsupportedError if unmatched rows of streams without an end could never come out."""
        if self.static is not None:  # nothing waits
            return
        if self.as_of is not None:
            self._check_endless_as_of(self.as_of)
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
    def from_json(cls, text: str) -> Self:
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
