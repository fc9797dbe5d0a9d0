"""Outer, semi and anti joins in the daemon: streams let rows go batch by batch, other queries at their end."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from muntin import Band, Watermark, WindowJoin, Within
from muntin.host.daemon import DaemonClient
from muntin.host.daemon.daemon import Daemon
from muntin.host.errors import UnsupportedError
from tests.host.daemon.conftest import LEFT, RIGHT, SPEC, batch

SPARSE = dataclasses.replace(SPEC, on=Band("limit", "price", 0, 0))
HOWS = ["left", "full", "left_semi", "left_anti"]


def operator(how: str, numbers: list[int], *, finish: bool) -> list[pa.Table]:
    """What the operator itself says to each of these batches, and at the end."""
    spec = dataclasses.replace(SPARSE, how=how)
    with WindowJoin.from_spec(spec, device="numpy", left_schema=LEFT, right_schema=RIGHT) as join:
        results = []
        for number in numbers:
            rows = batch(number)
            sides = [pa.Table.from_batches([b for s, b in rows if s == side]) for side in ("left", "right")]
            results.append(join.process(*sides))
        return [*results, join.finish()] if finish else results


def ask(client: DaemonClient, how: str, number: int, *, streaming: bool) -> pa.Table:
    schema = client.open_query(how, dataclasses.replace(SPARSE, how=how), LEFT, RIGHT, streaming=streaming)
    return pa.Table.from_batches(client.process(how, number, batch(number)), schema=schema)


@pytest.mark.parametrize("how", HOWS)
def test_a_query_that_is_no_stream_ends_with_its_request(either: DaemonClient, how: str) -> None:
    found = ask(either, how, 0, streaming=False)
    process, rest = operator(how, [0], finish=True)
    assert found == pa.concat_tables([process, rest])
    assert (rest.num_rows > 0) == (how != "left_semi")
    assert either.status()["queries"][how]["stats"]["waiting_left"] == 0


@pytest.mark.parametrize("how", HOWS)
def test_a_stream_lets_rows_go_batch_by_batch(either: DaemonClient, how: str) -> None:
    results = [ask(either, how, number, streaming=True) for number in range(3)]
    assert results == operator(how, [0, 1, 2], finish=False)
    assert either.status()["queries"][how]["stats"]["waiting_left"] > 0


def test_a_stream_that_could_never_let_rows_go(start: Callable[..., Daemon]) -> None:
    times = [schema.append(pa.field(name, pa.int64())) for schema, name in ((LEFT, "t"), (RIGHT, "u"))]
    spec = dataclasses.replace(SPEC, left=None, right=None, within=Within("t", "u", 0, 5), how="left")
    delayed = dataclasses.replace(spec, watermark=Watermark(right=3, lag=0))
    with DaemonClient(start().addresses[0], timeout=120) as client:
        for asked in (client.check, lambda *arguments: client.open_query("q", *arguments)):
            with pytest.raises(UnsupportedError, match=r"how='left' could never let an unmatched left row go.*'u'"):
                asked(spec, *times)
        client.check(delayed, *times)
        client.open_query("q", delayed, *times)
        client.open_query("whole", spec, *times, streaming=False)


def test_a_side_that_sends_nothing_is_left_out_after_a_restart_too(
    start: Callable[..., Daemon], tmp_path: Path
) -> None:
    """The right side has sent nothing since time 0; each batch goes to a daemon of its own, over one state."""
    times = [schema.append(pa.field("t", pa.int64())) for schema in (LEFT, RIGHT)]
    marks = Watermark(0, 0, lag=0, idle_after=10, initial=0)
    spec = dataclasses.replace(
        SPARSE, left=None, right=None, sequence=None, within=Within("t", "t", 0, 5), watermark=marks
    )
    found = []
    for number, time in enumerate([1, 5, 11, 12, 20]):
        rows = pa.RecordBatch.from_pylist([{"t": time}], schema=times[0])
        sent = [("left", rows)]
        if number == 0:
            sent.append(("right", pa.RecordBatch.from_pylist([{"t": 0}], schema=times[1])))
        with DaemonClient(start().addresses[0], timeout=120) as client:
            client.open_query("q", spec, *times, state=str(tmp_path))
            list(client.process("q", number, sent))
            stats = client.status()["queries"]["q"]["stats"]
            found.append((stats["watermark"], stats["watermark_side"]))
    assert found == [(0, "right"), (0, "right"), (0, "right"), (12, "left"), (20, "left")]
