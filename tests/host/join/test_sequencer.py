"""The rows of a call in the order of arrival: what each may meet, which are late, and which can match nothing."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import AllOf, AsOf, Band, Compare, JoinSpec, Rows, Watermark, Within
from muntin.engine import Inner, Outer
from muntin.host.call import Want
from muntin.host.engine.engine import EngineSpec
from muntin.host.errors import OrderError
from muntin.host.join.batch_summary import BatchSummary
from muntin.host.join.sequencer import SequencedCall, Sequencer
from muntin.host.sides import SIDES

EQUAL = Compare("k", "=", "k")
COUNTED: dict[str, Any] = {"on": EQUAL, "left": Rows(5), "right": Rows(6)}
TIMED: dict[str, Any] = {
    "on": EQUAL,
    "within": Within("t", "t", -4, 9),
    "watermark": Watermark(left=3, right=5, lag=0),
}
STREAMS: dict[str, Any] = {"on": EQUAL}


def rows(keys: list[int | None], **columns: Any) -> pa.Table:
    made = {
        name: pa.array(values, None if isinstance(values, pa.Array) else pa.int64()) for name, values in columns.items()
    }
    return pa.table({"k": pa.array(keys, pa.int64()), **made})


def opened(left: pa.Table, right: pa.Table | None = None, /, first_row: int = 0, **options: Any) -> Sequencer:
    right = left if right is None else right
    return Sequencer(JoinSpec(**options), left.schema, right.schema, first_row)


def sequenced(sequencer: Sequencer, left: pa.Table, right: pa.Table, **more: Any) -> SequencedCall:
    call = sequencer.sequence({"left": left, "right": right}, **more)
    sequencer.advance(call)
    return call


def met(call: SequencedCall) -> dict[str, list[int]]:
    return {side: call.other_position[side].tolist() for side in SIDES}


def arrays(of: dict[Any, np.ndarray]) -> dict[Any, list[int]]:
    return {side: values.tolist() for side, values in of.items()}


def test_a_call_of_both_sides() -> None:
    """Left rows of a call come before its right ones."""
    left, right = rows([7, None, 9]), rows([5, 7])
    sequencer = opened(left, **COUNTED, first_row=100)
    call = sequenced(sequencer, left, right, tag=b"t", max_pairs=8)
    assert met(call) == {"left": [100, 100, 100], "right": [103, 103]}
    assert (call.arrived, sequencer.arrived) == ({"left": 103, "right": 102},) * 2
    assert arrays(call.numbers) == {"left": [100, 101, 102], "right": [100, 101]}
    assert (call.first, call.tag, call.max_pairs, call.want) == ({"left": 100, "right": 100}, b"t", 8, Want.PAIRS)
    assert (call.pushes, call.whole, call.last_sequence, call.orders, call.newest) == (None, None, None, {}, {})
    assert (arrays(call.never), call.late_rows) == ({"left": [101], "right": []}, {})
    assert (call.late, call.unmatchable) == ({"left": 0, "right": 0}, {"left": 1, "right": 0})
    assert (call.batches["left"].rows.tolist(), call.batches["left"].keys.tolist()) == ([100, 102], [7, 9])
    assert (call.batches["left"].other_position.tolist(), call.batches["left"].times) == ([100, 100], None)
    assert call.expiry == {"left": None, "right": None}
    call = sequenced(sequencer, left, right)
    assert (met(call), call.max_pairs) == ({"left": [102] * 3, "right": [106, 106]}, None)
    assert call.tables == {"left": left, "right": right}
    counts = opened(left, **COUNTED, form="counts")
    call = counts.sequence({"left": left, "right": right}, max_pairs=8)
    assert (call.want, call.max_pairs, counts.arrived) == (Want.COUNTS, None, {"left": 0, "right": 0})


def test_as_of_joins_and_self_joins() -> None:
    left = rows([7, None, 9], t=[1, 2, 3])
    as_of = opened(left, on=AsOf("t", "t", by=[("k", "k")]), watermark=Watermark(left=1, right=1))
    call = sequenced(as_of, left, left.slice(1))
    assert met(call) == {"left": [0, 0, 0], "right": [3, 3]}
    own = opened(left, on=Band("k", "k", 1, 5), left=Rows(5), right=Rows(6), self_join=True, first_row=7)
    call = sequenced(own, left, left.slice(0, 0))
    assert met(call) == {"left": [7, 8, 9], "right": [7, 8, 9]}
    assert call.arrived == {"left": 10, "right": 10}
    assert call.tables == {"left": left, "right": left}
    assert call.batches["left"] is call.batches["right"]
    assert call.itself.tolist() == []
    two = opened(left, on=Compare("k", "<", "t"), left=Rows(5), right=Rows(6), self_join=True)
    call = sequenced(two, left, left.slice(0, 0))
    assert [call.batches[side].keys.tolist() for side in SIDES] == [[7, 9], [1, 2, 3]]
    assert (arrays(call.never), met(call)) == ({"left": [1], "right": []}, {"left": [0, 1, 2], "right": [0, 1, 2]})


@pytest.mark.parametrize(
    ("on", "within", "due"),
    [
        (Band("k", "t", -1, 1), None, [0, 2]),
        (Band("k", "t", -1, 1), (0, 5), [0, 2]),
        (Band("k", "t", -1, 1), (-5, 0), [0, 2]),
        (Band("k", "t", -1, 1), (1, 5), []),
        (Band("k", "t", -1, 1), (-5, -1), []),
        (AllOf(Band("k", "t", -1, 1), Compare("k", "!=", "t")), None, [0]),
    ],
    ids=str,
)
def test_rows_that_match_themselves(on: Any, within: tuple[int, int] | None, due: list[int]) -> None:
    stream = rows([1, 9, 5, None], t=[2, 2, 5, 7])
    window: dict[str, Any] = {"left": Rows(5), "right": Rows(5)}
    if within is not None:
        window = {"within": Within("t", "t", *within), "watermark": Watermark(left=1, right=1)}
    sequencer = opened(stream, on=on, **window, self_join=True, itself=True, first_row=40)
    call = sequenced(sequencer, stream, stream.slice(0, 0))
    assert (call.itself - 40).tolist() == due


def test_pushes_of_a_call() -> None:
    sequencer = opened(rows([]), **COUNTED, first_row=10)
    pushes = [(2, 1), (0, 2), (1, 0), (1, 1)]
    call = sequenced(sequencer, rows([1, 2, 3, 4]), rows([1, 2, 3, 4]), pushes=pushes)
    assert met(call) == {"left": [10, 10, 13, 13], "right": [12, 12, 12, 14]}
    assert call.pushes == pushes


def test_a_sequence_column() -> None:
    """Ties go to the left; what is not in order is put there."""
    left, right = rows([1, 2, 3, 4], q=[5, 3, 8, 5]), rows([1, 2, 3], q=[5, 9, 2])
    sequencer = opened(left, **COUNTED, sequence="q", first_row=10)
    call = sequenced(sequencer, left, right)
    assert met(call) == {"left": [11, 11, 11, 12], "right": [10, 13, 14]}
    assert arrays(call.orders) == {"left": [1, 0, 3, 2], "right": [2, 0, 1]}
    assert call.tables["left"]["k"].to_pylist() == [2, 1, 4, 3]
    assert call.batches["left"].keys.tolist() == [2, 1, 4, 3]
    assert (call.last_sequence, sequencer.state["last_sequence"]) == (9, 9)
    call = sequenced(sequencer, rows([1], q=[9]), rows([], q=[]))
    assert (met(call), call.orders, call.last_sequence) == ({"left": [13], "right": []}, {}, 9)
    with pytest.raises(
        OrderError, match=r"value 7 in column 'q' of the right side comes after 9.* earlier call"
    ) as raised:
        sequencer.sequence({"left": rows([], q=[]), "right": rows([1, 2, 3], q=[8, 10, 7])})
    assert (raised.value.side, list(raised.value.rows)) == ("right", [0, 2])
    with pytest.raises(OrderError, match=r"row 1 of the left batch has no value in the sequence column 'q'") as raised:
        sequencer.sequence({"left": rows([1, 2, 3], q=[9, None, None]), "right": rows([], q=[])})
    assert (raised.value.side, list(raised.value.rows)) == ("left", [1, 2])


def test_a_sequence_column_of_pushes() -> None:
    sequencer = opened(rows([], q=[]), **COUNTED, sequence="q")
    left, right = rows([1, 2, 3], q=[4, 1, 4]), rows([1, 2, 3], q=[2, 4, 5])
    call = sequenced(sequencer, left, right, pushes=[(2, 1), (1, 0), (0, 2)])
    # In order 1, 4, 4 and 2, 4, 5: the last 4 of the left came before that of the right.
    assert met(call) == {"left": [0, 1, 1], "right": [1, 3, 3]}
    for pushes, side, wrong in (
        ([(2, 1), (1, 0), (0, 2)], "left", [2]),
        ([(1, 3), (2, 0)], "left", [1, 2]),
        ([(0, 1), (1, 2), (2, 0)], "left", [1]),
    ):
        left, right = rows([1, 2, 3], q=[15, 11, 14]), rows([1, 2, 3], q=[12, 15, 16])
        with pytest.raises(OrderError, match="came in an earlier push: rows must not go back between pushes") as raised:
            sequencer.sequence({"left": left, "right": right}, pushes=pushes)
        assert raised.value.side == side, pushes
        assert set(raised.value.rows) >= set(wrong)
    left, right = rows([1], q=[15]), rows([1, 2], q=[16, 11])
    with pytest.raises(OrderError, match=r"value 11 in column 'q' of the right side comes after 15") as raised:
        sequencer.sequence({"left": left, "right": right}, pushes=[(1, 0), (0, 2)])
    assert (raised.value.side, list(raised.value.rows)) == ("right", [1])
    own = opened(rows([], q=[]), on=Band("k", "k", 1, 5), left=Rows(5), right=Rows(6), self_join=True, sequence="q")
    nothing = rows([], q=[])
    call = sequenced(own, rows([1, 2, 3], q=[1, 1, 2]), nothing, pushes=[(1, 0), (2, 0)])
    assert met(call) == {"left": [0, 1, 2], "right": [0, 1, 2]}
    with pytest.raises(OrderError, match="value 3 in column 'q' of the left side comes after 4"):
        own.sequence({"left": rows([1, 2], q=[4, 3]), "right": nothing}, pushes=[(1, 0), (1, 0)])


def test_sequences_of_two_units() -> None:
    left = pa.table({"k": [1, 2], "q": pa.array([1, 3], pa.timestamp("s"))})
    right = pa.table({"k": [1, 2], "q": pa.array([999, 1001], pa.timestamp("ms"))})
    sequencer = opened(left, right, **COUNTED, sequence="q")
    assert met(sequenced(sequencer, left, right)) == {"left": [1, 2], "right": [0, 1]}
    assert sequencer.state["last_sequence"] == 3000
    top = np.iinfo(np.int64).max // 1000
    for value, fits in ((top, True), (top + 1, False), (-top, True), (-top - 1, False)):
        own = opened(left, right, **COUNTED, sequence="q")
        table = pa.table({"k": [1, 2], "q": pa.array([0, value], pa.timestamp("s"))})
        if fits:
            assert sorted(own.sequence_values("left", table).tolist()) == sorted([0, value * 1000])  # type: ignore[union-attr]
            continue
        with pytest.raises(OrderError, match=f"sequence value {value} .*does not fit the unit") as raised:
            own.sequence_values("left", table)
        assert (raised.value.side, list(raised.value.rows)) == ("left", [1])
    assert opened(left, right, **COUNTED).sequence_values("left", left) is None
    dates = pa.table({"k": [1, 2], "q": pa.array([86_400_000, 172_800_000], pa.int64()).cast(pa.date64())})
    days = opened(dates, **COUNTED, sequence="q").sequence_values("right", dates)
    assert days is not None
    assert days.tolist() == [1, 2]


@pytest.mark.parametrize("beyond", [False, True])
def test_sequences_beyond_int64(beyond: bool) -> None:
    kind, top = pa.uint64(), (1 << 64) - 1 if beyond else (1 << 63) - 1
    left = pa.table({"k": [1, 2], "q": pa.array([5, top], kind)})
    right = pa.table({"k": [1, 2], "q": pa.array([top - 1, top], kind)})
    call = sequenced(opened(left, **COUNTED, sequence="q"), left, right)
    assert (met(call), call.last_sequence) == ({"left": [0, 1], "right": [1, 2]}, top)


@settings(max_examples=40)
@given(
    pushes=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=5),
    sequence=st.booleans(),
    seed=st.integers(0, 1 << 30),
)
def test_as_rows_come_one_by_one(pushes: list[tuple[int, int]], sequence: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrivals = []  # (push, value, side, place)
    values: dict[str, list[int]] = {side: [] for side in SIDES}
    for number, (side, count) in itertools.product(range(len(pushes)), enumerate(SIDES)):
        for _ in range(pushes[number][side]):
            value = 3 * number + int(rng.integers(0, 4)) if sequence else 0  # pushes may share one value
            arrivals.append((value if sequence else number, side, number, len(values[count])))
            values[count].append(value)
    seen, due = [0, 0], {side: [] for side in SIDES}  # type: ignore[var-annotated]
    order = sorted(arrivals) if sequence else sorted(arrivals, key=lambda each: (each[2], each[1], each[3]))
    if sequence:  # equal values: the earlier push first, within one the left side first
        order = sorted(arrivals, key=lambda each: (each[0], each[2], each[1], each[3]))
    for _, side, _, _ in order:
        due[SIDES[side]].append(seen[1 - side])
        seen[side] += 1
    left, right = (rows([1] * len(values[side]), q=values[side]) for side in SIDES)
    call = sequenced(opened(left, **COUNTED, sequence="q" if sequence else None), left, right, pushes=pushes)
    assert met(call) == due


# Times


def test_late_rows() -> None:
    """Of a call: those at or before the watermark of the calls before. NULL times are not late, and move nothing."""
    sequencer = opened(rows([], t=[]), **TIMED)
    assert (sequencer.watermark, sequencer.watermark_seconds, sequencer.watermark_side) == (None, None, None)
    call = sequenced(sequencer, rows([1, 2], t=[20, 12]), rows([1, None], t=[24, 3]))
    assert (call.newest, call.late, sequencer.watermark) == ({"left": 20, "right": 24}, {"left": 0, "right": 0}, 17)
    assert (call.batches["left"].times.tolist(), sequencer.watermark_side) == ([20, 12], "left")  # type: ignore[union-attr]
    # A left row of time t meets right ones from t - 4 to t + 9, a right one left ones from t - 9 to t + 4.
    assert call.expiry == {"left": 17 - 9, "right": 17 - 4}
    before = sequencer.state
    call = sequenced(sequencer, rows([1, None, 3, None, 5], t=[17, 17, 18, 19, None]), rows([1, 2], t=[1, 30]))
    assert arrays(call.late_rows) == {"left": [0, 1], "right": [0]}
    assert arrays(call.never) == {"left": [5, 6], "right": []}
    assert (call.late, call.unmatchable) == ({"left": 2, "right": 1}, {"left": 2, "right": 0})
    assert [call.batches[side].rows.tolist() for side in SIDES] == [[4], [3]]
    assert (call.newest, sequencer.watermark) == ({"left": 19, "right": 30}, 17)
    again = opened(rows([], t=[]), **TIMED)
    again.state = before
    assert (again.state, again.watermark, again.arrived) == (before, 17, {"left": 2, "right": 2})
    same = again.sequence({"left": rows([1], t=[17]), "right": rows([2], t=[18])})
    assert (arrays(same.late_rows), same.newest) == ({"left": [0]}, {"left": 17, "right": 18})
    call = sequenced(sequencer, rows([], t=[]), rows([None], t=[None]))
    assert (call.newest, arrays(call.never)) == ({}, {"left": [], "right": [4]})


def test_times_of_a_column_of_their_own_make_the_watermark() -> None:
    stream = rows([1, 2, 3], t=[5, 6, None], w=[30, None, 40])
    options = {**TIMED, "watermark": Watermark(left=3, right=5, lag=0, left_column="w")}
    sequencer = opened(stream, **options)
    assert (sequencer.newest_time("left", stream), sequencer.newest_time("right", stream)) == (40, 6)
    assert (sequencer.greatest_time("left", stream), sequencer.greatest_time("left", stream.slice(2))) == (6, None)
    call = sequenced(sequencer, stream, stream)
    assert (call.newest, sequencer.watermark, arrays(call.never)) == (
        {"left": 40, "right": 6},
        1,
        {"left": [2], "right": [2]},
    )
    counted = opened(stream, **COUNTED)
    assert counted.newest_time("left", stream) is counted.greatest_time("left", stream) is None


def test_watermarks_in_seconds() -> None:
    stream = pa.table({"k": [1], "t": pa.array([5_500], pa.timestamp("ms"))})
    sequencer = opened(
        stream, on=EQUAL, within=Within("t", "t", "-1 second", "1 second"),
        watermark=Watermark(left="1 second", right="2 seconds", lag=0),
    )  # fmt: skip
    sequenced(sequencer, stream, stream)
    assert sequencer.watermark_seconds == 3.5


def test_joins_without_a_window() -> None:
    table = rows([1, 2])
    sequencer = opened(table, **STREAMS)
    call = sequenced(sequencer, table, table)
    assert [call.batches[side].times.tolist() for side in SIDES] == [[0, 0], [0, 0]]  # type: ignore[union-attr]
    assert (call.expiry, sequencer.state["watermark"]) == ({"left": None, "right": None}, None)
    again = opened(table, **STREAMS)
    again.state = sequencer.state
    assert (again.arrived, again.state) == ({"left": 2, "right": 2}, sequencer.state)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (COUNTED, {"counts": {"left": 5, "right": 6}, "within": None}),
        (
            COUNTED | {"order": Outer(3)},
            {"counts": {"left": 5, "right": 6}, "within": None, "order": "outer", "every": 3},
        ),
        (COUNTED | {"form": "ranges"}, {"counts": {"left": 5, "right": 6}, "within": None, "ranges": True}),
        (TIMED | {"capacity": 9}, {"counts": None, "within": (-4, 9), "delay": 5, "capacity": 9}),
        (TIMED | {"order": Inner(2)}, {"counts": None, "within": (-4, 9), "delay": 5, "order": "inner", "every": 2}),
        (STREAMS, {"counts": None, "within": (0, 0)}),
    ],
)
def test_what_an_engine_is_given(options: dict[str, Any], expected: dict[str, Any]) -> None:
    table = rows([7], t=[1])
    assert opened(table, **options).engine_spec == EngineSpec(**expected)


def test_times_of_an_engine_have_their_unit() -> None:
    table = pa.table({"k": pa.array([7]), "t": pa.array([1], pa.timestamp("ms"))})
    within = Within("t", "t", "-1 second", "2 seconds")
    spec = opened(table, on=EQUAL, within=within, watermark=Watermark(left="1 second", right="3 seconds")).engine_spec
    assert (spec.within, spec.delay, spec.time_unit) == ((-1000, 2000), 3000, 10**6)


def test_a_self_join_with_rows_in_other_partitions() -> None:
    """Each row meets the rows that came before it, in whichever partition they are."""
    table = rows([7, 9, 8])
    whole = BatchSummary({}, None, np.zeros(5, np.bool_), {"left": np.array([4, 0, 3])})
    sequencer = opened(table, on=EQUAL, left=Rows(5), right=Rows(6), self_join=True, first_row=10)
    assert sequencer.engine_spec == EngineSpec({"left": 5, "right": 6}, None, self_join=True)
    call = sequenced(sequencer, table, table, whole=whole)
    assert met(call) == {"left": [10, 11, 12, 13, 14], "right": [10, 11, 12, 13, 14]}
    assert arrays(call.numbers) == {"left": [10, 13, 14], "right": [10, 13, 14]}
    assert call.batches["left"].other_position.tolist() == [10, 13, 14]
    assert call.tables["left"].column("k").to_pylist() == call.tables["right"].column("k").to_pylist() == [9, 8, 7]
    assert call.arrived == {"left": 15, "right": 15}
