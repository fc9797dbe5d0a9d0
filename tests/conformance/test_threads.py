"""One join that several threads share: each call waits for the one under way."""

import threading

import numpy as np
import pyarrow as pa

from muntin import Compare
from tests.conformance.small_joins import open_join, table

CALLS = 5
THREADS = 2


def test_threads_that_share_a_join(device, seed):
    """Every pair of equal keys comes once, whatever the order in which the threads' calls were taken."""
    rng = np.random.default_rng(seed)
    calls = [[table(rng.integers(0, 90, 60)) for _ in range(2 * CALLS)] for _ in range(THREADS)]
    results, failures = [], []
    schema = calls[0][0].schema
    window = (THREADS * CALLS * 60, THREADS * CALLS * 60)
    start = threading.Barrier(THREADS)
    with open_join(
        device, Compare("k", "=", "k"), window, order="none", left_schema=schema, right_schema=schema
    ) as join:

        def work(own):
            try:
                start.wait()
                for at in range(CALLS):
                    results.append(join.process(own[2 * at], own[2 * at + 1]))
                    assert join.stats.calls >= at + 1
            except BaseException as error:
                failures.append(error)
                raise

        threads = [threading.Thread(target=work, args=(own,)) for own in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        stats = join.stats
    sides = [
        np.concatenate([own[at]["k"].to_numpy() for own in calls for at in range(side, 2 * CALLS, 2)])
        for side in (0, 1)
    ]
    due = int((sides[0][:, None] == sides[1][None, :]).sum())
    assert stats.matches == due
    pairs = pa.concat_tables(results)
    assert pairs.num_rows == due
    assert pairs.group_by(pairs.column_names).aggregate([]).num_rows == due


def test_a_join_is_closed_once_its_call_has_ended(device, seed):
    rng = np.random.default_rng(seed)
    big = table(rng.integers(0, 90, 600))
    join = open_join(device, Compare("k", "=", "k"), (4000, 4000), order="none")
    join.process(big.slice(0, 0), big.slice(0, 0))
    results = []
    inside = threading.Event()
    engine = join._calls.journal.pipeline.engine
    engine_run = engine.run

    def run(call):
        inside.set()
        yield from engine_run(call)

    engine.run = run
    thread = threading.Thread(target=lambda: results.append(join.process(big, big)))
    thread.start()
    inside.wait()
    join.close()
    thread.join()
    keys = big["k"].to_numpy()
    assert results[0].num_rows == (np.unique(keys, return_counts=True)[1] ** 2).sum()
