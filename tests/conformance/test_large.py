"""Larger random streams against DuckDB: windows that roll over many times, batches of many sizes."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from host import Rows, WindowJoin, Within
from tests.conformance.predicates import for_host
from tests.oracles.duckdb_oracle import arrival_positions, join

ROWS = 12_000
KINDS = {
    "int32": lambda rng, n: pa.array(rng.integers(-30_000, 30_000, n, dtype=np.int32)),
    "int64": lambda rng, n: pa.array(rng.integers(-(2**63), 2**63 - 1, n) // 10**14 * 10**14),
    "uint64": lambda rng, n: pa.array(rng.integers(0, 2**64 - 1, n, dtype=np.uint64)),
    "float64": lambda rng, n: pa.array(np.round(rng.normal(0, 1000, n), 1)),
    "float32": lambda rng, n: pa.array(np.round(rng.normal(0, 1000, n), 1).astype(np.float32)),
    "skewed": lambda rng, n: pa.array(np.where(rng.random(n) < 0.02, 0, rng.integers(-9999, 9999, n))),
    "rising": lambda rng, n: pa.array(np.arange(n) * 3 + rng.integers(0, 9, n)),
}
BANDS = {"int64": 3 * 10**15, "uint64": 2**50, "float64": 0.3, "float32": 0.3}


@pytest.mark.parametrize("policy", ["ladder", "flat"])
@pytest.mark.parametrize("batch", [97, 1024, 5000])
@pytest.mark.parametrize("kind", list(KINDS))
def test_against_duckdb(kind, batch, policy, device_case, device, seed):
    rng = np.random.default_rng([seed, *kind.encode(), batch])
    count = min(ROWS, 60 * batch)
    keys = [KINDS[kind](rng, n) for n in (count, count * 3 // 4)]
    width = BANDS.get(kind, 3)
    predicate = ("any", [("band", -width, 0), ("band", -width / 2 if width < 1 else 0, width * 2)])
    if rng.random() < 0.5:
        predicate = ("band", -width, 2 * width)
    # Rows of both sides at random places of one sequence; calls are stretches of it.
    places = rng.permutation(sum(map(len, keys)))
    sequence = [np.sort(places[: len(keys[0])]), np.sort(places[len(keys[0]) :])]
    times = [q // 4 + rng.integers(-40, 40, len(q)) for q in sequence]
    within = batch == 1024
    rows = None if within else (2000, 1111)
    if policy not in device_case.policies or (within and not device_case.time_windows):
        pytest.skip(f"device {device_case.name} has no such policy or window")
    if rows and device_case.max_window and max(rows) > device_case.max_window:
        rows = (device_case.max_window, device_case.max_window // 2)
    tables = [pa.table({"k": k, "t": t, "q": q}) for k, t, q in zip(keys, times, sequence, strict=True)]
    window = {"within": Within("t", "t", -300, 200)} if within else {"left": Rows(rows[0]), "right": Rows(rows[1])}
    found = []
    with WindowJoin(
        on=for_host(predicate, "k", "k"),
        **window,
        sequence="q",
        form="pairs",
        order="outer",
        policy=policy,
        device=device,
        left_schema=tables[0].schema,
        right_schema=tables[1].schema,
    ) as operator:
        edges = np.arange(0, len(places) + 2 * batch, 2 * batch)
        for first, last in itertools.pairwise(edges):
            at = [np.searchsorted(q, [first, last]) for q in sequence]
            result = operator.process(*(t.slice(a, b - a) for t, (a, b) in zip(tables, at, strict=True)))
            found.append(np.stack([result["left_row"].to_numpy(), result["right_row"].to_numpy()], axis=1))
        assert operator.stats.matches == sum(map(len, found))
    pairs = np.concatenate(found)
    probing = np.maximum(sequence[0][pairs[:, 0]], sequence[1][pairs[:, 1]])
    assert (np.diff(probing) >= 0).all()
    zeros = [np.zeros(len(q), np.int64) for q in sequence]
    expected = join(
        predicate,
        *keys,
        *arrival_positions(*zeros, *sequence),
        rows=rows,
        within=(*times, -300, 200) if within else None,
    )
    assert len(expected) > 1000
    np.testing.assert_array_equal(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))], expected)
