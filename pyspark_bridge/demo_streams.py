"""Two streams to demonstrate the join on: orders and quotes of one instrument, with skew and bursts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

START = 1_709_280_000_000_000  # 2024-03-01 08:00 UTC, in microseconds
#: Prices are whole ticks. Traders like round ones: every so many ticks.
ROUND = 10_000
ROUND_SHARE = 0.02


def demo_streams(rows: int, batch_rows: int, seed: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Batches of (orders, quotes), `rows` rows of each in all; the same for the same seed.

    Orders: `order_id`, `ts`, `limit`, `quantity`, `trader`. Quotes: `quote_id`, `ts`, `price`, `size`, `maker`. Both
    carry `arrival` (int64), the position over both streams. Limits and prices scatter around a price that wanders,
    and `ROUND_SHARE` of them lie on round numbers (hot keys). Rows come in bursts: batches differ in size up to some
    ten times, and so do the rates of the two streams within a batch. A few keys are NULL.
    """
    rng = np.random.default_rng(seed)
    done = {"orders": 0, "quotes": 0}
    arrival = 0
    now = START
    middle = 10_000_000.0
    while min(done.values()) < rows:
        burst = rng.lognormal(-0.5, 1.0)
        sizes = {
            name: min(rows - count, max(1, int(batch_rows * burst * rng.lognormal(-0.1, 0.4))))
            for name, count in done.items()
        }
        total = sum(sizes.values())
        if total == 0:
            return
        # Within a batch both streams are mixed; time passes quicker where fewer rows come.
        order = rng.permutation(total)
        times = now + np.cumsum(rng.exponential(2_000_000_000 / batch_rows / burst, total)).astype(np.int64)
        now = int(times[-1])
        path = middle + np.cumsum(rng.normal(0, 50, total))
        middle = float(path[-1])
        batch = []
        taken = 0
        for name, size in sizes.items():
            positions = np.sort(order[taken : taken + size])
            taken += size
            keys = np.rint(path[positions] + rng.laplace(0, 400_000, size)).astype(np.int64)
            on_round = rng.random(size) < ROUND_SHARE
            keys[on_round] = keys[on_round] // ROUND * ROUND
            batch.append(_table(rng, name, done[name], keys, times[positions], arrival + positions))
            done[name] += size
        arrival += total
        yield batch[0], batch[1]


def _table(
    rng: np.random.Generator, name: str, first: int, keys: np.ndarray, times: np.ndarray, arrival: np.ndarray
) -> pa.Table:
    size = len(keys)
    identity, key, number, party = (
        ("order_id", "limit", "quantity", "trader") if name == "orders" else ("quote_id", "price", "size", "maker")
    )
    return pa.table(
        {
            "arrival": arrival,
            identity: np.arange(first, first + size),
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
            key: pa.array(keys, mask=rng.random(size) < 0.001),
            number: rng.integers(1, 500, size, dtype=np.int32),
            # A few parties do most of the trade.
            party: pa.array(np.char.add(party[0].upper(), (rng.zipf(1.5, size) % 1000).astype(str))),
        }
    )
