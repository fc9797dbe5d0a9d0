"""A daemon of one's own: started for a query, ended with the process that started it."""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import host
from host.errors import DaemonError, from_wire

READY = "mullion ready: "  # then the address
FAILED = "mullion failed: "  # then the error as `errors.to_wire` has it
STOP_SECONDS = 10.0
MODULE = ["host.cli"]  # what has the command


class PrivateDaemon:
    """A daemon in a process of its own, at a socket that only this user can reach. A context manager.

    Made by `start_private`. It ends with `close`, when this object is collected, and when this process ends,
    however that happens: its standard input is a pipe that this process holds.

    Attributes
    ----------
    address : str
        For `DaemonClient`.
    process : subprocess.Popen
        A thread waits for it, so that it never becomes a zombie.
    """

    def __init__(self, process: subprocess.Popen[bytes], address: str, directory: str, log: BinaryIO):
        self.process = process
        self.address = address
        self._log = log
        self._finalizer = weakref.finalize(self, _end, process, directory, os.getpid())
        threading.Thread(target=process.wait, name="mullion-reaper", daemon=True).start()

    def log_tail(self, size: int = 4000) -> str:
        """The end of what the daemon logged; for the message where it died."""
        return _tail(self._log, size)

    def close(self) -> None:
        """End the daemon, by force where it does not end within some seconds; may be called again."""
        self._finalizer()

    def __enter__(self) -> PrivateDaemon:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def start_private(device: str = "cpu", *, timeout: float = 60.0, **options: Any) -> PrivateDaemon:
    """Start a daemon that ends with this process, and wait until it is ready.

    Parameters
    ----------
    device : str
        As `host.open_device` takes it.
    timeout : float
        Seconds to wait for it to be ready.
    **options
        Options of `mullion serve` with underscores: ``max_message=1 << 28``, ``log_json=True``.

    Raises
    ------
    DeviceError, CapacityError, DaemonError
        It did not start; class and message are its own.
    """
    # The daemon makes the directory, for this user alone, and so removes it even where this process was killed.
    directory = str(Path(tempfile.gettempdir(), f"mullion-{secrets.token_hex(8)}"))
    # No name: nothing is left of the log, whatever ends the two processes.
    log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the daemon
    command = [sys.executable, "-m", *MODULE, "serve", "--exit-with-stdin", f"--device={device}"]
    command.append(f"--socket={Path(directory, 'daemon.sock')}")
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            command.append(flag)
        elif value is not None and value is not False:
            command.append(f"{flag}={value}")
    root = str(Path(host.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,  # an interrupt typed at the starting process is not meant for the daemon
    )
    try:
        address = _await_ready(process, log, timeout)
    except BaseException:
        _end(process, directory, os.getpid())
        log.close()
        raise
    return PrivateDaemon(process, address, directory, log)


def _await_ready(process: subprocess.Popen[bytes], log: BinaryIO, timeout: float) -> str:
    assert process.stdout is not None
    until = time.monotonic() + timeout
    text = b""
    while b"\n" not in text:
        left = until - time.monotonic()
        if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
            raise DaemonError(
                f"the daemon was not ready after {timeout:g} seconds; it logged: {_tail(log) or 'nothing'}"
            )
        chunk = os.read(process.stdout.fileno(), 4096)
        if not chunk:
            process.wait(STOP_SECONDS)
            raise DaemonError(
                f"the daemon ended with status {process.returncode} before it was ready; it logged: "
                f"{_tail(log) or 'nothing'}"
            )
        text += chunk
    line = text.split(b"\n", 1)[0].decode(errors="replace")
    if line.startswith(READY):
        return line[len(READY) :]
    if line.startswith(FAILED):
        raise from_wire(json.loads(line[len(FAILED) :]))
    raise DaemonError(f"the daemon said {line!r} instead of being ready")


def _tail(log: BinaryIO, size: int = 4000) -> str:
    end = os.fstat(log.fileno()).st_size
    return os.pread(log.fileno(), size, max(0, end - size)).decode(errors="replace").strip()


def _end(process: subprocess.Popen[bytes], directory: str, owner: int) -> None:
    if os.getpid() != owner:  # a fork of the owner that exits; the daemon is not its own
        return
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(directory, ignore_errors=True)
