"""Conditions of Spark as trees: what its plans and its clients have is read into these."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

COMPARED = ("=", "<=>", "<", "<=", ">", ">=")
_INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
#: With the bits of their integers.
FLOATS = {"float": 24, "double": 53}
MICROS_PER_DAY = 86_400_000_000
MONTHS = "has months or years, which have no fixed length"


class UnknownError(Exception):
    """An expression that Spark is to compute."""


@dataclasses.dataclass
class Expression:
    """A node of a condition's tree.

    Attributes
    ----------
    kind : str
        A comparison or "in"; "+", "-", "*", "%", "negative", "abs"; "and", "or", "not"; "column", "field", "literal";
        "coerced", a cast that Spark's analysis inserts, "cast", one of the query; "test", for NULL; "opaque", what is
        not taken apart, such as a function of the elements of an array; anything else is a function of Spark.
    shown : callable
        The text that errors have of it.
    typed : callable
        Spark's short name of its type.
    source : object
        What Spark computes it from.
    children : tuple of Expression
    value : object
        Of a column its side and place there, of a field its name, of a literal what it is: None, a bool, a str, an
        `Interval` or a `Number`; of another kind what is wrong with it, or None.
    """

    kind: str
    shown: Callable[[], str]
    typed: Callable[[], str]
    source: Any
    children: tuple[Expression, ...] = ()
    value: Any = None

    def sides(self) -> set[str]:
        """The sides that it is about."""
        if self.kind == "column":
            return {self.value[0]}
        return {side for child in self.children for side in child.sides()}

    def columns(self) -> int:
        """How many columns are in it, one that is there twice counted twice."""
        return (self.kind == "column") + sum(child.columns() for child in self.children)

    def conjunction(self) -> list[Expression]:
        """What AND joins, in the text's order."""
        found, waiting = [], [self]
        while waiting:
            each = waiting.pop()
            if each.kind == "and":
                waiting += reversed(each.children)
            else:
                found.append(each)
        return found


class Number(str):
    """A number as it is written."""


class Interval(int):
    """Microseconds."""


def is_number(kind: str) -> bool:
    """Whether a type, by Spark's short name, has numbers."""
    return is_exact(kind) or kind in FLOATS


def is_exact(kind: str) -> bool:
    """Whether a type has integers, or decimals."""
    return kind in _INTEGERS or kind.startswith("decimal")


def range_of(kind: str) -> tuple[int, int, int]:
    """The least and the greatest value of a type of integers or decimals, in units of its last digit, and how many
    digits there are after the point."""
    if kind in _INTEGERS:
        half = 1 << _INTEGERS[kind] - 1
        return -half, half - 1, 0
    digits, scale = (int(each) for each in kind.removeprefix("decimal(").removesuffix(")").split(","))
    return 1 - 10**digits, 10**digits - 1, scale


def holds(kind: str, other: str) -> bool:
    """Whether a type of numbers has every value of another one, exactly."""
    if other in FLOATS:
        return kind == other or kind == "double"
    low, high, scale = range_of(other)
    if kind in FLOATS:
        return scale == 0 and max(-low, high) <= 1 << FLOATS[kind]
    least, most, places = range_of(kind)
    return places >= scale and least <= low * 10 ** (places - scale) and high * 10 ** (places - scale) <= most
