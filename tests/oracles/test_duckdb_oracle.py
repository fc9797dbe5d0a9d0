"""DuckDB and the nested loop agree: two oracles with nothing in common but the contract."""

import numpy as np
import pyarrow as pa
import pytest

from tests.conformance.keys import KEYS
from tests.conformance.predicates import PREDICATES, in_units
from tests.oracles.duckdb_oracle import arrival_positions, join
from tests.oracles.nested_loop import NestedLoop

NAMES = ["int8", "int64", "uint64", "uint64-int64", "float32", "float64", "int32-float64"]
CASES = [key for key in KEYS if key.name in NAMES]


def calls_of(rng, count):
    return np.sort(rng.integers(0, 6, count))


def run_both(predicate, keys, calls, sequence, rows, times, within):
    """Pairs by the nested loop and by DuckDB, sorted."""
    loop = NestedLoop(
        predicate,
        "k",
        "k",
        rows=rows,
        within=within and ("t", "t", *within),
        sequence="q" if sequence else None,
    )
    order = sequence or [np.zeros(len(c), np.int64) for c in calls]
    tables = [pa.table({"k": k, "t": t, "q": q}) for k, t, q in zip(keys, times, order, strict=True)]
    found = []
    for call in range(6):
        found += loop.process(*(t.filter(c == call) for t, c in zip(tables, calls, strict=True)))
    positions = arrival_positions(*calls, *order)
    # Duplicates of the nested loop would show: nothing is made unique here.
    slow = sorted((pair.left, pair.right) for pair in found)
    fast = join(predicate, *keys, *positions, rows=rows, within=within and (*times, *within))
    return slow, [tuple(pair) for pair in fast.tolist()]


@pytest.mark.parametrize("key", CASES, ids=lambda key: key.name)
@pytest.mark.parametrize("shape", ["random", "mixed", "extremes"])
def test_duckdb_agrees_with_the_nested_loop(key, shape, seed):
    rng = np.random.default_rng([seed, CASES.index(key), len(shape)])
    counts = (40, 47)
    some = 0
    for name in rng.choice(list(PREDICATES), 3, replace=False):
        predicate = in_units(PREDICATES[name], key)
        keys = [key.keys(side, shape, n, rng) for side, n in zip(("left", "right"), counts, strict=True)]
        calls = [calls_of(rng, n) for n in counts]
        times = [rng.integers(0, 30, n) for n in counts]
        sequence = [calls[side] * 100 + np.sort(rng.integers(0, 9, n)) for side, n in enumerate(counts)]
        for side in (0, 1):
            sequence[side] = sequence[side][np.lexsort((sequence[side], calls[side]))]
        for rows, within, q in (((5, 12), None, sequence), ((9, 9), None, None), (None, (-3, 4), sequence)):
            slow, fast = run_both(predicate, keys, calls, q, rows, times, within)
            assert fast == slow, name
            some += len(slow)
    assert some
