"""Opens joins and drops them without `close()`; fails if they leave anything behind. Run in a process of its own.

    python -m tests.stress.dropped_joins DEVICE JOINS

The collector is off: what a join has goes with the last reference to it.
"""

import gc
import os
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from muntin import Band, Rows, WindowJoin

ROWS = {
    "cpu": 20_000,
    "numpy": 2000,
    "opencl": 20_000,
}  # of a call; merges of the larger ones are under way when the join goes
FEW_ROWS = 40
KEPT = 10  # results that outlive their joins
MAX_GROWTH = 16 << 20  # bytes
KEY_TYPES = {"sim:ecpix5": pa.int32()}


def resources() -> dict[str, int]:
    """Bytes resident, threads, child processes and open files of this process."""
    here = Path("/proc/self")
    tasks = list((here / "task").iterdir())
    return {
        "bytes": int((here / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        "threads": len(tasks),
        "processes": sum(len((task / "children").read_text().split()) for task in tasks),
        "files": len(list((here / "fd").iterdir())),
    }


def table(column: str, rows: int, seed: int, kind: pa.DataType) -> pa.Table:
    """Rows whose keys match some of another table's."""
    keys = np.random.default_rng(seed).integers(0, 16 * rows, rows)
    return pa.table({column: pa.array(keys, kind)})


def expected(left: pa.Table, right: pa.Table, window: int) -> list[tuple[int, int]]:
    """The pairs of one call with all left rows before all right ones, by the definition."""
    a, b = left.column(0).to_numpy().astype(np.int64), right.column(0).to_numpy().astype(np.int64)
    pairs = []
    for start in range(0, len(b), 1000):  # whole columns at once would take gigabytes
        later, earlier = np.nonzero(abs(b[start : start + 1000, None] - a[None, -window:]) <= 5)
        pairs += zip(a[-window:][earlier].tolist(), b[start + later].tolist(), strict=True)
    return sorted(pairs)


def has_store(device: Any) -> bool:
    return hasattr(device, "open_store") and "sorted_runs" in device.indexes


def main(device: str, joins: int) -> None:
    gc.disable()
    rows = ROWS.get(device, FEW_ROWS)
    kind = KEY_TYPES.get(device, pa.int64())
    left, right = table("a", rows, 1, kind), table("b", rows, 2, kind)
    pairs = expected(left, right, rows)
    assert pairs
    kept: deque[pa.Table] = deque()
    before = {}
    for number in range(joins):
        if number == max(joins // 4, 2):
            before = resources()
        join = WindowJoin(on=Band("a", "b", -5, 5), left=Rows(rows), right=Rows(rows), device=device)
        kept.append(join.process(left, right))
        if number % 10 == 0:  # the last reference goes in another thread, in the middle of a call
            call = threading.Thread(target=join.process, args=(left, right))
            call.start()
            del join
            call.join()
        elif number % 10 == 1 and has_store(join._calls.journal.plan.device):
            drop_in_a_gather(join._calls.journal.plan.device)
            del join
        elif number % 10 == 2:
            join.close()
            join.close()
            del join
        else:
            del join
        if len(kept) == KEPT:
            old = kept.popleft()
            found = sorted(zip(old.column("a").to_pylist(), old.column("b").to_pylist(), strict=True))
            assert found == pairs, f"the result of join {number - KEPT + 1} changed after the join was dropped"
            del old
    after = resources()
    print(before, after)
    for what in ("threads", "processes", "files"):
        assert after[what] <= before[what], f"{what}: {before[what]} became {after[what]}"
    assert after["bytes"] - before["bytes"] < MAX_GROWTH, f"memory: {before['bytes']:,} became {after['bytes']:,}"
    # And as the interpreter ends: a join in the middle of its work, and one in a cycle.
    globals()["left_open"] = WindowJoin(on=Band("a", "b", -5, 5), left=Rows(rows), right=Rows(rows), device=device)
    globals()["left_open"].process(left, right)
    globals()["cycle"] = cycle = [globals()["left_open"]]
    cycle.append(cycle)


def drop_in_a_gather(device: object) -> None:
    """Drops a store on a device while the pairs of a probe are being gathered."""
    store = device.open_store(key_bits=64, rows=1 << 12, what="the test's window")
    keys = np.arange(1000, dtype=np.int64)
    run = store.load(keys, keys.astype(np.uint32))
    probe = store.probe([run], keys - 3, keys + 3)
    blocks = store.gather(probe, keys, 0)
    next(blocks)
    store.merge(run, store.load(keys, keys.astype(np.uint32)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
