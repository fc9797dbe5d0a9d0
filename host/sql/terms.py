"""What a condition's text is made of: columns, sums of them, and the parts of the condition."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from muntin.host.keys.columns import has_column, root_column
from muntin.host.keys.constants import exact_float
from muntin.host.keys.durations import duration_text
from muntin.host.keys.key_type import NANOS_PER_DAY, Family, KeyType
from muntin.host.predicates import AnyOf, Band, Compare, Predicate, Where
from muntin.host.sides import Side
from muntin.host.windows import Within

Node = Any  # of sqlglot's tree
TIMES = (Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_TZ, Family.DURATION, Family.TIME)


@dataclasses.dataclass(frozen=True)
class Source:
    """A table of a text.

    Attributes
    ----------
    alias : str
        What the text calls it.
    side : str
        The side of the join that has its columns.
    schema : pyarrow.Schema
        Its own columns.
    names : mapping of str to str
        Of its columns, the names on that side.
    hidden : frozenset of str
        Columns that its name alone finds: those of USING, which the join has once.
    """

    alias: str
    side: Side
    schema: pa.Schema
    names: Mapping[str, str]
    hidden: frozenset[str] = frozenset()

    def path(self, names: list[Node]) -> str | None:
        """The column or field, on its side, of these names."""
        path = ".".join(name.name for name in names)
        if not has_column(self.schema, path):
            found: list[str] = []
            among, kind = self.schema.names, None
            for name in names:
                one = known(name.name, among, name.quoted)
                if one is None:
                    return None
                found.append(one)
                kind = self.schema.field(one).type if kind is None else kind.field(one).type
                among = [kind.field(at).name for at in range(kind.num_fields)] if pa.types.is_struct(kind) else []
            path = ".".join(found)
        root = root_column(self.schema, path)
        return self.names[root] + path[len(root) :] if root in self.names else None


def known(name: str, among: Iterable[str], quoted: bool) -> str | None:
    """What is called so: in any case, where the name has no quotes and one thing alone has it."""
    among = list(among)
    if name in among:
        return name
    alike = [each for each in among if each.lower() == name.lower()]
    return alike[0] if len(alike) == 1 and not quoted else None


@dataclasses.dataclass(frozen=True)
class Column:
    side: Side
    path: str
    node: Node

    @property
    def shown(self) -> str:
        """As the text has it."""
        return str(self.node.sql(identify=False)) if self.node is not None else self.path


@dataclasses.dataclass
class Linear:
    """Columns, each plus or minus, and a constant: a number, or nanoseconds.

    Attributes
    ----------
    steps : int
        How many additions and subtractions have a column in them.
    """

    columns: list[tuple[int, Column]]
    number: Fraction = Fraction(0)
    duration: Fraction = Fraction(0)
    steps: int = 0
    kinds: frozenset[str] = frozenset()

    def plus(self, other: Linear, sign: int) -> Linear:
        columns = self.columns + [(sign * s, column) for s, column in other.columns]
        steps = self.steps + other.steps + bool(columns)
        number, duration = self.number + sign * other.number, self.duration + sign * other.duration
        return Linear(columns, number, duration, steps, self.kinds | other.kinds)


@dataclasses.dataclass
class Part:
    """A part that is done."""

    part: Predicate | Where

    def predicate(self) -> Predicate | Where:
        return self.part


@dataclasses.dataclass
class Apart:
    """Bounds of right - left, or of their sum, in the keys' unit of account: 1, or nanoseconds."""

    left: Column
    right: Column
    low: Fraction | None = None
    high: Fraction | None = None
    kinds: tuple[KeyType, KeyType] | None = None
    compare: str | None = None  # left OP right, where it is just that
    sum: bool = False

    def predicate(self) -> Predicate:
        if self.compare is not None:
            return Compare(self.left.path, self.compare, self.right.path)
        if self.low == self.high == 0 and not self.sum:
            return Compare(self.left.path, "=", self.right.path)
        if self.closed() and self.low > self.high:  # type: ignore[operator]
            return AnyOf()
        return Band(self.left.path, self.right.path, self.bound(self.low), self.bound(self.high), self.sum)

    def within(self) -> Within:
        return Within(self.left.path, self.right.path, self.bound(self.low), self.bound(self.high))

    def bound(self, value: Fraction | None) -> Any:
        if value is None or self.kinds is None:
            return None
        family = self.kinds[0].family
        if family in TIMES:
            return duration_text(value)
        return number_of(value, family)

    def closed(self) -> bool:
        return self.low is not None and self.high is not None

    def one_end(self) -> bool:
        return (self.low is None) != (self.high is None)

    def merged(self, other: Apart) -> Apart:
        """Both as one, of which one has a lower and one an upper end alone."""
        low = self.low if other.low is None else other.low
        high = self.high if other.high is None else other.high
        return Apart(self.left, self.right, low, high, self.kinds, sum=self.sum)

    def step(self) -> Fraction:
        """The least length by which two different keys lie apart."""
        assert self.kinds is not None
        if self.kinds[0].family is Family.DATE:
            return Fraction(NANOS_PER_DAY)
        return min(self.kinds[0].unit, self.kinds[1].unit)


def number_of(value: Fraction, family: Family) -> int | float | Decimal:
    if value.denominator == 1:
        return value.numerator
    if family is Family.FLOAT and (near := exact_float(value)) is not None:
        return near
    digits = 0
    while (value * 10**digits).denominator != 1:
        digits += 1  # a constant of the text has an end
    return Decimal((value * 10**digits).numerator).scaleb(-digits)


def time_pair(parts: list[Any], times: tuple[str, str] | None, known: dict[str, set[str]]) -> Apart | None:
    """The part that is the time window."""
    pairs = [part for part in parts if isinstance(part, Apart) and part.closed() and part.predicate() != AnyOf()]
    if times is not None:
        return next((part for part in pairs if (part.left.path, part.right.path) == tuple(times)), None)
    stamps = [
        part
        for part in pairs
        if part.kinds is not None and all(pa.types.is_timestamp(kind.arrow) for kind in part.kinds)
    ]

    def marks(part: Apart) -> int:
        return (part.left.path in known["left"]) + (part.right.path in known["right"])

    return max(stamps, key=marks, default=None)
