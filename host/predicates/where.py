"""A condition on one column of one side."""

from __future__ import annotations

import dataclasses
import datetime as dt
from fractions import Fraction
from typing import Any

from muntin.host.sides import Side
from muntin.host.errors import PredicateError
from muntin.host.keys.constants import Moment, plain
from muntin.host.keys.key_type import Family
from muntin.host.predicates.literal import bound_from_json, bound_to_json, check_bound
from muntin.host.predicates.predicate import Combined
from muntin.host.public import public

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
