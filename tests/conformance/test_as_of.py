"""As-of joins against a nested loop and the peers' own: pairs, the call in which each comes out, and what is held."""

import datetime as dt
import itertools
import math
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import AllOf, AnyOf, AsOf, Compare, JoinSpec, Watermark, Where, WindowJoin
from muntin.errors import KeyTypeError, PredicateError, SchemaError, UnsupportedError, WindowError

DIRECTIONS = ("backward", "forward", "nearest")
INT64 = np.iinfo(np.int64)


def nothing(value):
    return value is None or (isinstance(value, float) and math.isnan(value))


def distance(a, b):
    if a == b:
        return 0
    if math.inf in (a, b) or -math.inf in (a, b):
        return math.inf
    return abs(Fraction(a) - Fraction(b))


def choice(time, key, rights, direction, tolerance, exact):
    """The index of the right row, of (time, key) in order of arrival, that a left row meets; None for none."""
    if nothing(time) or nothing(key):
        return None
    best = None
    for at, (other, own) in enumerate(rights):
        if nothing(other) or own != key or (other == time and not exact):
            continue
        if (direction == "backward" and other > time) or (direction == "forward" and other < time):
            continue
        away = distance(time, other)
        if tolerance is not None and away > tolerance:
            continue
        back = other <= time if direction != "forward" else False
        # Nearer first; then the one before; then, at infinite distances, by time; then the last to arrive looking back,
        # the first looking ahead.
        rank = (away, not back, -other if back else other, -at if back else at)
        if best is None or rank < best[0]:
            best = rank, at
    return None if best is None else best[1]


def pairs_of(table):
    return list(zip(table["left_row"].to_pylist(), table["right_row"].to_pylist(), strict=True))


def table_of(rows, time=None, key=None):
    times, keys = [row[0] for row in rows], [row[1] for row in rows]
    return pa.table({"t": pa.array(times, time or pa.int64()), "k": pa.array(keys, key or pa.int32())})


def stream(calls, watermark, on, how, passes=lambda side, time, key: True):
    """What a join of (left rows, right rows) calls gives, call by call, by definition; and late rows left out.

    `watermark` is (left delay or None, right delay); `passes` tells which rows satisfy the parts about their side.
    """
    accepted = {"left": [], "right": []}  # (row, time, key)
    arrived = {"left": 0, "right": 0}
    reached = {side: None for side, delay in zip(("left", "right"), watermark, strict=True) if delay is not None}
    in_force, out, waits, held = None, [], [], []
    for call in calls:
        given_rows = dict(zip(("left", "right"), call, strict=True))
        came = []
        for side in ("right", "left"):
            for time, key in given_rows[side]:
                row = arrived[side]
                arrived[side] += 1
                if in_force is not None and side in reached and time is not None and time <= in_force:
                    continue
                if time is None or key is None or not passes(side, time, key):
                    if side == "left" and how == "left":
                        came.append((row, None))
                    continue
                accepted[side].append((row, time, key))
                if side == "left":
                    waits.append((row, time, key))
        for side, delay in zip(("left", "right"), watermark, strict=True):
            times = [time for time, _ in given_rows[side] if time is not None]
            if delay is not None and times:
                new = max(times) - delay
                reached[side] = new if reached[side] is None else max(reached[side], new)
        if all(value is not None for value in reached.values()):
            value = min(reached.values())
            in_force = value if in_force is None else max(in_force, value)
        rights = [(time, key) for _, time, key in accepted["right"]]
        still = []
        for row, time, key in waits:
            at = choice(time, key, rights, on.direction, on.tolerance, on.exact)
            near = choice(time, key, rights, on.direction, None, on.exact)
            away = None if near is None else abs(rights[near][0] - time)
            if on.direction == "backward":
                due = time if on.exact else time - 1
            elif on.direction == "forward":
                due = min(
                    [time + d for d in (None if away is None else away - 1, on.tolerance) if d is not None],
                    default=None,
                )
            else:
                due = min([time + d for d in (away, on.tolerance) if d is not None], default=None)
            if in_force is None or due is None or in_force < due:
                still.append((row, time, key))
            elif at is not None or how == "left":
                came.append((row, None if at is None else accepted["right"][at][0]))
        waits = still
        out.append(sorted(came, key=lambda pair: (pair[1] is None, pair[0])))
        # A right row is held while a left row that waits, or that may still come, could meet it.
        times = {key: [t for _, t, k in waits if k == key] for _, key in rights}
        needed = set()
        for key in times:
            own = [(i, t) for i, (t, k) in enumerate(rights) if k == key]
            if "left" not in reached or in_force is None:
                needed.update(i for i, _ in own)
                continue
            later = [t for _, t in own if t > in_force]
            probes = {
                *times[key],
                in_force + 1,
                *later,
                *(t + 1 for t in later),
                *(t - 1 for t in later if t - 1 > in_force),
            }
            found = {choice(t, key, rights, on.direction, on.tolerance, on.exact) for t in probes if t > in_force}
            found |= {choice(t, key, rights, on.direction, on.tolerance, on.exact) for t in times[key]}
            needed |= found - {None}
        held.append((len(needed), len(waits)))
    rights = [(time, key) for _, time, key in accepted["right"]]
    rest = []
    for row, time, key in waits:
        at = choice(time, key, rights, on.direction, on.tolerance, on.exact)
        if at is not None or how == "left":
            rest.append((row, None if at is None else accepted["right"][at][0]))
    out.append(sorted(rest, key=lambda pair: (pair[1] is None, pair[0])))
    return out, held


rows = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 2), st.integers(0, 30)), st.one_of(st.none(), st.integers(0, 2))),
    max_size=7,
)


@settings(max_examples=150, deadline=None)
@given(
    calls=st.lists(st.tuples(rows, rows), min_size=1, max_size=6),
    direction=st.sampled_from(DIRECTIONS),
    tolerance=st.sampled_from([0, 1, 3, 9]),
    limited=st.booleans(),
    exact=st.booleans(),
    how=st.sampled_from(["inner", "left"]),
    delays=st.sampled_from([(None, 0), (0, 0), (3, 3), (2, 6), (5, 1), (None, 4)]),
    text=st.booleans(),
    origin=st.sampled_from([0, int(INT64.min), int(INT64.max) - 30]),
    tests=st.sets(st.sampled_from(["left.t", "right.t", "left.k", "right.k"])).filter(lambda sides: len(sides) < 3),
)
def test_rows_come_out_in_the_call_that_decides_them(
    calls, direction, tolerance, limited, exact, how, delays, text, origin, tests
):
    calls = [[[(t if t is None else t + origin, k) for t, k in side] for side in call] for call in calls]
    if direction != "backward" and how == "left":
        limited = True
    wheres = [
        AnyOf(Where(side, "t", "<", origin + 1), Where(side, "t", ">", origin + 2))
        if column == "t"
        else Where(side, "k", "!=", "1" if text else 1)
        for side, column in (test.split(".") for test in sorted(tests))
    ]
    on = AsOf("t", "t", direction, tolerance if limited else None, "k", exact, wheres)

    def passes(side, time, key):
        return not (f"{side}.t" in tests and origin + 1 <= time <= origin + 2) and not (
            f"{side}.k" in tests and key == 1
        )

    expected, held = stream(calls, delays, on, how, passes)
    kind = pa.string() if text else pa.int32()

    def table(rows):
        return table_of([(t, str(k) if text and k is not None else k) for t, k in rows], key=kind)

    watermark = Watermark(left=delays[0], right=delays[1], lag=0)
    with WindowJoin(on=on, how=how, form="pairs", watermark=watermark) as join:
        for (left, right), due, (rights, waiting) in zip(calls, expected, held, strict=False):
            assert pairs_of(join.process(table(left), table(right))) == due
            assert join.stats.waiting_left == waiting
            if delays[0] is not None and origin >= 0:  # a watermark below the least time frees no row
                slack = 0 if exact and direction != "nearest" else 2  # rows of each of three values
                assert join.stats.window_right <= rights + 3 * slack
            else:
                assert join.stats.window_right <= sum(len(r) for _, r in calls)
        assert pairs_of(join.finish()) == expected[-1]
        assert join.stats.matches == sum(right is not None for due in expected for _, right in due)


def test_what_is_held_does_not_grow():
    rng = np.random.default_rng(1)
    max_right = max_left = max_bytes = 0
    on = AsOf("t", "t", by="k", tolerance=None)
    with WindowJoin(on=on, watermark=Watermark(left=50, right=50, lag=0)) as join:
        for call in range(300):
            times = call * 100 + rng.integers(0, 100, 200)
            keys = rng.integers(0, 20, 200)
            table = pa.table({"t": times, "k": [f"key {k}" for k in keys], "x": np.arange(200)})
            join.process(table, table.rename_columns(["t", "k", "y"]))
            max_right, max_left = (
                max(max_right, join.stats.window_right),
                max(max_left, join.stats.waiting_left),
            )
            max_bytes = max(max_bytes, join.stats.row_bytes)
    # The last row of each of 20 values, and those that the watermark has not passed: half a call and a call.
    assert max_right <= 20 + 300
    assert max_left <= 300
    assert max_bytes < 300_000


def test_values_that_come_no_more_are_forgotten():
    with WindowJoin(on=AsOf("t", "t", tolerance=5, by="k"), watermark=Watermark(left=0, right=0, lag=0)) as join:
        for call in range(60):
            keys = [f"{call}-{n}" for n in range(200)]
            table = pa.table({"t": np.full(200, call * 10), "k": keys})
            assert join.process(table, table).num_rows == 200
            assert join.stats.window_right == join.stats.engine["groups"] == 200  # those within 5 of the watermark
            assert len(join._calls.journal.pipeline.sequencer.condition.codes) < 4_000


def loop(left, right, on):
    rights = list(zip(right["t"].to_pylist(), right["k"].to_pylist(), strict=True))
    lefts = zip(left["t"].to_pylist(), left["k"].to_pylist(), strict=True)
    return {(row, choice(t, k, rights, on.direction, on.tolerance, on.exact)) for row, (t, k) in enumerate(lefts)}


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("tolerance", [None, 0, 40])
def test_bounded_input_agrees_with_pandas_polars_and_a_loop(direction, exact, tolerance):
    rng = np.random.default_rng(7)
    left = pa.table({"t": rng.permutation(4_000)[:300].astype(np.int64), "k": rng.integers(0, 5, 300)})
    right = pa.table({"t": rng.permutation(4_000)[:300].astype(np.int64), "k": rng.integers(0, 5, 300)})
    on = AsOf("t", "t", direction, tolerance, "k", exact)
    with WindowJoin(on=on, how="left", form="pairs") as join:
        found = set()
        for at in range(0, 300, 70):
            found.update(pairs_of(join.process(left.slice(at, 70), right.slice(at, 70))))
        found.update(pairs_of(join.finish()))
    assert found == loop(left, right, on)
    a = left.to_pandas().assign(left_row=np.arange(300)).sort_values("t")
    b = right.to_pandas().assign(right_row=np.arange(300)).sort_values("t")
    theirs = pd.merge_asof(a, b, on="t", by="k", direction=direction, tolerance=tolerance, allow_exact_matches=exact)
    ours = {pair for pair in found if direction != "nearest" or tied(pair, left, right, on) is False}
    said = {(int(r.left_row), None if pd.isna(r.right_row) else int(r.right_row)) for r in theirs.itertuples()}
    assert ours <= said
    frames = pl.from_pandas(a).sort("t"), pl.from_pandas(b).sort("t")
    polars = frames[0].join_asof(
        frames[1], on="t", by="k", strategy=direction, tolerance=tolerance, allow_exact_matches=exact
    )
    assert ours <= set(zip(polars["left_row"].to_list(), polars["right_row"].to_list(), strict=True))


def tied(pair, left, right, on):
    """Whether a left row has right rows at the same least distance, where the peers differ."""
    time, key = left["t"][pair[0]].as_py(), left["k"][pair[0]].as_py()
    away = sorted(
        abs(t - time)
        for t, k in zip(right["t"].to_pylist(), right["k"].to_pylist(), strict=True)
        if k == key and (on.exact or t != time)
    )
    return len(away) > 1 and away[0] == away[1]


def test_duckdb_agrees_over_many_rows():
    rng = np.random.default_rng(3)
    n = 20_000
    left = pa.table({"t": rng.permutation(10 * n)[:n], "k": rng.integers(0, 300, n), "l": np.arange(n)})
    right = pa.table({"u": rng.permutation(10 * n)[:n], "j": rng.integers(0, 300, n), "r": np.arange(n)})
    with WindowJoin(on=AsOf("t", "u", by=[("k", "j")])) as join:
        parts = [join.process(left.slice(at, 3_000), right.slice(at, 3_000)) for at in range(0, n, 3_000)]
        parts.append(join.finish())
    found = pa.concat_tables(parts)
    with duckdb.connect() as connection:
        connection.register("a", left)
        connection.register("b", right)
        said = connection.execute("SELECT l, r FROM a ASOF JOIN b ON a.k = b.j AND a.t >= b.u")
        wanted = set(said.fetchall())
    assert set(zip(found["l"].to_pylist(), found["r"].to_pylist(), strict=True)) == wanted
    assert len(found) == len(wanted)


FLOATS = [0.1, -0.0, 0.0, 0.3, 0.2, 1e308, -1e308, math.inf, -math.inf, math.nan, 5e-324, 0.1 + 0.2, None, 2.0**53, 1.0]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("tolerance", [None, 0, 0.1, 2.0, 1e308])
@pytest.mark.parametrize("exact", [True, False])
def test_float_times_are_compared_exactly(direction, tolerance, exact):
    left = pa.table({"t": pa.array(FLOATS, pa.float64()), "k": [0] * len(FLOATS)})
    right = pa.table({"t": pa.array(FLOATS[::-2], pa.float64()), "k": [0] * len(FLOATS[::-2])})
    on = AsOf("t", "t", direction, tolerance, (), exact)
    wanted = loop(left, right, on)
    with WindowJoin(on=on, how="left", form="pairs") as join:
        assert set(pairs_of(join.process(left, right)) + pairs_of(join.finish())) == wanted


def test_distances_do_not_wrap():
    left = pa.table({"t": [INT64.min, 0, INT64.max], "k": [0] * 3})
    right = pa.table({"t": [INT64.max, INT64.min], "k": [0] * 2})
    for direction, tolerance, exact in itertools.product(DIRECTIONS, (None, 0, 1, 2**63, 2**64), (True, False)):
        on = AsOf("t", "t", direction, tolerance, "k", exact)
        with WindowJoin(on=on, how="left", form="pairs") as join:
            found = pairs_of(join.process(left, right)) + pairs_of(join.finish())
            assert set(found) == loop(left, right, on), on


DAY = dt.date(2026, 1, 1)
TIMES = [
    (pa.timestamp("ms"), pa.timestamp("us"), "2 seconds"),
    (pa.timestamp("s", "UTC"), pa.timestamp("ns", "UTC"), dt.timedelta(seconds=2)),
    (pa.date32(), pa.date64(), "2 days"),
    (pa.int8(), pa.uint64(), 2),
    (pa.uint64(), pa.uint64(), 2),
    (pa.uint32(), pa.int16(), 2),
    (pa.float32(), pa.float64(), 2.0),
    (pa.decimal128(38, 0), pa.decimal128(19, 0), 2),
    (pa.duration("ms"), pa.duration("s"), "2 seconds"),
]


@pytest.mark.parametrize(("left", "right", "tolerance"), TIMES)
def test_every_type_of_time(left, right, tolerance):
    def times(kind, values):
        if pa.types.is_timestamp(kind):
            scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
            return pa.array([v * scale for v in values], pa.int64()).cast(kind)
        if pa.types.is_duration(kind):
            return pa.array([v * (1_000 if kind.unit == "ms" else 1) for v in values], pa.int64()).cast(kind)
        if pa.types.is_date(kind):
            return pa.array([DAY + dt.timedelta(days=v) for v in values], kind)
        return pa.array(values, pa.int64()).cast(kind)

    a, b = [10, 3, 7, 100, 0], [4, 8, 8, 97]
    left_table, right_table = pa.table({"t": times(left, a)}), pa.table({"u": times(right, b)})
    with WindowJoin(on=AsOf("t", "u", tolerance=tolerance), how="left", form="pairs") as join:
        found = set(pairs_of(join.process(left_table, right_table)) + pairs_of(join.finish()))
    assert found == {(0, 2), (1, None), (2, None), (3, None), (4, None)}


KEYS = [
    (pa.string(), pa.large_string(), ["a", None, "b", "a"]),
    (pa.binary(), pa.binary(), [b"a", None, b"b", b"a"]),
    (pa.int64(), pa.int32(), [1, None, 2, 1]),
    (pa.float64(), pa.float32(), [0.5, math.nan, 2, 0.5]),
    (pa.struct({"a": pa.int32()}), pa.struct({"a": pa.int64()}), [{"a": 1}, None, {"a": 2}, {"a": 1}]),
    (pa.dictionary(pa.int8(), pa.string()), pa.string(), ["a", None, "b", "a"]),
]


@pytest.mark.parametrize(("left", "right", "values"), KEYS)
def test_every_type_of_by_column(left, right, values):
    a = pa.table({"t": [1, 2, 3, 4], "k": pa.array(values, left), "j": [0, 0, 0, 0]})
    b = pa.table({"t": [0, 0, 0, 2], "k": pa.array(values, right), "j": [0, 0, 0, 0]})
    for by in ("k", ["k", "j"]):
        with WindowJoin(on=AsOf("t", "t", by=by), form="pairs") as join:
            assert join.process(a, b).num_rows == 0
            assert pairs_of(join.finish()) == [(0, 0), (2, 2), (3, 3)]


def test_rows_of_both_sides_and_an_order_of_arrival_by_sequence():
    left = pa.table({"t": [1, 3], "at": [5, 1], "x": ["a", "b"]})
    right = pa.table({"t": [1, 1], "at": [4, 2], "y": ["c", "d"]})
    with WindowJoin(on=AsOf("t", "t"), sequence="at") as join:
        join.process(left, right)
        found = join.finish().to_pylist()
    assert [(row["x"], row["y"]) for row in found] == [("b", "c"), ("a", "c")]


def test_state_goes_on_in_another_join(tmp_path):
    def table(*rows):
        return pa.table({"t": [r[0] for r in rows], "k": [r[1] for r in rows]})

    options = {
        "on": AsOf("t", "t", by="k"),
        "how": "left",
        "form": "rows",
        "watermark": Watermark(left=2, right=2, lag=0),
        "state": tmp_path / "state",
    }
    calls = [
        (table((1, "a"), (2, "b")), table((1, "a"), (0, "c"))),
        (table((5, "c"), (6, "a")), table((4, "a"), (5, "b"))),
        (table((9, "c"), (8, "b")), table((9, "a"), (8, "a"))),
    ]
    with WindowJoin(**{**options, "state": None}) as join:
        wanted = [join.process(*call).to_pylist() for call in calls] + [join.finish().to_pylist()]
    found = []
    for call in calls:
        with WindowJoin(**options) as join:
            found.append(join.process(*call).to_pylist())
    with WindowJoin(**options) as join:
        assert join.repeat().to_pylist() == found[-1]
        found.append(join.finish().to_pylist())
    assert found == wanted


WATERMARK = Watermark(left=1, right=1)
REFUSED = [
    ({"how": "right"}, UnsupportedError),
    ({"how": "full"}, UnsupportedError),
    ({"how": "left_semi"}, UnsupportedError),
    ({"form": "counts"}, UnsupportedError),
    ({"form": "ranges"}, UnsupportedError),
    ({"left": 5, "right": 5}, UnsupportedError),
    ({"index": "bisort"}, UnsupportedError),
    ({"self_join": True}, UnsupportedError),
    ({"watermark": Watermark(left=1)}, UnsupportedError),
    ({"on": AsOf("t", "t", "forward"), "how": "left", "watermark": WATERMARK}, UnsupportedError),
    ({"on": AsOf("t", "t", "nearest"), "how": "left", "watermark": WATERMARK}, UnsupportedError),
]


@pytest.mark.parametrize(("options", "error"), REFUSED)
def test_what_is_refused(options, error):
    with pytest.raises(error):
        JoinSpec(**{"on": AsOf("t", "t"), **options})


def test_arguments_and_types_that_are_refused():
    with pytest.raises(PredicateError, match="direction"):
        AsOf("t", "t", "sideways")
    with pytest.raises(PredicateError, match="negative"):
        AsOf("t", "t", tolerance=-1)
    with pytest.raises(PredicateError, match="negative"):
        AsOf("t", "t", tolerance="-1 second")
    with pytest.raises(PredicateError, match="by takes"):
        AsOf("t", "t", by=[3])
    with pytest.raises(WindowError):
        AsOf("t", "t", tolerance="soon")
    floats, text = pa.schema({"t": pa.float64()}), pa.schema({"t": pa.string()})
    with pytest.raises(KeyTypeError, match=r"float|double"):
        WindowJoin(on=AsOf("t", "t"), watermark=WATERMARK, left_schema=floats, right_schema=floats)
    with pytest.raises(KeyTypeError, match="string"):
        WindowJoin(on=AsOf("t", "t"), left_schema=text, right_schema=text)
    with pytest.raises(UnsupportedError, match="cpu"):
        WindowJoin(on=AsOf("t", "t"), device="numpy")
    with WindowJoin(on=AsOf("t", "u")) as join, pytest.raises(KeyTypeError, match="does not fit"):
        join.process(pa.table({"t": [1]}), pa.table({"u": pa.array([2**63], pa.uint64())}))


def test_text_of_a_specification():
    for on in (
        AsOf("a", "b"),
        AsOf("a", "b", "nearest", "5 s", ["x", ("y", "z")], False),
        AsOf("a", "b", tolerance=0.1),
    ):
        spec = JoinSpec(on=on, how="left")
        assert JoinSpec.from_json(spec.to_json()) == spec


def test_parts_about_one_side_in_partitions_and_after_restarts(tmp_path):
    """They decide who takes part before the nearest is sought, whatever the result has of their columns."""
    rng = np.random.default_rng(3)
    where = AllOf(Where("right", "ok", "=", True), Where("left", "x.y", "is distinct from", None))
    on = AsOf("t", "t", tolerance=20, by="k", where=where)
    assert JoinSpec.from_json(JoinSpec(on=on).to_json()).on == on
    assert (
        JoinSpec(on=on)
        .explain(
            pa.schema({"t": pa.int64(), "k": pa.string(), "x": pa.struct({"y": pa.date32()})}),
            pa.schema({"t": pa.int64(), "k": pa.string(), "ok": pa.bool_()}),
        )
        .endswith("row test:  right.ok = True\nrow test:  left.x.y is distinct from NULL")
    )
    calls, found = [], {}
    for at in range(4):
        times, keys = at * 50 + rng.integers(0, 60, (2, 40)), [[f"k{n}" for n in rng.integers(0, 5, 40)] for _ in "lr"]
        x = [None if n == 0 else {"y": dt.date(2024, 1, 1) if n > 1 else None} for n in rng.integers(0, 4, 40)]
        left = pa.table({"t": times[0], "k": keys[0], "x": pa.array(x, pa.struct({"y": pa.date32()}))})
        ok = pa.array(rng.random(40) < 0.5, mask=rng.random(40) < 0.2)
        calls.append((left, pa.table({"t": times[1], "k": keys[1], "ok": ok})))
    for partitions in (1, 3):
        options = {
            "on": on, "how": "left", "form": "pairs", "partitions": partitions, "state": tmp_path / str(partitions),
            "watermark": Watermark(left=None, right=300, lag=0), "left_schema": calls[0][0].schema,
            "right_schema": calls[0][1].schema,
        }  # fmt: skip
        pairs = []
        for call in calls:
            with WindowJoin(**options) as join:
                pairs += pairs_of(join.process(*call))
        with WindowJoin(**options) as join:
            join.repeat()
            pairs += pairs_of(join.finish())
        found[partitions] = sorted(pairs, key=str)
    left, right = (pa.concat_tables(side) for side in zip(*calls, strict=True))
    there = [x is not None and x["y"] is not None for x in left["x"].to_pylist()]
    candidates = [
        (time if ok else None, key)
        for time, key, ok in zip(*(right[name].to_pylist() for name in ("t", "k", "ok")), strict=True)
    ]
    rows = zip(left["t"].to_pylist(), left["k"].to_pylist(), strict=True)
    due = [
        (row, choice(t, k, candidates, "backward", 20, True) if there[row] else None) for row, (t, k) in enumerate(rows)
    ]
    assert found[1] == found[3] == sorted(due, key=str)
    assert sum(right is not None for _, right in due) > 40


@pytest.mark.parametrize("part", [Compare("k", "=", "k"), AsOf("t", "t"), "k > 3", Where("left", "q", "=", 1)])
def test_other_parts_of_an_as_of_join_are_refused(part):
    schema = pa.schema({"t": pa.int64(), "k": pa.int64()})
    with pytest.raises((PredicateError, SchemaError), match=r"one side alone|AllOf takes|no key column 'q'"):
        JoinSpec(on=AsOf("t", "t", where=[part])).output_schema(schema, schema)
