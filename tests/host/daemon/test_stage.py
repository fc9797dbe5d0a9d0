"""Batches in parts: staged by their content, joined once when all of them are named."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from muntin import AllOf, Band, Compare, JoinSpec, Rows, WindowJoin, Within
from muntin.host.daemon import DaemonClient
from muntin.host.daemon.daemon import Daemon
from muntin.host.daemon.staging import PartKey
from muntin.host.errors import LimitError, MuntinError, ProtocolError, QueryError, ReplayError, StateLostError
from muntin.host.join.summary_part import SummaryPart

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("s", pa.int64()), ("n", pa.int64())])
ON = AllOf(Compare("k", "=", "k"), Band("t", "t", -60, 60))
COUNTED = JoinSpec(on=ON, left=Rows(30), right=Rows(20), sequence="s", how="full")
TIMED = JoinSpec(on=ON, within=Within("t", "t", -9, 9))
SIDES = ("left", "right")


def rows_of(batch: int, rows: int = 60) -> pa.Table:
    """The rows of a batch, of both sides in turn: even numbers are left ones."""
    rng = np.random.default_rng(batch)
    at = np.arange(batch * rows, (batch + 1) * rows)
    return pa.table([rng.integers(0, 6, rows), at // 7 + rng.integers(0, 9, rows), at, at], schema=SCHEMA)


def tasks_of(batch: int, count: int, *, first: int = 0, order: int | None = None) -> list[tuple[int, pa.Table]]:
    """The rows of a batch as so many tasks have them, with the tasks' numbers."""
    rows = rows_of(batch)
    if order is not None:
        rows = rows.take(pa.array(np.random.default_rng(order).permutation(len(rows))))
    bounds = [len(rows) * at // count for at in range(count + 1)]
    return [(first + at, rows.slice(start, end - start)) for at, (start, end) in enumerate(pairwise(bounds))]


def send(
    client: DaemonClient,
    spec: JoinSpec,
    batch: int,
    task: int,
    rows: pa.Table,
    partitions: int = 1,
    **sender: str,
) -> PartKey:
    """Send one task's rows to all partitions, as Spark's task does."""
    gathered = SummaryPart(spec, SCHEMA, SCHEMA, partitions)
    shipments: list[list[tuple[str, pa.RecordBatch]]] = [[] for _ in range(partitions)]
    for at, side in enumerate(SIDES):
        for own in rows.filter(pa.array(rows["n"].to_numpy() % 2 == at)).combine_chunks().to_batches():
            numbers = own["k"].to_numpy() % partitions
            places = gathered.add(side, own, numbers)
            for partition, shipment in enumerate(shipments):
                shipment.append((side, own.filter(pa.array(numbers == partition))))
                if places is not None:
                    shipment.append(("places", places))
    key = PartKey(task, gathered.rows, gathered.digest)
    for partition, shipment in enumerate(shipments):
        name = f"q/{partition}"
        client.open_query(name, spec, SCHEMA, SCHEMA)
        call = {**gathered.to_wire(), "partition": partition, "partitions": partitions}
        client.stage(name, batch, shipment, lambda call=call: (key, call), **sender)  # type: ignore[misc]
    return key


def fetch(client: DaemonClient, batch: int, keys: list[PartKey], partitions: int = 1) -> list[str]:
    found = [part for at in range(partitions) for part in client.fetch(f"q/{at}", batch, keys)]
    return sorted(str(row) for part in found for row in part.to_pylist())


def expected(spec: JoinSpec, batches: int) -> list[list[str]]:
    join = WindowJoin.from_spec(spec, left_schema=SCHEMA, right_schema=SCHEMA)
    results = []
    for batch in range(batches):
        rows = rows_of(batch)
        sides = [rows.filter(pa.array(rows["n"].to_numpy() % 2 == at)) for at in range(2)]
        results.append(sorted(map(str, join.process(*sides).to_pylist())))
    return results


@pytest.mark.parametrize("spec", [COUNTED, TIMED], ids=["count", "time"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_as_whole_batches(either: DaemonClient, spec: JoinSpec, partitions: int) -> None:
    """Tasks that are sent again, in other orders, in other pieces and twice at once."""
    due = expected(spec, 4)
    for batch in range(4):
        keys = []
        for task, rows in tasks_of(batch, 1 + batch):
            keys.append(send(either, spec, batch, task, rows, partitions))
        assert [send(either, spec, batch, *each, partitions) for each in tasks_of(batch, 1 + batch)] == keys
        others = [send(either, spec, batch, *each, partitions) for each in tasks_of(batch, 2, first=7, order=1)]
        with ThreadPoolExecutor(2) as threads:
            begun = [threads.submit(fetch, either, batch, named, partitions) for named in (keys, others)]
            found = [future.result() for future in begun]
        assert found == [due[batch], due[batch]]
        again = [send(either, spec, batch, *each, partitions) for each in tasks_of(batch, 3, order=2)]
        assert fetch(either, batch, again, partitions) == due[batch]
    status = either.status()["queries"]
    assert sum(query["rows_left"] + query["rows_right"] for query in status.values()) == 4 * 60
    assert all(query["staged_bytes"] == 0 for query in status.values())


def test_part_that_is_not_there(client: DaemonClient) -> None:
    ((task, rows), last) = tasks_of(0, 2)
    key = send(client, TIMED, 0, task, rows)
    other = PartKey(last[0], last[1].num_rows, 12345)
    with pytest.raises(StateLostError, match=r"batch 0: the rows of task 1 \(30 rows, 0+3039\) are not here"):
        fetch(client, 0, [key, other])
    assert fetch(client, 0, [key, send(client, TIMED, 0, *last)]) == expected(TIMED, 1)[0]
    with pytest.raises(StateLostError, match="no query 'nothing' is open here"):
        list(client.fetch("nothing", 0, [key]))


def test_other_rows_and_older_batches(client: DaemonClient) -> None:
    for batch in range(2):
        keys = [send(client, TIMED, batch, *each) for each in tasks_of(batch, 2)]
        fetch(client, batch, keys)
    changed = PartKey(keys[0].task, keys[0].rows, keys[0].digest + 1)
    with pytest.raises(ReplayError, match="batch 1 comes again with other rows: 60 rows, "):
        fetch(client, 1, [changed, keys[1]])
    assert fetch(client, 1, keys) == expected(TIMED, 2)[1]
    with pytest.raises(ReplayError, match="batch 0 comes after batch 1"):
        fetch(client, 0, keys)
    with pytest.raises(ReplayError, match="batch 0 comes after batch 1"):
        send(client, TIMED, 0, *tasks_of(0, 1)[0])


def test_first_batch_that_is_heard(client: DaemonClient) -> None:
    """It must be batch 0, and parts of that are not enough: a late task may have sent one to a daemon that was started
    again since the batch was joined."""
    with pytest.raises(StateLostError, match="continues with batch 2"):
        send(client, TIMED, 2, *tasks_of(1, 1)[0])
    key = send(client, TIMED, 0, *tasks_of(0, 1)[0])
    with pytest.raises(StateLostError, match="continues with batch 2"):
        send(client, TIMED, 2, *tasks_of(1, 1)[0])
    assert fetch(client, 0, [key]) == expected(TIMED, 1)[0]
    key = send(client, TIMED, 2, *tasks_of(1, 1)[0])
    status = client.status()["queries"]["q/0"]
    assert status["staged_bytes"]
    assert 0 < status["lag_seconds"] < client.status()["queries"]["q/0"]["lag_seconds"]
    assert fetch(client, 2, [key]) == expected(TIMED, 2)[1]
    status = client.status()["queries"]["q/0"]
    assert (status["staged_bytes"], status["lag_seconds"]) == (0, 0)


def test_rows_that_were_sent_and_not_joined(client: DaemonClient) -> None:
    """A later batch is refused: its result would lack pairs with them. Without rows nothing is lacking."""
    assert fetch(client, 0, [send(client, TIMED, 0, *tasks_of(0, 1)[0])]) == expected(TIMED, 1)[0]
    send(client, TIMED, 1, 0, rows_of(1).slice(0, 0))
    key = send(client, TIMED, 2, *tasks_of(1, 1)[0])
    assert fetch(client, 2, [key]) == expected(TIMED, 2)[1]
    send(client, TIMED, 3, *tasks_of(2, 1)[0])
    key = send(client, TIMED, 4, *tasks_of(3, 1)[0])
    with pytest.raises(StateLostError, match="the rows of batch 3 were sent, but no task asked for its result"):
        fetch(client, 4, [key])


def test_two_instances(client: DaemonClient) -> None:
    key = send(client, TIMED, 0, *tasks_of(0, 1)[0], run="r", instance="a")
    with pytest.raises(QueryError, match="two joins of one streaming query"):
        send(client, TIMED, 0, *tasks_of(0, 1)[0], run="r", instance="b")
    with pytest.raises(QueryError, match="two joins of one streaming query"):
        fetch(client, 0, [key])
    key = send(client, TIMED, 0, *tasks_of(0, 1)[0], run="s", instance="b")
    assert fetch(client, 0, [key]) == expected(TIMED, 1)[0]


def test_limits_and_torn_parts(start: object) -> None:
    daemon: Daemon = start(max_staged=6_000)  # type: ignore[operator]
    with DaemonClient(daemon.addresses[0], timeout=120) as client:
        first, second = tasks_of(0, 2)
        key = send(client, TIMED, 0, *first)
        staged = client.status()["queries"]["q/0"]["staged_bytes"]
        assert 0 < staged < 6_000

        def torn() -> Iterator[tuple[str, pa.RecordBatch]]:
            yield "left", first[1].to_batches()[0]
            raise RuntimeError("the task dies")

        with pytest.raises(RuntimeError, match="the task dies"):
            client.stage("q/0", 0, torn(), lambda: (key, {}))
        for task in range(2, 2 + 6_000 // staged - 1):
            send(client, TIMED, 0, task, second[1])
        with pytest.raises(LimitError, match="would stage"):
            send(client, TIMED, 0, 9, second[1])
        assert fetch(client, 0, [key]) is not None
        for query in client.status()["queries"].values():
            assert query["staged_bytes"] == 0


@pytest.mark.parametrize(
    ("key", "call"),
    [((1, 2), {}), ((1, -2, 3), {}), ((1, 0, 3), 5), ((1, 0, 3), {"partition": 2, "partitions": 2})],
)
def test_messages_that_make_no_sense(client: DaemonClient, key: object, call: object) -> None:
    client.open_query("q", TIMED, SCHEMA, SCHEMA)
    with pytest.raises(MuntinError):
        client.stage("q", 0, [], lambda: (key, call))  # type: ignore[arg-type,return-value]
    client.open_query("batches", TIMED, SCHEMA, SCHEMA, streaming=False)
    with pytest.raises(ProtocolError, match="is not of streams"):
        list(client.fetch("batches", 0, [PartKey(0, 0, 0)]))
