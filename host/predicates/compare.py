"""The comparison predicate."""

from __future__ import annotations

import dataclasses
from typing import Any

from muntin.host.errors import PredicateError
from muntin.host.predicates.predicate import Piece, Predicate
from muntin.host.predicates.where import DISTINCT
from muntin.host.public import public

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
