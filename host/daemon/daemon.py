"""The running daemon: the service, its front ends, and its end."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from muntin.host.daemon.certificate import read_certificate, read_file
from muntin.host.daemon.limits import Limits
from muntin.host.daemon.metrics import serve_metrics
from muntin.host.daemon.service import Service
from muntin.host.daemon.unix_server import UnixServer
from muntin.host.errors import AuthError, DaemonError
from muntin.host.native import _core
from muntin.host.state import check_place, local_folder

PARENT_POLL_SECONDS = 1.0
IDLE_SECONDS = 60.0  # for which memory that results and windows have left is kept for the next ones


@dataclass(frozen=True)
class FlightOptions:
    """Where and how to listen for clients on other hosts.

    Parameters
    ----------
    host, port : str, int
        Port 0 lets the system choose.
    token : str
        What clients must present.
    tls : (bytes, bytes), optional
        Certificate chain and private key, PEM.
    """

    host: str
    port: int
    token: str
    tls: tuple[bytes, bytes] | None = None

    @classmethod
    def from_files(cls, listen: str, token_file: Path, cert: Path | None, key: Path | None) -> FlightOptions:
        """From what the command line names.

        Raises
        ------
        DaemonError, AuthError
            Not host:port; a certificate without its key; a file that cannot be read; an empty token.
        """
        host, _, port = listen.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise DaemonError(f"--listen must be host:port, not {listen!r}")
        if (cert is None) != (key is None):
            raise DaemonError("--tls-cert and --tls-key must be given together")
        tls = read_certificate(cert, key) if cert and key else None
        return cls(host.strip("[]"), int(port), read_token(token_file), tls)


class Daemon:
    """Everything that `muntin serve` runs. Made, it listens; `run` waits for the end.

    Parameters
    ----------
    device : str
        As `muntin.hardware.open_device` takes it.
    socket : Path
        Of the Unix socket.
    socket_handles : (int, int), optional
        As of `SocketFile`.
    flight : FlightOptions, optional
        For clients on other hosts.
    metrics : (str, int), optional
        Host and port for Prometheus.
    limits : Limits, optional
        What clients may ask for.
    state, memory : str and int, optional
        As of `Service`.

    Attributes
    ----------
    addresses : list of str
        Where clients connect.
    """

    def __init__(
        self,
        device: str,
        socket: Path,
        *,
        flight: FlightOptions | None = None,
        metrics: tuple[str, int] | None = None,
        limits: Limits | None = None,
        state: str | None = None,
        memory: int | None = None,
        socket_handles: tuple[int, int] | None = None,
    ):
        self._log = structlog.get_logger("muntin")
        self._ended = threading.Event()
        self._started = False
        self._reason = ""
        self._undo: list[Callable[[], object]] = []
        self.metrics_port = 0
        self.addresses: list[str] = []
        try:
            if state is not None:
                check_place(state)
                folder = local_folder(state)  # whoever asks for it may have been started in another one
                state = state if folder is None else os.path.abspath(folder)
            self.service = Service(device, limits, state, memory)
            self.service.more_status = lambda: {
                "connections": self._unix.connections,
                "addresses": self.addresses,
            }
            self._undo.append(self.service.close)
            self._unix = UnixServer(self.service, socket, socket_handles)
            self._undo.append(lambda: self._unix.stop(self.service.limits.grace))
            self.addresses.append(self._unix.address)
            self._flight = self._start_flight(flight) if flight else None
            if metrics:
                token = flight.token if flight else None
                stop, self.metrics_port = serve_metrics(self.service.status, *metrics, token, self._unready)
                self._undo.insert(1, stop)  # it tells of the end until requests have ended
        except BaseException:
            self.stop()
            raise
        self._unix.start()
        self._started = True

    def _unready(self) -> str | None:
        """Why requests are not taken; None where they are."""
        if self._ended.is_set():
            return f"stopping: {self._reason}"
        return None if self._started else "starting"

    def end(self, reason: str) -> None:
        """Have `run` return; from any thread or signal handler."""
        self._reason = self._reason or reason
        self._ended.set()

    def run(self) -> bool:
        """Wait for the end, then let requests finish, close the queries and remove the socket.

        Returns
        -------
        bool
            Whether every request in progress could finish in the time that `Limits.grace` gives.
        """
        self._log.info(
            "ready",
            addresses=self.addresses,
            device=self.service.device_name,
            pid=os.getpid(),
            metrics_port=self.metrics_port or None,
        )
        while not self._ended.wait(IDLE_SECONDS):
            _core.give_back(IDLE_SECONDS)
        self._log.info("stopping", reason=self._reason)
        finished = self.stop()
        self._log.info("stopped", all_requests_finished=finished)
        return finished

    def end_on_signals(self) -> None:
        """End on SIGTERM and SIGINT; a second one ends the process at once."""

        def handle(number: int, frame: object) -> None:
            signal.signal(number, signal.SIG_DFL)
            self.end(signal.Signals(number).name)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, handle)

    def end_with_stdin(self) -> None:
        """End when the process that started this one closes our standard input, or is gone.

        The second is looked at too because a child that the starter forked may hold the pipe open after it.
        """
        parent = os.getppid()

        def read() -> None:
            try:
                while os.read(0, 4096):
                    pass
            except OSError as error:
                self._log.warning("standard input cannot be read", reason=str(error))
            self.end("standard input closed")

        def poll() -> None:
            while not self._ended.wait(PARENT_POLL_SECONDS):
                if os.getppid() != parent:
                    self.end("the starting process ended")

        for target in (read, poll):
            threading.Thread(target=target, name=f"muntin-{target.__name__}", daemon=True).start()

    def end_with_process(self, pid: int) -> None:
        """End when a process that runs now is gone, or has made way for another of its number."""
        begun = _begun(pid)

        def poll() -> None:
            with ExitStack() as handles:
                watched = select.poll()
                with suppress(OSError, AttributeError):  # it is gone, or kernel or Python know no such handles
                    handle = os.pidfd_open(pid)
                    handles.callback(os.close, handle)
                    watched.register(handle, select.POLLIN)
                while begun is not None and _begun(pid) == begun:
                    watched.poll(1000 * PARENT_POLL_SECONDS)
                    if self._ended.is_set():
                        return
            self.end(f"process {pid} ended")

        threading.Thread(target=poll, name="muntin-poll-process", daemon=True).start()

    def _start_flight(self, options: FlightOptions) -> Any:
        # gRPC is only loaded where it is used: a private daemon starts sooner without.
        from muntin.host.daemon.flight_server import FlightServer

        server = FlightServer(self.service, options.host, options.port, options.token, options.tls)
        self._undo.append(lambda: server.stop(self.service.limits.grace))
        self.addresses.append(server.address)
        if options.tls is None and options.host not in ("127.0.0.1", "::1", "localhost"):
            self._log.warning(
                "the token and all rows travel unencrypted; give --tls-cert and --tls-key",
                listen=server.address,
            )
        return server

    def stop(self) -> bool:
        """Let requests finish, close the queries and remove the socket; what `run` does at the end."""
        finished = True
        while self._undo:
            # Front ends answer False where a request did not end; its device memory must then not be freed
            # under it.
            finished = self._undo.pop()() is not False and finished
            if not finished:
                self._undo = [undo for undo in self._undo if undo != self.service.close]
        return finished


def _begun(pid: int) -> str | None:
    """When a process began, as the system counts; None where it does not run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def read_token(path: Path) -> str:
    """The token in a file, without the spaces around it; `AuthError` where there is none, or all can read it."""
    if path.is_file() and path.stat().st_mode & 0o007:
        raise AuthError(f"every user can read or change the token file {path}: run chmod o-rwx {path}")
    token = read_file(path).decode(errors="replace").strip()
    if not token or not token.isprintable() or not token.isascii():
        raise AuthError(f"the token file {path} must hold one line of printable ASCII text")
    return token
