"""The union of predicates."""

from __future__ import annotations

from typing import Any

from muntin.host.errors import PredicateError, UnsupportedError
from muntin.host.predicates.compare import Compare
from muntin.host.predicates.predicate import Piece, Predicate
from muntin.host.predicates.where import DISTINCT, Where
from muntin.host.public import public


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
        from muntin.host.predicates.all_of import AllOf  # which takes this as a part

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
