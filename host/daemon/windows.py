"""Names and places of the windows of Spark's queries."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any
from urllib.parse import quote

from muntin.host.state import local_folder, open_store
from muntin.host.state.log import holds_calls, newest_join

_NAME = re.compile(r"(.+?)(?:/((?:equality|ranges|subwindows)(?:-[^/]+)?))?/(\d+)-of-(\d+)", re.DOTALL)
_OF_SPARK = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/(.+)", re.DOTALL)


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

    @staticmethod
    def number(name: str) -> int:
        """Which one has this name."""
        found = _NAME.fullmatch(name)
        return 0 if found is None else int(found[3])

    @classmethod
    def of(cls, name: str) -> Windows:
        """Those among which is one of this name."""
        found = _NAME.fullmatch(name)
        return cls(name, None, 1) if found is None else cls(found[1], found[2], int(found[4]))


def shown_name(name: str, title: str | None) -> tuple[str, str, str]:
    """What people are shown for a query's name.

    The Spark query's title, its id where it has none; the join in it, empty where it is no query of Spark; and the
    partition, such as "0 of 4", empty where it is the only one.
    """
    found = _NAME.fullmatch(name)
    of_spark = _OF_SPARK.fullmatch(found[1] if found else name)
    partition = f"{found[3]} of {found[4]}" if found else ""
    if of_spark is None:
        return title or (found[1] if found else name), "", partition
    return title or of_spark[1], of_spark[2], partition


def query_place(place: str, name: str) -> str:
    """Where the state of a query lies, under the place that was given for several."""
    return f"{place.rstrip('/')}/{quoted(name)}"


def quoted(name: str) -> str:
    """The name of a query's folder."""
    return quote(name, safe="")


def windows_below(place: str) -> dict[Windows, list[str]]:
    """The windows with a state under a place, and the names of those that are there. Raises StateError."""
    found: dict[Windows, list[str]] = {}
    for name in open_store(place, patient=False).below():
        if holds_calls(open_store(query_place(place, name)).names()):
            found.setdefault(Windows.of(name), []).append(name)
    return found


def begun_with(place: str, join: str) -> dict[str, dict[str, Any]]:
    """What the queries of Spark that have a join of this name, and their state at a place, have fixed at their first
    start, by the queries' ids; of `Definition.fixed`. Raises StateError."""
    folder = local_folder(place)
    if folder is not None and not os.path.isdir(folder):
        return {}
    found: dict[str, dict[str, Any]] = {}
    for name in open_store(place, patient=False).below():
        query, _, own = Windows.of(name).query.partition("/")
        if own == join and query not in found:
            newest = newest_join(open_store(query_place(place, name), patient=False))
            if newest is not None:
                found[query] = newest.get("fixed", {})
    return found


def other_counts(place: str, name: str) -> list[int]:
    """How many windows there are under a place of the query of this one, in other numbers than its own."""
    own = Windows.of(name)
    return sorted({each.count for each in windows_below(place) if each.query == own.query and each.count != own.count})
