"""Asks a board for something, until it has been done once."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Protocol

from muntin.contract.link import DATA_WORDS, MAGIC, STATUS_TEXT, FrameReader, Request, Status, to_frame
from muntin.host.errors import LinkDamagedError, LinkRefusedError, LinkSilentError

TRIES = 4
PATIENCE = 0.5


class Port(Protocol):
    """What `LinkClient` needs of a port; see `SerialPort` and `UdpPort`."""

    @property
    def path(self) -> str: ...

    @property
    def baud(self) -> int: ...

    @property
    def check(self) -> str: ...

    def send(self, content: bytes) -> None: ...

    def receive(self, until: float) -> bytes: ...

    def discard(self) -> None: ...

    def close(self) -> None: ...


class LinkClient:
    """Asks a board for something, and asks again where no whole answer comes; the board does it once all the same.

    Parameters
    ----------
    port : Port
    patience : float
        Seconds to wait for an answer, beyond what its bytes take on the line.
    tries : int
        How often to ask.

    Attributes
    ----------
    repeated : int
        Requests that were sent again so far, each time they were.

    Raises
    ------
    LinkSilentError, LinkDamagedError
        By every method: if no answer came, or no whole one, however often it was asked for.
    LinkLostError
        By every method: if the port is gone.
    LinkRefusedError
        By every method: if the board answers that it did not do it.
    """

    def __init__(self, port: Port, *, patience: float = PATIENCE, tries: int = TRIES):
        self._port = port
        self._patience = patience
        self._tries = tries
        self._session = 0
        self._sequence = 0
        self.repeated = 0

    def open(self) -> None:
        """Begins a session: whatever program asked the board before has to begin anew.

        Raises
        ------
        LinkRefusedError
            If the board's answer is that of another version of the link.
        """
        self._session = 1 + secrets.randbelow(0xFFFF)
        (magic,) = self._ask(Request.OPEN, expected=1)
        if magic != MAGIC:
            raise LinkRefusedError(
                f"{self._port.path}: the board's link is of another version: it says {magic:#010x}, not {MAGIC:#010x}: "
                "load a bitstream of this version"
            )

    def read(self, addresses: Sequence[int]) -> list[int]:
        """The registers at these addresses, read in this order."""
        values: list[int] = []
        for start in range(0, len(addresses), DATA_WORDS):
            part = addresses[start : start + DATA_WORDS]
            values += self._ask(Request.READ, data=part, expected=len(part))
        return values

    def write(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Writes registers: an address and a value each, in this order."""
        for start in range(0, len(pairs), DATA_WORDS // 2):
            self._ask(Request.WRITE, data=[word for pair in pairs[start : start + DATA_WORDS // 2] for word in pair])

    def push(self, address: int, values: Sequence[int]) -> None:
        """Writes one value after the other to a register."""
        for start in range(0, len(values), DATA_WORDS):
            self._ask(Request.PUSH, address, data=values[start : start + DATA_WORDS])

    def read_memory(self, address: int, count: int) -> list[int]:
        """So many words of memory, from a word on."""
        words: list[int] = []
        while len(words) < count:
            part = min(count - len(words), DATA_WORDS)
            words += self._ask(Request.READ_MEMORY, address + len(words), count=part, expected=part)
        return words

    def write_memory(self, address: int, words: Sequence[int]) -> None:
        """Writes words of memory, from a word on."""
        for start in range(0, len(words), DATA_WORDS):
            self._ask(Request.WRITE_MEMORY, address + start, data=words[start : start + DATA_WORDS])

    def wait(self, cycles: int, seconds: float) -> bool:
        """Waits for the kernel's interrupt, so many cycles at most, which are so many seconds: whether it came."""
        return bool(self._ask(Request.WAIT, count=cycles, expected=1, seconds=seconds)[0])

    def reset(self) -> None:
        """Resets the kernel once its memory accesses have ended."""
        self._ask(Request.RESET)

    def close(self) -> None:
        """Gives the port back. Idempotent."""
        self._port.close()

    def _ask(
        self,
        request: Request,
        address: int = 0,
        *,
        count: int = 0,
        data: Sequence[int] = (),
        expected: int = 0,
        seconds: float = 0.0,
    ) -> list[int]:
        """Asks for something that takes so many seconds, and so many words to answer: the data words of the answer."""
        self._sequence = (self._sequence + 1) % 256
        head = self._sequence << 8 | self._session << 16
        frame = to_frame([request | head, address, count, *data])
        on_the_line = 10 * (2 * len(frame) + 8 * (expected + 4)) / self._port.baud
        came = 0
        for again in range(self._tries):
            if again:
                self.repeated += 1
            self._port.discard()
            self._port.send(frame)
            reader = FrameReader()
            until = time.monotonic() + on_the_line + seconds + self._patience
            while received := self._port.receive(until):
                came += len(received)
                for answer in reader.feed(received):
                    if answer[0] & 0xFFFFFF00 == head:
                        return self._checked(request, answer, expected)
        where = f"{self._port.path}: {request.name} was asked for {self._tries} times"
        if came:
            raise LinkDamagedError(
                f"{where}, and of what came back ({came} bytes) no answer was whole: check the cable, and "
                f"{self._port.check}"
            )
        raise LinkSilentError(
            f"{where}, and nothing came back: check that a bitstream of Muntin's is loaded and its clock runs (a LED "
            f"shows that: docs/boards.md), and {self._port.check}"
        )

    def _checked(self, request: Request, answer: list[int], expected: int) -> list[int]:
        code, data = answer[0] & 0xFF, answer[1:]
        if code == Status.OK and len(data) == expected:
            return data
        if code == Status.OK:
            raise LinkRefusedError(
                f"{self._port.path}: {request.name} was answered with {len(data)} words, not {expected}: load a "
                "bitstream of this version"
            )
        try:
            text = STATUS_TEXT[Status(code)]
        except (ValueError, KeyError):
            text = f"status {code}, which this version does not know"
        after = f", after {data[0]} words" if data and data[0] else ""
        raise LinkRefusedError(f"{self._port.path}: {request.name} was not done{after}: {text}")
