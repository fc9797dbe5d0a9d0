"""Every batch counts once, whatever is repeated, and whoever is first."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from muntin import AllOf, Band, Compare, JoinSpec, Rows, Watermark, Where, Within
from muntin.host.daemon import DaemonClient, start_private
from muntin.host.daemon.daemon import Daemon
from muntin.host.errors import (
    KeyTypeError,
    LimitError,
    ProtocolError,
    QueryError,
    ReplayError,
    SchemaError,
    StateLostError,
    StateTakenError,
    UnknownQueryError,
)
from tests.host.daemon.conftest import (
    LEFT,
    RIGHT,
    SPEC,
    as_table,
    batch,
    expected,
    open_query,
    process,
)


@pytest.mark.parametrize("kind", ["left", "counts"])
def test_figures_of_a_batch_are_the_same_when_it_comes_again(tmp_path, kind):
    """To another process, which joins it again from its state; one of a batch long ago is not known."""
    rows = pa.schema([("k", pa.int64()), ("at", pa.int64())])
    windows = {"left": Rows(5), "right": Rows(9)}
    if kind == "left":
        windows = {"within": Within("at", "at", -5, 5), "watermark": Watermark(3, 3, lag=0), "how": "left"}
    spec = JoinSpec(on=Band("k", "k", 0, 0), **windows)

    def sent(number):
        keys, times = [i % 3 for i in range(9)], [10 * number + i - 12 * (i % 4 == 3) for i in range(9)]
        part = pa.record_batch([pa.array(keys), pa.array(times)], schema=rows)
        return [("left", part), ("right", part[:7])]

    told = []
    for numbers in (range(3), (2, 3)):
        with start_private("numpy", state=str(tmp_path)) as daemon, DaemonClient(daemon.address) as client:
            client.open_query("q/a", spec, rows, rows)
            for number in numbers:
                out = sum(part.num_rows for part in client.process("q/a", number, sent(number)))
                if number == 2:
                    told.append(client.figures("q/a", 2)["q/a"])
                    assert client.figures("q", 2) == {"q/a": told[-1]}
                    assert (told[-1]["rows_left"], told[-1]["rows_right"], told[-1]["rows_out"]) == (9, 7, out)
            assert client.figures("q", numbers[-1] + 1) == client.figures("q/", 2) == client.figures("q/b", 2) == {}
    differ = {"seconds", "steps", "row_bytes", "state_bytes"}
    first, again = ({name: value for name, value in each.items() if name not in differ} for each in told)
    assert first == again
    assert (first["late_left"] > 0, first["fill_left"]) == ((True, None) if kind == "left" else (False, 1.0))


def wait_until(true: Callable[[], object]) -> None:
    """Wait for another thread to get somewhere."""
    until = time.monotonic() + 10
    while not true():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.005)


def test_batches_continue_one_window(either: DaemonClient) -> None:
    assert open_query(either) == SPEC.output_schema(LEFT, RIGHT)
    results = [process(either, number) for number in range(3)]
    assert results == [expected([0]), expected([0, 1]), expected([0, 1, 2])]
    assert all(result.num_rows for result in results)


def test_repeat_gets_the_same_result_and_counts_once(either: DaemonClient) -> None:
    open_query(either)
    process(either, 0)
    first = process(either, 1)
    for _ in range(3):
        assert process(either, 1) == first
    assert process(either, 2) == expected([0, 1, 2])
    status = either.status()["queries"]["q"]
    assert (status["rows_left"], status["stats"]["rows_left"], status["repeats"]) == (120, 120, 3)


def test_repeat_reads_its_input_to_the_end(either: DaemonClient) -> None:
    open_query(either)
    process(either, 0)
    seen = []
    again = as_table(either.process("q", 0, (seen.append(row) or row for row in batch(0))))
    assert again == expected([0])
    assert len(seen) == len(batch(0))


def test_older_batch_is_refused(either: DaemonClient) -> None:
    open_query(either)
    process(either, 0)
    process(either, 1)
    with pytest.raises(ReplayError, match="batch 0 comes after batch 1"):
        process(either, 0)
    assert process(either, 2) == expected([0, 1, 2])


def test_numbers_may_have_gaps(either: DaemonClient) -> None:
    open_query(either)
    process(either, 0)
    assert process(either, 7) == expected([0, 7])


@pytest.mark.parametrize("opened", [False, True])
def test_a_window_that_is_not_here_is_lost(either: DaemonClient, opened: bool) -> None:
    if opened:
        open_query(either)
    with pytest.raises(StateLostError, match="new checkpoint"):
        process(either, 3)


def test_a_state_that_another_daemon_has_filled_since(start: Callable[..., Daemon], tmp_path: Path) -> None:
    """A daemon that has opened it without a batch, and was sent one that was not applied, goes on from there."""
    daemons = [start() for _ in range(2)]
    with ExitStack() as stack:
        clients = [stack.enter_context(DaemonClient(daemon.addresses[0], timeout=120)) for daemon in daemons]
        for client in clients:
            client.open_query("q", SPEC, LEFT, RIGHT, state=str(tmp_path))
        torn = iter([batch(0)[0], ("neither", batch(0)[0][1])])
        with pytest.raises(ProtocolError):
            clients[0].process("q", 0, torn)
        for number in range(2):
            assert process(clients[1], number).equals(expected(list(range(number + 1))))
        assert process(clients[0], 2).equals(expected([0, 1, 2]))


def test_two_joins_of_one_name_in_two_daemons(start: Callable[..., Daemon], tmp_path: Path) -> None:
    """They share a state, which says whose rows it has: another join of that run is refused, a later run goes on."""
    with ExitStack() as stack:
        clients = [stack.enter_context(DaemonClient(start().addresses[0], timeout=120)) for _ in range(3)]
        for client in clients[:2]:
            client.open_query("q", SPEC, LEFT, RIGHT, state=str(tmp_path))
        assert process(clients[0], 0, run="r", instance="a") == expected([0])
        with pytest.raises(StateTakenError):
            process(clients[1], 0, run="r", instance="b")
        for client in clients[1:]:
            client.open_query("q", SPEC, LEFT, RIGHT, state=str(tmp_path))
            with pytest.raises(QueryError, match="two joins of one streaming query"):
                process(client, 0, run="r", instance="b")
        assert process(clients[2], 0, run="s", instance="b") == expected([0])
        assert process(clients[2], 1, run="s", instance="b") == expected([0, 1])


def test_unknown_query(either: DaemonClient) -> None:
    with pytest.raises(UnknownQueryError, match="'q'"):
        process(either, 0)
    assert not either.close_query("q")


def test_reopening(either: DaemonClient) -> None:
    open_query(either)
    process(either, 0)
    open_query(either)
    assert process(either, 1) == expected([0, 1])
    other = JoinSpec(on=Band("limit", "price", -3, 2), left=Rows(50), right=Rows(30))
    with pytest.raises(QueryError, match="another join"):
        either.open_query("q", other, LEFT, RIGHT)
    assert either.close_query("q")
    either.open_query("q", other, LEFT, RIGHT)


def test_opening_tells_what_is_wrong(either: DaemonClient) -> None:
    with pytest.raises(SchemaError, match="'limit'"):
        either.open_query("q", SPEC, RIGHT, RIGHT)
    with pytest.raises(KeyTypeError):
        either.open_query("q", SPEC, pa.schema([("limit", pa.string())]), RIGHT)
    assert either.status()["queries"] == {}


def test_second_instance_in_a_run_is_refused(either: DaemonClient) -> None:
    open_query(either)
    process(either, 0, run="r", instance="a")
    for batch_number, instance in ((0, "b"), (0, "a"), (1, "b"), (1, "a")):
        with pytest.raises(QueryError, match=r"two joins of one streaming query.*name="):
            process(either, batch_number, run="r", instance=instance)
    # Either may have fed the window: a run that continues it is told, one that begins again has an empty one.
    with pytest.raises(StateLostError, match="two joins shared the name"):
        process(either, 1, run="s", instance="a")
    assert process(either, 0, run="s", instance="a") == expected([0])
    assert process(either, 1, run="s", instance="a") == expected([0, 1])


def test_another_instance_continues_in_another_run(either: DaemonClient) -> None:
    open_query(either)
    process(either, 0, run="r", instance="a")
    newest = process(either, 1, run="r", instance="a")
    assert process(either, 1, run="s", instance="b") == newest
    assert process(either, 2, run="s", instance="b") == expected([0, 1, 2])
    assert process(either, 3, run="t", instance="b") == expected([0, 1, 2, 3])


def test_a_run_that_is_refused_before_it_applied_rows_leaves_the_window(either: DaemonClient) -> None:
    open_query(either)
    process(either, 0, run="r", instance="a")

    def rows() -> object:
        yield batch(1)[0]
        with pytest.raises(QueryError, match="name="):
            process(either, 1, run="s", instance="b")
        yield from batch(1)[1:]

    with pytest.raises(QueryError, match="name="):
        list(either.process("q", 1, rows(), run="s", instance="a"))  # type: ignore[arg-type]
    assert process(either, 1, run="t", instance="a") == expected([0, 1])


def test_requests_that_are_not_streaming_stand_alone(either: DaemonClient) -> None:
    open_query(either, streaming=False)
    assert process(either, 5, instance="a") == expected([5])
    assert process(either, 5, instance="b") == expected([5])
    assert process(either, 1) == expected([1])


def test_failed_batch_is_not_applied(either: DaemonClient) -> None:
    open_query(either)
    process(either, 0)
    wrong = [*batch(1), ("left", pa.record_batch({"limit": pa.array([1.5]), "who": pa.array(["x"])}))]
    with pytest.raises(SchemaError, match="'limit' is double"):
        list(either.process("q", 1, wrong))
    assert process(either, 1) == expected([0, 1])


def test_input_that_fails_is_not_applied(either: DaemonClient) -> None:
    open_query(either)

    def failing() -> object:
        yield batch(0)[0]
        raise KeyError("upstream")

    with pytest.raises(KeyError):
        either.process("q", 0, failing())  # type: ignore[arg-type]
    wait_until(lambda: either.status()["queries"]["q"]["open_requests"] == 0)
    assert process(either, 0) == expected([0])


def test_requests_at_once_are_applied_once(either: DaemonClient, daemon: Daemon) -> None:
    open_query(either)
    process(either, 0)
    with ThreadPoolExecutor(6) as pool:
        with daemon.service._device_lock:
            requests = [pool.submit(process, either, 1) for _ in range(6)]
            wait_until(lambda: either.status()["queries"]["q"]["open_requests"] == 6)
        results = [request.result(20) for request in requests]
    assert results == [expected([0, 1])] * 6
    assert daemon.service.status()["queries"]["q"]["rows_left"] == 80


def test_two_instances_at_once_are_refused(either: DaemonClient, daemon: Daemon) -> None:
    open_query(either)
    with ThreadPoolExecutor(1) as pool:
        with daemon.service._device_lock:
            first = pool.submit(process, either, 0)
            wait_until(lambda: either.status()["queries"]["q"]["open_requests"] == 1)
            wait_until(lambda: daemon.service._queries["q"]._fed_by is not None)
            with pytest.raises(QueryError, match="name="):
                process(either, 0, instance="b")
        assert first.result(20) == expected([0])
    assert process(either, 0, run="s") == expected([0])
    assert process(either, 1, run="s") == expected([0, 1])


def test_two_queries_at_once(either: DaemonClient) -> None:
    names = ["a", "b", "c"]
    for name in names:
        open_query(either, name)

    def run(name: str) -> list[pa.Table]:
        return [process(either, number, query=name) for number in range(4)]

    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(run, names))
    assert results == [[expected(list(range(number + 1))) for number in range(4)]] * 3


def test_slow_query_does_not_hold_up_another_ones_staging(client: DaemonClient, daemon: Daemon) -> None:
    open_query(client, "slow")
    open_query(client, "quick")
    sent = threading.Event()

    def rows() -> object:
        yield from batch(0)
        sent.set()

    with ThreadPoolExecutor(2) as pool:
        with daemon.service._device_lock:  # the device works on "slow"
            slow = pool.submit(process, client, 0, query="slow")
            quick = pool.submit(lambda: as_table(client.process("quick", 0, rows())))  # type: ignore[arg-type]
            assert sent.wait(10)
            wait_until(lambda: client.status()["queries"]["quick"]["staged_bytes"] > 0)
        assert slow.result(20) == quick.result(20) == expected([0])
    assert client.status()["queries"]["quick"]["staged_bytes"] == 0


def test_closing_during_a_request(either: DaemonClient, daemon: Daemon) -> None:
    open_query(either)

    def rows() -> object:
        yield batch(0)[0]
        either.close_query("q")
        yield batch(0)[1]

    with pytest.raises(UnknownQueryError, match="was closed"):
        list(either.process("q", 0, rows()))  # type: ignore[arg-type]
    assert daemon.service.device.used_bytes == 0


def test_limit_on_queries(start: Callable[..., Daemon]) -> None:
    with DaemonClient(start(max_queries=2).addresses[0], timeout=120) as client:
        open_query(client, "a")
        open_query(client, "b")
        with pytest.raises(LimitError, match="--max-queries"):
            open_query(client, "c")
        client.close_query("a")
        open_query(client, "c")


def test_a_conjunction_through_a_daemon(either: DaemonClient) -> None:
    on = AllOf(SPEC.on, Compare("who", "<", "note"), Where("right", "note", ">", "r6"))
    with pytest.raises(KeyTypeError, match="'who'"):
        either.open_query("conjunction", JoinSpec(on=on, left=Rows(50), right=Rows(30)), LEFT, RIGHT, streaming=True)
    spec = JoinSpec(on=AllOf(SPEC.on, *on.parts[2:]), left=Rows(50), right=Rows(30), order="inner")
    either.open_query("conjunction", spec, LEFT, RIGHT, streaming=True)
    for number in range(3):
        due = expected(list(range(number + 1)), spec)
        assert process(either, number, query="conjunction") == due
    assert due.num_rows
    assert due.num_rows < expected([0, 1, 2]).num_rows
