import datetime as dt
import decimal

import pyarrow as pa
import pytest

from muntin.host import AllOf, AnyOf, Band, Compare, JoinSpec, Rows, Watermark, Where, Within
from muntin.host.errors import PredicateError, SchemaError, UnsupportedError
from muntin.host.index import BiSort

CONSTANTS = [1, -0.1, float("-inf"), decimal.Decimal("0.10"), "x", b"\x00x", True, dt.timedelta(seconds=1),
             dt.date(2020, 1, 2), dt.datetime(2020, 1, 2, 3, tzinfo=dt.UTC), dt.time(1, 2)]  # fmt: skip
SPECS = [
    JoinSpec(on=Band("a", "b", -5, 5), left=Rows(10), right=20, sequence="s", suffix="_r", order="inner"),
    JoinSpec(on=Band("a", "b", 0.1, None), left=1, right=1, form="counts", index=BiSort(buffer_rows=7)),
    JoinSpec(on=Band("a", "a", 0, 1), left=1, right=1, index="sorted_runs", self_join=True, itself=True),
    JoinSpec(on=Band("a", "b", decimal.Decimal("-0.10"), 3), left=1, right=1),
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
