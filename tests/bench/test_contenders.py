"""Every peer finds the pairs that a nested loop finds, on every workload."""

from functools import cache

import numpy as np
import pytest

from bench.contenders import PEERS, Unavailable, make_contender
from bench.workloads import KINDS, Batch, Workload

WINDOW = 1024
OPERATORS = ("cpu", "cpu:threads=1", "numpy", "numpy/bisort")


@cache
def nested_loop(workload: Workload, rows: int, first: int, batch: int) -> set[tuple[int, int]]:
    """Pairs whose later row is one of `first` to `rows`, in calls of `batch` rows a side, left rows first."""
    left, right = workload.rows(0, 0, rows), workload.rows(1, 0, rows)
    low, high = workload.band
    distance = right.keys.astype(np.int64)[None, :] - left.keys.astype(np.int64)[:, None]
    joined = (distance >= low) & (distance <= high)
    l_row, r_row = np.arange(rows)[:, None], np.arange(rows)[None, :]
    call_of_left, call_of_right = (l_row - first) // batch, (r_row - first) // batch
    left_is_later = call_of_left > call_of_right
    if workload.timed:
        joined &= np.abs(right.times[None, :] - left.times[:, None]) <= workload.window
    else:
        right_arrived = first + call_of_left * batch  # rows that came before this call's left rows
        left_arrived = first + (call_of_right + 1) * batch
        joined &= np.where(left_is_later, r_row >= right_arrived - WINDOW, l_row >= left_arrived - WINDOW)
    joined &= np.maximum(l_row, r_row) >= first
    return set(zip(*(index.tolist() for index in np.nonzero(joined)), strict=True))


@pytest.mark.parametrize("name", [*PEERS, *OPERATORS])
@pytest.mark.parametrize("batch", [64, 512])
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_equal_a_nested_loop(name: str, kind: str, batch: int) -> None:
    workload = Workload(kind=kind, window=WINDOW, seed=7)
    try:
        contender = make_contender(name, workload)
    except Unavailable as error:
        pytest.skip(str(error))
    rows = WINDOW + WINDOW // 2 if batch == 64 else 3 * WINDOW  # small ones are slow, large ones replace all
    found: list[tuple[int, int]] = []
    try:
        contender.load(workload.rows(0, 0, WINDOW), workload.rows(1, 0, WINDOW))
        for at in range(WINDOW, rows, batch):
            pairs = contender.step(workload.rows(0, at, at + batch), workload.rows(1, at, at + batch))
            found += zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
    finally:
        contender.close()
    expected = nested_loop(workload, rows, WINDOW, batch)
    assert len(found) == len(expected)
    assert set(found) == expected


def test_a_cpp_peer_with_extreme_keys_saturates() -> None:
    try:
        peer = make_contender("cpp", Workload(kind="uniform", window=64))
    except Unavailable as error:
        pytest.skip(str(error))
    least, greatest = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    keys = np.array([greatest, least, greatest - 1, least + 1], np.int32)
    pairs = peer.step(Batch(first=0, keys=keys), Batch(first=0, keys=keys))
    found = sorted(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))
    peer.close()
    assert found == [(a, b) for a in range(4) for b in range(4) if a % 2 == b % 2]


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.contenders.cpp_library import compiled

    compiled.cache_clear()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(Unavailable, match="no-such-compiler"):
        make_contender("cpp", Workload(kind="uniform", window=64))
    compiled.cache_clear()


def test_an_unknown_contender_is_named() -> None:
    with pytest.raises(ValueError, match="polars, duckdb, DEVICE or DEVICE/INDEX, not 'polar'"):
        make_contender("polar", Workload(kind="uniform", window=64))
