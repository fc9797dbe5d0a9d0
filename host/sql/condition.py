"""Conditions as text, read into the parts that objects are."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from muntin.host.errors import KeyTypeError, SqlError, WindowError
from muntin.host.keys.columns import column_type
from muntin.host.keys.condition import Condition
from muntin.host.keys.constants import exact_float, moment, read_moment
from muntin.host.keys.durations import duration_text, nanoseconds
from muntin.host.keys.key_type import NANOS_PER_DAY, Family, KeyType, key_type, key_types
from muntin.host.predicates import AllOf, AnyOf, AsOf, Predicate, Where, one_sided
from muntin.host.predicates.predicate import DISTINCT
from muntin.host.sides import SIDES, Side, Sides
from muntin.host.sql.terms import TIMES, Apart, Column, Linear, Node, Part, Source, known, number_of, time_pair
from muntin.host.sql.text import Text, leaves, told
from muntin.host.windows import Within

# Operators, as they compare right - left with a number.

_OPERATORS: dict[Any, str] = {
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NEQ: "!=",
    exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: DISTINCT,
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "<=>": DISTINCT, DISTINCT: "<=>"}
_HOLDS = {"=": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__", "<=>": "__eq__",
          DISTINCT: "__ne__"}  # fmt: skip
_MAX_COMBINED = 64
_MAX_DIGITS = 400
"""Of a constant: float64 has values of 309 digits before the point, and of 324 places behind it."""


class Reader(Text):
    """Reads conditions about the columns of two sides.

    Attributes
    ----------
    sources : list of Source
        The tables whose columns the text may name.
    schemas : dict of str to pyarrow.Schema
        The columns of "left" and "right".
    """

    sources: list[Source]
    schemas: Sides[pa.Schema]

    def know(self, sources: Iterable[Source], schemas: Mapping[Side, pa.Schema]) -> None:
        self.sources, self.schemas = list(sources), dict(schemas)

    # Columns

    def source(self, name: Node) -> Source | None:
        """The table of this alias."""
        alias = known(name.name, [source.alias for source in self.sources], name.quoted)
        return next((source for source in self.sources if source.alias == alias), None)

    def found(self, names: list[Node]) -> list[tuple[Source, str]]:
        """The tables that have a column of this name, with what it is called on their side."""
        source = self.source(names[0]) if len(names) > 1 else None
        if source is not None and (path := source.path(names[1:])) is not None:
            return [(source, path)]
        return [
            (each, path)
            for each in self.sources
            if (path := each.path(names)) is not None and known(names[0].name, each.hidden, names[0].quoted) is None
        ]

    def column(self, node: Node) -> Column:
        names = self.names(node)
        found = self.found(names)
        if len(found) == 1:
            return Column(found[0][0].side, found[0][1], node)
        raise self.no_column(node, names, found)

    def names(self, node: Node) -> list[Node]:
        """The names between the dots of a column or field."""
        steps: list[Node] = []
        inner = node
        while isinstance(inner, exp.Dot):
            steps.insert(0, inner.expression)
            inner = inner.this
        if not isinstance(inner, exp.Column) or not all(isinstance(s, exp.Identifier) for s in [*steps, *inner.parts]):
            self.refuse(node, f"{told(node)} is not supported")
        return [*inner.parts, *steps]

    def no_column(self, node: Node, names: list[Node], found: list[tuple[Source, str]]) -> SqlError:
        """The error of a name that no table has, or several."""
        text = ".".join(name.name for name in names)
        source = self.source(names[0]) if len(names) > 1 else None
        two = len(self.sources) == 2
        if not found and source is not None:
            there = ", ".join(source.schema.names) or "none"
            what = f"{source.alias} has no column {text.split('.', 1)[1]!r}: it has {there}"
        elif not found:
            what = f"{'neither side' if two else 'no table of this join'} has a column {text!r}"
        else:
            written = " or ".join(f"{each.alias}.{text}" for each, _ in found if each.alias)
            what = f"{'both sides have' if two else 'several tables have'} a column {text!r}: write {written}"
        return self.error(self.start(node), what)

    # Conditions

    def conjunction(self, *conditions: tuple[Node, bool], before: Iterable[Any] = ()) -> list[Any]:
        """The parts of conditions that all hold (False: that all fail), behind other parts, with both ends of a band as
        one part."""
        parts: list[Any] = []
        waiting: dict[tuple[Any, ...], list[int]] = {}  # parts that lack one end of a band
        for part in (*before, *self._each_part(conditions)):
            if isinstance(part, Apart) and part.one_end():
                pair = (part.left.path, part.right.path, part.sum)
                if lacking := waiting.get((*pair, part.low is None)):
                    at = lacking.pop(0)
                    parts[at] = parts[at].merged(part)
                    continue
                waiting.setdefault((*pair, part.high is None), []).append(len(parts))
            parts.append(part)
        return parts

    def _each_part(self, conditions: Iterable[tuple[Node, bool]]) -> Iterator[Any]:
        for node, holds in conditions:
            for leaf, positive in leaves(node, holds, exp.And):
                for part in self._parts(leaf, positive):
                    self._check(leaf, part)
                    yield part

    def equal(self, left: Column, right: Column) -> list[Any]:
        """The parts of columns that are equal by name."""
        parts = self._solved(right.node, "=", Linear([(-1, left), (1, right)], steps=1), (left.node, right.node))
        for part in parts:
            self._check(right.node, part)
        return parts

    def window(self, parts: list[Any], times: Any, event_times: Mapping[str, Iterable[str]]) -> Within | None:
        """The time window of a conjunction. Its part is taken out where others are left that compare both sides;
        windows of time that are equal are left, as their ends alone make it."""
        pairs = [self._ends(part) or part for part in parts]
        pair = time_pair(pairs, times, {side: set(event_times.get(side, ())) for side in SIDES})
        if pair is None:
            return None
        with self.at(pair.left.node):
            within = pair.within()
        if pair in parts and any(not one_sided(part.predicate()) for part in parts if part is not pair):
            parts.remove(pair)
        return within

    def whole(self, parts: list[Any]) -> Predicate | Where | AllOf:
        """The condition that all parts make."""
        made = [part.predicate() for part in parts]
        return made[0] if len(made) == 1 else AllOf(*made)

    def _check(self, node: Node, part: Any) -> None:
        """Refuses what cannot be asked of the columns' types, at its place in the text."""
        with self.at(node):
            Condition(part.predicate(), self.schemas["left"], self.schemas["right"])

    def _ends(self, part: Any) -> Apart | None:
        """The equality of the ends of two windows of time that a part compares, such as Spark's `window` makes them."""
        if not isinstance(part, Apart) or part.compare != "=":
            return None
        kinds = []
        for column in (part.left, part.right):
            kind = column_type(self.schemas[column.side], column.path)
            if not pa.types.is_struct(kind) or {field.name for field in kind} != {"start", "end"}:
                return None
            kinds.append(kind.field("end").type)
        left, right = (dataclasses.replace(column, path=f"{column.path}.end") for column in (part.left, part.right))
        bound = Fraction(0)
        return Apart(left, right, bound, bound, self._kinds(part.left.node, left, right, needed=False), "=")

    def nearest(self, place: Node, parts: list[Any], match: Node | None, using: list[Any]) -> AsOf:
        """The condition of an as-of join: one of times, behind ON or in MATCH_CONDITION, and equalities."""
        equal = [part for part in parts if isinstance(part, Apart) and part.compare == "="]
        tests = [part for part in parts if not isinstance(part, Apart) and one_sided(part.predicate())]
        rest = [part for part in parts if part not in equal and part not in tests]
        equal += using
        if match is not None:
            if rest:
                self.refuse(
                    place,
                    "beside MATCH_CONDITION an as-of join takes equalities of columns, and parts about one side alone",
                )
            place, rest = match, self.conjunction((match, True))
        elif using:  # as DuckDB has it: the last is the time, at or before the left one
            rest = [dataclasses.replace(equal.pop(), compare=">=")]
        times = rest[0] if len(rest) == 1 else None
        if not isinstance(times, Apart) or times.compare not in ("<", "<=", ">", ">=", None):
            self.refuse(
                place,
                "an as-of join compares one pair of times by <, <=, > or >=, and other columns by =; further parts are "
                "about one side alone",
            )
        tolerance = None
        if times.compare is not None:
            direction, exact = "backward" if times.compare[0] == ">" else "forward", times.compare[-1] == "="
        elif times.kinds is not None and times.closed() and not times.sum:
            step = times.step()  # times that are not equal are so far apart at least
            back = times.high in (0, -step)
            near, far = (-times.high, -times.low) if back else (times.low, times.high)  # type: ignore[operator]
            if near not in (0, step):
                self.refuse(place, "an as-of join has one time at or before the other, and at most a greatest distance")
            if times.kinds[0].family is Family.FLOAT:
                self.refuse(
                    place,
                    "a greatest distance of floating-point times is rounded as the text has it: AsOf(tolerance=...) is "
                    "exact",
                )
            direction, exact = "backward" if back else "forward", near == 0
            tolerance = times.bound(far)
        else:
            self.refuse(place, "an as-of join has one time at or before the other, and at most a greatest distance")
        by = [(part.left.path, part.right.path) for part in equal]
        where = [part.predicate() for part in tests]
        with self.at(place):
            return AsOf(times.left.path, times.right.path, direction, tolerance, by, exact, where)

    def _parts(self, node: Node, holds: bool) -> list[Any]:
        """The parts of a condition that is no conjunction, or of its negation: NULL satisfies neither."""
        constant = self._constant(node)
        if constant is not None:
            return [] if constant[0] is holds else [Part(AnyOf())]
        if isinstance(node, (exp.And, exp.Or)):
            branches = list(leaves(node, holds, exp.Or))
            return self._union(node, [(branch, self.conjunction((branch, positive))) for branch, positive in branches])
        if isinstance(node, exp.Between):
            if node.args.get("symmetric"):
                self.refuse(node, "BETWEEN SYMMETRIC is not supported")
            value, low, high = node.this, node.args["low"], node.args["high"]
            if holds:
                return self._compared(node, ">=", value, low) + self._compared(node, "<=", value, high)
            ends = (self._compared(node, "<", value, low), self._compared(node, ">", value, high))
            return self._union(node, [(node, end) for end in ends])
        if isinstance(node, exp.In):
            if not node.expressions:
                self.refuse(node, "IN takes a list of constants")
            made = [self._compared(node, "=" if holds else "!=", node.this, each) for each in node.expressions]
            return (
                self._union(node, [(node, part) for part in made])
                if holds
                else [each for part in made for each in part]
            )
        if isinstance(node, exp.Is) and isinstance(node.expression, (exp.Null, exp.Boolean)):
            value = None if isinstance(node.expression, exp.Null) else bool(node.expression.this)
            return [self._test(node, node.this.unnest(), "<=>" if holds else DISTINCT, value)]
        if isinstance(node, (exp.Column, exp.Dot)):
            return [self._test(node, node, "=", holds)]
        operator = _OPERATORS.get(type(node))
        if operator is None:
            self.refuse(
                node,
                f"{told(node)} is not supported in a condition: make a boolean column of it first",
            )
        return self._compared(node, operator if holds else _NEGATED[operator], node.left, node.right)

    def _constant(self, node: Node) -> tuple[bool | None] | None:
        """Whether a condition without columns holds, in a tuple, None for NULL; None for one with columns."""
        if isinstance(node, exp.Boolean):
            return (bool(node.this),)
        if isinstance(node, exp.Null):
            return (None,)
        operator = _OPERATORS.get(type(node))
        if operator is None or node.find(exp.Column) is not None:
            return None
        empty = [isinstance(side.unnest(), exp.Null) for side in (node.left, node.right)]
        if any(empty):
            return (all(empty) == (operator == "<=>") if operator in ("<=>", DISTINCT) else None,)
        one, other = self._linear(node.left), self._linear(node.right)
        if one.kinds != other.kinds and not (one.kinds | other.kinds) <= {"number"}:
            self.refuse(node, "a number is no length of time: write an INTERVAL")
        return (bool(getattr(one.number + one.duration, _HOLDS[operator])(other.number + other.duration)),)

    def _union(self, node: Node, branches: list[tuple[Node, list[Any]]]) -> list[Any]:
        """The parts that hold where all parts of one branch at least do: one of each branch, in all combinations but
        those that another one implies."""
        sets: list[list[Any]] = [[]]
        several = None
        for branch, parts in branches:
            predicates = [part.predicate() for part in parts]
            if AnyOf() in predicates:
                continue
            if len(predicates) > 1:
                several = branch
            if len(sets) * len(predicates) > _MAX_COMBINED:
                self.refuse(
                    branch, f"a conjunction inside OR that makes more than {_MAX_COMBINED} parts is not supported"
                )
            sets = [[*each, *([p] if p not in each else [])] for each in sets for p in predicates]
        if sets == [[]]:
            return [Part(AnyOf())]
        least: list[list[Any]] = []
        for each in sorted(sets, key=len):
            if not any(all(p in each for p in other) for other in least):
                least.append(each)
        with self.at(node if several is None else several):
            return [Part(each[0] if len(each) == 1 else AnyOf(*each)) for each in least]

    def _compared(self, node: Node, operator: str, one: Node, other: Node) -> list[Any]:
        one, other = one.unnest(), other.unnest()
        if isinstance(other, exp.Abs) and not isinstance(one, exp.Abs):
            one, other, operator = other, one, _TURNED.get(operator, operator)
        if isinstance(one, exp.Abs):
            return self._distance(node, operator, one.this, other)
        for value, plain, op in ((other, one, operator), (one, other, _TURNED.get(operator, operator))):
            literal = self._literal(value)
            if literal is not None:
                return [self._test(node, plain, op, literal[0])]
        difference = self._linear(one).plus(self._linear(other), -1)
        return self._solved(node, operator, difference, (one, other))

    def _distance(self, node: Node, operator: str, inner: Node, limit: Node) -> list[Any]:
        """``abs(inner) OP limit``."""
        value, bound = self._linear(inner.unnest()), self._linear(limit)
        if bound.columns or operator == "<=>":
            self.refuse(node, "abs(...) must be compared with a constant")
        if bound.number < 0 or bound.duration < 0:
            self.refuse(limit, "abs(...) is compared with a constant below 0")
        above, below = value.plus(bound, -1), value.plus(bound, 1)
        sides = (inner, limit)
        if operator in ("<", "<="):
            return self._solved(node, operator, above, sides, exact=False) + self._solved(
                node, _TURNED[operator], below, sides, exact=False
            )
        if operator == "!=":
            return self._solved(node, "!=", above, sides, exact=False) + self._solved(
                node, "!=", below, sides, exact=False
            )
        parts = [
            self._solved(node, operator, above, sides, exact=False),
            self._solved(node, _TURNED.get(operator, operator), below, sides, exact=False),
        ]
        return [Part(AnyOf(*(part.predicate() for made in parts for part in made)))]

    def _solved(
        self, node: Node, operator: str, difference: Linear, sides: tuple[Any, Any], *, exact: bool = True
    ) -> list[Any]:
        """Parts for ``difference OP 0``; `exact` where the text computes no difference itself."""
        signs = [sign for sign, _ in difference.columns]
        of = [column.side for _, column in difference.columns]
        if len(of) == 1:
            return [self._one_column(node, operator, difference)]
        if sorted(of) != ["left", "right"]:
            same = len(of) == 2 and of[0] == of[1]
            what = (
                "both columns belong to one side" if same else "it is no difference or sum of one column of each side"
            )
            self.refuse(node, f"a condition compares one column of the left side with one of the right: {what}")
        left, right = (next(column for _, column in difference.columns if column.side == side) for side in SIDES)
        positive = next(sign for sign, column in difference.columns if column.side == "right") > 0
        if not positive:
            operator = _TURNED.get(operator, operator)
        added = signs[0] == signs[1]
        if operator in ("<=>", DISTINCT):
            if difference.kinds or difference.steps > 1 or added:
                self.refuse(node, f"{operator} compares plain columns: arithmetic in it is not supported")
            return [Apart(left, right, None, None, None, operator)]
        plain = difference.steps <= 1 and not difference.kinds  # the one step is our own
        kinds = self._kinds(node, left, right, needed=not plain or added)
        compare = _TURNED.get(operator, operator)  # right OP left, as left OP right
        if kinds is None:
            return [Apart(left, right, None, None, None, compare)]
        bound = self._amount(node, difference, kinds[0].family) * (-1 if positive else 1)
        floating = kinds[0].family is Family.FLOAT
        if added and kinds[0].family not in (Family.NUMBER, Family.DURATION, Family.NONE):
            why = "its sum is rounded" if floating else f"a {kinds[0].family.value} has no sum"
            self.refuse(node, f"the sum of {left.path!r} and {right.path!r} ({kinds[0].arrow}) is not supported: {why}")
        if floating and not plain:
            self._check_float(node, operator, difference, left, right, sides, exact)
        strict = operator in ("<", ">", "!=")
        if (floating and strict) or (bound == 0 and operator == "!=" and not added):
            return [Apart(left, right, None, None, None, compare)]
        step = Apart(left, right, kinds=kinds).step()
        # On discrete keys, less than a bound is at most the value before it.
        below, above = (-(-bound // step) - 1) * step, (bound // step + 1) * step
        made = functools.partial(Apart, left, right, kinds=kinds, sum=added)
        if operator == "!=":
            return [Part(AnyOf(made(None, below).predicate(), made(above, None).predicate()))]
        if operator == "=":
            return [made(bound, bound, compare="=" if not bound and not added else None)]
        plain_compare = compare if not bound and not added else None
        if operator in ("<", "<="):
            return [made(None, below if operator == "<" else bound, compare=plain_compare)]
        return [made(above if operator == ">" else bound, None, compare=plain_compare)]

    def _kinds(self, node: Node, left: Column, right: Column, *, needed: bool) -> tuple[KeyType, KeyType] | None:
        """Key types of a pair; None where they have none, and none are needed."""
        types = [column_type(self.schemas[column.side], column.path) for column in (left, right)]
        try:
            return key_types(types[0], left.path, types[1], right.path)
        except KeyTypeError as error:
            if needed:
                self.refuse(node, str(error))
            return None  # text and the like; what does not go together is refused with the schemas

    def _amount(self, node: Node, difference: Linear, family: Family) -> Fraction:
        """The constant of a difference, in the keys' unit of account."""
        if family is Family.NONE:
            return difference.number + difference.duration
        if family not in TIMES:
            if difference.duration:
                self.refuse(node, "an INTERVAL is for times, and these columns are numbers")
            return difference.number
        if not difference.number:
            return difference.duration
        if family is Family.DATE:
            return difference.number * NANOS_PER_DAY + difference.duration
        self.refuse(node, "a number is no length of time: write an INTERVAL")

    def _check_float(
        self, node: Node, operator: str, difference: Linear, left: Column, right: Column,
        sides: tuple[Any, Any], exact: bool,
    ) -> None:  # fmt: skip
        """Refuses arithmetic on floats that is rounded otherwise than ``left + low <= right <= left + high``."""
        hint = (
            f"on floating-point columns arithmetic is exact as {left.shown} plus or minus one constant, compared with "
            f"{right.shown} by =, <=, >= or BETWEEN: written so it is "
            "taken; in another form it is rounded otherwise"
        )
        forms = [self._linear(side) for side in sides]
        plain = [form for form in forms if len(form.columns) == 1 and form.columns[0] == (1, right) and not form.steps]
        moved = [form for form in forms if len(form.columns) == 1 and form.columns[0] == (1, left) and form.steps == 1]
        if not exact or len(plain) != 1 or len(moved) != 1:
            self.refuse(node, hint)
        if operator not in ("=", "<=", ">="):
            self.refuse(node, f"{operator} with arithmetic on floating-point columns is not supported: {hint}")
        kind = column_type(self.schemas["left"], left.path)
        whole = difference.number.denominator == 1 and abs(difference.number) < 1 << 52
        if pa.types.is_floating(kind) and kind.bit_width < 64:
            self.refuse(node, f"{left.path!r} has type {kind}, and its sums are rounded to it: cast it to double")
        if not pa.types.is_floating(kind) and not whole:
            self.refuse(
                node, f"the sum of {left.path!r} ({kind}) and a fraction is rounded otherwise: cast it to double"
            )

    # One column

    def _one_column(self, node: Node, operator: str, difference: Linear) -> Part:
        """``column OP number``."""
        sign, column = difference.columns[0]
        kind = self._one_kind(node, column)
        family = kind.family
        if sign < 0:
            operator = _TURNED.get(operator, operator)
        if family is Family.FLOAT and difference.steps > 1:
            self.refuse(
                node, "arithmetic on a floating-point column and a constant is not supported: compare the column"
            )
        if family in (Family.NUMBER, Family.FLOAT) or (family is Family.NONE and not difference.duration):
            if difference.duration:
                self.refuse(node, "an INTERVAL is for times, and this column holds numbers")
            number = -sign * difference.number
            if family is Family.FLOAT and exact_float(number) is None:
                self.refuse(
                    node, f"{column.path!r} has type {kind.arrow}, and the constant does not fit float64: round it"
                )
            value: Any = number_of(number, family)
            if family is Family.FLOAT and kind.bits == 32 and float(np.float32(value)) != float(value):
                self.refuse(
                    node, f"{column.path!r} has type {kind.arrow}, which {value} does not fit: cast it to double"
                )
            if family is Family.FLOAT:
                value = float(value)
        elif family in (Family.DURATION, Family.NONE) and not difference.number:
            value = duration_text(-sign * difference.duration) or "0 seconds"
        else:
            self.refuse(node, f"{column.path!r} has type {kind.arrow}: compare it with a constant of that type")
        return self._where(node, column, operator, value)

    def _one_kind(self, node: Node, column: Column) -> KeyType:
        try:
            return key_type(column_type(self.schemas[column.side], column.path), column.path)
        except KeyTypeError:
            self.refuse(node, f"{column.path!r} is no column of numbers or times")

    def _test(self, node: Node, plain: Node, operator: str, value: Any) -> Part:
        """``column OP literal``, of what is no number."""
        column = self.column(plain)
        if value is None and operator not in ("<=>", DISTINCT):
            self.refuse(node, f"{operator} NULL holds for no row: use IS NULL", final=True)
        return self._where(node, column, operator, value)

    def _where(self, node: Node, column: Column, operator: str, value: Any) -> Part:
        with self.at(node):
            return Part(Where(column.side, column.path, operator, value))

    # Values

    def _literal(self, node: Node) -> tuple[Any] | None:
        """The constant, in a tuple, if it is one that has no arithmetic here: text, a date, a truth value, NULL."""
        if isinstance(node, exp.Null):
            return (None,)
        if isinstance(node, exp.Boolean):
            return (bool(node.this),)
        if isinstance(node, exp.Literal) and node.is_string:
            return (node.this,)
        if isinstance(node, exp.HexString):
            try:
                return (bytes.fromhex(node.this),)
            except ValueError:
                self.refuse(node, f"x'{node.this}' is no bytes in hexadecimal digits", final=True)
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
            kind = node.to.this
            try:
                if kind == exp.DataType.Type.DATE:
                    day = read_moment(node.this.this, Family.DATE)
                    if moment(day).family is not Family.DATE:  # type: ignore[union-attr]
                        self.refuse(node, f"{node.this.this!r} is no date alone: write TIMESTAMP")
                    return (day,)
                if kind in (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPNTZ):
                    stamp = read_moment(node.this.this, Family.TIMESTAMP)
                    return (dt.datetime.combine(stamp, dt.time()) if type(stamp) is dt.date else stamp,)
                if kind == exp.DataType.Type.TIME:
                    return (read_moment(node.this.this, Family.TIME),)
            except ValueError as error:
                self.refuse(node, str(error))
        return None

    def _linear(self, node: Node) -> Linear:
        added = []  # from the right: a sum may have any number of terms
        while isinstance(node := node.unnest(), (exp.Add, exp.Sub)):
            added.append((node.right, 1 if isinstance(node, exp.Add) else -1))
            node = node.left
        total = self._term(node)
        for term, sign in reversed(added):
            total = total.plus(self._linear(term), sign)
        return total

    def _term(self, node: Node) -> Linear:
        if isinstance(node, (exp.Column, exp.Dot)):
            return Linear([(1, self.column(node))])
        if isinstance(node, exp.Literal) and not node.is_string:
            number = Decimal(node.this)
            if abs(number.adjusted()) > _MAX_DIGITS or len(number.as_tuple().digits) > _MAX_DIGITS:
                self.refuse(node, f"a number of more than {_MAX_DIGITS} digits fits no column", final=True)
            return Linear([], number=Fraction(number), kinds=frozenset({"number"}))
        if isinstance(node, exp.Interval):
            return Linear([], duration=Fraction(self._interval(node)), kinds=frozenset({"duration"}))
        if isinstance(node, exp.Neg):
            return Linear([]).plus(self._linear(node.this), -1)
        if isinstance(node, exp.Mul):
            one, other = self._linear(node.left), self._linear(node.right)
            if not one.columns and not other.columns and not (one.duration and other.duration):
                duration = one.duration * other.number + other.duration * one.number
                return Linear([], one.number * other.number, duration, 0, one.kinds | other.kinds)
        self.refuse(node, f"{told(node)} is not supported in a condition: make a column of it first")

    def _interval(self, node: Node) -> int:
        """Nanoseconds."""
        value = node.this.unnest() if node.this is not None else None
        sign = 1
        if isinstance(value, exp.Neg):
            sign, value = -1, value.this.unnest()
        if not isinstance(value, exp.Literal):
            self.refuse(node, "an INTERVAL must be a constant")
        unit = node.args.get("unit")
        text = value.this if unit is None else f"{value.this} {unit.name}"
        try:
            return sign * nanoseconds(text)
        except WindowError as error:
            self.refuse(
                node,
                f"{error}; months and years have no fixed length"
                if "month" in text.lower() or "year" in text.lower()
                else str(error),
            )


def sides_of(left: pa.Schema, right: pa.Schema) -> list[Source]:
    """The two sides of a condition alone, by the names left and right."""
    schemas = zip(SIDES, (left, right), strict=True)
    return [Source(side, side, schema, {name: name for name in schema.names}) for side, schema in schemas]
