"""The core's windows of aggregates against sums over all rows."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin.host.native import _core

FOLDS = ["sum", "some", "add", "least", "least_wide", "moments", "least_row", "each"]
NOTHING = np.iinfo(np.int64).max  # of the numbers of rows


def batch(rng, first, count, keys):
    wide = rng.integers(-(1 << 62), 1 << 62, (count, 2))
    ranked = np.stack([*rng.integers(-3, 3, (2, count)), np.arange(first, first + count)], axis=1)
    ranked[rng.random(count) < 0.2] = -1, NOTHING, NOTHING
    return {
        "keys": rng.integers(0, keys, count), "rows": np.arange(first, first + count),
        "times": rng.integers(0, 50, count) + first // 8,
        "values": [
            rng.integers(-(1 << 62), 1 << 62, count), rng.integers(0, 2, count).astype(np.uint8),
            rng.normal(size=count), rng.integers(-100, 100, count), wide, 1e6 + rng.normal(size=count), ranked, ranked,
        ],
    }  # fmt: skip


def whole(low_high):
    return (int(low_high[1]) << 64) + (int(low_high[0]) & ((1 << 64) - 1))


def words(keys):
    """Keys of 128 bits in the same order."""
    return np.stack([(keys & 1).astype(np.uint64) << np.uint64(63), (keys >> 1).view(np.uint64)], axis=1)


def check_rows(values, got, place):
    """Sums and squares, the least row, and all rows of one probe."""
    numbers, (starts, rows) = list(map(Fraction, values[5].tolist())), got[2]
    for at, due in ((0, sum(numbers)), (2, sum(value**2 for value in numbers))):
        assert abs(sum(map(Fraction, got[0][at : at + 2].tolist())) - due) <= due * Fraction(2) ** -90
    due = sorted(values[6].tolist(), key=lambda row: (row[1], row[0] % (1 << 64), row[2]))
    assert got[1].tolist() == (due or [[-1, NOTHING, NOTHING]])[0]
    own = rows.reshape(-1, 3)[starts[place] : starts[place + 1]].tolist()
    assert own == [row for row in due if row[2] != NOTHING]


def check(rng, sizes, keys, *, timed, probes=150, long=False):
    kind, given = (_core.LongAggregateWindow, words) if long else (_core.AggregateWindow, lambda keys: keys)
    window = kind(folds=FOLDS, window=0 if timed else 1 << 40, width=40)
    held, first = [], 0
    for size in sizes:
        new = batch(rng, first, size, keys)
        order = np.argsort(new["keys"], kind="stable").astype(np.uint32)
        values = [np.ascontiguousarray(column).reshape(-1) for column in new["values"]]
        window.stage(given(new["keys"]), new["rows"], new["times"] if timed else None, values, order)
        held, first = [*held, new], first + size
        keyed = {name: np.concatenate([part[name] for part in held]) for name in ("keys", "rows", "times")}
        columns = [np.concatenate(parts) for parts in zip(*(part["values"] for part in held), strict=True)]
        limited = keyed["times" if timed else "rows"]
        top = int(limited.max(initial=0)) + 1
        lower = np.sort(rng.integers(-1, keys, probes))
        upper = lower + rng.integers(-1, keys, probes)
        start = rng.integers(-1, top + 1, probes)
        last = start + rng.integers(-1, top + 1, probes)
        end = rng.integers(0, first + 2, probes) if timed and rng.random() < 0.5 else None
        # The row limit is of staged rows alone: earlier ones came before.
        limits = None if end is None else np.maximum(end, first - size)
        places = rng.permutation(probes).astype(np.uint32)
        by_place = np.argsort(places)
        intervals = [(places, given(lower), given(upper))]
        counts, results = window.probe(intervals, start[by_place], last[by_place], end=None if end is None else limits)
        for at in range(probes):
            place = places[at]
            met = (keyed["keys"] >= lower[at]) & (keyed["keys"] <= upper[at])
            met &= (limited >= start[at]) & (limited <= last[at])
            if end is not None:
                met &= keyed["rows"] < limits[place]
            assert counts[place] == met.sum()
            values = [column[met] for column in columns]
            assert whole(results[0].reshape(-1, 2)[place]) == sum(values[0].tolist())
            assert results[1][place] == values[1].sum()
            assert results[2][place] == pytest.approx(values[2].sum(), abs=1e-9)
            if at % 8 == 0:
                check_rows(
                    values, [results[5].reshape(-1, 4)[place], results[6].reshape(-1, 3)[place], results[7]], place
                )
            if met.any():
                assert results[3][place] == values[3].min()
                assert whole(results[4].reshape(-1, 2)[place]) == min(map(whole, values[4]))
        window.store()
    return window


@pytest.mark.parametrize(("timed", "long"), [(False, False), (True, False), (True, True)])
def test_runs_of_many_levels(timed, long):
    rng = np.random.default_rng(3)
    window = check(rng, [9000, 1, 700, 0, 3000, 64, 5000], 4000, timed=timed, long=long)
    assert window.rows == 17765
    assert window.runs < 7
    before = window.bytes
    window.expire(1 << 50)
    assert (window.rows, window.runs, window.oldest(-1)) == (0, 0, -1)
    assert before > 17765 * 60


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 30), st.lists(st.integers(0, 400), max_size=5), st.booleans(), st.booleans())
def test_any_sizes(seed, sizes, timed, long):
    rng = np.random.default_rng(seed)
    check(rng, sizes, int(rng.integers(1, 300)), timed=timed, probes=25, long=long)


def test_purge_keeps_what_is_past():
    rng = np.random.default_rng(4)
    window = check(rng, [3000], 100, timed=True)
    new = batch(np.random.default_rng(4), 0, 3000, 100)
    window.purge(30)
    assert window.rows == (new["times"] >= 30).sum()


def test_wrong_arguments_are_told():
    window = _core.AggregateWindow(folds=["sum"], window=9, width=0)
    keys, order = np.array([2, 1]), np.array([1, 0], np.uint32)
    with pytest.raises(ValueError, match="order is not"):
        window.stage(keys, keys, None, [keys], order[::-1].copy())
    with pytest.raises(ValueError, match="every fold"):
        window.stage(keys, keys, None, [], order)
    with pytest.raises(TypeError, match="type of their fold"):
        window.stage(keys, keys, None, [np.zeros(2)], order)
    with pytest.raises(ValueError, match="times come"):
        window.stage(keys, keys, keys, [keys], order)
    with pytest.raises(ValueError, match="no fold"):
        _core.AggregateWindow(folds=["median"], window=9, width=0)
    with pytest.raises(ValueError, match="no such fold"):
        window.probe([], keys, keys, which=[1])
    totals = _core.AggregateTotals(folds=["sum"], count=2)
    for place in (-1, 2):
        with pytest.raises(ValueError, match="place"):
            totals.add(np.array([0, place]), [keys])


def test_rows_of_a_step_that_was_given_up_are_not_those_of_one_without_rows():
    window = _core.AggregateWindow(folds=["sum"], window=9, width=0)
    one, none = np.ones(1, np.int64), np.zeros(0, np.int64)
    window.stage(one, one, None, [one], np.zeros(1, np.uint32))
    window.stage(none, none, None, [none], np.zeros(0, np.uint32))
    probe = [(np.zeros(1, np.uint32), one, one)], one, one
    assert window.probe(*probe)[0].tolist() == [0]
    window.store()
    assert window.rows == 0
