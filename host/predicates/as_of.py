"""The as-of condition."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from muntin.host.errors import PredicateError
from muntin.host.predicates.literal import bound_from_json, bound_to_json, check_bound, comparable
from muntin.host.predicates.predicate import AllOf, Predicate, Where, one_sided
from muntin.host.public import public
from muntin.host.sides import Side

DIRECTIONS = ("backward", "forward", "nearest")


@public("muntin")
@dataclasses.dataclass(frozen=True)
class AsOf:
    """Each left row meets at most one right row: the nearest in time of those that are equal in `by`.

    Right rows of one time: looking back the last to arrive is met, looking ahead the first. Of one before and one after
    at the same distance it is the one before. NULL and NaN times match nothing, and NULL in `by` equals nothing.

    Parameters
    ----------
    left_time, right_time : str
        Time column of each side: timestamps, dates, times of day, durations, integers, floats or decimals. Streams take
        all but floats and decimals.
    direction : str
        ``"backward"``: right rows at or before the left row; ``"forward"``: at or after it; ``"nearest"``: both.
    tolerance : str, timedelta, int, float, Decimal or None
        The greatest distance, included, exact; 0 means equal times. A duration such as ``"10 seconds"`` for times and
        dates, a number for numbers.
    by : str, or sequence of str or (str, str)
        Columns that must be equal, of any type with equality: names, or (left, right) pairs of names.
    exact : bool
        Whether rows of equal times match.
    where : Where, AnyOf or AllOf of them, or several
        Parts about one side alone. They decide which rows take part, before the nearest is sought: a left row that
        fails one meets nothing, a right row is no candidate.

    Raises
    ------
    PredicateError
        If a name is no text, the direction unknown, the tolerance negative or unreadable, or a part compares the two
        sides.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin import AsOf, join
    >>> trades = pa.table({"t": [5, 9], "venue": ["x", "y"]})
    >>> quotes = pa.table({"t": [1, 4, 8], "venue": ["x", "x", "y"], "bid": [10, 11, 12]})
    >>> join(trades, quotes, AsOf("t", "t", by="venue"))["bid"].to_pylist()
    [11, 12]
    """

    left_time: str
    right_time: str
    direction: str = "backward"
    tolerance: Any = None
    by: Any = ()
    exact: bool = True
    where: Any = ()

    def __post_init__(self) -> None:
        for name in ("left_time", "right_time"):
            if not isinstance(getattr(self, name), str):
                raise PredicateError(f"{name} must be the name of a column, not {getattr(self, name)!r}")
        if self.direction not in DIRECTIONS:
            raise PredicateError(f"direction must be one of {', '.join(DIRECTIONS)}, not {self.direction!r}")
        if not isinstance(self.exact, bool):
            raise PredicateError(f"exact must be True or False, not {self.exact!r}")
        tolerance = check_bound("tolerance", self.tolerance)
        object.__setattr__(self, "tolerance", tolerance)
        if tolerance is not None and comparable(tolerance) < 0:
            raise PredicateError(f"tolerance={tolerance!r} is negative: it is a distance, in either direction")
        object.__setattr__(self, "by", tuple(map(_pair, [self.by] if isinstance(self.by, str) else self.by)))
        given = [self.where] if isinstance(self.where, (Where, Predicate, AllOf)) else list(self.where)
        parts = AllOf(*given).parts if given else ()
        for part in parts:
            if not one_sided(part):
                raise PredicateError(
                    f"where takes parts about one side alone, such as Where('right', 'price', '>', 0), not {part!r}: "
                    "an as-of join compares its times and the columns of by="
                )
        object.__setattr__(self, "where", parts)

    def __and__(self, other: Where | Predicate | AllOf) -> AsOf:
        """With a further part about one side in `where`."""
        if not isinstance(other, (Where, Predicate, AllOf)):
            return NotImplemented
        return dataclasses.replace(self, where=(*self.where, *AllOf(other).parts))

    __rand__ = __and__

    def names(self, side: Side) -> list[str]:
        """The `by` columns of a side."""
        return [pair[side == "right"] for pair in self.by]

    def time(self, side: Side) -> str:
        """The time column of a side."""
        return self.left_time if side == "left" else self.right_time

    @property
    def conjuncts(self) -> tuple[Predicate | Where, ...]:
        """The parts about one side."""
        return self.where

    def to_dict(self) -> dict[str, Any]:
        where = {"where": [part.to_dict() for part in self.where]} if self.where else {}
        return {
            "kind": "as_of",
            "left_time": self.left_time,
            "right_time": self.right_time,
            "direction": self.direction,
            "tolerance": bound_to_json(self.tolerance),
            "by": [list(pair) for pair in self.by],
            "exact": self.exact,
            **where,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any], where: Sequence[Any] = ()) -> AsOf:
        """What `to_dict` gave, with the parts of its `where`."""
        return cls(
            data["left_time"],
            data["right_time"],
            data["direction"],
            bound_from_json(data["tolerance"]),
            data["by"],
            data["exact"],
            where,
        )


def _pair(columns: object) -> tuple[str, str]:
    pair = (columns, columns) if isinstance(columns, str) else columns
    if isinstance(pair, Sequence) and len(pair) == 2 and all(isinstance(name, str) for name in pair):
        return pair[0], pair[1]
    raise PredicateError(f"by takes names of columns and (left, right) pairs of names, not {columns!r}")
