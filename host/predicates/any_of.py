"""The union of predicates."""

from __future__ import annotations

from typing import Any

from host.errors import PredicateError, UnsupportedError
from host.predicates.piece import Piece
from host.predicates.predicate import Predicate


class AnyOf(Predicate):
    """Holds where at least one of its parts does; a pair comes out once even where parts overlap.

    Parameters
    ----------
    *parts : Band, Compare or AnyOf
        All on the same two columns.

    Raises
    ------
    PredicateError
        If there is no part, or a part is no predicate.
    UnsupportedError
        If the parts name different columns.
    """

    def __init__(self, *parts: Predicate):
        if not parts:
            raise PredicateError("AnyOf needs at least one predicate")
        for part in parts:
            if not isinstance(part, Predicate):
                raise PredicateError(f"AnyOf takes predicates, not {part!r}")
        columns = {(part.left, part.right) for part in parts}
        if len(columns) > 1:
            pairs = ", ".join(f"{a}/{b}" for a, b in sorted(columns))
            raise UnsupportedError(f"AnyOf over several pairs of columns ({pairs}) is not supported yet: use one pair")
        self.parts = parts
        self.left, self.right = parts[0].left, parts[0].right

    def pieces(self) -> list[Piece]:
        return [piece for part in self.parts for piece in part.pieces()]

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "any_of", "parts": [part.to_dict() for part in self.parts]}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyOf) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(("any_of", self.parts))

    def __repr__(self) -> str:
        return f"AnyOf({', '.join(map(repr, self.parts))})"
