"""A daemon of one's own: started for a query, or by its first client, ended with the process that started it."""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import select
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import muntin
from muntin.host.daemon.address import Address
from muntin.host.daemon.frames import FrameSocket
from muntin.host.daemon.socket_file import SocketFile
from muntin.host.errors import DaemonError, MuntinError, from_wire, to_wire

log = logging.getLogger(__name__)

READY = "muntin ready: "  # then the addresses
FAILED = "muntin failed: "  # then the error as `errors.to_wire` has it
STOP_SECONDS = 10.0
MODULE = ["muntin"]  # what has the command


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
        threading.Thread(target=process.wait, name="muntin-reaper", daemon=True).start()

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


class AwaitedDaemon:
    """A daemon that is started by its first client: until then there is a socket, and no process.

    A thread waits at the socket, starts the daemon, and hands the socket over with the clients that wait there. Where
    the daemon does not start, each client gets the reason.

    Parameters
    ----------
    device : str
        As `muntin.hardware.open_device` takes it.
    tracing : bool
        As of `muntin serve`.

    Attributes
    ----------
    address : str
        For `DaemonClient`.
    """

    def __init__(self, device: str, *, tracing: bool = False):
        self._start = _Start(device, tracing)
        self.address = str(Address("unix", path=str(self._start.file.path)))
        self._finalizer = weakref.finalize(self, self._start.close, os.getpid())

    @property
    def daemon(self) -> PrivateDaemon | None:
        """The daemon, once it was started."""
        return self._start.daemon

    @property
    def usable(self) -> bool:
        """Whether a client will find it: it runs, or waits to be started."""
        return self._finalizer.alive and (self.daemon is None or self.daemon.process.poll() is None)

    def close(self) -> None:
        """End the daemon, or what waits for its first client; may be called again. Done also when this is dropped."""
        self._finalizer()


class _Start:
    """What a thread of an `AwaitedDaemon` needs; apart from that, so that the thread does not keep it."""

    def __init__(self, device: str, tracing: bool):
        # The socket's folder is for this user alone, and made with it.
        self.file = SocketFile(Path(tempfile.gettempdir(), f"muntin-{secrets.token_hex(8)}", "daemon.sock"))
        self.daemon: PrivateDaemon | None = None
        self._device, self._tracing = device, tracing
        self._ended, self._end = socket.socketpair()
        self._guard = threading.Lock()
        threading.Thread(target=self._run, name="muntin-awaited", daemon=True).start()

    def _run(self) -> None:
        failed: MuntinError | None = None
        with self._ended, self._end, selectors.DefaultSelector() as ready:
            ready.register(self.file.listener, selectors.EVENT_READ)
            ready.register(self._ended, selectors.EVENT_READ)
            while self._ended not in [key.fileobj for key, _ in ready.select()]:
                if failed is not None:
                    self._refuse(failed)
                    continue
                with self._guard:
                    if self._end.fileno() < 0:
                        break
                    try:
                        self.daemon = start_private(self._device, file=self.file, tracing=self._tracing)
                        return
                    except MuntinError as error:
                        log.warning("a daemon that is needed did not start: %s", error)
                        failed = error
        self.file.remove()

    def _refuse(self, error: MuntinError) -> None:
        """Tell a client why there is no daemon."""
        sock, _ = self.file.listener.accept()
        with sock:
            sock.settimeout(1.0)
            frames = FrameSocket(sock, 0)
            try:
                frames.receive_message()
                frames.send({"error": to_wire(error)})
            except (OSError, MuntinError) as reason:
                log.warning("a client went away: %s", reason)

    def close(self, owner: int) -> None:
        if os.getpid() != owner:  # a fork of the owner that exits
            return
        with self._guard:
            self._end.close()
            if self.daemon is not None:
                self.daemon.close()


def start_private(
    device: str = "cpu", *, timeout: float = 60.0, file: SocketFile | None = None, **options: Any
) -> PrivateDaemon:
    """Start a daemon that ends with this process, and wait until it is ready.

    Parameters
    ----------
    device : str
        As `muntin.hardware.open_device` takes it.
    timeout : float
        Seconds to wait for it to be ready.
    file : SocketFile, optional
        Where it listens; the daemon owns it from then on. By default it makes one of its own.
    **options
        Options of `muntin serve` with underscores: ``max_message=1 << 28``, ``log_json=True``.

    Raises
    ------
    DeviceError, CapacityError, DaemonError
        It did not start; class and message are its own.
    """
    # The daemon makes the directory, for this user alone, and so removes it even where this process was killed.
    path = Path(tempfile.gettempdir(), f"muntin-{secrets.token_hex(8)}", "daemon.sock") if file is None else file.path
    directory = str(path.parent)
    # No name: nothing is left of the log, whatever ends the two processes.
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the daemon
    if file is not None and file.handles:
        options["socket_handles"] = ",".join(map(str, file.handles))
    handles = () if file is None else file.handles
    try:
        process, addresses = launch(
            device, path, errors, timeout, handles, stdin=subprocess.PIPE, exit_with_stdin=True, **options
        )
    except BaseException:
        if file is None:
            shutil.rmtree(directory, ignore_errors=True)
        errors.close()
        raise
    if file is not None:
        file.hand_over()
    return PrivateDaemon(process, addresses[0], directory, errors)


def launch(
    device: str,
    path: Path,
    log: BinaryIO,
    timeout: float,
    handles: tuple[int, ...] = (),
    *,
    stdin: int = subprocess.DEVNULL,
    **options: Any,
) -> tuple[subprocess.Popen[bytes], list[str]]:
    """Start ``muntin serve`` in a process of its own and wait until it is ready.

    Parameters
    ----------
    device : str
        As `muntin.hardware.open_device` takes it.
    path : Path
        Its socket; the daemon makes and removes the folder.
    log : file
        Of its log; it can be read where the message of an error is to have its end.
    timeout : float
        Seconds to wait.
    handles : tuple of int
        Open files that it inherits.
    stdin : int
        As `subprocess.Popen` takes it.
    **options
        As of `start_private`.

    Returns
    -------
    process, addresses : subprocess.Popen, list of str
        The addresses at which it listens, that of the socket first.

    Raises
    ------
    DeviceError, CapacityError, DaemonError
        It did not start and was ended; class and message are its own.
    """
    command = [sys.executable, "-m", *MODULE, "serve", f"--device={device}", f"--socket={path}"]
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            command.append(flag)
        elif value is not None and value is not False:
            command.append(f"{flag}={value}")
    root = str(Path(muntin.__file__).parent.parent)
    process = subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=log,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))},
        pass_fds=handles,
        start_new_session=True,  # an interrupt typed at the starting process is not meant for the daemon
    )
    try:
        return process, _await_ready(process, log, timeout)
    except BaseException:
        _end(process, None, os.getpid())
        raise


def _await_ready(process: subprocess.Popen[bytes], log: BinaryIO, timeout: float) -> list[str]:
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
        return re.split(r" (?=grpc(?:\+tls)?://)", line.removeprefix(READY))  # a path may have spaces
    if line.startswith(FAILED):
        raise from_wire(json.loads(line.removeprefix(FAILED)))
    raise DaemonError(f"the daemon said {line!r} instead of being ready")


def _tail(log: BinaryIO, size: int = 4000) -> str:
    end = os.fstat(log.fileno()).st_size
    return os.pread(log.fileno(), size, max(0, end - size)).decode(errors="replace").strip()


def _end(process: subprocess.Popen[bytes], directory: str | None, owner: int) -> None:
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
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)
