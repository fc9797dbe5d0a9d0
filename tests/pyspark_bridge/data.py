"""Small random streams: bids and asks with a key, an event time, a sequence and a text column."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

START = datetime(2024, 3, 1, tzinfo=UTC)
SECOND = 1_000_000


def bids_and_asks(
    seed: int,
    batches: int = 4,
    rows: int = 60,
    spread: int = 40,
    key_nulls: float = 0.05,
    step: int = 8,
    late: int = 20,
) -> tuple[list[pa.Table], list[pa.Table]]:
    """Two streams in batches.

    Columns: `id` (int64, the row's number in its stream), `limit` / `price` (int64 keys in [0, spread)), `ts`
    (timestamp, microseconds UTC, around `step` seconds later a batch, up to `late` seconds off), `seq`
    (int64, shared by both streams, rising), `note` (text).
    """
    rng = np.random.default_rng(seed)
    sides = ([], [])
    counts = [0, 0]
    sequence = 0
    start = int(START.timestamp()) * SECOND
    for batch in range(batches):
        # Sides differ in size, and some batches have rows on one side only.
        sizes = [0 if batch and rng.random() < 0.15 else int(rng.integers(rows // 2, rows)) for _ in range(2)]
        numbers = sequence + rng.permutation(sum(sizes))
        sequence += sum(sizes)
        cut = np.sort(numbers[: sizes[0]]), np.sort(numbers[sizes[0] :])
        for side, (size, key) in enumerate(zip(sizes, ("limit", "price"), strict=True)):
            ids = np.arange(counts[side], counts[side] + size)
            counts[side] += size
            offsets = rng.integers(-late * SECOND, late * SECOND, size) // 1000 * 1000 + rng.integers(0, 2, size) * 999
            sides[side].append(
                pa.table(
                    {
                        "id": pa.array(ids, pa.int64()),
                        key: pa.array(rng.integers(0, spread, size), pa.int64(), mask=rng.random(size) < key_nulls),
                        "ts": pa.array(
                            start + batch * step * SECOND + offsets,
                            pa.timestamp("us", tz="UTC"),
                            mask=rng.random(size) < 0.05,
                        ),
                        "seq": pa.array(cut[side], pa.int64()),
                        "note": pa.array([f"{key} {number}" for number in ids]),
                    }
                )
            )
    return sides


def seconds(number: float) -> timedelta:
    """A timedelta."""
    return timedelta(seconds=number)
