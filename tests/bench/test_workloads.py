"""The streams are what they say they are."""

import numpy as np
import pytest

from bench.workloads import BLOCK, KINDS, Workload


@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_not_depend_on_how_they_are_cut(kind: str) -> None:
    workload = Workload(kind=kind, window=4096)
    start, stop = BLOCK - 1000, BLOCK + 3000
    whole = workload.rows(1, start, stop)
    parts = [workload.rows(1, at, at + 500) for at in range(start, stop, 500)]
    assert np.array_equal(whole.keys, np.concatenate([part.keys for part in parts]))
    if workload.timed:
        assert np.array_equal(whole.times, np.concatenate([part.times for part in parts]))


@pytest.mark.parametrize("kind", KINDS)
def test_matches_per_row(kind: str) -> None:
    window, probes = 1 << 15, 4096
    workload = Workload(kind=kind, window=window, seed=3)
    low, high = workload.band
    left = np.sort(workload.rows(0, probes, window + probes).keys)
    right = workload.rows(1, window, window + probes).keys
    ranges = np.searchsorted(left, right - low, "right") - np.searchsorted(left, right - high, "left")
    # Where keys rise, the later row of a pair is a right row: all matches are found from that side.
    expected = workload.matches * (2 if kind == "rising" else 1)
    assert ranges.mean() == pytest.approx(expected, rel=0.1)


def test_half_of_the_rows_have_one_key() -> None:
    workload = Workload(kind="half-equal", window=4096)
    for side in (0, 1):
        keys = workload.rows(side, 0, BLOCK).keys
        assert np.mean(keys == workload.heavy[side]) == pytest.approx(0.5, abs=0.01)
        low, high = workload.band
        distance = keys - workload.heavy[0] if side else workload.heavy[1] - keys
        assert not np.any((distance >= low) & (distance <= high))  # heavy rows find no partner


def test_bounds_stay_inside_the_type() -> None:
    for kind in KINDS:
        workload = Workload(kind=kind, window=4096)
        keys = workload.rows(0, 0, BLOCK).keys
        kept = np.iinfo(keys.dtype)
        low, high = workload.band
        assert kept.min <= int(keys.min()) - max(abs(low), abs(high))
        assert int(keys.max()) + max(abs(low), abs(high)) <= kept.max


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "zipf", "window": 4096}, "not 'zipf'"),
        ({"kind": "matches64", "window": 512}, "at least 1024 rows"),
    ],
)
def test_a_bad_workload_is_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Workload(**arguments)
