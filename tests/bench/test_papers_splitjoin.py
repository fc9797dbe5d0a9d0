"""The peer of SplitJoin's figures: every pair once, whatever its cores do at the same time."""

import numpy as np
import pytest

from bench.contenders.contender import Unavailable
from bench.papers.splitjoin import REACH, handshake


@pytest.mark.parametrize("cores", [1, 2, 5])
@pytest.mark.parametrize(("rows", "window"), [(40, 100), (3000, 70), (6000, 2000)])
def test_handshake_join_counts_what_a_nested_loop_does(rows: int, window: int, cores: int, seed: int) -> None:
    rng = np.random.default_rng([seed, rows])
    x, a = (rng.integers(0, 300, rows) for _ in range(2))
    y, b = (rng.uniform(0, 300, rows).astype(np.float32) for _ in range(2))
    try:
        found, _ = handshake(x, y, a, b, window=window, cores=cores)
    except Unavailable as reason:
        pytest.skip(str(reason))
    expected = 0
    for row in range(rows):  # left row n comes before right row n
        met = slice(max(row - window, 0), row)
        expected += np.count_nonzero((np.abs(a[met] - x[row]) <= REACH) & (np.abs(b[met] - y[row]) <= REACH))
        met = slice(max(row + 1 - window, 0), row + 1)
        expected += np.count_nonzero((np.abs(x[met] - a[row]) <= REACH) & (np.abs(y[met] - b[row]) <= REACH))
    assert found == expected
