"""The front end for clients on the same host: frames over a Unix socket."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import structlog

from muntin.host.daemon.address import Address
from muntin.host.daemon.connection import Connection
from muntin.host.daemon.frames import FrameSocket
from muntin.host.daemon.service import Service
from muntin.host.daemon.socket_file import SocketFile
from muntin.host.errors import LimitError, to_wire

ACCEPT_SECONDS = 1.0


class UnixServer:
    """Takes connections at a Unix socket, one thread each.

    Parameters
    ----------
    service : Service
        What answers.
    path : Path
        The socket file; see `SocketFile` for what may be there already.
    handles : (int, int), optional
        As of `SocketFile`.

    Attributes
    ----------
    address : str
        What clients connect to.
    """

    def __init__(self, service: Service, path: Path, handles: tuple[int, int] | None = None):
        self._service = service
        self._file = SocketFile(path.absolute(), handles)
        self._lock = threading.Lock()
        self._connections: dict[Connection, threading.Thread] = {}
        self._stopping = False
        self._log = structlog.get_logger("muntin.unix")
        self._acceptor = threading.Thread(target=self._accept, name="muntin-accept", daemon=True)
        self.address = str(Address("unix", path=str(self._file.path)))

    def start(self) -> None:
        """Begin to take connections."""
        self._acceptor.start()

    @property
    def connections(self) -> int:
        """Connections that are open."""
        return len(self._connections)

    def stop(self, grace: float) -> bool:
        """Take no more connections, let requests in progress finish for `grace` seconds, remove the socket.

        Returns
        -------
        bool
            Whether every request could finish.
        """
        self._stopping = True
        # A connection wakes the acceptor; where somebody removed our file, its timeout does.
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wake, suppress(OSError):
            wake.connect(str(self._file.path))
        if self._acceptor.is_alive():
            self._acceptor.join()
        self._file.remove()
        until = time.monotonic() + grace
        while True:
            with self._lock:
                connections = list(self._connections)
            for connection in connections:
                if not connection.busy:
                    connection.stop()
            if not connections or time.monotonic() >= until:
                break
            time.sleep(0.02)
        for connection in connections:
            connection.stop()
        return not connections

    def _accept(self) -> None:
        listener = self._file.listener
        listener.settimeout(ACCEPT_SECONDS)
        while not self._stopping:
            try:
                sock, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError as error:
                # Out of file descriptors, most likely: wait for connections to end rather than spin.
                self._log.warning("cannot accept a connection", reason=str(error))
                time.sleep(0.1)
                continue
            if self._stopping:
                sock.close()
                return
            connection = Connection(sock, self._service)
            thread = threading.Thread(target=self._run, args=(connection,), name="muntin-connection", daemon=True)
            with self._lock:
                full = len(self._connections) >= self._service.limits.max_connections
                if not full:
                    self._connections[connection] = thread
            if full:
                self._turn_away(sock)
            else:
                thread.start()

    def _turn_away(self, sock: socket.socket) -> None:
        limit = self._service.limits.max_connections
        error = LimitError(f"{limit} connections are open, the limit; close one, or raise --max-connections")
        self._service.count_error(error)
        sock.settimeout(1.0)
        try:
            FrameSocket(sock, 0).send({"error": to_wire(error)})
        except OSError as reason:
            self._log.info("client went away", reason=str(reason))
        sock.close()

    def _run(self, connection: Connection) -> None:
        try:
            connection.run()
        finally:
            with self._lock:
                self._connections.pop(connection, None)
