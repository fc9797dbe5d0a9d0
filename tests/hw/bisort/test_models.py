"""The models of the blocks, composed, against a nested loop."""

import numpy as np
import pytest

from muntin.sim.models.bisort import InsertionBuffer, bounds, gather, index, merge, merge_bounds, partition, probe


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize(("low", "high"), [(-5, 5), (0, 0), (3, 40), (-(1 << 64), -1), (1, 1 << 64)])
def test_composed_models_join(dtype, width, low, high, seed):
    rng = np.random.default_rng([seed, width])
    top = int(np.iinfo(dtype).max)

    def batch(count: int) -> np.ndarray:
        keys = rng.integers(0, 100, count).astype(dtype)
        keys[:: count // 8] = rng.integers(top - 60, top, len(keys[:: count // 8]), dtype, endpoint=True)
        return keys

    # The run: what the insertion buffer hands over, merged.
    buffer, run = InsertionBuffer(16), (np.zeros(0, dtype), np.zeros(0, np.uint32))
    stored = batch(150)
    for row, key in enumerate(stored.tolist()):
        handed = buffer.insert(key, row)
        if handed:
            keys, rows = zip(*handed, strict=True)
            run = merge(run, (np.array(keys, dtype), np.array(rows, np.uint32)), width)
    keys, rows = run
    assert (keys == np.sort(stored[:144])).all()
    assert (stored[rows] == keys).all()

    # The probes.
    probing = np.sort(batch(40))
    span = 1 << (8 * np.dtype(dtype).itemsize)
    lower = bounds(probing, max(low, -span))
    upper = bounds(probing, min(high + 1, span))
    below, ends = merge_bounds(lower, upper)
    found, touched = probe(keys, below, partition(index(keys, 4), below), 4)
    assert len(set(touched.tolist())) == len(touched)
    start, stop = found[~ends], found[ends]
    first, count = rng.integers(0, 144, 40).astype(np.uint32), rng.integers(0, 144, 40).astype(np.uint32)
    pairs = set(zip(*(part.tolist() for part in gather(rows, start, stop, (first, count))), strict=True))
    in_buffer = [(buffer.probe(a), buffer.probe(b)) for a, b in zip(lower, upper, strict=True)]
    for number, (begin, end) in enumerate(in_buffer):
        pairs |= {(number, row) for _, row in buffer.contents[begin:end]}

    expected = set()
    for number, key in enumerate(probing.tolist()):
        for row, other in enumerate(stored.tolist()):
            inside = row >= 144 or first[number] <= row < int(first[number]) + int(count[number])
            if low <= other - key <= high and inside:
                expected.add((number, row))
    assert pairs == expected
