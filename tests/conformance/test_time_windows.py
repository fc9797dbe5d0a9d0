"""Time windows, watermarks, late rows and what they may hold."""

import datetime as dt
import itertools

import numpy as np
import pyarrow as pa
import pytest

from muntin import Band, Watermark, Within
from muntin.host import errors
from tests.conformance.small_joins import BOTTOM, TOP, open_join, pairs_of, schema_of, table
from tests.oracles.duckdb_oracle import arrival_positions
from tests.oracles.duckdb_oracle import join as join_in_duckdb
from tests.oracles.nested_loop import NestedLoop


def as_times(times):
    return times if isinstance(times, pa.Array) else pa.array(times, pa.int64())


def timed(device, low, high, calls, delays=(None, None), **more):
    """Runs calls of (keys, times) a side in a time window and compares with the nested loop; the loop."""
    host_delays = more.pop("host_delays", delays)
    marks = {"lag": more.pop("lag", 0), "initial": more.pop("initial", None)}
    choice = more.pop("watermark_policy", "min")
    if delays != (None, None):
        more["watermark"] = Watermark(left=host_delays[0], right=host_delays[1], policy=choice, **marks)
    host_bounds = more.pop("host_bounds", (low, high))
    loop = NestedLoop(
        ("band", None, None), "k", "k", within=("t", "t", low, high), delays=delays, watermark_policy=choice, **marks
    )
    tabled = [
        [None if times is None else table([0] * len(times), pa.int8(), t=as_times(times)) for times in call]
        for call in calls
    ]
    for name, side in zip(("left_schema", "right_schema"), zip(*tabled, strict=True), strict=True):
        more[name] = schema_of(side)
    with open_join(device, Band("k", "k"), None, within=Within("t", "t", *host_bounds), **more) as join:
        for tables in tabled:
            due = [(pair.left, pair.right) for pair in loop.process(*tables)]
            assert pairs_of(join.process(*tables)) == due
        stats = join.stats
    assert (stats.late_left, stats.late_right) == (loop.streams["left"].late, loop.streams["right"].late)
    return loop


def test_time_windows_at_the_limits_of_64_bits(index, time_windows, device):
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
        timed(device, low, high, [(edge, None), (None, edge), (edge, edge)], index=index)


TIMES = [
    *(pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.date32(), pa.date64()),
    *(pa.timestamp(unit, zone) for unit, zone in (("s", None), ("ms", None), ("us", "UTC"), ("ns", None))),
    *(pa.uint64(), pa.duration("us"), pa.time32("s"), pa.time64("ns")),
]


def times_at_the_ends(rng, kind, count, first):
    """Times near the ends of a type, and near 0; the `first` of these alone; some are NULL."""
    unsigned = pa.types.is_unsigned_integer(kind)
    bits = kind.bit_width - (0 if unsigned else 1)
    least, most = (0 if unsigned else -(1 << bits)), (1 << bits) - 1
    step = 86_400_000 if pa.types.is_date64(kind) else 1  # whole days
    least, most = -(-least // step), most // step
    ends = [least, least + 1, least + 9, *([] if unsigned else [-1]), 0, 1, most - 9, most - 1, most][:first]
    plain = [None if rng.random() < 0.1 else ends[at] * step for at in rng.integers(0, len(ends), count)]
    whole = kind if pa.types.is_integer(kind) else pa.int32() if bits == 31 else pa.int64()
    return pa.array(plain, whole).cast(kind)


def joins_at_the_ends(rng):
    """Joins in time windows near the ends of each type: options, calls, and the nested loop."""
    hows = itertools.cycle(["inner", "full", "left_anti", "left_semi", "inner"])
    for kind, how in zip(TIMES * 2, hows, strict=False):
        unit = 1
        if pa.types.is_date(kind):
            unit = dt.timedelta(days=1)
        elif pa.types.is_temporal(kind):
            unit = dt.timedelta(seconds=1) if kind.unit == "s" else dt.timedelta.resolution
        low, high = (int(end) * unit for end in np.sort(rng.choice([-(2**29), -5, -1, 0, 1, 5, 2**29], 2)))
        delays = tuple(int(delay) * unit for delay in rng.choice([0, 1, 10, 2**29], 2))
        first = [1, 2, 3, 3, 9]  # of the ends, in each call: the watermark stays low for a while
        calls = [[table([0] * 3, pa.int8(), t=times_at_the_ends(rng, kind, 3, n)) for _ in (0, 1)] for n in first]
        loop = NestedLoop(("band", None, None), "k", "k", within=("t", "t", low, high), delays=delays, how=how)
        marks = Watermark(left=delays[0], right=delays[1], lag=0)
        yield {"within": Within("t", "t", low, high), "watermark": marks, "how": how}, calls, loop


def left_and_right(result):
    """As `pairs_of`, also where there are left rows alone."""
    if "right_row" not in result.column_names:
        result = result.append_column("right_row", pa.nulls(len(result), pa.int64()))
    return pairs_of(result)


def test_watermarks_at_the_ends_of_every_type(index, time_windows, device, seed):
    """A bound below the least time lets no row go, and one above the greatest all of them."""
    for options, calls, loop in joins_at_the_ends(np.random.default_rng(seed)):
        with open_join(device, Band("k", "k"), None, index=index, **options) as join:
            for tables in calls:
                assert left_and_right(join.process(*tables)) == loop.results(loop.process(*tables)), options
            assert left_and_right(join.finish()) == loop.finish()
            assert join.stats.late_left == loop.streams["left"].late


@pytest.mark.parametrize("partitions", [1, 2])
def test_the_ends_of_time_after_restarts(partitions, tmp_path, seed):
    for at, (options, calls, loop) in enumerate(joins_at_the_ends(np.random.default_rng([seed, partitions]))):
        options |= {"state": tmp_path / str(at), "partitions": partitions}
        for tables in calls:
            due = loop.results(loop.process(*tables))
            with open_join("cpu", Band("k", "k"), None, **options) as join:
                assert left_and_right(join.process(*tables)) == due, options
            with open_join("cpu", Band("k", "k"), None, **options) as join:
                assert sorted(left_and_right(join.repeat()), key=str) == sorted(due, key=str)


def test_late_rows_at_and_above_the_watermark(index, time_windows, device):
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
        index=index,
    )
    # Watermarks: 80 after the first call and as long as the right side stays behind, then 190.
    assert (loop.streams["left"].late, loop.streams["right"].late) == (2 + 2, 2 + 1)


def test_the_watermark_of_a_call_does_not_hold_in_it(time_windows, device):
    loop = timed(device, -1000, 1000, [([500, 1], [2, 500]), ([450], [449]), ([451], [451])], (0, 50))
    # 450 from the second call on: that row and 449 are late, and nothing before.
    assert (loop.streams["left"].late, loop.streams["right"].late) == (1, 1)


def test_rows_leave_only_when_no_later_row_can_match(index, time_windows, device, seed):
    """A long stream with stragglers just above the watermark: whoever drops state too early loses pairs."""
    rng = np.random.default_rng(seed)
    for low, high in ((-30, -10), (10, 30), (-5, 5), (0, 0)):
        calls = [
            [(call * 10 + rng.integers(-40, 10, rng.integers(0, 12))).tolist() for _ in range(2)] for call in range(30)
        ]
        timed(device, low, high, calls, (15, 25), index=index)


@pytest.mark.parametrize("delays", [(20, None), (None, 20)])
def test_a_watermark_on_one_side_only(delays, index, time_windows, device, seed):
    rng = np.random.default_rng(seed)
    calls = [[[int(at) for at in call * 10 + rng.integers(-60, 10, 8)] for _ in range(2)] for call in range(20)]
    loop = timed(device, -7, 12, calls, delays, index=index)
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


@pytest.mark.parametrize("lag", [0, 1, 2])
@pytest.mark.parametrize("initial", [None, 0, 40])
@pytest.mark.parametrize("choice", ["min", "max"])
def test_watermark_policies(choice, initial, lag, time_windows, device, seed):
    """As Spark's `multipleWatermarkPolicy`; one side stays silent at first and then lags behind."""
    rng = np.random.default_rng([seed, lag])
    calls = []
    for call in range(20):
        left, right = ((call * 5 + rng.integers(-90, 10, 6)).tolist() for _ in range(2))
        calls.append((left, [at // 2 for at in right] if call > 4 else None))
    loop = timed(device, -9, 14, calls, (5, 3), watermark_policy=choice, initial=initial, lag=lag)
    assert loop.streams["left"].late > 0


def test_the_time_may_be_the_key_and_the_sequence(index, time_windows, device, seed):
    rng = np.random.default_rng(seed)
    loop = NestedLoop(("band", -3, 5), "k", "k", within=("k", "k", -4, 4), sequence="k")
    with open_join(
        device, Band("k", "k", -3, 5), None, within=Within("k", "k", -4, 4), sequence="k", index=index
    ) as join:
        for call in range(10):
            tables = [table(np.sort(rng.integers(call * 7, call * 7 + 7, 9))) for _ in range(2)]
            assert pairs_of(join.process(*tables)) == [(p.left, p.right) for p in loop.process(*tables)]


def test_a_long_stream_with_late_rows_against_duckdb(index, time_windows, device, seed):
    """Many calls, a watermark that drops state all along, bursts and pauses in event time."""
    rng = np.random.default_rng(seed)
    low, high, delays = -120, 60, (100, 150)
    keys, times, calls, numbers = ([[], []] for _ in range(4))
    watermark, newest, seen, late = None, [None, None], [0, 0], [0, 0]
    found, now = [], 0
    with open_join(
        device, Band("k", "k", -2, 1), None, within=Within("t", "t", low, high), order="outer", index=index,
        watermark=Watermark(left=delays[0], right=delays[1], lag=0),
    ) as join:  # fmt: skip
        for call in range(120):
            now += int(rng.choice([0, 20, 100, 500]))
            tables = []
            for side in (0, 1):
                count = int(rng.choice([0, 1, 30, 300]))
                own = {"k": rng.integers(0, 200, count), "t": now + rng.integers(-200, 20, count)}
                tables.append(pa.table({"k": pa.array(own["k"]), "t": pa.array(own["t"])}))
                on_time = np.full(count, True) if watermark is None else own["t"] > watermark
                keys[side].append(own["k"][on_time])
                times[side].append(own["t"][on_time])
                calls[side].append(np.full(on_time.sum(), call))
                numbers[side].append(seen[side] + np.flatnonzero(on_time))
                seen[side] += count
                late[side] += count - on_time.sum()
                if count:
                    newest[side] = max(own["t"].max(), newest[side] or 0)
            if None not in newest:
                watermark = min(at - delay for at, delay in zip(newest, delays, strict=True))
            result = join.process(*tables)
            found.append(np.stack([result["left_row"].to_numpy(), result["right_row"].to_numpy()], axis=1))
        assert (join.stats.late_left, join.stats.late_right) == tuple(late)
        kept = join.stats.window_left + join.stats.window_right
        assert kept < sum(seen) / 2, "state has to go with the watermark"
    assert min(late) > 50
    keys, times, calls, numbers = ([np.concatenate(part) for part in x] for x in (keys, times, calls, numbers))
    order = arrival_positions(*calls, *(np.zeros(len(side), np.int64) for side in calls))
    due = join_in_duckdb(("band", -2, 1), *map(pa.array, keys), *order, within=(*times, low, high))
    due = np.stack([numbers[0][due[:, 0]], numbers[1][due[:, 1]]], axis=1)
    pairs = np.concatenate(found)
    assert len(due) > 5000
    np.testing.assert_array_equal(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))], due)


def test_null_times_match_nothing_and_are_not_late(time_windows, device):
    timed(device, -9, 9, [([1, None], [2, None]), ([None, 50], [None, 51]), ([None, 60], [None])], (3, 3))


def test_capacity_exactly_full_and_one_over(index, time_windows, device):
    loop = NestedLoop(("band", 0, 0), "k", "k", within=("t", "t", -5, 5))
    with open_join(
        device, Band("k", "k", 0, 0), None, within=Within("t", "t", -5, 5), capacity=64, index=index
    ) as join:

        def both(left, right):
            assert pairs_of(join.process(left, right)) == [(p.left, p.right) for p in loop.process(left, right)]

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


@pytest.mark.parametrize("calls", [20, pytest.param(60, marks=pytest.mark.full)])
def test_the_watermark_makes_room(calls, index, time_windows, device):
    """A stream without end in a bounded window: what has left makes room for what comes."""
    loop = NestedLoop(("band", 0, 0), "k", "k", within=("t", "t", -2, 2), delays=(1, 1))
    with open_join(
        device,
        Band("k", "k", 0, 0),
        None,
        within=Within("t", "t", -2, 2),
        watermark=Watermark(left=1, right=1, lag=0),
        capacity=400,
        index=index,
    ) as join:
        for call in range(calls):
            rows = table([call % 3] * 30, t=[call * 10 + i // 3 for i in range(30)])
            assert pairs_of(join.process(rows, rows)) == [(p.left, p.right) for p in loop.process(rows, rows)]
