import datetime as dt
import decimal

import pyarrow as pa
import pytest

from host import AnyOf, Band, Compare, JoinSpec, Rows, Watermark, Within
from host.errors import PredicateError, SchemaError

SPECS = [
    JoinSpec(on=Band("a", "b", -5, 5), left=Rows(10), right=20, sequence="s", suffix="_r", order="inner"),
    JoinSpec(on=Band("a", "b", 0.1, None), left=1, right=1, form="counts", policy="flat"),
    JoinSpec(on=Band("a", "b", decimal.Decimal("-0.10"), 3), left=1, right=1),
    JoinSpec(on=AnyOf(Compare("a", "!=", "b"), Band("a", "b", 7, 9)), left=1, right=1, form="pairs"),
    JoinSpec(
        on=Band("a", "b", "-5 minutes", dt.timedelta(minutes=5)),
        within=Within("t", "u", "-10 minutes", dt.timedelta(0)),
        watermark=Watermark(left="1 minute", right=dt.timedelta(seconds=3), lag=1, initial=0),
        capacity=1000,
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
