"""The conjunction of predicates."""

from __future__ import annotations

from typing import Any

from muntin.host.errors import PredicateError
from muntin.host.predicates.any_of import AnyOf
from muntin.host.predicates.predicate import Combined, Predicate
from muntin.host.predicates.where import Where
from muntin.host.public import public


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
