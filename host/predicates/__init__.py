"""Join conditions."""

from __future__ import annotations

from typing import Any

from muntin.host.errors import PredicateError
from muntin.host.predicates.as_of import AsOf
from muntin.host.predicates.predicate import AllOf, AnyOf, Band, Compare, Piece, Predicate, Where, one_sided


def from_dict(data: dict[str, Any]) -> Predicate | AllOf | AsOf | Where:
    """The predicate whose `to_dict` gave this.

    Raises
    ------
    PredicateError
        If it is none.
    """
    try:
        kind = data["kind"]
        if kind == "any_of":
            return AnyOf(*(from_dict(part) for part in data["parts"]))  # type: ignore[arg-type]
        if kind == "all_of":
            return AllOf(*(from_dict(part) for part in data["parts"]))  # type: ignore[arg-type]
        if kind == "as_of":
            return AsOf.from_dict(data, [from_dict(part) for part in data.get("where", ())])
        if kind == "where":
            return Where.from_dict(data)
        if kind == "band":
            return Band.from_dict(data)
        if kind == "compare":
            return Compare.from_dict(data)
    except (KeyError, TypeError) as error:
        raise PredicateError(f"not a predicate: {data!r}") from error
    raise PredicateError(f"not a predicate: {data!r}")


__all__ = ["AllOf", "AnyOf", "AsOf", "Band", "Compare", "Piece", "Predicate", "Where", "from_dict", "one_sided"]
