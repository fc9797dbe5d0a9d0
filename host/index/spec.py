"""What a user chooses of an index, as data; those that are none."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from muntin.host.errors import WindowError
from muntin.host.keys.constants import whole_number
from muntin.host.public import public


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class Index:
    """What a join keeps its windows in. A device says which of them it has.

    Attributes
    ----------
    name : str
        What to pass as ``index=`` for one with the default parameters.

    Examples
    --------
    >>> from muntin.index import Index, PimTree
    >>> isinstance(PimTree(), Index)
    True
    """

    name: ClassVar[str]
    conjunctive: ClassVar[bool] = False  # it indexes every part of a conjunction, not one alone

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form, read back by `index_from_dict`; an index within another one is a form of its own."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            "name": self.name,
            **{name: value.to_dict() if isinstance(value, Index) else value for name, value in values.items()},
        }

    def room(self, rows: int) -> int:
        """Rows that a native core sets memory aside for, where a window has so many."""
        return 2 * rows

    def _check(self, **least: int) -> None:
        """Raises WindowError unless each is a whole number of at least that much, or None where that is the default."""
        optional = {field.name for field in dataclasses.fields(self) if field.default is None}
        for parameter, bound in least.items():
            value = getattr(self, parameter)
            if value is None and parameter in optional:
                continue
            number = whole_number(value)
            if number is None or number < bound:
                raise WindowError(
                    f"{parameter} of the index {self.name!r} must be a whole number of at least {bound}, not {value!r}"
                )
            object.__setattr__(self, parameter, number)


@dataclasses.dataclass(frozen=True)
class SortedArray(Index):
    """One sorted array of the whole window, into which every batch is merged."""

    name = "sorted_array"


@dataclasses.dataclass(frozen=True)
class NestedLoop(Index):
    """None: every row is compared with all rows of the other window, as SplitJoin's cores do."""

    name = "nested_loop"
