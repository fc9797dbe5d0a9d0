"""Predicates as unions of intervals."""

from __future__ import annotations

import abc
import dataclasses
from typing import TYPE_CHECKING, Any

from muntin.host.errors import PredicateError

if TYPE_CHECKING:
    from muntin.host.predicates.all_of import AllOf
    from muntin.host.predicates.any_of import AnyOf


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
        from muntin.host.predicates.all_of import AllOf

        return AllOf(self, other) if isinstance(other, Combined) else NotImplemented  # type: ignore[arg-type]

    def __or__(self, other: Combined) -> AnyOf:
        from muntin.host.predicates.any_of import AnyOf

        return AnyOf(self, other) if isinstance(other, Combined) else NotImplemented  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        raise PredicateError(
            f"{self!r} is neither true nor false: combine conditions with & and |, not with and and or"
        )


class Predicate(Combined, abc.ABC):
    """A condition on one key column of each side."""

    left: str
    right: str
    sum: bool = False
    """Whether the intervals are of ``right + left``."""

    @abc.abstractmethod
    def pieces(self) -> list[Piece]:
        """The intervals of ``right - left``, or of their sum, whose union the condition is."""

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form, read back by `muntin.host.predicates.from_dict`."""
