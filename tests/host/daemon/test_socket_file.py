"""The socket's file is private, not stolen from a live daemon, and replaced after a dead one."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from muntin.host.daemon import DaemonClient
from muntin.host.daemon.daemon import Daemon
from muntin.host.daemon.socket_file import SocketFile
from muntin.host.errors import ConnectionLostError, DaemonError


def test_file_and_directory_are_private_and_removed(directory: Path) -> None:
    path = directory / "made" / "here.sock"
    file = SocketFile(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    file.remove()
    assert list(directory.iterdir()) == []


def test_live_socket_is_not_stolen(start: Callable[..., Daemon], directory: Path) -> None:
    daemon = start()
    with pytest.raises(DaemonError, match=r"listens at .* already"):
        SocketFile(directory / "0.sock")
    with DaemonClient(daemon.addresses[0], timeout=5) as client:
        assert client.ping()["device"] == "numpy"


def test_another_programs_live_socket_is_not_stolen(directory: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(directory / "s"))
        other.listen()
        with pytest.raises(DaemonError, match=r"listens at .* already"):
            SocketFile(directory / "s")
    assert not (directory / "s.lock").exists()


def test_stale_socket_is_replaced(directory: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(directory / "s"))
    SocketFile(directory / "s").remove()
    assert list(directory.iterdir()) == []


def test_other_files_are_left_alone(directory: Path) -> None:
    (directory / "s").write_text("mine")
    with pytest.raises(DaemonError, match="not a socket"):
        SocketFile(directory / "s")
    assert (directory / "s").read_text() == "mine"


def test_directory_that_others_write_to(directory: Path) -> None:
    os.chmod(directory, 0o777)
    with pytest.raises(DaemonError, match="others may write"):
        SocketFile(directory / "s")


def test_path_too_long(directory: Path) -> None:
    with pytest.raises(DaemonError, match="longer than 107"):
        SocketFile(directory / ("x" * 120))


def test_no_daemon(directory: Path) -> None:
    with (
        DaemonClient(f"unix:{directory}/s") as client,
        pytest.raises(ConnectionLostError, match="muntin serve --socket"),
    ):
        client.ping()


def test_daemon_that_ends_is_noticed(start: Callable[..., Daemon], directory: Path) -> None:
    daemon = start()
    with DaemonClient(daemon.addresses[0], timeout=5) as client:
        client.ping()
        daemon.stop()
        with pytest.raises(ConnectionLostError, match="muntin serve --socket"):
            client.ping()
    assert list(directory.iterdir()) == []
