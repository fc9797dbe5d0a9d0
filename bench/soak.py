"""One join with state for hours: its rate, and whether memory and files grow. ``python -m bench.soak --hours 1``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa

from muntin import AllOf, Band, Compare, Watermark, WindowJoin, Within
from muntin.host.daemon.service import resident_bytes
from muntin.host.progress import Progress

ROWS = 2_000  # of each side in a call
KEYS = 1_000
WARM_CALLS = 300  # after which nothing may grow
MAX_GROWTH = 1.15


def rows(rng: np.random.Generator, call: int) -> pa.Table:
    """One side's rows of a call, around ten seconds of event time later than those of the call before."""
    return pa.table(
        {
            "user": rng.integers(0, KEYS, ROWS),
            "at": call * 10_000 + rng.integers(-5_000, 5_000, ROWS),
            "note": pa.array([f"row {call} {number}" for number in range(ROWS)]),
        }
    )


def soak(seconds: float, folder: str, partitions: int = 1, min_calls: int = 0) -> dict[str, float]:
    """Runs a full outer join for some time.

    Returns
    -------
    dict of str to float
        Calls and rows a second; and of resident memory (bytes) and files in the state the most in the first and in the
        last third of the time after the warm-up.
    """
    rng = np.random.default_rng(1)
    memory: list[int] = []
    files: list[int] = []
    call, started = 0, time.monotonic()
    with (
        WindowJoin(
            on=AllOf(Compare("user", "=", "user"), Band("at", "at", -20_000, 20_000)),
            within=Within("at", "at", -60_000, 60_000),
            watermark=Watermark(left=10_000, right=10_000, lag=1),
            how="full",
            state=folder,
            partitions=partitions,
        ) as join,
        Progress("soak", unit="calls") as bar,
    ):
        while (passed := time.monotonic() - started) < seconds or call < min_calls:
            join.process(rows(rng, call), rows(rng, call))
            call += 1
            bar.advance(left=f"{max(seconds - passed, 0):,.0f} s")
            if call > WARM_CALLS:
                memory.append(resident_bytes() or 0)
                files.append(len(os.listdir(folder)))
    third = max(len(memory) // 3, 1)
    return {
        "calls": call,
        "rows a second": 2 * ROWS * call / (time.monotonic() - started),
        "memory first": max(memory[:third], default=0),
        "memory last": max(memory[-third:], default=0),
        "files first": max(files[:third], default=0),
        "files last": max(files[-third:], default=0),
    }


def main() -> int:
    """Runs what the command line asks for; 1 if memory or files grow."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--partitions", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = soak(options.hours * 3600, folder, options.partitions, 2 * WARM_CALLS)
    for name, value in found.items():
        print(f"{name}: {value:,.0f}")
    grown = [name for name in ("memory", "files") if found[f"{name} last"] > MAX_GROWTH * found[f"{name} first"]]
    print(f"{' and '.join(grown)} grew" if grown else "memory and files are flat")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
