"""Hard cases that the contract decides, each small enough to be read."""

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from tests.conformance.predicates import for_host
from tests.oracles.nested_loop import NestedLoop

TOP, BOTTOM = 2**63 - 1, -(2**63)
POLICIES = ["ladder", "flat"]


@pytest.fixture(params=POLICIES)
def policy(request, device_case):
    if request.param not in device_case.policies:
        pytest.skip(f"device {device_case.name}: no policy {request.param}")
    return request.param


def table(keys, kind=None, **more):
    keys = keys if isinstance(keys, pa.Array | pa.ChunkedArray) else pa.array(keys, kind)
    return pa.table({"k": keys, **more})


def pairs_of(result):
    return list(zip(result["left_row"].to_pylist(), result["right_row"].to_pylist(), strict=True))


def open_join(device, on, rows=(100, 100), **more):
    from host import Rows, WindowJoin

    if rows:
        more |= {"left": Rows(rows[0]), "right": Rows(rows[1])}
    return WindowJoin(on=on, device=device, **({"form": "pairs", "order": "inner"} | more))


def agree(device, predicate, left, right, rows=(100, 100), **more):
    """Runs the calls `left[i], right[i]` and compares all of them, in inner order, with the nested loop."""
    loop = NestedLoop(predicate, "k", "k", rows=rows, sequence=more.get("sequence"))
    found = 0
    with open_join(device, for_host(predicate, "k", "k"), rows, **more) as join:
        for one, other in zip(left, right, strict=True):
            due = [(pair.left, pair.right) for pair in loop.process(one, other)]
            assert pairs_of(join.process(one, other)) == due
            found += len(due)
    return found


# --- integers never wrap, bounds saturate -------------------------------------------------------------------

LIMITS = {
    "int8": (-(2**7), 2**7 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (BOTTOM, TOP),
    "uint64": (0, 2**64 - 1),
}
FAR = [
    (-1, 1),
    (-(2**7), 2**7),
    (2**31, 2**32),
    (-(2**32), -(2**31)),
    (TOP, None),
    (None, BOTTOM),
    (2**63, 2**64 - 1),
    (2**64 - 1, 2**64 - 1),
    (-(2**64) + 1, -(2**63)),
    (-(2**64), 2**64),
    (2**64, None),
    (None, -(2**64)),
    (-(2**70), 2**70),
    (2**70, 2**71),
]


@pytest.mark.parametrize("low_high", FAR, ids=str)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int64", "int64"),
        ("uint64", "uint64"),
        ("uint64", "int64"),
        ("int64", "uint64"),
        ("int32", "int32"),
        ("uint32", "int32"),
        ("int8", "int64"),
        ("uint32", "uint32"),
    ],
)
def test_bounds_beyond_the_keys_saturate(one, other, low_high, policy, device_case, device):
    if max(getattr(pa, one)().bit_width, getattr(pa, other)().bit_width) > device_case.key_bits:
        pytest.skip(f"device {device_case.name}: keys of at most {device_case.key_bits} bits")

    def keys(kind):
        low, high = LIMITS[kind]
        middle = (low + high) // 2
        values = [low, low + 1, low + 2, middle - 1, middle, middle + 1, high - 2, high - 1, high]
        return table(sorted({*values, 0, 1}), getattr(pa, kind)())

    agree(device, ("band", *low_high), [None, keys(one)], [keys(other), keys(other)], policy=policy)


@pytest.mark.parametrize("op", ["<", "<=", "=", "!=", ">=", ">"])
def test_compare_at_the_limits(op, policy, device):
    keys = table([BOTTOM, BOTTOM + 1, -1, 0, 1, TOP - 1, TOP])
    assert agree(device, ("compare", op), [keys, keys], [keys, None], policy=policy)


def test_unions_at_the_limits(policy, device):
    keys = table([BOTTOM, BOTTOM + 1, -1, 0, 1, TOP - 1, TOP])
    union = ("any", [("band", None, -(2**63)), ("band", 2**63, None), ("band", 0, 0), ("band", -1, 2**64)])
    assert agree(device, union, [keys, keys], [keys, None], policy=policy)


# --- floats -------------------------------------------------------------------------------------------------

FLOATS = [
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    1e-300,
    1.0,
    -1.0,
    0.1,
    0.3,
    1e16,
    1e16 + 2,
    1e308,
    -1e308,
    1.7976931348623157e308,
]
FLOATS += [
    math.inf,
    -math.inf,
    math.nan,
    None,
    2.0**53,
    2.0**53 + 2,
    np.nextafter(1.0, 2),
    np.nextafter(1.0, 0),
]
FLOAT_BANDS = [
    (0.0, 0.0),
    (-0.0, 0.0),
    (-5e-324, 5e-324),
    (0.2, 0.2),
    (-1e16, 1e16),
    (1e16, 1e16),
    (1e308, 1e308),
    (1e308, None),
    (None, -1e308),
    (-1.7976931348623157e308, 1.7976931348623157e308),
    (None, None),
    (1.0, 1.0),
    (-1e-17, 1e-17),
    (2.0**53, 2.0**53),
    (-0.1, 0.2),
]


@pytest.mark.parametrize("low_high", FLOAT_BANDS, ids=str)
def test_float_bands(low_high, policy, device):
    """Bounds are sums in float64 whichever side probes: they cancel, overflow and round as in SQL."""
    keys = table(FLOATS, pa.float64())
    assert agree(device, ("band", *low_high), [keys, keys], [None, keys], policy=policy)


@pytest.mark.parametrize(
    "low_high", [(0.1, 0.1), (-0.1, 0.2), (None, 0.1), (1e-46, 1e-46), (-1e39, 1e39)], ids=str
)
def test_float32_keys_have_float64_bounds(low_high, policy, device):
    values = [0.0, -0.0, 1e-45, -1e-45, 0.1, 0.2, 0.3, 1e38, -1e38, math.inf, -math.inf, math.nan, 16777216.0]
    keys = table(pa.array(np.array(values, np.float32)))
    wide = table(values, pa.float64())
    for one, other in ((keys, keys), (keys, wide), (wide, keys)):
        agree(device, ("band", *low_high), [one, one], [None, other], policy=policy)


@pytest.mark.parametrize("op", ["<", "<=", "=", "!=", ">=", ">"])
def test_float_compares(op, policy, device):
    keys = table(FLOATS, pa.float64())
    assert agree(device, ("compare", op), [keys, keys], [None, keys], policy=policy)
    union = ("any", [("compare", op), ("band", 0.2, 0.2), ("compare", "=")])
    assert agree(device, union, [keys, keys], [None, keys], policy=policy)


def test_random_float_bounds_round_the_same_from_both_sides(policy, device, seed):
    """Keys on and next to the rounded bound: the sum is l + low in float64, also when the left row probes."""
    rng = np.random.default_rng(seed)
    for _ in range(5):
        low, high = np.sort(rng.normal(0, 1, 2) * 10.0 ** rng.integers(-3, 4, 2))
        left = rng.normal(0, 1, 40) * 10.0 ** rng.integers(-8, 9, 40)
        edges = np.concatenate([left + low, left + high])
        right = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
        for batches in (
            ([table(left), None], [None, table(right)]),
            ([None, table(left)], [table(right), None]),
        ):
            assert agree(device, ("band", float(low), float(high)), *batches, rows=(500, 500), policy=policy)


def test_an_infinite_key_meets_an_infinite_key(device):
    keys = table([math.inf, -math.inf, 0.0])
    assert agree(device, ("band", -5, 5), [keys], [keys]) == 3


# --- windows and batches ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 63, 64, 65, 255, 256, 257])
@pytest.mark.parametrize("over", [-1, 0, 1])
def test_window_exactly_full_and_one_over(size, over, policy, device_case, device):
    """Equal keys everywhere: whoever keeps a row too many or too few shows it."""
    if device_case.max_window and size > device_case.max_window:
        pytest.skip(f"device {device_case.name}: windows of at most {device_case.max_window} rows")
    if size + over < 1:
        pytest.skip("no rows")
    same = table([5] * (size + over))
    one = table([5])
    agree(
        device, ("compare", "="), [same, None, one, None], [None, one, one, same], (size, size), policy=policy
    )


@pytest.mark.parametrize("rows", [(1, 1), (3, 5), (64, 10)])
def test_a_batch_larger_than_the_windows(rows, policy, device, seed):
    rng = np.random.default_rng([seed, *rows])
    batches = [table(rng.integers(0, 4, 200)) for _ in range(4)]
    assert agree(device, ("band", 0, 1), batches[:2], batches[2:], rows, policy=policy)
    ordered = [
        t.append_column("q", pa.array(rng.integers(500 * (i % 2), 500 * (i % 2 + 1), 200)))
        for i, t in enumerate(batches)
    ]
    assert agree(device, ("band", 0, 1), ordered[:2], ordered[2:], rows, policy=policy, sequence="q")


def test_many_calls_of_every_size(policy, device, seed):
    """Sizes around powers of two: a ladder builds and drops runs of all lengths."""
    rng = np.random.default_rng(seed)
    sizes = [0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 1, 64, 0, 2, 130, 1]
    calls = [[table(rng.integers(-50, 50, size)) for size in rng.permuted(sizes)] for _ in range(2)]
    assert agree(device, ("band", -1, 2), *calls, (60, 100), policy=policy)


def test_windows_that_roll_over_many_times(policy, device, seed):
    rng = np.random.default_rng(seed)
    calls = [[table(rng.integers(0, 30, 13)) for _ in range(60)] for _ in range(2)]
    assert agree(device, ("band", -1, 1), *calls, (17, 40), policy=policy)


def test_nothing_comes_of_nothing(policy, device):
    empty, one = table([], pa.int64()), table([1])
    schemas = {"left_schema": empty.schema, "right_schema": empty.schema}
    calls = (
        [None, empty, None, empty, one, None, empty, None],
        [None, None, empty, empty, None, empty, one, one],
    )
    assert agree(device, ("compare", "="), *calls, policy=policy, **schemas) == 2


@pytest.mark.parametrize("form", ["rows", "pairs", "counts"])
def test_an_empty_result_has_the_full_schema(form, device_case, device):
    from host import Band, JoinSpec, Rows

    left = pa.schema([("k", pa.int32()), ("name", pa.dictionary(pa.int32(), pa.string()))])
    right = pa.schema([("k", pa.int64()), ("list", pa.list_(pa.float32()))])
    spec = JoinSpec(on=Band("k", "k", 0, 0), left=Rows(3), right=Rows(3), form=form)
    schema = spec.output_schema(left, right)
    with open_join(
        device, Band("k", "k", 0, 0), (3, 3), form=form, left_schema=left, right_schema=right
    ) as join:
        for arguments in ((None, None), (left.empty_table(), None), (None, right.empty_table())):
            result = join.process(*arguments)
            assert result.num_rows == 0
            assert result.schema == schema
    if form == "rows":
        assert schema.names == ["k", "name", "k_right", "list"]
        assert schema.types == [
            pa.int32(),
            pa.dictionary(pa.int32(), pa.string()),
            pa.int64(),
            pa.list_(pa.float32()),
        ]


def test_schemas_come_from_the_first_batches_where_none_are_given(device):
    one = pa.table({"k": [1, 2], "a": ["x", "y"]})
    other = pa.table({"k": [2, 3], "b": [0.5, 1.5]})
    from host import Compare

    with open_join(device, Compare("k", "=", "k"), form="rows") as join:
        result = join.process(one, other)
    assert result.to_pylist() == [{"k": 2, "a": "y", "k_right": 2, "b": 0.5}]


@pytest.mark.parametrize(
    "predicate",
    [("band", None, None), ("compare", "!="), ("any", [("compare", "<="), ("compare", ">")])],
    ids=str,
)
def test_null_keys_match_nothing(predicate, policy, device):
    nulls, keys = table([None] * 9, pa.int32()), table([1, 2, None], pa.int32())
    assert agree(device, predicate, [nulls, nulls], [nulls, keys], (4, 5), policy=policy) == 0
    calls = [nulls, keys, nulls, keys], [keys, nulls, keys, keys]
    assert agree(device, predicate, *calls, (4, 5), policy=policy) > 0


def test_null_keys_take_places_in_a_count_window(policy, device):
    first = table([1, None, None, None], pa.int64())
    assert agree(device, ("compare", "="), [first, None], [None, table([1])], (4, 4), policy=policy) == 1
    assert agree(device, ("compare", "="), [first, None], [None, table([1])], (3, 3), policy=policy) == 0


@pytest.mark.parametrize("value", [math.nan, None])
def test_nan_takes_a_place_in_a_count_window(value, device):
    first = table([1.0, value], pa.float64())
    assert agree(device, ("compare", "="), [first, None], [None, table([1.0])], (1, 1)) == 0
    assert agree(device, ("compare", "="), [first, None], [None, table([1.0])], (2, 2)) == 1


def test_self_join(policy, device, seed):
    """One stream on both sides: each row meets itself and, both ways, every other row of the window."""
    rng = np.random.default_rng(seed)
    stream = [table(rng.integers(0, 100, 50)) for _ in range(5)]
    found = agree(device, ("band", -2, 2), stream, stream, (80, 80), policy=policy)
    assert found >= 250
    symmetric = agree(device, ("band", 0, 0), stream, stream, (1000, 1000), policy=policy)
    keys = np.concatenate([batch["k"].to_numpy() for batch in stream])
    assert symmetric == (np.unique(keys, return_counts=True)[1] ** 2).sum()


def test_chunked_sliced_and_dictionary_columns(device):
    from host import Band

    base = pa.table(
        {
            "k": pa.chunked_array([[9, 1], [], [2, 3, None], [4]], pa.int16()),
            "text": pa.chunked_array([["a", None], [], ["", "d", "e"], ["f"]]),
            "tag": pa.chunked_array(
                [
                    pa.array(["p", "q"]).dictionary_encode(),
                    pa.array(["q", "r", None, "s"]).dictionary_encode(),
                ]
            ),
            "flag": [True, False, None, True, False, True],
            "deep": [
                {"x": 1, "y": [None, 2]},
                None,
                {"x": None, "y": []},
                {"x": 4, "y": None},
                None,
                {"x": 6, "y": [6]},
            ],
        }
    )
    sliced = base.slice(1, 4)
    with open_join(device, Band("k", "k", 0, 1), (10, 10), form="rows") as join:
        first = join.process(sliced, base)
        second = join.process(base, sliced.combine_chunks().to_batches()[0])

    def rows(lefts, rights):
        return [
            left | {f"{name}_right": value for name, value in right.items()}
            for right in rights
            for left in lefts
            if None not in (left["k"], right["k"]) and 0 <= right["k"] - left["k"] <= 1
        ]

    assert first.to_pylist() == rows(sliced.to_pylist(), base.to_pylist())
    by_left = [row for left in base.to_pylist() for row in rows([left], base.to_pylist())]
    assert second.to_pylist() == by_left + rows(sliced.to_pylist() + base.to_pylist(), sliced.to_pylist())
    assert first.schema == second.schema


def test_the_suffix_is_the_callers(device):
    from host import Compare

    one = pa.table({"k": [1], "a": [2], "b": [3]})
    with open_join(device, Compare("k", "=", "k"), form="rows", suffix="_ask") as join:
        result = join.process(one, one)
    assert result.to_pylist() == [{"k": 1, "a": 2, "b": 3, "k_ask": 1, "a_ask": 2, "b_ask": 3}]


# --- sequence -----------------------------------------------------------------------------------------------


def test_sequence_ties_and_unsorted_batches(policy, device):
    left = table([1, 1, 1, 1], q=[7, 3, 5, 5])
    right = table([1, 1, 1, 1], q=[5, 3, 9, 5])
    assert agree(
        device,
        ("compare", "="),
        [left, left.slice(4)],
        [right, right.slice(4)],
        (2, 3),
        policy=policy,
        sequence="q",
    )


def test_a_later_call_may_repeat_the_last_sequence_value(device):
    calls = [table([1, 1], q=[1, 4]), table([1], q=[4])], [table([1], q=[4]), table([1], q=[4])]
    assert agree(device, ("compare", "="), *calls, sequence="q") == 6


@pytest.mark.parametrize(
    "kind", [pa.int32(), pa.uint64(), pa.timestamp("us"), pa.timestamp("ns", "UTC")], ids=str
)
def test_sequence_types(kind, device):
    def at(*values):
        return pa.array(values, pa.int64()).cast(kind)

    calls = [table([1, 1], q=at(30, 10)), table([1], q=at(40))], [table([1], q=at(20)), table([1], q=at(40))]
    if pa.types.is_timestamp(kind):
        calls = [[t.set_column(1, "q", t["q"].cast(pa.int64()).cast(kind)) for t in side] for side in calls]
        loop = NestedLoop(("compare", "="), "k", "k", rows=(100, 100), sequence="q")
        due = [[(p.left, p.right) for p in loop.process(*call)] for call in zip(*calls, strict=True)]
        from host import Compare

        with open_join(device, Compare("k", "=", "k"), sequence="q") as join:
            assert [pairs_of(join.process(*call)) for call in zip(*calls, strict=True)] == due
    else:
        assert agree(device, ("compare", "="), *calls, sequence="q")


def test_sequence_far_beyond_32_bits(device):
    calls = [table([1], q=[2**40]), table([1], q=[TOP])], [table([1], q=[BOTTOM]), table([1], q=[TOP])]
    assert agree(device, ("compare", "="), *calls, sequence="q") == 4


# --- refusals leave the join as it was ----------------------------------------------------------------------


def bad_calls():
    """(name, error, left, right) of calls that a join on k with sequence q refuses."""
    good = table([1, 2], q=[50, 51])
    back = table([1, 2], q=[52, 3])
    null = table([1, 2], q=pa.array([52, None], pa.int64()))
    return [
        ("back-left", "OrderError", back, good),
        ("back-right", "OrderError", good, back),
        ("null-sequence", "OrderError", good, null),
        ("no-sequence", "SchemaError", good, table([1])),
        ("no-key", "SchemaError", good.drop_columns("k"), good),
        ("another-type", "SchemaError", good, good.set_column(0, "k", pa.array(["a", "b"]))),
        ("another-width", "SchemaError", good.set_column(0, "k", pa.array([1, 2], pa.int8())), good),
        ("another-column", "SchemaError", good.append_column("more", pa.array([1, 2])), good),
    ]


@pytest.mark.parametrize("bad", bad_calls(), ids=lambda bad: bad[0])
def test_a_refused_call_changes_nothing(bad, policy, device, seed):
    from host import errors

    _, error, bad_left, bad_right = bad
    rng = np.random.default_rng(seed)
    predicate = ("band", -1, 1)

    def batch(first, size=15):
        return table(rng.integers(0, 9, size), q=np.sort(rng.integers(first, first + 9, size)))

    loop = NestedLoop(predicate, "k", "k", rows=(20, 9), sequence="q")
    with open_join(device, for_host(predicate, "k", "k"), (20, 9), sequence="q", policy=policy) as join:
        for first in range(0, 100, 20):
            calls = (batch(first), batch(first))
            assert pairs_of(join.process(*calls)) == [(p.left, p.right) for p in loop.process(*calls)]
            if first == 40:
                before = join.stats.as_dict()
                with pytest.raises(getattr(errors, error)):
                    join.process(bad_left, bad_right)
                after = join.stats.as_dict()
                for count in ("rows_left", "rows_right", "matches", "late_left", "late_right"):
                    assert before[count] == after[count], count


def test_an_order_error_names_column_and_value(device):
    from host import Compare, errors

    with open_join(device, Compare("k", "=", "k"), sequence="q") as join:
        join.process(table([1], q=[70]), None)
        with pytest.raises(errors.OrderError, match=r"(?s)(?=.*\bq\b)(?=.*69)(?=.*70)"):
            join.process(None, table([1], q=[69]))


# --- time windows -------------------------------------------------------------------------------------------


def as_times(times):
    return times if isinstance(times, pa.Array) else pa.array(times, pa.int64())


def timed(device, low, high, calls, delays=(None, None), **more):
    """Runs calls of (keys, times) a side in a time window and compares with the nested loop; the loop."""
    from host import Band, Watermark, Within

    host_delays = more.pop("host_delays", delays)
    if delays != (None, None):
        more["watermark"] = Watermark(left=host_delays[0], right=host_delays[1])
    host_bounds = more.pop("host_bounds", (low, high))
    loop = NestedLoop(("band", None, None), "k", "k", within=("t", "t", low, high), delays=delays)
    with open_join(device, Band("k", "k"), None, within=Within("t", "t", *host_bounds), **more) as join:
        for call in calls:
            tables = [
                None if times is None else table([0] * len(times), pa.int8(), t=as_times(times))
                for times in call
            ]
            due = [(pair.left, pair.right) for pair in loop.process(*tables)]
            assert pairs_of(join.process(*tables)) == due
        stats = join.stats
    assert (stats.late_left, stats.late_right) == (loop.streams["left"].late, loop.streams["right"].late)
    return loop


@pytest.fixture
def time_windows(device_case):
    if not device_case.time_windows:
        pytest.skip(f"device {device_case.name}: no time windows")


def test_time_windows_at_the_limits_of_64_bits(policy, time_windows, device):
    edge = [BOTTOM, BOTTOM + 1, -1, 0, 1, TOP - 1, TOP]
    for low, high in (
        (-1, 1),
        (0, 0),
        (TOP, TOP),
        (BOTTOM, -1),
        (1, 2**63),
        (-(2**64), 2**64),
        (2**64 - 1, 2**65),
    ):
        timed(device, low, high, [(edge, None), (None, edge), (edge, edge)], policy=policy)


def test_late_rows_at_and_above_the_watermark(policy, time_windows, device):
    loop = timed(
        device,
        -100,
        100,
        [
            ([100], [90]),
            ([79, 80, 81], [79, 80, 81]),
            ([200], None),
            ([95, 96], None),
            ([], [300]),
            ([189, 190, 191], [190]),
        ],
        (10, 10),
        policy=policy,
    )
    # Watermarks: 80 after the first call and as long as the right side stays behind, then 190.
    assert (loop.streams["left"].late, loop.streams["right"].late) == (2 + 2, 2 + 1)


def test_the_watermark_of_a_call_does_not_hold_in_it(time_windows, device):
    loop = timed(device, -1000, 1000, [([500, 1], [2, 500]), ([450], [449]), ([451], [451])], (0, 50))
    # 450 from the second call on: that row and 449 are late, and nothing before.
    assert (loop.streams["left"].late, loop.streams["right"].late) == (1, 1)


def test_rows_leave_only_when_no_later_row_can_match(policy, time_windows, device, seed):
    """A long stream with stragglers just above the watermark: whoever drops state too early loses pairs."""
    rng = np.random.default_rng(seed)
    for low, high in ((-30, -10), (10, 30), (-5, 5), (0, 0)):
        calls = [
            [(call * 10 + rng.integers(-40, 10, rng.integers(0, 12))).tolist() for _ in range(2)]
            for call in range(30)
        ]
        timed(device, low, high, calls, (15, 25), policy=policy)


@pytest.mark.parametrize("delays", [(20, None), (None, 20)])
def test_a_watermark_on_one_side_only(delays, policy, time_windows, device, seed):
    rng = np.random.default_rng(seed)
    calls = [
        [[int(at) for at in call * 10 + rng.integers(-60, 10, 8)] for _ in range(2)] for call in range(20)
    ]
    loop = timed(device, -7, 12, calls, delays, policy=policy)
    late = (loop.streams["left"].late, loop.streams["right"].late)
    assert late[0 if delays[0] else 1] > 0
    assert late[1 if delays[0] else 0] == 0


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("5 minutes", dt.timedelta(minutes=5)),
        ("-10 minutes", dt.timedelta(minutes=-10)),
        ("1 hour 30 minutes", dt.timedelta(minutes=90)),
        ("90 seconds", dt.timedelta(seconds=90)),
        ("1 day", dt.timedelta(days=1)),
        ("250 milliseconds", dt.timedelta(milliseconds=250)),
        ("0", dt.timedelta(0)),
    ],
)
def test_durations_as_text(text, meant, time_windows, device):
    from host import Band

    base = dt.datetime(2024, 2, 29, 12)
    around = [base + meant + dt.timedelta(microseconds=off) for off in (-1, 0, 1)]
    stamps = [pa.array([base, *around], pa.timestamp("us"))] * 2
    low, high = sorted([meant, dt.timedelta(0)])
    texts = (text, "0 seconds") if meant < dt.timedelta(0) else ("0 seconds", text)
    timed(device, low, high, [stamps, stamps], host_bounds=texts)
    # The same words as a band on timestamp keys.
    loop = NestedLoop(("band", low, high), "k", "k", rows=(9, 9))
    with open_join(device, Band("k", "k", *texts)) as join:
        keys = [table(side) for side in stamps]
        assert pairs_of(join.process(*keys)) == [(p.left, p.right) for p in loop.process(*keys)]


def test_watermark_delays_as_text(time_windows, device):
    def at(*seconds):
        return pa.array([s * 10**6 for s in seconds], pa.timestamp("us"))

    minute = dt.timedelta(minutes=1)
    timed(
        device,
        -minute,
        minute,
        [(at(1000), at(990)), (at(929, 931, 930), at(930, 931)), (None, at(5000))],
        (minute, minute),
        host_delays=("1 minute", "60 seconds"),
        host_bounds=("-1 minute", "1 minute"),
    )


def test_null_times_match_nothing_and_are_not_late(time_windows, device):
    timed(device, -9, 9, [([1, None], [2, None]), ([None, 50], [None, 51]), ([None, 60], [None])], (3, 3))


# --- capacity of time windows -------------------------------------------------------------------------------


def test_capacity_exactly_full_and_one_over(policy, time_windows, device):
    from host import Band, Within, errors

    loop = NestedLoop(("band", 0, 0), "k", "k", within=("t", "t", -5, 5))
    with open_join(
        device, Band("k", "k", 0, 0), None, within=Within("t", "t", -5, 5), capacity=64, policy=policy
    ) as join:

        def both(left, right):
            assert pairs_of(join.process(left, right)) == [
                (p.left, p.right) for p in loop.process(left, right)
            ]

        rows = table([7] * 64, t=[3] * 64)
        both(rows, rows.slice(0, 10))
        with pytest.raises(errors.CapacityError) as caught:
            join.process(table([7], t=[3]), None)
        assert caught.value.needed is not None
        assert caught.value.available is not None
        assert caught.value.needed > caught.value.available
        # Refused as a whole, though the right rows had fitted.
        with pytest.raises(errors.CapacityError):
            join.process(table([7], t=[3]), rows.slice(0, 3))
        both(None, rows.slice(0, 54))
        with pytest.raises(errors.CapacityError):
            join.process(None, rows.slice(0, 1))
        both(rows.slice(64), None)


def test_the_watermark_makes_room(policy, time_windows, device):
    """A stream without end in a bounded window: what has left makes room for what comes."""
    from host import Band, Watermark, Within

    loop = NestedLoop(("band", 0, 0), "k", "k", within=("t", "t", -2, 2), delays=(1, 1))
    with open_join(
        device,
        Band("k", "k", 0, 0),
        None,
        within=Within("t", "t", -2, 2),
        watermark=Watermark(left=1, right=1),
        capacity=400,
        policy=policy,
    ) as join:
        for call in range(60):
            rows = table([call % 3] * 30, t=[call * 10 + i // 3 for i in range(30)])
            assert pairs_of(join.process(rows, rows)) == [(p.left, p.right) for p in loop.process(rows, rows)]


# --- exact bounds on other types ----------------------------------------------------------------------------


def test_fractional_bounds_on_whole_keys(policy, device):
    keys = table(list(range(-4, 5)))
    for low, high in ((-0.5, 0.5), (0.5, 1.5), (-1.5, None), (None, Decimal("2.000001"))):
        assert agree(device, ("band", low, high), [keys], [keys], policy=policy)
    # No whole number lies between.
    assert agree(device, ("band", 0.25, 0.75), [keys], [keys], policy=policy) == 0


def test_decimal_bounds_finer_than_the_keys(policy, device):
    keys = table([Decimal(i) / 100 for i in range(-9, 10)], pa.decimal128(12, 2))
    for low, high in (("0.005", "0.015"), ("-0.015", "0.005"), ("0.0199999", None), (None, "-0.0000001")):
        bounds = [bound and Decimal(bound) for bound in (low, high)]
        assert agree(device, ("band", *bounds), [keys], [keys], policy=policy)


def test_decimals_at_the_limits(policy, device):
    top = Decimal(10**18 - 1)
    keys = table([top, -top, Decimal(0), top - 1, 1 - top], pa.decimal128(18, 0))
    for low, high in ((0, 0), (-1, 1), (2 * 10**18 - 2, None), (None, -(10**18)), (10**18, 10**19)):
        agree(device, ("band", low, high), [keys], [keys], policy=policy)


@pytest.mark.parametrize("kind", [pa.decimal128(38, 2), pa.decimal256(50, 2)], ids=str)
def test_wide_decimals_whose_values_fit(kind, device):
    """A type with more digits than 64 bits hold is refused, or each value that does not fit."""
    from host import Band, errors

    keys = table([Decimal("1.01"), Decimal("-3.00"), None, Decimal("92233720368547758.07")], kind)
    predicate = ("band", Decimal("-0.01"), Decimal("4.01"))
    try:
        assert agree(device, predicate, [keys], [keys])
    except errors.KeyTypeError as error:
        assert "k" in str(error)  # noqa: PT017
    with (
        pytest.raises(errors.KeyTypeError, match=r"\bk\b"),
        open_join(device, Band("k", "k", *predicate[1:])) as join,
    ):
        join.process(keys, table([Decimal("92233720368547758.08")], kind))
