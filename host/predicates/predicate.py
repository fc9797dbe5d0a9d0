"""Join conditions as unions of intervals, and their combinations."""

from __future__ import annotations

import abc
import dataclasses
import datetime as dt
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

from muntin.host.errors import PredicateError, UnsupportedError
from muntin.host.keys.constants import Moment, plain
from muntin.host.keys.key_type import Family
from muntin.host.predicates.literal import bound_from_json, bound_to_json, check_bound, comparable, is_duration
from muntin.host.public import public
from muntin.host.sides import Side


@dataclasses.dataclass(frozen=True)
class Piece:
    """One interval of ``right - left``, or of ``right + left``.

    Attributes
    ----------
    low, high : object or None
        Ends as the user gave them (number, Decimal, timedelta, text); None is open.
    low_strict, high_strict : bool
        The end itself is left out.
    """

    low: object = None
    high: object = None
    low_strict: bool = False
    high_strict: bool = False


class Combined:
    """What conditions have in common: ``&`` is `AllOf` of two, ``|`` is `AnyOf`."""

    def __and__(self, other: Combined) -> AllOf:
        return AllOf(self, other) if isinstance(other, Combined) else NotImplemented  # type: ignore[arg-type]

    def __or__(self, other: Combined) -> AnyOf:
        return AnyOf(self, other) if isinstance(other, Combined) else NotImplemented  # type: ignore[arg-type]

    @property
    def conjuncts(self) -> tuple[Predicate | Where, ...]:
        """The parts that all must hold."""
        return (self,)  # type: ignore[return-value]

    def __bool__(self) -> bool:
        raise PredicateError(
            f"{self!r} is neither true nor false: combine conditions with & and |, not with and and or"
        )


class Predicate(Combined, abc.ABC):
    """A condition on one key column of each side."""

    left: str
    right: str
    sum: bool = False
    """Whether the intervals bound ``right + left``."""

    @abc.abstractmethod
    def pieces(self) -> list[Piece]:
        """The intervals of ``right - left``, or of their sum, whose union the condition is."""

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form, read back by `muntin.host.predicates.from_dict`."""


DISTINCT = "is distinct from"
OPERATORS = ("=", "<", "<=", ">", ">=", "!=", "<=>", DISTINCT)
_SAME = {"==": "=", "<>": "!="}


@public("muntin")
@dataclasses.dataclass(frozen=True)
class Where(Combined):
    """``column OP value``: a part of `AllOf` or `AsOf` about one side alone. Rows that fail it match nothing.

    Parameters
    ----------
    side : str
        ``"left"`` or ``"right"``.
    column : str
        A column of that side, or a field of one (``"window.end"``).
    op : str
        One of ``=`` (or ``==``), ``<``, ``<=``, ``>``, ``>=``, ``!=`` (or ``<>``), ``<=>``, ``is distinct from``.
    value : int, float, Decimal, str, bytes, bool, date, datetime, time, timedelta or None
        The constant, exactly; scalars of NumPy, pandas and Arrow too. A date is its midnight where it meets a time
        without a time zone. None is for ``<=>`` and ``is distinct from`` alone: the column is NULL, or is not.
        Otherwise NULL and NaN in the column fail, but that they are distinct from every constant.

    Raises
    ------
    PredicateError
        If the side, the operator or the kind of value is none of these.

    Examples
    --------
    >>> from muntin import Compare, Where
    >>> on = Compare("venue", "=", "venue") & Where("right", "size", ">=", 100)
    """

    side: Side
    column: str
    op: str
    value: Any

    def __post_init__(self) -> None:
        if self.side not in ("left", "right"):
            raise PredicateError(f"the side of Where must be 'left' or 'right', not {self.side!r}")
        if not isinstance(self.column, str):
            raise PredicateError(f"column must be the name of a column, not {self.column!r}")
        op = _SAME.get(self.op, self.op) if isinstance(self.op, str) else self.op
        if op not in OPERATORS:
            raise PredicateError(f"{self.op!r} is no operator: use one of {' '.join(OPERATORS)}")
        object.__setattr__(self, "op", op)
        value = plain("value", self.value)
        if value is None and op not in ("<=>", DISTINCT):
            raise PredicateError(f"{self.column} {op} NULL holds for no row: use <=> or 'is distinct from' with NULL")
        if isinstance(value, float | Decimal) and value != value:
            raise PredicateError(f"{self.column} {op} NaN is the same for every row, as NaN equals none: leave it out")
        if not (value is None or isinstance(value, (bool, bytes, dt.date, dt.time, Moment))):
            check_bound("value_low" if value == float("-inf") else "value", value)  # an infinity is a value here
        object.__setattr__(self, "value", value)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "where",
            "side": self.side,
            "column": self.column,
            "op": self.op,
            "value": _to_json(self.value),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Where:
        return cls(data["side"], data["column"], data["op"], _from_json(data["value"]))


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, Moment):
        return {"moment": value.family.value, "nanoseconds": str(value.nanoseconds)}
    for kind in (dt.datetime, dt.date, dt.time):
        if isinstance(value, kind):
            return {kind.__name__: value.isoformat()}
    return bound_to_json(value)


def _from_json(value: Any) -> Any:
    if isinstance(value, dict):
        if "bytes" in value:
            return bytes.fromhex(value["bytes"])
        if "moment" in value:
            return Moment(Family(value["moment"]), Fraction(value["nanoseconds"]))
        for kind in (dt.datetime, dt.date, dt.time):
            if kind.__name__ in value:
                return kind.fromisoformat(value[kind.__name__])
    return bound_from_json(value)


# left OP right, as intervals of right - left.
_PIECES = {
    "=": [Piece(0, 0)],
    "<": [Piece(low=0, low_strict=True)],
    "<=": [Piece(low=0)],
    ">": [Piece(high=0, high_strict=True)],
    ">=": [Piece(high=0)],
    "!=": [Piece(high=0, high_strict=True), Piece(low=0, low_strict=True)],
    "<=>": [Piece(0, 0)],
    DISTINCT: [Piece(high=0, high_strict=True), Piece(low=0, low_strict=True)],
}
_SAME = {"==": "=", "<>": "!="}


@public("muntin")
@dataclasses.dataclass(frozen=True)
class Compare(Predicate):
    """``left OP right``: the left column, the operator, the right column.

    Parameters
    ----------
    left : str
        Key column of the left side.
    op : str
        One of ``=`` (or ``==``), ``<``, ``<=``, ``>``, ``>=``, ``!=`` (or ``<>``), ``<=>`` (equal, or both NULL),
        ``is distinct from`` (where ``<=>`` does not hold).
    right : str
        Key column of the right side.

    Raises
    ------
    PredicateError
        If `op` is none of these.

    Examples
    --------
    >>> from muntin import Band, Compare
    >>> on = Compare("venue", "=", "venue") & Band("limit", "price", -5, 5)
    >>> len(on.parts)
    2
    """

    left: str
    op: str
    right: str

    def __post_init__(self) -> None:
        for name in ("left", "right"):
            if not isinstance(getattr(self, name), str):
                raise PredicateError(f"{name} must be the name of a column, not {getattr(self, name)!r}")
        if not isinstance(self.op, str) or _SAME.get(self.op, self.op) not in _PIECES:
            raise PredicateError(f"{self.op!r} is no operator: use one of {' '.join(_PIECES)}")
        object.__setattr__(self, "op", _SAME.get(self.op, self.op))

    @property
    def equality(self) -> bool:
        """Whether it is ``=`` or ``<=>``, which any type with equality has."""
        return self.op in ("=", "<=>")

    @property
    def null_safe(self) -> bool:
        """Whether NULL equals NULL."""
        return self.op in ("<=>", DISTINCT)

    def pieces(self) -> list[Piece]:
        return list(_PIECES[self.op])

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "compare", "left": self.left, "op": self.op, "right": self.right}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Compare:
        return cls(data["left"], data["op"], data["right"])


CLOSED = ("both", "left", "right", "neither")


@public("muntin")
@dataclasses.dataclass(frozen=True)
class Band(Predicate):
    """``low <= right - left <= high``, or ``low <= right + left <= high``.

    `closed` leaves ends out: ``low < right - left <= high`` with ``closed="right"``.

    Integers, decimals, dates and timestamps are compared exactly and never wrap. Floats are compared as
    ``left + low <= right <= left + high`` with both bounds computed in float64, as SQL's BETWEEN would.

    Parameters
    ----------
    left, right : str
        Key column of each side.
    low, high : int, float, Decimal, timedelta, str or None
        Ends of the band; None leaves an end open. Date and timestamp keys take a timedelta or
        a duration such as ``"-5 minutes"``. Scalars of NumPy, pandas and Arrow are taken as they are, exactly.
    sum : bool
        Bounds limit the sum of the two keys: integers, decimals or durations.
    closed : str
        Which ends belong to the band: ``"both"``, ``"left"`` (`low`), ``"right"`` (`high`) or ``"neither"``, as
        pandas and Polars name them.

    Raises
    ------
    PredicateError
        If a bound is NaN, no number or finer than a nanosecond, `low` is above `high`, or equal to it where an end is
        left out, or `closed` is none of these.

    Examples
    --------
    >>> from muntin import Band
    >>> Band("limit", "price", -5, 5)  # -5 <= price - limit <= 5
    Band(left='limit', right='price', low=-5, high=5, sum=False, closed='both')
    >>> on = Band("ordered", "shipped", "0 s", "3 days", closed="left")
    """

    left: str
    right: str
    low: Any = None
    high: Any = None
    sum: bool = False
    closed: Literal["both", "left", "right", "neither"] = "both"

    def __post_init__(self) -> None:
        for name in ("left", "right"):
            if not isinstance(getattr(self, name), str):
                raise PredicateError(f"{name} must be the name of a column, not {getattr(self, name)!r}")
        if not isinstance(self.sum, bool):
            raise PredicateError(f"sum must be True or False, not {self.sum!r}")
        if self.closed not in CLOSED:
            raise PredicateError(f"closed must be one of {', '.join(CLOSED)}, not {self.closed!r}")
        object.__setattr__(self, "low", check_bound("low", self.low))
        object.__setattr__(self, "high", check_bound("high", self.high))
        if self.low is not None and self.high is not None:
            low, high = comparable(self.low), comparable(self.high)
            if is_duration(self.low) != is_duration(self.high) and 0 not in (low, high):
                raise PredicateError(f"low={self.low!r} and high={self.high!r} cannot be compared")
            if low > high:
                raise PredicateError(f"low={self.low!r} lies above high={self.high!r}: the band is empty")
            if low == high and self.closed != "both":
                raise PredicateError(
                    f"low={self.low!r} is high={self.high!r}, and closed={self.closed!r}: the band is empty"
                )

    def pieces(self) -> list[Piece]:
        low_strict, high_strict = (self.closed not in ("both", side) for side in ("left", "right"))
        return [Piece(self.low, self.high, low_strict and self.low is not None, high_strict and self.high is not None)]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "band",
            "left": self.left,
            "right": self.right,
            "low": bound_to_json(self.low),
            "high": bound_to_json(self.high),
            **({"sum": True} if self.sum else {}),
            **({"closed": self.closed} if self.closed != "both" else {}),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Band:
        return cls(
            data["left"],
            data["right"],
            bound_from_json(data["low"]),
            bound_from_json(data["high"]),
            data.get("sum", False),
            data.get("closed", "both"),
        )


@public("muntin")
class AnyOf(Predicate):
    """Holds where at least one of its parts does; a pair comes out once even where parts overlap.

    Parameters
    ----------
    *parts : Band, Compare, AnyOf or Where
        All on the same two columns, or all `Where` on the same column of one side. Parts of an `AnyOf` inside are parts
        of this one. Without parts it holds for no pair, as SQL's FALSE.

    Raises
    ------
    PredicateError
        If a part is no predicate.
    UnsupportedError
        If the parts name different columns, or a part is a conjunction or compares with ``is distinct from``.

    Examples
    --------
    >>> from muntin import AnyOf, Band
    >>> on = AnyOf(Band("a", "b", 0, 5), Band("a", "b", 20, 25))
    >>> on == Band("a", "b", 0, 5) | Band("a", "b", 20, 25)
    True
    """

    def __init__(self, *parts: Predicate | Where):
        flat: list[Predicate | Where] = []
        for part in parts:
            if isinstance(part, AllOf):
                raise UnsupportedError("a conjunction (AllOf) inside AnyOf is not supported: only an AllOf of AnyOf is")
            if not isinstance(part, (Predicate, Where)):
                raise PredicateError(f"AnyOf takes predicates, not {part!r}")
            if isinstance(part, Compare) and part.op == DISTINCT:
                raise UnsupportedError(f"{part!r} inside AnyOf is not supported: {part.op} stands alone or in AllOf")
            flat += part.parts if isinstance(part, AnyOf) else [part]
        self.parts: tuple[Predicate | Where, ...] = tuple(flat)
        wheres = [part for part in flat if isinstance(part, Where)]
        if wheres:
            if len({(part.side, part.column) for part in wheres}) > 1 or len(wheres) < len(flat):
                raise UnsupportedError(
                    f"AnyOf over several columns ({', '.join(map(repr, flat))}) is not supported: use one column of "
                    "one side with constants, or one pair of columns"
                )
            self.left = self.right = wheres[0].column
            return
        columns = {(part.left, part.right, part.sum) for part in self._predicates()}
        if len(columns) > 1:
            pairs = ", ".join(f"{a} + {b}" if added else f"{a}/{b}" for a, b, added in sorted(columns))
            raise UnsupportedError(f"AnyOf over several pairs of columns ({pairs}) is not supported yet: use one pair")
        if columns:
            self.left, self.right, self.sum = next(iter(columns))

    def _predicates(self) -> list[Predicate]:
        return [part for part in self.parts if isinstance(part, Predicate)]

    @property
    def null_safe(self) -> bool:
        """Whether NULL equals NULL: a part is ``<=>``."""
        return any(part.null_safe for part in self.parts if isinstance(part, Compare))

    def pieces(self) -> list[Piece]:
        return [piece for part in self._predicates() for piece in part.pieces()]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "any_of", "parts": [part.to_dict() for part in self.parts]}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyOf) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(("any_of", self.parts))

    def __repr__(self) -> str:
        return f"AnyOf({', '.join(map(repr, self.parts))})"


@public("muntin")
class AllOf(Combined):
    """Holds where every one of its parts does.

    Parameters
    ----------
    *parts : Band, Compare, AnyOf, Where or AllOf
        Over any columns. Parts of an `AllOf` inside are parts of this one. Where none compares the two sides, all pairs
        of rows that satisfy the parts about their sides qualify: without parts every pair does, SQL's TRUE.

    Raises
    ------
    PredicateError
        If a part is no predicate.

    Examples
    --------
    >>> from muntin import AllOf, Compare
    >>> on = AllOf(Compare("venue", "=", "venue"), Compare("price", "<", "limit"))
    >>> on == Compare("venue", "=", "venue") & Compare("price", "<", "limit")
    True
    """

    def __init__(self, *parts: Predicate | Where | AllOf):
        flat: list[Predicate | Where] = []
        for part in parts:
            if isinstance(part, AllOf):
                flat += part.parts
            elif isinstance(part, (Predicate, Where)):
                flat.append(part)
            else:
                raise PredicateError(f"AllOf takes Band, Compare, AnyOf and Where, not {part!r}")
        self.parts: tuple[Predicate | Where, ...] = tuple(flat)

    @property
    def conjuncts(self) -> tuple[Predicate | Where, ...]:
        return self.parts

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "all_of", "parts": [part.to_dict() for part in self.parts]}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AllOf) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(("all_of", self.parts))

    def __repr__(self) -> str:
        return f"AllOf({', '.join(map(repr, self.parts))})"


def one_sided(part: Predicate | Where | AllOf) -> bool:
    """Whether a part does not compare the two sides: a `Where`, or an `AnyOf` of them or of nothing."""
    return isinstance(part, Where) or (isinstance(part, AnyOf) and all(isinstance(each, Where) for each in part.parts))
