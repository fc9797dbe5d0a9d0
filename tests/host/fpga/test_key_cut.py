"""Cuts of keys: every row on one lane, and every probe on all lanes that may have what it looks for."""

import numpy as np
import pytest

from muntin.host.fpga.bisort import KeyCut


@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_a_sample_spreads_evenly(lanes):
    cut = KeyCut.of(np.arange(1000, 2000, dtype=np.int64), lanes)
    assert cut.lanes == lanes
    assert [part.stop - part.start for part in cut.rows(np.arange(1000, 2000))] == [1000 // lanes] * lanes


@pytest.mark.parametrize("keys", [[5], [5, 5, 5], [1, 9], [-(2**31), 2**31 - 1], [3, 3, 3, 3, 4]])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_any_sample_cuts(keys, dtype, seed):
    rng = np.random.default_rng(seed)
    cut = KeyCut.of(np.array(keys, dtype), 4)
    assert cut.keys.dtype == dtype
    limits = np.iinfo(dtype)
    for _ in range(50):
        some = rng.choice([*keys, *(key + 1 for key in keys if key < limits.max), limits.min, limits.max, 0], 40)
        rows = np.sort(some.astype(dtype))
        parts = cut.rows(rows)
        assert [at for part in parts for at in range(40)[part]] == list(range(40))
        lower, upper = np.sort(rng.choice(rows, 30)), np.sort(rng.choice(rows, 30))
        lower, upper = np.minimum(lower, upper), np.maximum(lower, upper)
        asked = cut.probes(lower, upper)
        for probe in range(30):
            found = [np.count_nonzero((rows[p] >= lower[probe]) & (rows[p] <= upper[probe])) for p in parts]
            for count, probes in zip(found, asked, strict=True):
                assert not count or probes.start <= probe < probes.stop


def test_the_sample_may_change_afterwards():
    keys = np.arange(10, dtype=np.int32)
    cut = KeyCut.of(keys, 2)
    keys[:] = 0
    assert cut.keys.tolist() == [5]
