"""The daemon as a process: how it starts, how it ends, and clients that are killed."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import muntin.host.daemon.daemon as daemon_module
from muntin.host.daemon import AwaitedDaemon, DaemonClient, PrivateDaemon, start_private
from muntin.host.daemon.private import launch
from muntin.host.errors import ConnectionLostError, DaemonError, DeviceError
from tests.host.daemon.conftest import batch, expected, open_query, process
from tests.host.daemon.test_replay import wait_until

ROOT = Path(__file__).parents[3]
CLIENT = """
import os, sys, time
from muntin.host.daemon import DaemonClient
from tests.host.daemon.conftest import batch
def rows():
    yield from batch(0)[:2]
    print("sent", flush=True)
    time.sleep(60)
list(DaemonClient(sys.argv[1]).process("q", 0, rows()))
"""
STARTER = """
import os, sys, time
from muntin.host.daemon import start_private
daemon = start_private("numpy")
if os.fork() == 0:  # a child that keeps the pipe open, as worker processes do
    os.close(1)
    time.sleep(float(sys.argv[1]))
    os._exit(0)
print(daemon.address, daemon.process.pid, flush=True)
time.sleep(60)
"""


def alive(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def private() -> Iterator[PrivateDaemon]:
    """A private daemon, shared because starting one takes a second."""
    with start_private("numpy", metrics=0, log_json=True, timeout=30) as daemon:
        yield daemon


@pytest.fixture
def client(private: PrivateDaemon) -> Iterator[DaemonClient]:
    """A client of the private daemon, with no query open."""
    with DaemonClient(private.address, timeout=120) as client:
        yield client
        for query in client.status()["queries"]:
            client.close_query(query)


def run(*arguments: str) -> subprocess.Popen[str]:
    """A Python process that can import what the tests can."""
    return subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_killed_client_harms_nobody(private: PrivateDaemon, client: DaemonClient) -> None:
    open_query(client)
    open_query(client, "other")
    victim = run("-c", CLIENT, private.address)
    assert victim.stdout is not None
    assert victim.stdout.readline() == "sent\n"
    wait_until(lambda: client.status()["queries"]["q"]["staged_bytes"] > 0)
    victim.kill()
    victim.communicate()
    wait_until(lambda: client.status()["queries"]["q"]["open_requests"] == 0)
    status = client.status()["queries"]["q"]
    assert (status["staged_bytes"], status["rows_left"], status["discarded"]) == (0, 0, 1)
    assert process(client, 0, query="other") == expected([0])
    assert process(client, 0) == expected([0])
    assert process(client, 1) == expected([0, 1])


def test_metrics_and_log(private: PrivateDaemon, client: DaemonClient) -> None:
    open_query(client, 'a "name"')
    process(client, 0, query='a "name"')
    process(client, 0, query='a "name"')
    with pytest.raises(DaemonError):
        process(client, 0, query="unknown")
    port = next(
        e["metrics_port"] for e in map(json.loads, private.log_tail(100_000).splitlines()) if e["event"] == "ready"
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        f"http://127.0.0.1:{port}/metrics"
    ) as answer:
        text = answer.read().decode()
    assert 'muntin_query_input_rows_total{query="a \\"name\\"",side="left"} 40.0' in text
    assert 'muntin_query_repeated_requests_total{query="a \\"name\\""} 1.0' in text
    assert 'muntin_errors_total{error="UnknownQueryError"}' in text
    assert 'muntin_query_matches_total{query="a \\"name\\""}' in text
    assert 'muntin_query_step_duration_seconds_count{query="a \\"name\\"",step="probe"} 1.0' in text
    events = [json.loads(line) for line in private.log_tail(100_000).splitlines()]
    assert {event["event"] for event in events} >= {"ready", "query opened", "request refused"}
    assert all(event["level"] and event["timestamp"] for event in events)


def test_close_ends_it_and_leaves_nothing() -> None:
    daemon = start_private("numpy", timeout=30)
    path = Path(daemon.address.removeprefix("unix:"))
    assert path.exists()
    daemon.close()
    daemon.close()
    assert daemon.process.returncode == 0
    assert not path.parent.exists()
    with pytest.raises(ConnectionLostError):
        DaemonClient(daemon.address).ping()


def test_killed_private_daemon_is_no_zombie() -> None:
    with start_private("numpy", timeout=30) as daemon, DaemonClient(daemon.address, timeout=120) as client:
        open_query(client)
        process(client, 0)
        os.kill(daemon.process.pid, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{daemon.process.pid}").exists())
        with pytest.raises(ConnectionLostError, match=r"went away|no daemon answers"):
            process(client, 1)


def test_the_first_client_starts_an_awaited_daemon() -> None:
    daemon = AwaitedDaemon("numpy")
    folder = Path(daemon.address.removeprefix("unix:")).parent
    assert daemon.daemon is None
    with DaemonClient(daemon.address, timeout=60) as client:
        open_query(client)
        process(client, 0)
    started = daemon.daemon
    assert started is not None
    assert daemon.usable
    daemon.close()
    assert started.process.returncode == 0
    assert not daemon.usable
    assert not folder.exists()


def test_an_awaited_daemon_that_was_not_needed_leaves_nothing() -> None:
    daemons = [AwaitedDaemon("numpy") for _ in range(2)]
    folders = [Path(daemon.address.removeprefix("unix:")).parent for daemon in daemons]
    assert all(folder.exists() for folder in folders)
    daemons[0].close()
    wait_until(lambda: not folders[0].exists())
    with pytest.raises(ConnectionLostError, match="no daemon answers"):
        DaemonClient(daemons[0].address).ping()
    daemons.clear()
    wait_until(lambda: not folders[1].exists())
    wait_until(lambda: not any(thread.name == "muntin-awaited" for thread in threading.enumerate()))


def test_clients_of_an_awaited_daemon_are_told_why_it_did_not_start() -> None:
    daemon = AwaitedDaemon("abacus")
    for _ in range(2):
        with pytest.raises(DeviceError, match="no device 'abacus'"):
            DaemonClient(daemon.address, timeout=60).ping()
    assert daemon.daemon is None
    daemon.close()


@pytest.mark.parametrize("forked_seconds", ["0", "20"])
def test_private_daemon_ends_with_its_starter(forked_seconds: str) -> None:
    starter = run("-c", STARTER, forked_seconds)
    assert starter.stdout is not None
    address, pid = starter.stdout.readline().split()
    with DaemonClient(address, timeout=10) as client:
        client.ping()
    starter.kill()
    starter.wait()
    starter.stdout.close()
    wait_until(lambda: not alive(int(pid)))
    assert not Path(address.removeprefix("unix:")).parent.exists()


def test_daemon_ends_at_once_with_another_process(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with the executor whose task has started it: other tasks must not find it in the meantime."""
    monkeypatch.setattr(daemon_module, "PARENT_POLL_SECONDS", 600.0)
    with subprocess.Popen(["sleep", "60"]) as executor:
        daemon = daemon_module.Daemon("numpy", directory / "s")
        daemon.end_with_process(executor.pid)
        assert not daemon._ended.wait(0.05)
        executor.kill()
        assert daemon._ended.wait(120)
        assert daemon.run()


def test_a_folder_with_a_space_and_a_second_address(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (directory / "a b").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory / "a b"))
    token = directory / "token"
    token.touch(0o600)
    token.write_text("secret")
    with start_private("numpy", listen="127.0.0.1:0", token_file=token) as daemon:
        assert Path(daemon.address.removeprefix("unix:")).is_relative_to(directory / "a b")
        with DaemonClient(daemon.address) as client:
            socket, network = client.status()["addresses"]
        assert socket == daemon.address
        assert network.startswith("grpc://127.0.0.1:")


def test_start_tells_the_daemons_own_error(directory: Path) -> None:
    with pytest.raises(DeviceError, match="no device 'abacus'"):
        start_private("abacus", timeout=30)
    with (directory / "log").open("a+b") as log, pytest.raises(DeviceError, match="no device 'abacus'"):
        launch("abacus", directory / "s", log, 30, exit_with_process=os.getpid())
    with pytest.raises(DaemonError, match="--no-such-option"):
        start_private("numpy", no_such_option=True, timeout=30)


def test_start_does_not_wait_for_ever() -> None:
    started = time.monotonic()
    with pytest.raises(DaemonError, match=r"not ready after 0\.01 seconds"):
        start_private("numpy", timeout=0.01)
    assert time.monotonic() - started < 10


def test_sigterm_finishes_the_request_in_progress(directory: Path) -> None:
    daemon = run("-m", "muntin", "serve", "--device=numpy", f"--socket={directory}/s", "--log-level=error")
    assert daemon.stdout is not None
    assert daemon.stdout.readline() == f"muntin ready: unix:{directory}/s\n"
    with DaemonClient(f"unix:{directory}/s", timeout=120) as client:
        open_query(client)
        stopping = threading.Event()

        def rows() -> object:
            yield batch(0)[0]
            daemon.send_signal(signal.SIGTERM)
            wait_until(lambda: not (directory / "s").exists())
            stopping.set()
            yield from batch(0)[1:]

        with DaemonClient(f"unix:{directory}/s", timeout=120) as idle:
            idle.ping()
            result = list(client.process("q", 0, rows()))  # type: ignore[arg-type]
            assert stopping.is_set()
            assert daemon.wait(10) == 0  # whoever is connected and asks nothing does not keep it
            with pytest.raises(ConnectionLostError):
                idle.ping()
    assert sum(map(len, result)) == expected([0]).num_rows
    daemon.stdout.close()
    assert list(directory.iterdir()) == []


def test_second_daemon_at_the_same_socket(private: PrivateDaemon) -> None:
    command = [sys.executable, "-m", "muntin", "serve", "--device=numpy", f"--socket={private.address[5:]}"]
    second = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=30)
    assert second.returncode == 1
    assert second.stderr.startswith("error: a daemon listens at ")
    assert second.stderr.count("\n") == 1
