"""The nested loop by hand-made cases: it is what everything else is held to."""

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest

from tests.oracles.nested_loop import NestedLoop, Pair, matches

TOP, BOTTOM = 2**63 - 1, -(2**63)


@pytest.mark.parametrize(
    ("predicate", "left", "right", "expected"),
    [
        (("band", -1, 2), 5, 4, True),
        (("band", -1, 2), 5, 7, True),
        (("band", -1, 2), 5, 3, False),
        (("band", -1, 2), 5, 8, False),
        (("band", None, 2), 5, BOTTOM, True),
        (("band", 1, None), TOP, BOTTOM, False),
        (("band", -5, 5), TOP, BOTTOM, False),
        (("band", -5, 5), TOP, TOP, True),
        (("band", -(2**64), 2**64), TOP, BOTTOM, True),
        (("band", None, None), None, 1, False),
        (("band", None, None), math.nan, 1.0, False),
        (("compare", "!="), math.nan, 1.0, False),
        (("compare", "!="), None, 1, False),
        (("compare", "="), -0.0, 0.0, True),
        (("compare", "<"), -0.0, 0.0, False),
        (("compare", "<"), 1, 2, True),
        (("compare", ">="), 1, 2, False),
        (("band", 0.2, 0.2), 0.1, 0.3, False),  # 0.1 + 0.2 is above 0.3 in float64
        (("band", None, 0.2), 0.1, 0.3, True),
        (("band", -1e20, 1e20), 1.0, 2.0, True),
        (("band", 1e20, 1e20), 1.0, 1e20, True),  # the key vanishes in the sum, as in SQL
        (("band", -5.0, 5.0), math.inf, math.inf, True),
        (("band", -0.5, 0.5), 3, 3, True),
        (("band", 0.5, 0.9), 3, 4, False),
        (("band", Decimal("0.005"), None), Fraction(1, 100), Fraction(15, 1000), True),
        (("any", [("band", -1, 1), ("compare", ">")]), 9, 1, True),
        (("any", [("band", -1, 1), ("compare", ">")]), 9, 11, False),
    ],
)
def test_predicate(predicate, left, right, expected):
    assert matches(predicate, left, right) is expected


def table(keys, **more):
    return pa.table({"k": keys, **more})


def test_left_rows_of_a_call_arrive_first():
    loop = NestedLoop(("compare", "="), "k", "k", rows=(2, 2))
    assert loop.process(table([1, 1]), table([1, 1])) == [
        Pair(0, 0, 0, "right"),
        Pair(1, 0, 0, "right"),
        Pair(0, 1, 0, "right"),
        Pair(1, 1, 0, "right"),
    ]
    # Now right row 0 is followed by row 1 only: both are in the window of 2.
    assert loop.process(table([1]), None) == [Pair(2, 0, 1, "left"), Pair(2, 1, 1, "left")]


def test_windows_of_different_sizes_count_null_keys():
    loop = NestedLoop(("band", None, None), "k", "k", rows=(1, 3))
    loop.process(None, table(pa.array([1, None, 3, 4], pa.int64())))
    assert loop.process(table([0]), None) == [Pair(0, 2, 1, "left"), Pair(0, 3, 1, "left")]
    assert loop.process(table([0]), table([9])) == [
        Pair(1, 2, 2, "left"),
        Pair(1, 3, 2, "left"),
        Pair(1, 4, 2, "right"),
    ]


def test_sequence_decides_and_ties_go_left():
    loop = NestedLoop(("band", None, None), "k", "k", rows=(9, 9), sequence="q")
    found = loop.process(table([1, 1], q=[5, 3]), table([1, 1], q=[4, 5]))
    # Arrival: left(3), right(4), left(5), right(5); row numbers follow it.
    assert found == [
        Pair(0, 0, 0, "right"),
        Pair(1, 0, 0, "left"),
        Pair(0, 1, 0, "right"),
        Pair(1, 1, 0, "right"),
    ]
    with pytest.raises(ValueError, match="goes back"):
        loop.process(table([1], q=[4]), None)


def test_time_window_whatever_the_arrival_order():
    seconds = pa.timestamp("s")
    loop = NestedLoop(("band", 0, 0), "k", "k", within=("t", "u", dt.timedelta(seconds=1), dt.timedelta(seconds=2)))
    loop.process(table([0, 0], t=pa.array([10, 20], seconds)), None)
    assert loop.process(None, table([0, 0, 0, 0], u=pa.array([22_000, 12_001, 11_000, None], pa.timestamp("ms")))) == [
        Pair(1, 0, 1, "right"),
        Pair(0, 2, 1, "right"),
    ]
    assert loop.process(table([0], t=pa.array([20], seconds)), None) == [Pair(2, 0, 2, "left")]


def test_rows_at_or_below_the_watermark_are_late_from_the_next_call_on():
    loop = NestedLoop(("band", 0, 0), "k", "k", within=("t", "t", -100, 100), delays=(2, 3))
    loop.process(table([0, 0], t=[10, 1]), None)
    assert len(loop.process(None, table([0, 0], t=[5, 20]))) == 4  # no right row yet: no watermark
    # The watermark is min(10 - 2, 20 - 3) = 8.
    assert loop.process(table([0, 0], t=[8, 9]), table([0], t=[7])) == [
        Pair(3, 0, 2, "left"),
        Pair(3, 1, 2, "left"),
    ]
    assert (loop.streams["left"].late, loop.streams["right"].late) == (1, 1)


def test_the_late_row_filter_may_lag():
    loop = NestedLoop(("band", 0, 0), "k", "k", within=("t", "t", -100, 100), delays=(0, None), lag=1)
    loop.process(table([0], t=[10]), None)
    loop.process(table([0], t=[10]), None)
    assert loop.streams["left"].late == 0
    loop.process(table([0], t=[10]), None)
    assert loop.streams["left"].late == 1


def test_watermarks_of_timestamps_are_whole_milliseconds():
    zero, far = dt.timedelta(0), dt.timedelta(seconds=9)
    loop = NestedLoop(("band", 0, 0), "k", "k", within=("t", "t", -far, far), delays=(zero, None))
    loop.process(table([0], t=pa.array([5_999], pa.timestamp("us"))), None)
    loop.process(table([0, 0], t=pa.array([5_000, 5_001], pa.timestamp("us"))), None)
    assert loop.streams["left"].late == 1
