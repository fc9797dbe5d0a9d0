"""Results in blocks: how they are kept, how queries take turns, and which query fails where memory ends."""

import gc
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pytest

from muntin import Band, Compare, JoinSpec, Rows
from muntin.host.daemon import DaemonClient
from muntin.host.daemon.daemon import Daemon
from muntin.host.daemon.limits import Limits
from muntin.host.daemon.result import FairLock, NotKeptError, keep
from muntin.host.errors import CapacityError, DaemonError, DeviceError, LimitError, ResultTooLargeError, StateLostError
from muntin.host.memory import Memory
from tests.host.daemon.conftest import LEFT, RIGHT, expected, open_query, process

DENSE = JoinSpec(on=Compare("limit", "<", "price"), left=Rows(1000), right=Rows(1000))
ROWS = 200  # of each side of a dense batch: 40,000 pairs, of 32 bytes or more


def dense(number: int = 0) -> list[tuple[str, pa.RecordBatch]]:
    """Rows that all match each other."""
    left = pa.record_batch([pa.array([number] * ROWS), pa.array([f"l{i}" for i in range(ROWS)])], schema=LEFT)
    right = pa.record_batch([pa.array([1000] * ROWS), pa.array([f"r{i}" for i in range(ROWS)])], schema=RIGHT)
    return [("left", left), ("right", right)]


def pairs(batches: Iterator[pa.RecordBatch]) -> set[tuple[str, str]]:
    columns = pa.Table.from_batches(batches, DENSE.output_schema(LEFT, RIGHT)).select(["who", "note"]).columns
    found = list(zip(*(column.to_pylist() for column in columns), strict=True))
    assert len(found) == len(set(found))
    return set(found)


def full(*_: object, **__: object) -> BinaryIO:
    """A file on a full disk."""
    return open("/dev/full", "w+b", 0)


ALL = {(f"l{i}", f"r{j}") for i in range(ROWS) for j in range(ROWS)}


@pytest.fixture
def small(start: Callable[..., Daemon]) -> Daemon:
    """A daemon whose blocks and results are small."""
    return start(block_bytes=1 << 16, max_kept=1 << 17)


def test_a_result_is_kept_on_disk_beyond_the_limit_and_served_again(small: Daemon) -> None:
    with DaemonClient(small.addresses[0]) as client:
        client.open_query("q", DENSE, LEFT, RIGHT)
        assert pairs(client.process("q", 0, dense())) == ALL
        status = client.status()["queries"]["q"]
        assert status["kept_rows"] == status["rows_out"] == ROWS * ROWS
        assert status["kept_file_bytes"] > 1 << 20
        assert status["kept_bytes"] - status["kept_file_bytes"] < 1 << 17
        assert small.service.device.host_memory.used < 1 << 19
        with ThreadPoolExecutor(3) as pool:
            again = list(pool.map(lambda _: pairs(client.process("q", 0, dense())), range(3)))
        assert again == [ALL] * 3
        assert client.status()["queries"]["q"]["repeats"] == 3
        files = len(os.listdir("/proc/self/fd"))
        list(client.process("q", 1, []))
        client.close_query("q")
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) < files
        assert small.service.device.host_memory.used == 0


def test_queries_take_turns_between_blocks(small: Daemon) -> None:
    """A small batch, sent once the dense one has made two blocks, is answered while that has blocks to come."""
    service, made, asked = small.service, [], threading.Event()
    between = service._device_lock.between

    def counted(begin: Callable[[], Iterator[pa.Table]], **_: bool) -> Iterator[pa.Table]:
        for table in between(begin):  # type: ignore[arg-type]
            made.append(table.num_rows)
            if sum(made) > 0 and not asked.is_set():
                asked.set()
                assert answered.wait(120)  # the device is free here
            yield table

    answered = threading.Event()
    with DaemonClient(small.addresses[0]) as client, ThreadPoolExecutor(1) as pool:
        client.open_query("dense", DENSE, LEFT, RIGHT)
        open_query(client)
        service._device_lock.between = counted  # type: ignore[method-assign, assignment]
        slow = pool.submit(lambda: pairs(client.process("dense", 0, dense())))
        assert asked.wait(120)
        before = sum(made)
        service._device_lock.between = between  # type: ignore[method-assign]
        assert process(client, 0) == expected([0])
        answered.set()
        assert slow.result(60) == ALL
    assert 0 < before < sum(made) == ROWS * ROWS


def test_turns_go_in_the_order_of_arrival() -> None:
    turns, order = FairLock(), []

    def take(number: int) -> None:
        with turns:
            order.append(number)

    threads = []
    with turns:
        for number in range(20):
            threads.append(threading.Thread(target=take, args=(number,)))
            threads[-1].start()
            while len(turns._waiting) < number + 2:
                pass
    for thread in threads:
        thread.join()
    assert order == list(range(20))


def test_a_result_above_the_limit_fails_its_query_alone(start: Callable[..., Daemon]) -> None:
    daemon = start(block_bytes=1 << 16, max_kept=1 << 17, max_result=1 << 19)
    with DaemonClient(daemon.addresses[0]) as client:
        client.open_query("dense", DENSE, LEFT, RIGHT)
        open_query(client)
        assert process(client, 0) == expected([0])
        for _ in range(2):  # a repeated task is told the same
            with pytest.raises(
                LimitError, match=r"the result of one batch has .* bytes .* limit of 524,288.*max-result"
            ):
                list(client.process("dense", 0, dense()))
        assert process(client, 1) == expected([0, 1])
        small = pa.record_batch([pa.array([0]), pa.array(["new"])], schema=LEFT)
        found = pairs(client.process("dense", 1, [("left", small)]))  # the window holds all of the batch before
        assert found == {("new", f"r{i}") for i in range(ROWS)}


def test_a_full_disk_fails_the_query_alone(small: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    with DaemonClient(small.addresses[0]) as client:
        client.open_query("dense", DENSE, LEFT, RIGHT)
        open_query(client)
        monkeypatch.setattr("muntin.host.daemon.result.tempfile.TemporaryFile", full)
        with pytest.raises(DaemonError, match=r"cannot be kept in .*No space left.*TMPDIR"):
            list(client.process("dense", 0, dense()))
        assert process(client, 0) == expected([0])


def test_with_state_a_result_that_was_not_kept_is_made_again(
    small: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DaemonClient(small.addresses[0]) as client:
        client.open_query("dense", DENSE, LEFT, RIGHT, state=str(tmp_path))
        with monkeypatch.context() as patch:
            patch.setattr("muntin.host.daemon.result.tempfile.TemporaryFile", full)
            with pytest.raises(DaemonError, match="cannot be kept"):
                list(client.process("dense", 0, dense()))
        assert pairs(client.process("dense", 0, dense())) == ALL


def test_a_query_that_finds_no_memory_fails_alone(start: Callable[..., Daemon]) -> None:
    daemon = start()
    daemon.service.device.limit_host_memory(1 << 20)
    with DaemonClient(daemon.addresses[0]) as client:
        open_query(client)
        client.open_query("large", DENSE, LEFT, RIGHT)
        assert process(client, 0) == expected([0])
        payload = pa.record_batch([pa.array([5] * 600), pa.array(["x" * 2000] * 600)], schema=LEFT)
        with pytest.raises(CapacityError, match=r"kept of rows for output needs 1,\d+,\d+ bytes .* free of 1,048,576"):
            list(client.process("large", 0, [("left", payload)]))
        assert process(client, 1) == expected([0, 1])
        assert pairs(client.process("large", 0, dense()[1:])) == set()  # nothing of the batch was applied
        assert client.status()["device"]["memory_bytes"] == 1 << 20


def test_batch_requests_pass_blocks_on_and_give_back_what_they_took(small: Daemon) -> None:
    with DaemonClient(small.addresses[0]) as client:
        client.open_query("b", DENSE, LEFT, RIGHT, streaming=False)
        open_query(client)
        result = client.process("b", 0, dense())
        first = next(result)
        assert first.num_rows < ROWS * ROWS // 4
        assert process(client, 0) == expected([0])  # while the result of the other is being read
        assert len(pairs(iter([first, *result]))) == ROWS * ROWS
        stopped = client.process("b", 0, dense())
        next(stopped)
        stopped.close()  # type: ignore[attr-defined]
        client.close_query("q")
        while client.status()["queries"]["b"]["open_requests"]:
            pass
        assert small.service.device.host_memory.used == 0


def test_batch_requests_wait_for_memory_that_others_hold(start: Callable[..., Daemon]) -> None:
    daemon = start(block_bytes=1 << 16)
    daemon.service.device.limit_host_memory(300_000)  # one dense join, not two
    with DaemonClient(daemon.addresses[0]) as client, ThreadPoolExecutor(4) as pool:
        client.open_query("b", DENSE, LEFT, RIGHT, streaming=False)
        found = list(pool.map(lambda _: len(pairs(client.process("b", 0, dense()))), range(4)))
    assert found == [ROWS * ROWS] * 4


def equal(rows: int, first: int | None = None) -> list[tuple[str, pa.RecordBatch]]:
    """Rows of one value, or of different ones from `first` on, which match nothing."""
    keys = [0] * rows if first is None else range(first, first + rows)
    left = pa.record_batch([pa.array(keys, pa.int64()), pa.array(["l"] * rows)], schema=LEFT)
    right = pa.record_batch([pa.array([-key for key in keys], pa.int64()), pa.array(["r"] * rows)], schema=RIGHT)
    return [("left", left), ("right", right)]


def test_a_dense_query_that_fails_holds_up_no_other(start: Callable[..., Daemon]) -> None:
    """4,000 rows match 4,000 others, of which 8 MiB are kept; what is left is found in turns with the other query."""
    daemon = start(device="cpu", block_bytes=1 << 20, max_kept=1 << 20, max_result=8 << 20)
    spec = JoinSpec(on=Band("limit", "price", 0, 0), left=Rows(10_000), right=Rows(10_000))
    with DaemonClient(daemon.addresses[0]) as client, ThreadPoolExecutor(1) as pool:
        client.open_query("dense", spec, LEFT, RIGHT)
        open_query(client)
        list(client.process("dense", 0, equal(4000, 1)))
        slow = pool.submit(lambda: list(client.process("dense", 1, equal(4000))))
        answered = 0
        while not slow.done():
            number = answered % 2
            if number == 0 and answered:
                client.close_query("q")
                open_query(client)
            assert process(client, number) == expected(list(range(number + 1)))
            answered += 1
        with pytest.raises(LimitError, match="above the limit of 8,388,608"):
            slow.result()
        assert answered > 2
        assert len(pairs_of(client.process("dense", 2, equal(1)))) == 2 * 4000 + 1


def pairs_of(batches: Iterator[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches, DENSE.output_schema(LEFT, RIGHT))


def test_a_step_that_finds_no_memory_fails_its_query_alone(start: Callable[..., Daemon], tmp_path: Path) -> None:
    daemon = start(device="cpu", block_bytes=1 << 14)
    spec = JoinSpec(on=Band("limit", "price", 0, 0), left=Rows(2000), right=Rows(2000), engine="shared")
    memory = daemon.service.device.host_memory
    with DaemonClient(daemon.addresses[0]) as client:
        open_query(client)
        for name, state in (("without", None), ("with", str(tmp_path))):
            client.open_query(name, spec, LEFT, RIGHT, state=state)
            for number in range(5):
                assert not pairs_of(client.process(name, number, equal(500, 1 + 500 * number)))
        assert process(client, 0) == expected([0])
        limit, most = memory.limit, memory.used + (1 << 19)
        daemon.service.device.limit_host_memory(most)
        for name in ("without", "with"):
            with pytest.raises(ResultTooLargeError, match="pairs or more, which take more than the"):
                list(client.process(name, 5, equal(800)))
        daemon.service.device.limit_host_memory(limit)
        assert process(client, 1) == expected([0, 1])
        # A task that comes again finds the window as it was where there is state. Else it is told why there is none,
        # and the query can begin again.
        assert len(pairs_of(client.process("with", 5, equal(800)))) == 800 * 800
        with pytest.raises(DeviceError, match="ResultTooLargeError"):
            list(client.process("without", 5, equal(800)))
        with pytest.raises(StateLostError):
            list(client.process("without", 5, equal(800), run="another"))
        assert len(pairs_of(client.process("without", 0, equal(800), run="another"))) == 800 * 800


def test_memory_of_results_is_given_back_while_a_query_waits() -> None:
    script = """
import tempfile, threading, time
from pathlib import Path
from muntin import Band, JoinSpec, Rows
from muntin.host.daemon import DaemonClient, daemon
from muntin.host.native import _core
from tests.host.daemon.conftest import LEFT, RIGHT
from tests.host.daemon.test_blocks import equal
daemon.IDLE_SECONDS = 2.0
with tempfile.TemporaryDirectory() as folder:
    served = daemon.Daemon("cpu", Path(folder) / "socket")
    thread = threading.Thread(target=served.run)
    thread.start()
    with DaemonClient(served.addresses[0]) as client:
        spec = JoinSpec(on=Band("limit", "price", 0, 0), left=Rows(9999), right=Rows(9999))
        client.open_query("q", spec, LEFT, RIGHT)
        list(client.process("q", 0, equal(1500)))
        kept = _core.memory()[1]
        until = time.monotonic() + 40
        while _core.memory()[1] > 1 << 22 and time.monotonic() < until:
            time.sleep(0.1)
        left, found = _core.memory()[1], sum(b.num_rows for b in client.process("q", 1, equal(2)))
    served.end("test")
    thread.join()
print(kept >> 20, left >> 20, found)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    kept, left, found = map(int, done.stdout.split()[-3:])
    assert kept > 8
    assert left < 4
    assert found == 2 * 2 * 1500 + 4


def test_keeping_gives_back_what_a_failed_result_took() -> None:
    schema, memory, closed = pa.schema([("a", pa.int64())]), Memory(1 << 20, "here"), []

    def tables() -> Iterator[pa.Table]:
        try:
            for _ in range(10):
                yield pa.table({"a": range(1000)}, schema=schema)
        finally:
            closed.append(True)

    kept = keep(tables(), schema, memory=memory, max_heap=20_000, most=1 << 20, query="q")  # type: ignore[arg-type]
    assert (kept.num_rows, kept.nbytes, kept.heap_bytes) == (10_000, 80_000, 16_000)
    assert kept.table() == kept.table() == pa.table({"a": list(range(1000)) * 10}, schema=schema)
    assert memory.used == 16_000
    memory.limit = 20_000  # another result finds no memory: all of it goes to the file
    other = keep(tables(), schema, memory=memory, max_heap=20_000, most=1 << 20, query="q")  # type: ignore[arg-type]
    assert (other.heap_bytes, other.table()) == (0, kept.table())
    with pytest.raises(NotKeptError, match="above the limit of 30,000"):
        keep(tables(), schema, memory=memory, max_heap=20_000, most=30_000, query="q")  # type: ignore[arg-type]
    kept.close()
    del other
    gc.collect()
    assert (memory.used, closed) == (0, [True] * 3)
    assert not any(name.startswith("muntin") for name in os.listdir(tempfile.gettempdir()) if name.endswith(".arrow"))


def test_limits_of_blocks_are_checked() -> None:
    with pytest.raises(LimitError, match="max_result must be positive"):
        Limits(max_result=0)


def test_a_device_outside_of_the_process_has_a_batch_to_its_end(small: Daemon) -> None:
    small.service.device.in_process = False  # type: ignore[misc]
    turns = small.service._device_lock
    with DaemonClient(small.addresses[0]) as client:
        client.open_query("q", DENSE, LEFT, RIGHT)
        client.open_query("b", DENSE, LEFT, RIGHT, streaming=False)
        assert pairs(client.process("q", 0, dense())) == ALL
        assert len(pairs(client.process("b", 0, dense()))) == ROWS * ROWS
    held = turns.between(lambda: (pa.table({"a": [at]}) for at in range(3)), whole=True)  # type: ignore[arg-type, return-value]
    next(held)
    assert len(turns._waiting) == 1
    held.close()
    assert not turns._waiting
