"""Routes that change while rows come: each pair once, and even partitions where the data would make them uneven."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muntin import Band, Compare, JoinSpec, WindowJoin
from muntin.host.engine.routes import (
    COPIED,
    DIVIDED,
    BinHistogram,
    RoutePlanner,
    RoutingTable,
    bins_of,
    even_table,
    no_counts,
)
from muntin.host.engine.stateless_placement import EqualityPlacement, StatelessPlacement
from muntin.host.engines import Partitions
from muntin.host.errors import ProtocolError, StateError
from muntin.host.join.batch_summary import BatchSummary, summary_of
from muntin.host.join.join_part import JoinPart
from muntin.host.join.summary_part import SummaryPart, places_in
from muntin.host.sides import SIDES
from muntin.host.sql import parse_condition
from tests.host.join.test_batch_summary import ON, SCHEMA, WINDOWS, calls_of, content, ranks
from tests.random_routes import at_random

COUNT = 3
PLACED = [
    Partitions(COUNT, "equality"),
    Partitions(COUNT, "ranges", width=7),
    Partitions(COUNT, "subwindows", width=13),
]
Placement = EqualityPlacement | StatelessPlacement


def open_one(spec: JoinSpec, partitions: Partitions) -> Placement:
    if partitions.by == "equality":
        return EqualityPlacement(spec, SCHEMA, SCHEMA, partitions.count)
    return StatelessPlacement(spec, SCHEMA, SCHEMA, partitions)


def split(
    spec: JoinSpec, placement: Placement, routes: RoutingTable, tables: list[pa.Table], rng: np.random.Generator
) -> list[tuple[list[pa.Table], BatchSummary]]:
    """What each partition is given of a call that some senders have, each in an order of its own."""
    count, senders = placement.count, int(rng.integers(1, 4))
    parts: list[dict[str, Any]] = []
    places: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
    own: list[list[list[pa.Table]]] = [[[], []] for _ in range(count)]
    of_rows = [rng.integers(0, senders, len(rows)) for rows in tables]
    for sender in range(senders):
        gathered = SummaryPart(
            spec, SCHEMA, SCHEMA, count, placement.loads(routes.epoch) if placement.follows else None
        )
        for at, (side, rows) in enumerate(zip(SIDES, tables, strict=True)):
            chosen = rng.permutation(np.flatnonzero(of_rows[at] == sender))
            for batch in rows.take(pa.array(chosen)).combine_chunks().to_batches():
                counts = no_counts(count) if placement.follows else None
                homes, masks = placement.targets(side, batch, routes if placement.follows else None, counts)
                place = gathered.add(side, batch, homes, counts)
                for number in range(count):
                    own[number][at].append(pa.Table.from_batches([batch.filter(pa.array(masks[number]))]))
                    if place is not None:
                        places[number].append(places_in(place, number, masks[number]))
        parts.append(json.loads(json.dumps(gathered.to_wire())))
    given = []
    for number in range(count):
        rows = [pa.concat_tables([SCHEMA.empty_table(), *pieces]) for pieces in own[number]]
        given.append((rows, summary_of(parts, places[number], number, placed=spec.counted)))
    return given


@pytest.mark.parametrize("partitions", PLACED, ids=lambda placed: placed.by)
@pytest.mark.parametrize("window", WINDOWS)
@settings(max_examples=6, deadline=None)
# The sides of a bin change places while the window has copies of the change before.
@example(how="inner", deaths=[], seed=179)
@example(how="prevailing", deaths=[(7, 1, True)], seed=0)
@given(
    how=st.sampled_from(["inner", "left", "right", "left_anti", "left_semi", "right_anti", "aggregates", "prevailing"]),
    deaths=st.lists(st.tuples(st.integers(0, 11), st.integers(0, COUNT - 1), st.booleans()), max_size=4),
    seed=st.integers(0, 2**32),
)
def test_as_one_join(
    tmp_path_factory: pytest.TempPathFactory,
    partitions: Partitions,
    window: str,
    how: str,
    deaths: list[tuple[int, int, bool]],
    seed: int,
) -> None:
    """Routes change as fast as they can. Some partitions go on from their state, where rows are split otherwise; some
    of these are asked for routes before their newest batch is in their windows."""
    if "within" not in WINDOWS[window] and (partitions.by == "subwindows" or how == "aggregates"):
        return
    options: dict[str, Any] = {"on": ON, "how": how}
    if how == "aggregates":
        one_pair = Compare("k", "=", "k") if partitions.by == "equality" else Band("t", "t", -9, 9)
        options = {"on": one_pair, "form": "aggregate", "aggregates": ["count(*)", "max(n)"], "at": "close"}
    if how == "prevailing":  # of values that stay away for longer than a window, in a partition that stays the same
        if partitions.by != "equality" or "within" not in WINDOWS[window]:
            return
        made = ["count(*)", "last(n) within (-2, 0) include prevailing"]
        options = {"on": Compare("k", "=", "k"), "form": "aggregate", "aggregates": made, "at": "close"}
    spec = JoinSpec(**WINDOWS[window], **options)
    placement = open_one(spec, partitions)
    calls, rng = calls_of(seed, 12), np.random.default_rng(seed)
    if how == "prevailing":
        calls = [[rows.set_column(0, "k", pa.array(rng.integers(0, 60, len(rows)))) for rows in each] for each in calls]
    one = WindowJoin.from_spec(spec, left_schema=SCHEMA, right_schema=SCHEMA)
    folder = tmp_path_factory.mktemp("state")

    def opened(number: int) -> JoinPart:
        state = folder / str(number) if deaths else None
        return JoinPart.from_spec(spec, left_schema=SCHEMA, right_schema=SCHEMA, state=state)

    joins = [opened(number) for number in range(COUNT)]
    with mock.patch.object(RoutePlanner, "_wanted", at_random):
        for batch, tables in enumerate(calls):
            ordered = [
                rows.take(pa.array(np.argsort(places)))
                for rows, places in zip(tables, ranks(spec, tables), strict=True)
            ]
            due = content(one.process(*ordered, batch=2 * batch))
            known = [join.routes(2 * batch, COUNT).to_wire() for join in joins]
            assert all(each == known[0] for each in known)
            routes = RoutingTable.from_wire(json.loads(json.dumps(known[0])))
            found = []
            for number, (rows, whole) in enumerate(split(spec, placement, routes, tables, rng)):
                found.append(joins[number].process(*rows, batch=2 * batch, whole=whole))
                for _, _, repeats in (death for death in deaths if death[:2] == (batch, number)):
                    joins[number] = opened(number)
                    if repeats:
                        assert joins[number].routes(2 * batch, COUNT).to_wire() == known[0]
                        again = split(spec, placement, routes, tables, rng)[number][0]
                        assert content(joins[number].repeat(*again)) == content(found[-1])
            assert content(*found) == due
    if spec.counted:
        assert routes.epoch > 1


def rows_of(keys: np.ndarray, first: int) -> pa.Table:
    at = np.arange(first, first + len(keys))
    return pa.table([pa.array(keys, pa.int64()), pa.array(at), pa.array(at), pa.array(at)], schema=SCHEMA)


@pytest.mark.parametrize("how", ["inner", "left", "right"])
@pytest.mark.parametrize("partitions", PLACED[:2], ids=lambda placed: placed.by)
def test_a_heavy_key_is_spread_and_gathered_again(partitions: Partitions, how: str) -> None:
    """Half of the rows of one key do not send half of them to one partition, nor are the others copied for long."""
    on = "left.k = right.k" if partitions.by == "equality" else "right.k BETWEEN left.k - 3 AND left.k + 5"
    spec = JoinSpec(
        on=parse_condition(on, SCHEMA, SCHEMA), left=WINDOWS["count"]["left"], right=WINDOWS["count"]["right"], how=how
    )
    placement = open_one(spec, partitions)
    joins = [JoinPart.from_spec(spec, left_schema=SCHEMA, right_schema=SCHEMA) for _ in range(COUNT)]
    rng = np.random.default_rng(3)
    uneven, copies, epochs = [], [], []
    for batch in range(24):
        tables = []
        for side in range(2):
            keys = rng.integers(0, 50_000, 3000)
            if batch < 12:
                keys[:1500] = 77
            tables.append(rows_of(keys, (2 * batch + side) * 3000))
        routes = joins[0].routes(batch, COUNT)
        given = split(spec, placement, routes, tables, rng)
        for join, (rows, whole) in zip(joins, given, strict=True):
            join.process(*rows, batch=batch, whole=whole)
        sent = np.array([sum(map(len, rows)) for rows, _ in given])
        uneven.append(sent.max() / sent.mean())
        copies.append(sent.sum() / 6000)
        epochs.append(routes.epoch)
    assert uneven[0] > 1.4
    assert max(uneven[4:12]) < 1.15
    assert copies[8] > 1.4  # one side's rows of the heavy key are in all partitions
    assert max(copies[20:]) < (1.05 if partitions.by == "equality" else 1.7)
    assert epochs[11] == 3
    assert epochs[-1] == 6


def test_keys_that_rise_are_left_as_they_are() -> None:
    """What one call asks for does not help the next one."""
    planner = RoutePlanner({"left": 10, "right": 10})
    for call in range(20):
        counts = np.zeros(bins_of(4), np.int64)
        counts[8 * call : 8 * call + 3] = 500
        planner.advance(
            BinHistogram(0, 4, {"divided": counts}, {}, swappable=False), dict.fromkeys(SIDES, 1500 * call), {}
        )
    assert planner.routes(4).epoch == 0


def test_a_window_that_never_ends_keeps_its_routes() -> None:
    """Rows of before a change would never leave it."""
    planner = RoutePlanner(None)
    for call in range(5):
        counts = np.zeros(bins_of(2), np.int64)
        counts[0] = 1000
        loads = BinHistogram(0, 2, {"divided": counts}, {"left": call}, swappable=False)
        planner.advance(loads, dict.fromkeys(SIDES, 0), {"left": None, "right": 5})
    assert planner.routes(2).epoch == 0


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 64])
def test_a_better_table_is_even_and_changes_little(partitions: int) -> None:
    table = even_table(partitions)
    counts = np.full(len(table), 100)
    loads = BinHistogram(0, partitions, {"divided": counts, "copied": counts}, {}, swappable=True)
    assert loads.unevenness(table) == 1
    assert (loads.better(table) == table).all()
    uneven = counts.copy()
    uneven[5], uneven[table == partitions - 1] = counts.sum(), 300
    loads = BinHistogram(0, partitions, {"divided": uneven, "copied": counts}, {}, swappable=True)
    better = loads.better(table)
    assert loads.unevenness(better) <= 1.1
    assert partitions == 1 or better[5] == DIVIDED
    swapped = BinHistogram(0, partitions, {"divided": counts, "copied": uneven}, {}, swappable=True)
    assert partitions == 1 or swapped.better(table)[5] == COPIED
    fixed = BinHistogram(0, partitions, {"divided": counts, "copied": uneven}, {}, swappable=False)
    assert fixed.better(table)[5] >= 0  # to copy the few divided rows is of no use
    one = BinHistogram(
        0, partitions, {"divided": np.eye(1, len(table), 5, dtype=np.int64)[0] * 10_000}, {}, swappable=False
    )
    assert one.unevenness(one.better(table)) == pytest.approx(1)


def test_rows_by_other_routes_are_refused() -> None:
    spec = JoinSpec(on=ON, **WINDOWS["count"])
    placement = EqualityPlacement(spec, SCHEMA, SCHEMA, 2)
    join = JoinPart.from_spec(spec, left_schema=SCHEMA, right_schema=SCHEMA)
    tables = [SCHEMA.empty_table()] * 2

    def call(*epochs: int) -> BatchSummary:
        parts = [SummaryPart(spec, SCHEMA, SCHEMA, 2, placement.loads(epoch)).to_wire() for epoch in epochs]
        return summary_of(parts, [], 0, placed=True)

    join.process(*tables, batch=0, whole=call(0, 0))
    with pytest.raises(StateError, match="epoch 1, and those of epoch 0 are in force"):
        join.process(*tables, batch=1, whole=call(1))
    with pytest.raises(ProtocolError, match=r"different epochs, \[0, 1\]"):
        call(0, 1)
    join.process(*tables, batch=1, whole=call(0))  # it goes on


@pytest.mark.parametrize("damage", [{"partitions": 5}, {"rows": {"divided": "eA=="}}, {"rows": {}}, {"more": 1}])
def test_loads_that_cannot_be_read(damage: dict[str, Any]) -> None:
    part = {
        "newest": {},
        "sequence": None,
        "loads": {**BinHistogram(0, 2, {}, {}, swappable=False).to_wire(), **damage},
    }
    with pytest.raises(ProtocolError, match="the parts of a call cannot be read"):
        summary_of([part], [], 0, placed=False)
