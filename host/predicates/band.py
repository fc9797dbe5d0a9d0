"""The band predicate."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from muntin.host.errors import PredicateError
from muntin.host.predicates.literal import bound_from_json, bound_to_json, check_bound, comparable, is_duration
from muntin.host.predicates.predicate import Piece, Predicate
from muntin.host.public import public

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
        Bounds are of the sum of the two keys: integers, decimals or durations.
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
