import datetime as dt
import decimal

import pyarrow as pa
import pytest

from muntin import AllOf, AnyOf, AsOf, Band, Compare, JoinSpec, Rows, Watermark, Where, Within
from muntin.host.errors import PredicateError, SchemaError, UnsupportedError, WindowError
from muntin.host.index import BiSort

CONSTANTS = [1, -0.1, float("-inf"), decimal.Decimal("0.10"), "x", b"\x00x", True, dt.timedelta(seconds=1),
             dt.date(2020, 1, 2), dt.datetime(2020, 1, 2, 3, tzinfo=dt.UTC), dt.time(1, 2)]  # fmt: skip
SPECS = [
    JoinSpec(on=Band("a", "b", -5, 5), left=Rows(10), right=20, sequence="s", suffix="_r", order="inner"),
    JoinSpec(on=Band("a", "b", 0.1, None), left=1, right=1, form="counts", index=BiSort(buffer_rows=7)),
    JoinSpec(on=Band("a", "a", 0, 1), left=1, right=1, index="sorted_runs", self_join=True, itself=True),
    JoinSpec(on=Band("a", "b", decimal.Decimal("-0.10"), 3), left=1, right=1),
    JoinSpec(on=Band("a", "b", 1, 2, closed="left"), left=1, right=1),
    JoinSpec(on=["a", "b"], left=1, right=1),
    JoinSpec(on=AnyOf(Compare("a", "!=", "b"), Band("a", "b", 7, 9)), left=1, right=1, form="pairs"),
    JoinSpec(
        on=Band("a", "b", "-5 minutes", dt.timedelta(minutes=5)),
        within=Within("t", "u", "-10 minutes", dt.timedelta(0)),
        watermark=Watermark(left="1 minute", right=dt.timedelta(seconds=3), lag=1, initial=0),
        capacity=1000,
    ),
    JoinSpec(
        on=AllOf(
            Compare("a", "<=>", "b"),
            AllOf(Band("c", "d", 0.1, None), AnyOf(Compare("a", "!=", "b"), Band("a", "b", 7, 9))),
            *(Where("left", "w.x", ">", value) for value in CONSTANTS),
            AnyOf(Where("right", "y", "=", 1), Where("right", "y", "<=>", None)),
        ),
        left=1,
        right=1,
    ),
]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
def test_json_round_trip(spec):
    again = JoinSpec.from_json(spec.to_json())
    assert again == spec
    assert again.to_json() == spec.to_json()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"on": {"kind": "band"}}', '{"on": {"kind": "what"}, "left": 1}', "1"]
)
def test_what_is_no_specification(text):
    with pytest.raises(PredicateError):
        JoinSpec.from_json(text)


def test_equal_names_get_the_suffix():
    left = pa.schema([("k", pa.int32()), ("x", pa.string())])
    right = pa.schema([("k", pa.int32()), ("y", pa.float64())])
    spec = JoinSpec(on=Band("k", "k", 0, 0), left=1, right=1)
    assert spec.output_schema(left, right).names == ["k", "x", "k_right", "y"]
    with pytest.raises(SchemaError, match="k_right"):
        spec.output_schema(left.append(pa.field("k_right", pa.int8())), right)


def test_select_names_columns_of_the_result():
    left = pa.schema([("k", pa.int32()), ("x", pa.string())])
    right = pa.schema([("k", pa.int32()), ("y", pa.float64())])
    spec = JoinSpec(on=Band("k", "k", 0, 0), left=1, right=1, select=["y", "k_right"])
    assert JoinSpec.from_json(spec.to_json()) == spec
    assert spec.output_schema(left, right) == pa.schema([("y", pa.float64()), ("k_right", pa.int32())])
    assert (spec.kept_columns("left", left, right), spec.kept_columns("right", left, right)) == (["k"], ["k", "y"])
    for wrong in ("x", [], ["x", "x"], [1]):
        with pytest.raises(SchemaError):
            JoinSpec(on=Band("k", "k", 0, 0), left=1, right=1, select=wrong)
    with pytest.raises(SchemaError, match="'z'"):
        JoinSpec(on=Band("k", "k", 0, 0), left=1, right=1, select=["z"]).output_schema(left, right)
    with pytest.raises(SchemaError, match="'y'"):
        JoinSpec(on=Band("k", "k"), left=1, right=1, how="semi", select=["y"]).output_schema(left, right)
    with pytest.raises(UnsupportedError, match="form='pairs'"):
        JoinSpec(on=Band("k", "k", 0, 0), left=1, right=1, form="pairs", select=["x"])


A, B = Compare("a", "=", "b"), Band("c", "d", 0, 5)
OF_LEFT = Where("left", "a", ">", 1)


@pytest.mark.parametrize(
    ("combined", "means"),
    [
        (lambda: A & B, AllOf(A, B)),
        (lambda: A & B & OF_LEFT, AllOf(A, B, OF_LEFT)),
        (lambda: OF_LEFT & (B & A), AllOf(OF_LEFT, B, A)),
        (lambda: AllOf() & A, AllOf(A)),
        (lambda: Band("a", "b", 3, 4) | A | Band("a", "b", 7, 9), AnyOf(Band("a", "b", 3, 4), A, Band("a", "b", 7, 9))),
        (lambda: (A | Band("a", "b", 3, 4)) & B, AllOf(AnyOf(A, Band("a", "b", 3, 4)), B)),
        (lambda: OF_LEFT | Where("left", "a", "<", 0), AnyOf(OF_LEFT, Where("left", "a", "<", 0))),
        (lambda: AsOf("t", "t") & OF_LEFT, AsOf("t", "t", where=OF_LEFT)),
        (lambda: OF_LEFT & AsOf("t", "t") & (OF_LEFT | OF_LEFT), AsOf("t", "t", where=[OF_LEFT, OF_LEFT | OF_LEFT])),
    ],
)  # fmt: skip
def test_conditions_combine(combined, means):
    assert combined() == means


def test_conditions_that_do_not_combine():
    for wrong, error, said in [
        (lambda: A | B, UnsupportedError, "several pairs of columns"),
        (lambda: (A & B) | A, UnsupportedError, "a conjunction .AllOf. inside AnyOf"),
        (lambda: AsOf("t", "t") & A, PredicateError, "about one side alone"),
        (lambda: A & "a = b", TypeError, "unsupported operand"),
        (lambda: 3 | A, TypeError, "unsupported operand"),
        (lambda: A and B, PredicateError, "neither true nor false: combine conditions with & and |"),
    ]:
        with pytest.raises(error, match=said):
            wrong()


def test_a_window_may_be_a_tuple():
    one, other = (JoinSpec(on=A, within=within) for within in (("t", "u", "0 s", None), Within("t", "u", "0 s", None)))
    assert one == other
    with pytest.raises(WindowError, match="lies above"):
        JoinSpec(on=A, within=("t", "u", 3, 2))


def test_which_ends_belong_to_a_band():
    for low, high, closed, said in [
        (1, 2, "outer", "closed must be one of both, left, right, neither, not 'outer'"),
        (2, 2, "left", "low=2 is high=2, and closed='left': the band is empty"),
        ("0 s", 0, "neither", "the band is empty"),
    ]:
        with pytest.raises(PredicateError, match=said):
            Band("a", "b", low, high, closed=closed)
    assert [(p.low_strict, p.high_strict) for p in Band("a", "b", None, 3, closed="neither").pieces()] == [
        (False, True)
    ]
    schema = pa.schema([("a", pa.int32()), ("b", pa.int32())])
    told = JoinSpec(on=Band("a", "b", 1, 3, closed="right")).explain(schema, schema)
    assert "1 < right.b - left.a <= 3" in told
