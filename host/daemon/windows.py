"""Names and places of the windows of Spark's queries."""

from __future__ import annotations

import dataclasses
import re
from urllib.parse import quote

from muntin.host.state import open_store
from muntin.host.state.log import holds_calls

_NAME = re.compile(r"(.+?)(?:/((?:equality|ranges|subwindows)(?:-[^/]+)?))?/(\d+)-of-(\d+)", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class Windows:
    """The windows of one join of a query.

    Attributes
    ----------
    query : str
        Of Spark, and the join in it: "QUERY/JOIN".
    placed : str or None
        What rows go to their window by: `Placement.name`; None where Spark has brought them there.
    count : int
    """

    query: str
    placed: str | None
    count: int

    @property
    def names(self) -> list[str]:
        """What daemons call each of them: windows of rows that went by something else have other names."""
        if self.count == 1:
            return [self.query]
        group = self.query if self.placed is None else f"{self.query}/{self.placed}"
        return [f"{group}/{number}-of-{self.count}" for number in range(self.count)]

    @classmethod
    def of(cls, name: str) -> Windows:
        """Those among which is one of this name."""
        found = _NAME.fullmatch(name)
        return cls(name, None, 1) if found is None else cls(found[1], found[2], int(found[4]))


def query_place(place: str, name: str) -> str:
    """Where the state of a query lies, under the place that was given for several."""
    return f"{place.rstrip('/')}/{quote(name, safe='')}"


def windows_below(place: str) -> dict[Windows, list[str]]:
    """The windows with a state under a place, and the names of those that are there. Raises StateError."""
    found: dict[Windows, list[str]] = {}
    for name in open_store(place).below():
        if holds_calls(open_store(query_place(place, name)).names()):
            found.setdefault(Windows.of(name), []).append(name)
    return found


def other_counts(place: str, name: str) -> list[int]:
    """How many windows there are under a place of the query of this one, in other numbers than its own."""
    own = Windows.of(name)
    return sorted({each.count for each in windows_below(place) if each.query == own.query and each.count != own.count})
