"""The papers' clusters: their results, and their work, which is exact, at a tiny size."""

import dataclasses
import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bench.papers import panjoin_cluster, spo_elements, spo_join
from bench.papers.clusters import Elements, Manager, Processes
from bench.papers.figure import Scale
from muntin import AllOf, Band, Compare, JoinSpec, Rows, Watermark, WindowJoin, Within
from muntin.host.errors import SchemaError
from muntin.host.index import Index, RapTable, SpoJoin

SCALE = Scale(quick=True, seconds=0)
SCHEMA = pa.schema([("k", pa.int32()), ("a", pa.int32()), ("s", pa.int64())])
BOTH = AllOf(Compare("k", "<", "k"), Compare("a", ">", "a"))


def pushes(seed: int, count: int = 30) -> list[tuple[pa.Table, pa.Table]]:
    rng = np.random.default_rng(seed)

    def rows(call: int) -> pa.Table:
        n = int(rng.integers(0, 40))
        columns = [rng.integers(0, 100, n, np.int32), rng.integers(0, 100, n, np.int32)]
        return pa.table([*columns, np.sort(rng.integers(0, 50, n)) + 100 * call], schema=SCHEMA)

    return [(rows(call), rows(call)) for call in range(count)]


def content(*tables: pa.Table) -> list[str]:
    return sorted(str(row) for each in tables for row in each.to_pylist())


@pytest.mark.parametrize("form", ["rows", "pairs", "ranges"])
@pytest.mark.parametrize("workers", [1, 4])
def test_a_manager_joins_as_one_window(form: str, workers: int, seed: int) -> None:
    options: dict[str, Any] = {"on": Band("k", "k", -3, 3), "left": Rows(150), "right": Rows(90)}
    if form == "ranges":
        options["sequence"] = "s"
    with WindowJoin(**options, form="pairs" if form == "ranges" else form) as join:
        due = content(*(join.process(*each) for each in pushes(seed)))
    with Manager(workers, SCHEMA, SCHEMA, subwindow_rows=20, max_rows=100, form=form, **options) as manager:
        found = [table for each in pushes(seed) for table in manager.push(*each)]
        found += manager.flush()
        assert manager.flush() == []
        if workers > 1:
            parts = manager.workers
            assert sum(part["rows_left"] for part in parts) == sum(len(left) for left, _ in pushes(seed))
            assert all(part["found_bytes"] > 0 for part in parts)
    assert content(*found) == due
    assert len(found) > 5


def test_what_a_worker_raises_comes_out() -> None:
    with Manager(2, SCHEMA, SCHEMA, max_rows=2, on=Band("k", "k", 0, 1), left=Rows(9), right=Rows(9)) as manager:
        manager.push(pa.table({"k": pa.array([1], pa.int32())}))
        with pytest.raises(SchemaError, match="lacks the column"):
            manager.flush()
        assert manager.flush() == []


@pytest.mark.parametrize("in_step", ["replaced", "counts", "cache"])
@pytest.mark.parametrize("elements", [2, 5])
def test_elements_join_as_one_window(in_step: str, elements: int, seed: int) -> None:
    options: dict[str, Any] = {"on": BOTH, "left": Rows(200), "right": Rows(120), "form": "pairs"}
    with WindowJoin(**options, device="numpy") as join:
        due = [content(join.process(*each)) for each in pushes(seed)]
    given = {"left_schema": SCHEMA, "right_schema": SCHEMA, "in_step": in_step, "interval": 30}
    cluster = Elements(elements, 50, **given, **options)
    with cluster.join:
        for each, expected in zip(pushes(seed), due, strict=True):
            assert content(cluster.process(*each)) == expected
        assert (cluster.messages > 0) == (in_step != "replaced")
        held = sum(part["stored_left"] for part in cluster.parts)
        assert 200 <= held <= 200 + 50 * (elements + 2)


def test_a_manager_sends_probes_to_all_workers_and_rows_to_one() -> None:
    window, batch, workers = 1024, 256, 4
    for structure in panjoin_cluster.STRUCTURES:
        cluster = panjoin_cluster.Cluster(structure, workers, window, 1, panjoin_cluster.form_of(structure))
        _, found, work = cluster.probe(batch, 0)
        total = {name: sum(each[name] for each in work) for name in work[0]}
        assert total["probes_right"] == workers * batch
        assert total["probes_left"] == total["rows_left"] == 0
        assert total["rows_right"] == batch
        # Of four bytes of key and two numbers each; a worker that stores a row probes for it as well.
        assert total["sent_bytes"] == workers * batch * 20
        assert found > 0
        cluster.manager.close()


def test_elements_find_every_pair_and_no_expired_one() -> None:
    run = spo_elements.FullElements(3, 30, "replaced", form="pairs", more=10)
    right, total = spo_elements._right(run, 2)
    assert right == total == 64
    assert spo_elements._expired(run)[0] > 0
    run.join.close()


def test_offset_arrays_give_exact_places_and_save_no_comparison() -> None:
    figure = spo_join.fig_offsets(SCALE)
    by = {(point["series"], point["x"]): point["y"] for point in figure.points}
    for size in (1_000, 10_000):
        # A search of n places takes as many comparisons as n + 1 has bits, or one less; one among a few follows.
        bits = (size + 1).bit_length()
        assert bits - 1 <= by["search of the run", size] <= bits
        assert by["offsets, and a search between two", size] > by["search of the run", size]
    assert figure.verdict == "does not hold"
    offsets = spo_join.Offsets(np.array([5, 5, 9]), np.array([1, 5, 5, 8]))
    assert offsets.offsets.tolist() == [0, 1, 1, 4, 4]
    assert offsets.place(np.array([0, 5, 6, 8, 9, 99])).tolist() == [0, 1, 3, 3, 4, 4]
    assert offsets.nbytes == 12


@pytest.mark.parametrize(
    "index", [RapTable(partitions=8), SpoJoin(slide=40, sub_intervals=1)], ids=["worker", "element"]
)
def test_processes_join_as_one_window_and_count_what_crosses(index: Index, seed: int) -> None:
    rng, count, window = np.random.default_rng(seed), 2, dt.timedelta(microseconds=200)
    on = BOTH if isinstance(index, SpoJoin) else Band("k", "k", -3, 3)
    spec = JoinSpec(
        on=on,
        within=Within("t", "t", -window, window),
        watermark=Watermark(left="0 s", right="0 s", lag=0),
        index=index,
    )
    schema = pa.schema([("k", pa.int32()), ("a", pa.int32()), ("t", pa.timestamp("us"))])

    def rows(batch: int) -> pa.Table:
        n = int(rng.integers(30, 60))
        keys = [rng.integers(0, 100, n, np.int32), rng.integers(0, 100, n, np.int32)]
        return pa.table([*keys, pa.array(np.sort(rng.integers(0, 50, n)) + 50 * batch + 1, pa.timestamp("us"))], schema)

    batches = [(rows(at), rows(at)) for at in range(6)]
    with (
        WindowJoin.from_spec(dataclasses.replace(spec, index="auto"), device="numpy") as join,
        Processes(count, spec, schema, dt.timedelta(microseconds=25)) as cluster,
    ):
        for left, right in batches:
            before = [dict(crossed) for crossed in cluster.wire]
            found = content(cluster.process(left, right))
            assert found == content(join.process(left, right))
            crossed = [{n: of[n] - was[n] for n in of} for of, was in zip(cluster.wire, before, strict=True)]
            assert len(found) > 20
            # Left rows go to one, right rows to both: 16 bytes each, and what frames and Arrow's streams take.
            least = 16 * (len(left) + count * len(right))
            assert least < sum(of["bytes_in"] for of in crossed) < least + count * 6000
            assert sum(of["bytes_out"] for of in crossed) > 32 * len(found)
            # Open, rows of a side each, commit, fetch; the first is asked for its routes, and opened for that.
            first = left is batches[0][0]  # whose definition the daemons ask for
            assert [of["messages_in"] for of in crossed] == ([9, 7] if first else [8, 6])
