"""The conjunction of predicates, known by name."""

from __future__ import annotations

from host.errors import UnsupportedError
from host.predicates.predicate import Predicate


class AllOf:
    """A conjunction over several keys. Not supported yet.

    Raises
    ------
    UnsupportedError
        Always: join on one of the conditions and filter the result by the others.
    """

    def __init__(self, *parts: Predicate):
        raise UnsupportedError(
            "AllOf (a conjunction over several keys) is not supported yet: join on the most selective of its "
            f"{len(parts)} conditions and filter the result by the others"
        )
