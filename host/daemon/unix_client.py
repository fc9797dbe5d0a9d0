"""A daemon's client over its Unix socket."""

from __future__ import annotations

import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from muntin.host.daemon.definition import Definition
from muntin.host.daemon.frames import FrameSocket
from muntin.host.daemon.rows import Body, cut, decode, encode_within
from muntin.host.errors import ConnectionLostError, ProtocolError, from_wire
from muntin.host.keys.content import check_repeat

# Frames from the daemon are cut to its --max-message, which the client learns only later.
MAX_ANSWER = 1 << 40
ROWS_OF_A_FRAME = 1 << 20
BYTES_OF_A_FRAME = 16 << 20
GATHERED_BYTES = 1 << 20  # small batches, as Spark's of 10,000 rows, go in frames of so many bytes


class UnixClient:
    """Keeps connections that are not in use, and opens one where there is none.

    Parameters
    ----------
    path : str
        The socket file.
    timeout : float
        Seconds to wait for the next byte.
    """

    def __init__(self, path: str, timeout: float):
        self._path = path
        self._timeout = timeout
        self._lock = threading.Lock()
        self._free: list[FrameSocket] = []

    def call(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send one operation and return its answer."""
        connection, answer = self._ask(message)
        self._give_back(connection)
        return answer

    def process(
        self,
        message: dict[str, Any],
        rows: Iterator[tuple[str, pa.RecordBatch]],
        closing: Callable[[], dict[str, Any]] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Send a batch, and return its result as it comes."""
        connection, answer = self._ask(message)
        try:
            if answer["rows_wanted"]:
                self._send_rows(connection, rows, answer["max_message"], closing)
            else:
                check_repeat(message["batch"], answer.get("content"), rows)
        except BaseException:
            connection.close()
            raise
        return self._results(connection)

    def opened(self, query: str, definition: Definition) -> None:
        """Nothing: each frame of rows says what they are."""

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            while self._free:
                self._free.pop().close()

    def _send_rows(
        self,
        connection: FrameSocket,
        rows: Iterator[tuple[str, pa.RecordBatch]],
        limit: int,
        closing: Callable[[], dict[str, Any]] | None,
    ) -> None:
        counts = {"left": 0, "right": 0, "places": 0}
        for side, batches in _gathered(rows):
            if side not in counts:
                raise ProtocolError(f"a row's side must be 'left' or 'right', not {side!r}")
            for count, body in encode_within(batches, limit):
                counts[side] += count
                self._send(connection, {"op": "rows", "side": side}, body)
        end = {"op": "commit", "left_rows": counts["left"], "right_rows": counts["right"]}
        self._send(connection, end | (closing() if closing else {}))

    def _send(self, connection: FrameSocket, message: dict[str, Any], body: Body | None = None) -> None:
        try:
            # The daemon only speaks now where it refuses the request: do not send the rest of the rows.
            if not connection.has_input():
                connection.send(message, body)
                return
        except TimeoutError as error:
            raise self._silent() from error
        except OSError:
            pass  # it may have said why before it closed: read that
        self._answer(connection)
        raise ProtocolError("the daemon answered before it had all rows")

    def _results(self, connection: FrameSocket) -> Iterator[pa.RecordBatch]:
        got = 0
        try:
            while True:
                message, body = self._answer(connection)
                if "end" in message:
                    break
                if body is None:
                    raise ProtocolError(f"the daemon answered {message!r} where rows must come")
                for batch in decode(body):
                    got += batch.num_rows
                    yield batch
            if got != message["end"]:
                raise ProtocolError(f"the daemon announces {message['end']} rows of result, {got} arrived")
        except BaseException:
            # Also where the caller stops before the end: what is left on the connection belongs to no one.
            connection.close()
            raise
        self._give_back(connection)

    def _ask(self, message: dict[str, Any]) -> tuple[FrameSocket, dict[str, Any]]:
        """Send a request; an idle connection that the daemon closed meanwhile is replaced."""
        while True:
            with self._lock:
                idle = self._free.pop() if self._free else None
            if idle is not None and idle.has_input():  # the daemon ended it
                idle.close()
                continue
            connection = idle or self._connect()
            try:
                connection.send(message)
                answer, _ = connection.receive()
                return connection, _checked(answer)["ok"]
            except TimeoutError as error:
                connection.close()
                raise self._silent() from error
            except OSError as error:
                connection.close()
                if idle is None:
                    raise self._lost(error) from error
            except BaseException:
                connection.close()
                raise

    def _answer(self, connection: FrameSocket) -> tuple[dict[str, Any], pa.Buffer | None]:
        try:
            message, body = connection.receive()
        except TimeoutError as error:
            raise self._silent() from error
        except OSError as error:
            raise self._lost(error) from error
        return _checked(message), body

    def _connect(self) -> FrameSocket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(self._timeout)
        until = time.monotonic() + self._timeout
        try:
            while True:
                try:
                    sock.connect(self._path)
                    break
                except BlockingIOError:  # more clients at once than the daemon's queue holds
                    if time.monotonic() >= until:
                        raise self._silent() from None
                    time.sleep(0.01)
        except ConnectionLostError:
            sock.close()
            raise
        except OSError as error:
            sock.close()
            raise ConnectionLostError(
                f"no daemon answers at unix:{self._path} ({error.strerror or error}); start one with: "
                f"muntin serve --socket {self._path}"
            ) from error
        connection = FrameSocket(sock, MAX_ANSWER)
        weakref.finalize(connection, sock.close)  # it goes with the client, or with a result that is never read
        return connection

    def _give_back(self, connection: FrameSocket) -> None:
        with self._lock:
            self._free.append(connection)

    def _lost(self, error: OSError) -> ConnectionLostError:
        return ConnectionLostError(f"the daemon at unix:{self._path} went away: {error}")

    def _silent(self) -> ConnectionLostError:
        return ConnectionLostError(
            f"the daemon at unix:{self._path} said nothing for {self._timeout:g} seconds; see its log, or "
            "give the client a larger timeout"
        )


def _checked(message: dict[str, Any]) -> dict[str, Any]:
    if "error" in message:
        raise from_wire(message["error"])
    return message


def _gathered(rows: Iterator[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
    """The same rows: what follows one another of one side and schema together, and what is large in pieces."""
    side, size = "", 0
    waiting: list[pa.RecordBatch] = []
    for own, batch in rows:
        for piece in cut([batch], ROWS_OF_A_FRAME, BYTES_OF_A_FRAME):
            if waiting and (own != side or size >= GATHERED_BYTES or not piece.schema.equals(waiting[0].schema)):
                yield side, waiting
                waiting, size = [], 0
            side, size = own, size + piece.nbytes
            waiting.append(piece)
    if waiting:
        yield side, waiting
