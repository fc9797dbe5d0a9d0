"""The interface of a join condition."""

from __future__ import annotations

import abc
from typing import Any

from muntin.host.predicates.piece import Piece


class Predicate(abc.ABC):
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
