"""Arithmetic that Spark computes for a condition, against Python's integers, in cells with the rules of its types."""

from decimal import Decimal
from fractions import Fraction

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given

from muntin.errors import PredicateError
from muntin.pyspark_bridge import computed_column
from muntin.pyspark_bridge.computed_column import ComputedColumns
from muntin.pyspark_bridge.expression import Expression, Number, holds, range_of


class Cell:
    """A value in a type, as Spark has it: what does not fit it, or would be rounded, fails."""

    def __init__(self, value, kind):
        low, high, scale = range_of(kind)
        unscaled = value * 10**scale
        assert unscaled.denominator == 1, f"{value} is rounded in {kind}"
        assert low <= unscaled <= high, f"{value} does not fit {kind}"
        self.value, self.kind = value, kind

    def cast(self, kind):
        return Cell(self.value, kind)

    def __neg__(self):
        assert len(str(abs(self.value * 10 ** range_of(self.kind)[2]))) <= 34, f"-({self.value}) is rounded"
        return Cell(-self.value, self.kind)

    def __add__(self, other):
        return self._made(
            other, self.value + other.value, lambda p, s, q, t: (max(p - s, q - t) + max(s, t) + 1, max(s, t))
        )

    def __sub__(self, other):
        return self + Cell(-other.value, other.kind)

    def __mul__(self, other):
        return self._made(other, self.value * other.value, lambda p, s, q, t: (p + q + 1, s + t))

    def __mod__(self, other):
        rest = abs(self.value) % abs(other.value) * (1 if self.value >= 0 else -1)
        return self._made(other, rest, lambda p, s, q, t: (min(p - s, q - t) + max(s, t), max(s, t)))

    def _made(self, other, value, rule):
        """With the type of Spark's rule for decimals; integers are both 64-bit ones."""
        if "bigint" in (self.kind, other.kind):
            assert self.kind == other.kind == "bigint"
            return Cell(value, "bigint")
        parts = [int(each) for cell in (self, other) for each in cell.kind[8:-1].split(",")]
        digits, scale = rule(*parts)
        if digits > 38:  # digits after the point go
            scale = max(38 - (digits - scale), min(scale, 6))
        return Cell(value, f"decimal({min(digits, 38)},{scale})")


class Cells(ComputedColumns):
    """Columns of one row."""

    def _plain(self, expression):
        return expression.source

    def _rebuilt(self, expression, children):
        raise AssertionError("there are no functions here")

    def _inserted(self, expression):
        return expression.children


KINDS = ["tinyint", "smallint", "int", "bigint", "decimal(5,0)", "decimal(9,2)", "decimal(18,6)", "decimal(20,12)"]


@st.composite
def leaves(draw):
    kind = draw(st.sampled_from(KINDS))
    low, high, scale = range_of(kind)
    value = draw(st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, -1, 1])))
    value = Fraction(value, 10**scale)
    literal = draw(st.booleans())
    text = Number(Decimal(value.numerator) / Decimal(value.denominator)) if literal else ("left", 0)
    return Expression(
        "literal" if literal else "column", lambda: kind, lambda: kind, Cell(value, kind), (), text
    ), value


def node(kind, *operands):
    """An operation, with the exact value; as Spark has it, of another type than its operands have."""
    expressions, values = zip(*operands, strict=True)
    made = Expression(kind, lambda: kind, lambda: "bigint", None, expressions)
    if kind == "%":
        one, other = values
        return made, None if None in values or not other else abs(one) % abs(other) * (1 if one >= 0 else -1)
    if None in values:
        return made, None
    value = {"negative": lambda v: -v, "abs": abs, "+": lambda v, w: v + w, "-": lambda v, w: v - w,
             "*": lambda v, w: v * w, "coerced": lambda v: v}[kind](*values)  # fmt: skip
    return made, value


trees = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.builds(node, st.sampled_from("+-*%"), inner, inner),
        st.builds(node, st.sampled_from(["negative", "abs", "coerced"]), inner),
    ),
    max_leaves=8,
)


@given(trees)
def test_arithmetic_is_that_of_the_integers(tree):
    expression, value = tree
    assume(value is not None)  # no division by 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(computed_column, "abs_", lambda column, turned: max(column, turned, key=lambda cell: cell.value))
        try:
            exact = Cells()._exact(expression)
        except PredicateError:  # of more digits than there are: below is which are not
            return
    assert exact.column.value == value
    assert exact.low <= value * 10**exact.scale <= exact.high


@pytest.mark.parametrize(
    ("kind", "other", "expected"),
    [
        ("double", "int", True), ("double", "bigint", False), ("float", "smallint", True), ("float", "int", False),
        ("double", "decimal(15,0)", True), ("double", "decimal(16,0)", False), ("double", "decimal(5,1)", False),
        ("decimal(12,2)", "int", True), ("decimal(11,2)", "int", False), ("decimal(9,2)", "decimal(9,3)", False),
        ("bigint", "decimal(18,0)", True), ("int", "bigint", False), ("double", "float", True),
        ("float", "double", False),
    ],
)  # fmt: skip
def test_types_that_hold_others(kind, other, expected):
    assert holds(kind, other) is expected
    if expected and other not in ("float", "double"):
        low, _, scale = range_of(other)
        assert kind != "double" or Fraction(float(Fraction(low, 10**scale))) == Fraction(low, 10**scale)


def test_long_sums_and_products_have_all_their_digits():
    """Of sums whose digits fit, none is refused: 38 digits of integers."""
    low, high, _ = range_of("bigint")
    column = Expression("column", lambda: "z", lambda: "bigint", Cell(Fraction(low), "bigint"), (), ("left", 0))
    one = column, Fraction(low)
    product = node("*", one, one)
    three = Expression("literal", lambda: "3", lambda: "int", Cell(Fraction(3), "int"), (), Number("3")), Fraction(3)
    rest, turned = node("%", node("+", one, one), three), node("negative", one)
    for tree in (product, node("+", product, one), rest, turned, node("negative", product)):
        exact = Cells()._exact(tree[0])
        assert exact.column.value == tree[1]
    with pytest.raises(PredicateError, match="38 digits"):
        Cells()._exact(node("*", product, one)[0])
    most, kind = 10**38 - 1, "decimal(38,0)"
    longest = Expression("literal", lambda: kind, lambda: kind, Cell(Fraction(most), kind), (), Number(most))
    exact = Cells()._exact(longest)
    assert (exact.low, exact.high, exact.column.kind) == (most, most, kind)
    kind = "decimal(38,10)"  # whose difference from 0 would have fewer digits after the point
    long = Expression("column", lambda: "d", lambda: kind, Cell(Fraction(most, 10**10), kind), (), ("left", 0))
    with pytest.raises(PredicateError, match="38 digits"):
        Cells()._exact(node("negative", (long, None))[0])
    total = one
    for _ in range(40):
        total = node("+", total, one)
    exact = Cells()._exact(total[0])
    assert (exact.low, exact.high, exact.column.kind) == (41 * low, 41 * high, "decimal(21,0)")
