"""Frames on the Unix socket: a fixed header, JSON, and for rows an Arrow IPC stream.

| bytes | field |
|---|---|
| 4 | magic ``MULN`` |
| 2 | version, big-endian like the lengths |
| 4 | length of the JSON text |
| 8 | length of the body |
| n | JSON object, UTF-8 |
| m | body: nothing, or one complete Arrow IPC stream (schema, dictionaries, record batches) |

A body is a stream of its own, rather than a piece of a longer one, so that its whole length is known, and
refused, before a byte of it is allocated; the Arrow reader then only sees a buffer that lies in memory
already.
"""

from __future__ import annotations

import json
import select
import socket
import struct
from collections import deque
from itertools import islice
from typing import Any

import pyarrow as pa

from muntin.host.daemon.limits import MIB, check_message
from muntin.host.daemon.rows import Body
from muntin.host.errors import ConnectionLostError, ProtocolError

MAGIC = b"MUNT"
VERSION = 3
HEADER = struct.Struct("!4sHIQ")
MAX_JSON = 4 * MIB
MAX_PARTS = 512  # of one system call; Linux takes 1,024


def other_version(version: int) -> str:
    """What to do about another end that speaks another protocol version."""
    older, what = ("the other end's", "restart") if version < VERSION else ("this end's", "start")
    return (
        f"protocol version {version} of the other end; this end speaks {VERSION}: {older} muntin is the older one. "
        f"Install the same release at both, then {what} the daemon with it"
    )


class CutShortError(ProtocolError):
    """The other end closed in the middle of a frame."""


class FrameSocket:
    """One connection that carries frames.

    Parameters
    ----------
    sock : socket.socket
        Connected; its timeout bounds every wait.
    max_message : int
        Bytes of a body that this end accepts.
    """

    def __init__(self, sock: socket.socket, max_message: int):
        self._socket = sock
        self._max_message = max_message

    def send(self, message: dict[str, Any], body: Body | None = None) -> None:
        """Send one frame, its rows from where they lie; `OSError` where the other end is gone."""
        text = json.dumps(message).encode()
        header = HEADER.pack(MAGIC, VERSION, len(text), body.size if body is not None else 0)
        parts = [header + text] if body is None else [header + text, *body.parts]
        views: deque[memoryview] = deque(memoryview(part) for part in parts if len(part))
        while views:
            sent = self._socket.sendmsg(list(islice(views, MAX_PARTS)))
            while views and sent >= views[0].nbytes:
                sent -= views.popleft().nbytes
            if sent:
                views[0] = views[0][sent:]

    def receive_message(self) -> tuple[dict[str, Any], int] | None:
        """The next frame's JSON and the length of the body that follows; None where the other end closed in
        between.

        Raises
        ------
        ProtocolError
            Not one of our frames, or cut short.
        LimitError
            A length above the limit; nothing was allocated for it.
        TimeoutError
            Nothing came within the socket's timeout.
        """
        header = bytearray(HEADER.size)
        got = self._fill(memoryview(header))
        if got == 0:
            return None
        # What is there of the magic is looked at first: a stranger's short greeting is not a frame cut short.
        if not MAGIC.startswith(bytes(header[: min(got, len(MAGIC))])):
            start = bytes(header[: min(got, len(MAGIC))])
            raise ProtocolError(f"not a Muntin frame: it begins with {start!r}, not {MAGIC!r}")
        if got < HEADER.size:
            raise CutShortError(f"frame cut short: {got} of {HEADER.size} bytes of its header")
        _, version, text_length, body_length = HEADER.unpack(header)
        if version != VERSION:
            raise ProtocolError(other_version(version))
        check_message(text_length, MAX_JSON, "a message's JSON")
        check_message(body_length, self._max_message, "a message")
        text = self._exactly(text_length, "JSON")
        try:
            message = json.loads(memoryview(text).tobytes())
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"a frame's JSON cannot be read: {error}") from error
        if not isinstance(message, dict):
            raise ProtocolError(f"a frame's JSON must be an object, not {type(message).__name__}")
        return message, body_length

    def receive_body(self, length: int) -> pa.Buffer:
        """The body of the frame whose JSON was just read; `length` has been checked."""
        return self._exactly(length, "body")

    def receive(self) -> tuple[dict[str, Any], pa.Buffer | None]:
        """A whole frame, where one must come.

        Raises
        ------
        ConnectionLostError
            The other end closed instead.
        """
        try:
            received = self.receive_message()
            if received is not None:
                message, length = received
                return message, self.receive_body(length) if length else None
        except CutShortError as error:
            raise ConnectionLostError(f"it closed the connection within its answer: {error}") from error
        raise ConnectionLostError("it closed the connection before it answered")

    def has_input(self) -> bool:
        """Whether a frame, or the end of the connection, is waiting to be read."""
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return bool(waiting.poll(0))

    def settimeout(self, seconds: float | None) -> None:
        """Bound every later wait."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _exactly(self, length: int, what: str) -> pa.Buffer:
        # Arrow's own buffer: aligned, and its pages are only touched as bytes arrive.
        buffer = pa.allocate_buffer(length)
        got = self._fill(memoryview(buffer)) if length else 0
        if got < length:
            raise CutShortError(f"frame cut short: {got:,} of {length:,} bytes of its {what}")
        return buffer

    def _fill(self, view: memoryview) -> int:
        got = 0
        while got < len(view):
            count = self._socket.recv_into(view[got:])
            if count == 0:
                break
            got += count
        return got
