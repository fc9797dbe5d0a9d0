"""Larger random streams against DuckDB: windows that roll over many times, batches of many sizes."""

import functools
import itertools
from dataclasses import dataclass

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
LOW, HIGH = -300, 200
"""The time window."""


@dataclass(frozen=True)
class Streams:
    """Two streams in one random arrival order, and the pairs that DuckDB finds."""

    predicate: tuple
    tables: tuple[pa.Table, pa.Table]
    sequence: list[np.ndarray]
    expected: np.ndarray


@functools.cache
def streams_of(kind: str, batch: int, rows: tuple[int, int] | None, seed: int) -> Streams:
    """Streams for one kind of keys; `rows` are the count windows, None: a time window."""
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
    tables = tuple(pa.table({"k": k, "t": t, "q": q}) for k, t, q in zip(keys, times, sequence, strict=True))
    one_call = [np.zeros(len(q), np.int64) for q in sequence]
    within = (*times, LOW, HIGH) if rows is None else None
    expected = join(predicate, *keys, *arrival_positions(*one_call, *sequence), rows=rows, within=within)
    return Streams(predicate, tables, sequence, expected)


@pytest.mark.parametrize("index", ["auto", "bisort"], indirect=True)
@pytest.mark.parametrize("batch", [97, 1024, 5000])
@pytest.mark.parametrize("kind", list(KINDS))
def test_against_duckdb(kind, batch, index, device_case, device, seed):
    rows = None if batch == 1024 else (2000, 1111)
    if rows is None and not device_case.time_windows:
        pytest.skip(f"device {device_case.name}: no time windows")
    if rows and device_case.max_window and max(rows) > device_case.max_window:
        rows = (device_case.max_window, device_case.max_window // 2)
    streams = streams_of(kind, batch, rows, seed)
    window = {"left": Rows(rows[0]), "right": Rows(rows[1])} if rows else {"within": Within("t", "t", LOW, HIGH)}
    found = []
    with WindowJoin(
        on=for_host(streams.predicate, "k", "k"),
        **window,
        sequence="q",
        form="pairs",
        order="outer",
        index=index,
        device=device,
        left_schema=streams.tables[0].schema,
        right_schema=streams.tables[1].schema,
    ) as operator:
        last = sum(map(len, streams.sequence))
        for start, stop in itertools.pairwise(range(0, last + 2 * batch, 2 * batch)):
            at = [np.searchsorted(q, [start, stop]) for q in streams.sequence]
            result = operator.process(*(t.slice(a, b - a) for t, (a, b) in zip(streams.tables, at, strict=True)))
            found.append(np.stack([result["left_row"].to_numpy(), result["right_row"].to_numpy()], axis=1))
        assert operator.stats.matches == sum(map(len, found))
    pairs = np.concatenate(found)
    probing = np.maximum(streams.sequence[0][pairs[:, 0]], streams.sequence[1][pairs[:, 1]])
    assert (np.diff(probing) >= 0).all()
    assert len(streams.expected) > 1000
    np.testing.assert_array_equal(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))], streams.expected)


@pytest.mark.parametrize("kind", ["rows", "within"])
def test_one_huge_call_equals_many_small_ones(kind, device_case, device, seed):
    """Half a million rows in one call, larger than any step a device takes at once."""
    if device_case.max_window is not None or not device_case.time_windows:
        pytest.skip(f"device {device_case.name} is too small")
    rng = np.random.default_rng(seed)
    count = 520_000
    keys, times = rng.integers(0, 120_000, count), np.arange(count) // 2 + rng.integers(-50, 50, count)
    right = rng.random(count) < 0.5
    window = {
        "rows": {"left": Rows(30_000), "right": Rows(9_000)},
        "within": {"within": Within("t", "t", -9_000, 20_000)},
    }[kind]
    results = []
    for batch in (count, 70_001):
        with WindowJoin(
            on=for_host(("band", 0, 1), "k", "k"), **window, sequence="q", form="pairs", order="inner", device=device
        ) as operator:
            parts = []
            for start in range(0, count, batch):
                at = np.arange(start, min(start + batch, count))
                sides = (at[~right[at]], at[right[at]])
                parts.append(
                    operator.process(*(pa.table({"k": keys[own], "t": times[own], "q": own}) for own in sides))
                )
        results.append(pa.concat_tables(parts).combine_chunks())
    assert results[0].num_rows > 100_000
    assert results[0].equals(results[1])
