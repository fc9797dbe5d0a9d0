"""One client on the Unix socket."""

from __future__ import annotations

import socket
import time
from typing import Any

import structlog

from muntin.host.daemon.frames import FrameSocket
from muntin.host.daemon.operations import begin, commit, operate
from muntin.host.daemon.query import Request
from muntin.host.daemon.result import Result, internal_error
from muntin.host.daemon.rows import cut, decode, encode_within
from muntin.host.daemon.service import Service
from muntin.host.errors import ConnectionLostError, LimitError, MuntinError, ProtocolError, to_wire
from muntin.host.tracing import serving, span

LINGER_SECONDS = 2.0


class Connection:
    """Answers one client until it closes, misbehaves or falls silent.

    An error in a frame, or while rows are coming, is answered and ends this connection, because what follows
    on it cannot be distinguished; an error in a request that has not begun to send rows leaves the connection
    usable.

    Attributes
    ----------
    busy : bool
        A request is being answered.
    """

    def __init__(self, sock: socket.socket, service: Service):
        self.busy = False
        self._socket = sock
        self._service = service
        sock.settimeout(service.limits.idle_timeout)
        self._frames = FrameSocket(sock, service.limits.max_message)
        self._log = structlog.get_logger("muntin.connection")

    def run(self) -> None:
        """Serve until the connection ends; raises nothing."""
        try:
            while self._answer_one():
                self.busy = False
        except TimeoutError:
            limit = self._service.limits.idle_timeout
            if self.busy:
                self._refuse(LimitError(f"nothing came for {limit:g} seconds in the middle of a request"))
            else:
                self._log.debug("idle connection closed", seconds=limit)
        except OSError as error:
            self._log.info("client went away", busy=self.busy, reason=str(error))
        except MuntinError as error:
            self._refuse(error)
        except Exception as error:
            # A defect of ours must not take the other clients down; it is logged with its traceback.
            self._log.exception("request failed")
            self._refuse(internal_error(error))
        finally:
            self._socket.close()

    def stop(self) -> None:
        """End the connection now; a request on it fails at its next read or write."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # it ended by itself
            return

    def _answer_one(self) -> bool:
        received = self._frames.receive_message()
        if received is None:
            return False
        self.busy = True
        message, body = received
        if body:
            raise ProtocolError(f"a request has no body, but {body:,} bytes are announced")
        with serving(message):
            self._answer(message)
        return True

    def _answer(self, message: dict[str, Any]) -> None:
        try:
            if message.get("op") == "process":
                request = begin(self._service, message)
            else:
                self._frames.send({"ok": operate(self._service, message)})
                return
        except MuntinError as error:
            self._tell(error)
            return
        with request:
            self._frames.send({"ok": request.answer})
            result: Result
            if request.kept is not None:
                result = request.kept
            else:
                with span("receive"):
                    end = self._stage(request)
                result = commit(request, end)
            with span("send"):
                self._send(result)

    def _stage(self, request: Request) -> dict[str, Any]:
        """Take the rows; returns the client's last message."""
        while True:
            received = self._frames.receive_message()
            if received is None:
                raise ConnectionLostError(
                    f"query {request.query.name!r}, batch {request.batch}: the client left before the batch "
                    "was complete; nothing was applied"
                )
            message, length = received
            if message.get("op") == "commit" and not length:
                return message
            if message.get("op") != "rows" or not length:
                raise ProtocolError(f"rows or commit must follow a process request, not {message.get('op')!r}")
            request.reserve(length)
            for batch in decode(self._frames.receive_body(length)):
                request.add(str(message.get("side")), batch)

    def _send(self, result: Result) -> None:
        limits = self._service.limits
        for batch in cut(result.batches(), limits.result_rows, limits.max_message):
            for rows, body in encode_within([batch], limits.max_message):
                self._frames.send({"rows": rows}, body)
        self._frames.send({"end": result.num_rows})

    def _tell(self, error: MuntinError) -> None:
        self._service.count_error(error)
        self._log.info("request refused", error=type(error).__name__, message=str(error))
        self._frames.send({"error": to_wire(error)})

    def _refuse(self, error: MuntinError) -> None:
        """Tell an error and end the connection; what the client still sends is thrown away while it reads."""
        try:
            self._socket.settimeout(LINGER_SECONDS)
            self._tell(error)
            self._socket.shutdown(socket.SHUT_WR)
            until = time.monotonic() + LINGER_SECONDS
            while time.monotonic() < until and self._socket.recv(1 << 16):
                pass
        except OSError:  # the client is gone, and was sent what could be sent
            return
