"""Results that are read while they are made: who reads, leaves, comes again or comes at once; what fails half-way."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from muntin.host.daemon import DaemonClient
from muntin.host.daemon.daemon import Daemon, FlightOptions
from muntin.host.daemon.streaming_query import StreamingQuery
from muntin.host.errors import DaemonError, DeviceError, LimitError, StateError
from muntin.host.state.log import StateLog
from tests.host.daemon.conftest import TOKEN
from tests.host.daemon.test_blocks import ALL, DENSE, LEFT, RIGHT, ROWS, dense, pairs
from tests.host.daemon.test_replay import wait_until


@pytest.fixture
def small(start: Callable[..., Daemon]) -> Daemon:
    """A daemon whose results are in many blocks, in memory and in a file."""
    return start(block_bytes=1 << 16, max_kept=1 << 17, flight=FlightOptions("127.0.0.1", 0, TOKEN))


@pytest.fixture(params=["unix", "flight"])
def client(request: pytest.FixtureRequest, small: Daemon) -> Iterator[DaemonClient]:
    """A client of `small` over each front end, with the query open."""
    address, token = (small.addresses[0], None) if request.param == "unix" else (small.addresses[1], TOKEN)
    with DaemonClient(address, token, timeout=120) as client:
        client.open_query("q", DENSE, LEFT, RIGHT)
        yield client


class Held:
    """Results are made up to the first block with rows, and from `go` on; or else there is a failure."""

    def __init__(self, daemon: Daemon, failure: Exception | None = None):
        turns = daemon.service._device_lock
        self.between, self.go, self.made = turns.between, threading.Event(), 0
        self.failure = failure
        turns.between = self._blocks  # type: ignore[method-assign]

    def _blocks(self, begin: Callable[[], Iterator[pa.Table]], **options: bool) -> Iterator[pa.Table]:
        for table in self.between(begin, **options):  # type: ignore[arg-type]
            self.made += table.num_rows
            yield table
            if table.num_rows and self.failure is not None:
                raise self.failure
            assert not table.num_rows or self.go.wait(120)


def status(client: DaemonClient) -> dict:
    return client.status()["queries"]["q"]


def test_rows_come_while_others_are_made(client: DaemonClient, small: Daemon) -> None:
    held = Held(small)
    result = client.process("q", 0, dense())
    first = next(result)
    assert 0 < first.num_rows <= held.made < ROWS * ROWS
    assert status(client)["batch"] is None  # the end has not come, and the batch is not applied
    held.go.set()
    assert pairs(iter([first, *result])) == ALL
    found = status(client)
    assert (found["batch"], found["rows_out"], found["open_requests"], found["staged_bytes"]) == (0, ROWS * ROWS, 0, 0)
    assert found["kept_file_bytes"] > 1 << 20  # what was read from the file was being written


def test_a_reader_that_leaves_breaks_nothing(client: DaemonClient, small: Daemon) -> None:
    held = Held(small)
    result = client.process("q", 0, dense())
    next(result)
    result.close()  # type: ignore[attr-defined]
    held.go.set()
    again = [pairs(client.process("q", 0, dense())) for _ in range(2)]
    assert again == [ALL] * 2
    found = status(client)
    assert (found["rows_left"], found["repeats"], found["discarded"]) == (ROWS, 2, 0)
    assert (found["open_requests"], found["staged_bytes"]) == (0, 0)


def test_a_repeat_meanwhile_gets_the_same_rows_in_the_same_order(client: DaemonClient, small: Daemon) -> None:
    held = Held(small)
    with ThreadPoolExecutor(1) as pool:
        result = client.process("q", 0, dense())
        first = next(result)
        repeat = pool.submit(lambda: pa.Table.from_batches(client.process("q", 0, dense())))
        wait_until(lambda: status(client)["open_requests"] == 2)
        held.go.set()
        whole = pa.Table.from_batches([first, *result])
        assert repeat.result(20).equals(whole)
    assert whole.num_rows == ROWS * ROWS
    assert (status(client)["rows_left"], status(client)["repeats"]) == (ROWS, 1)


def test_the_next_batch_may_come_after_the_first_row(client: DaemonClient, small: Daemon) -> None:
    """As where Spark takes one row of a result, and goes on."""
    held = Held(small)
    with ThreadPoolExecutor(1) as pool:
        result = client.process("q", 0, dense())
        next(result)
        result.close()  # type: ignore[attr-defined]
        new = pa.record_batch([pa.array([0]), pa.array(["new"])], schema=LEFT)
        following = pool.submit(lambda: pairs(client.process("q", 1, [("left", new)])))
        held.go.set()
        assert following.result(20) == {("new", f"r{i}") for i in range(ROWS)}


def test_a_failure_half_way_comes_instead_of_the_end(client: DaemonClient, small: Daemon) -> None:
    Held(small, DeviceError("the device is gone"))
    got: list[int] = []
    with pytest.raises(DeviceError, match="the device is gone"):
        got.extend(batch.num_rows for batch in client.process("q", 0, dense()))
    assert 0 < sum(got) < ROWS * ROWS
    found = status(client)
    assert (found["batch"], found["rows_out"], found["open_requests"], found["staged_bytes"]) == (None, 0, 0, 0)


def test_an_error_of_the_system_is_not_taken_for_one_of_the_connection(
    client: DaemonClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: StreamingQuery) -> None:
        raise OSError(24, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(StreamingQuery, "_open_join", fails)
        with pytest.raises(DaemonError, match=r"the daemon failed .*too many open files"):
            list(client.process("q", 0, dense()))
    assert pairs(client.process("q", 0, dense())) == ALL


def test_a_result_above_the_limit_ends_with_the_error(start: Callable[..., Daemon]) -> None:
    with DaemonClient(start(block_bytes=1 << 16, max_kept=1 << 17, max_result=1 << 19).addresses[0]) as client:
        client.open_query("q", DENSE, LEFT, RIGHT)
        for given in (True, False):  # a repeat is told at once
            got = []
            with pytest.raises(LimitError, match="limit of 524,288"):
                got.extend(batch.num_rows for batch in client.process("q", 0, dense()))
            assert (0 < sum(got) < ROWS * ROWS) if given else not got


def test_with_state_no_row_comes_before_the_batch_is_durable(
    client: DaemonClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller may go on after one row; without the batch in the state another process would go on without it."""

    def fails(*_: object) -> None:
        raise StateError("the disk is gone")

    client.close_query("q")
    client.open_query("q", DENSE, LEFT, RIGHT, state=str(tmp_path))
    got = []
    with monkeypatch.context() as patch:
        patch.setattr(StateLog, "commit", fails)
        with pytest.raises(StateError, match="the disk is gone"):
            got.extend(client.process("q", 0, dense()))
    assert not got
    assert pairs(client.process("q", 0, dense())) == ALL
