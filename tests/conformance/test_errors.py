"""What is refused when a join is made, by the error's name, and with a message that helps."""

import datetime as dt

import pyarrow as pa
import pytest

from muntin import AllOf, AnyOf, Band, Compare, JoinSpec, Rows, Watermark, Where, WindowJoin, Within
from muntin.host import errors

LEFT = pa.schema(
    {
        "limit": pa.int64(),
        "at": pa.timestamp("us"),
        "seq": pa.int64(),
        "name": pa.string(),
        "ratio": pa.float64(),
        "flag": pa.bool_(),
        "price_right": pa.int64(),
    }
)
RIGHT = pa.schema(
    {
        "price": pa.int64(),
        "when": pa.timestamp("us"),
        "seq": pa.int64(),
        "name": pa.string(),
        "ratio": pa.float64(),
        "small": pa.float32(),
        "half": pa.int32(),
    }
)


def attempt(**changes):
    """Makes a join on limit and price with windows of 10 rows, but for the changes."""
    arguments = {
        "on": Band("limit", "price", -5, 5),
        "left": Rows(10),
        "right": Rows(10),
        "device": "numpy",
        "left_schema": LEFT,
        "right_schema": RIGHT,
    }
    arguments |= changes
    with WindowJoin(**{name: value for name, value in arguments.items() if value is not ...}) as join:
        return join


def test_the_plain_join_is_accepted():
    attempt()


@pytest.mark.parametrize("op", ["=<", "===", "like", "", None])
def test_unknown_operator(op):
    with pytest.raises(errors.PredicateError, match="<="):
        Compare("limit", op, "price")


def test_low_above_high():
    for low, high in (
        (5, -5),
        (0.1, 0.0),
        (1, 0),
        (dt.timedelta(1), dt.timedelta(0)),
        ("1 minute", "1 second"),
    ):
        with pytest.raises(errors.PredicateError):
            Band("limit", "price", low, high)
    for low, high in ((5, -5), ("1 minute", "1 second")):
        with pytest.raises(errors.WindowError):
            Within("at", "when", low, high)


@pytest.mark.parametrize(
    "bound", [float("nan"), "five minutes", object(), True, b"1"], ids=lambda bound: type(bound).__name__
)
def test_unreadable_bounds(bound):
    with pytest.raises(errors.MuntinError):
        attempt(on=Band("limit", "price", bound, None))


@pytest.mark.parametrize("rows", [0, -1, 1.5, "10", None, True], ids=repr)
def test_rows_must_be_a_positive_whole_number(rows):
    with pytest.raises(errors.WindowError):
        Rows(rows)


def test_one_kind_of_window_at_most():
    within = Within("at", "when", "-1 minute", "1 minute")
    for windows in (
        {"left": ..., "right": Rows(10)},
        {"left": Rows(10), "right": ...},
        {"within": within},
        {"left": ..., "within": within},
    ):
        with pytest.raises(errors.WindowError):
            attempt(**windows)
    attempt(left=..., right=..., within=within)
    attempt(left=..., right=...)


def test_a_time_window_has_an_end():
    with pytest.raises(errors.WindowError):
        Within("at", "when", None, None)


def test_a_watermark_needs_a_time_window():
    with pytest.raises(errors.MuntinError, match="watermark"):
        attempt(watermark=Watermark(left="1 minute"))


@pytest.mark.parametrize(
    ("changes", "missing", "present"),
    [
        ({"on": Band("limt", "price", 0, 1)}, "limt", "limit"),
        ({"on": Band("limit", "limit", 0, 1)}, "limit", "price"),
        ({"on": Compare("limit", "<", "Price")}, "Price", "price"),
        ({"sequence": "sequence"}, "sequence", "seq"),
        ({"sequence": "at"}, "at", "seq"),
        ({"left": ..., "right": ..., "within": Within("when", "when", "0", "1 s")}, "when", "at"),
        ({"left": ..., "right": ..., "within": Within("at", "att", "0", "1 s")}, "att", "when"),
    ],
)
def test_an_unknown_column_is_named_and_the_others_listed(changes, missing, present):
    with pytest.raises(errors.SchemaError) as caught:
        attempt(**changes)
    assert missing in str(caught.value)
    assert present in str(caught.value)


def test_columns_that_stand_twice():
    twice = pa.schema([("limit", pa.int64()), ("limit", pa.int64())])
    with pytest.raises(errors.SchemaError, match="limit"):
        attempt(left_schema=twice)
    # price_right is taken on the left, and price clashes with a left column of the same name.
    clash = pa.schema([("price", pa.int64()), ("price_right", pa.int64())])
    with pytest.raises(errors.SchemaError, match="price_right"):
        attempt(on=Band("price", "price", 0, 1), left_schema=clash)
    attempt(on=Band("price", "price", 0, 1), left_schema=clash, suffix="_r")


@pytest.mark.parametrize(
    ("left", "right", "named"),
    [
        ("name", "name", "name"),
        ("flag", "price", "flag"),
        ("limit", "ratio", "ratio"),
        ("limit", "small", "small"),
        ("ratio", "price", "price"),
        ("at", "price", "at"),
        ("limit", "when", "when"),
        ("limit", "name", "name"),
        ("at", "ratio", "at"),
    ],
)
def test_key_types_that_do_not_compare_exactly(left, right, named):
    with pytest.raises(errors.KeyTypeError, match=named):
        attempt(on=Compare(left, "<", right))


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.binary(), pa.bool_(), pa.list_(pa.int64()), pa.struct([("x", pa.int64())])],
    ids=str,
)
def test_key_types_that_are_not_supported(kind):
    with pytest.raises(errors.KeyTypeError, match="limit"):
        attempt(left_schema=pa.schema([("limit", kind)]), right_schema=pa.schema([("price", kind)]))


def test_int32_keys_compare_with_float64():
    attempt(on=Compare("ratio", "<", "half"))


@pytest.mark.parametrize(
    ("key", "bound"),
    [("limit", "5 minutes"), ("ratio", "5 minutes"), ("at", 0.5)],
)
def test_bounds_that_do_not_fit_the_keys(key, bound):
    other = {"limit": "price", "ratio": "ratio", "at": "when"}[key]
    with pytest.raises(errors.MuntinError, match=key):
        attempt(on=Band(key, other, None, bound))


def test_sequence_types():
    for column in ("name", "ratio"):
        with pytest.raises(errors.KeyTypeError, match=column):
            attempt(sequence=column)


def test_time_types():
    for columns in (("name", "name"), ("flag", "when"), ("at", "price")):
        with pytest.raises(errors.KeyTypeError):
            attempt(left=..., right=..., within=Within(*columns, "0", "1 minute"))


def test_unknown_devices():
    for device in ("abacus", "opencl:no such device", ""):
        with pytest.raises(errors.DeviceError):
            attempt(device=device)


@pytest.mark.parametrize(
    ("part", "side"), [(Compare("limit", "<", "cost"), "right"), (Where("left", "ratios", ">", 0), "left")], ids=repr
)
def test_a_part_that_names_a_missing_column(part, side):
    column = "cost" if side == "right" else "ratios"
    with pytest.raises(errors.SchemaError) as caught:
        attempt(on=AllOf(Band("limit", "price", 0, 1), part))
    for named in (repr(part), f"the {side} side", repr(column)):
        assert named in str(caught.value)


def test_conjunctions_that_are_refused():
    band = Band("limit", "price", 0, 1)
    with pytest.raises(errors.UnsupportedError, match="AllOf"):
        AnyOf(band, AllOf(band, Compare("ratio", "<", "ratio")))
    with pytest.raises(errors.UnsupportedError, match="is distinct from"):
        AnyOf(band, Compare("limit", "is distinct from", "price"))
    with pytest.raises(errors.PredicateError, match="AllOf takes"):
        AllOf(band, "limit < price")
    for columns in (("left", "limit"), ("right", "price")):
        with pytest.raises(errors.UnsupportedError, match="one column"):
            AnyOf(band, Where(*columns, ">", 1))
    with pytest.raises(errors.UnsupportedError, match="one column"):
        AnyOf(Where("left", "limit", ">", 1), Where("left", "ratio", ">", 1))


@pytest.mark.parametrize(
    "where",
    [("up", "limit", ">", 1), ("left", 5, ">", 1), ("left", "limit", "like", "x"), ("left", "limit", "=", None),
     ("left", "limit", "<", float("nan")), ("left", "limit", "<", [1])],
    ids=str,
)  # fmt: skip
def test_a_where_that_makes_no_sense(where):
    with pytest.raises(errors.PredicateError):
        Where(*where)


@pytest.mark.parametrize(
    "where",
    [("limit", "x"), ("name", 1), ("name", b"x"), ("flag", 1), ("ratio", "x"), ("at", 5), ("at", "yesterday"),
     ("at", dt.datetime(2020, 1, 1, tzinfo=dt.UTC)), ("limit", True)],
    ids=str,
)  # fmt: skip
def test_a_constant_that_does_not_fit_its_column(where):
    with pytest.raises(errors.PredicateError, match=where[0]):
        attempt(on=AllOf(Band("limit", "price", 0, 1), Where("left", where[0], "=", where[1])))


def test_equality_of_types_that_have_none_in_common():
    for left, right in (("name", "price"), ("flag", "half"), ("limit", "name"), ("name", "when")):
        for op in ("=", "<=>"):
            with pytest.raises(errors.KeyTypeError, match=left):
                attempt(on=AllOf(Compare(left, op, right), Band("limit", "price", 0, 1)))
    kinds = (pa.struct({"x": pa.int64()}), pa.struct({"x": pa.int64(), "y": pa.int64()}))
    schemas = [pa.schema({"w": kind}) for kind in kinds]
    with pytest.raises(errors.KeyTypeError, match="fields"):
        attempt(on=Compare("w", "=", "w"), left_schema=schemas[0], right_schema=schemas[1])
    nested = pa.schema({"w": pa.struct({"x": pa.list_(pa.int64())})})
    with pytest.raises(errors.KeyTypeError, match=r"w\.x"):
        attempt(on=Compare("w", "=", "w"), left_schema=nested, right_schema=nested)


def test_unions_over_one_pair_of_columns_only():
    with pytest.raises((errors.PredicateError, errors.UnsupportedError), match="half"):
        attempt(on=AnyOf(Band("limit", "price", 0, 1), Band("limit", "half", 0, 1)))
    assert AnyOf(AnyOf(Where("left", "limit", ">", 1)), AnyOf()).parts == (Where("left", "limit", ">", 1),)


@pytest.mark.parametrize(
    "changes",
    [{"form": "row"}, {"order": "sorted"}, {"index": "stairs"}, {"how": "sideways"}, {"capacity": 0}],
    ids=str,
)
def test_unknown_options(changes):
    with pytest.raises(errors.MuntinError):
        attempt(**changes)


def test_a_window_that_cannot_fit_is_refused_at_the_start(device):
    if device.memory_bytes > 96 << 30:
        pytest.skip("the largest window fits this device")
    with pytest.raises(errors.CapacityError) as caught:
        attempt(left=Rows(2 * 10**9), right=Rows(2 * 10**9), device=device)
    assert caught.value.needed > caught.value.available > 0


def test_the_specification_survives_json():
    for spec in (
        JoinSpec(on=Band("a", "b", -5, None), left=Rows(3), right=Rows(4), sequence="s", index="bisort", suffix="_x"),
        JoinSpec(
            on=AnyOf(Compare("a", "!=", "b"), Band("a", "b", "-1 minute", "2 minutes")),
            within=Within("t", "u", "-10 minutes", "0"),
            watermark=Watermark(left="1 minute", lag=1),
            form="counts",
            order="inner",
            capacity=10,
        ),
    ):
        assert JoinSpec.from_json(spec.to_json()) == spec


def test_a_closed_join_refuses_rows():
    join = attempt()
    with pytest.raises(errors.MuntinError, match="close"):
        join.process(None, None)
    join.close()
