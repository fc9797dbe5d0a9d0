"""Asks a board for something over a line, until it has been done once; and the serial and UDP ports it can be at."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
import weakref
from collections.abc import Sequence
from typing import Protocol

from muntin.contract.link import DATA_WORDS, DATAGRAM_BYTES, MAGIC, STATUS_TEXT, FrameReader, Request, Status, to_frame
from muntin.host.errors import (
    LinkDamagedError,
    LinkError,
    LinkLostError,
    LinkPortError,
    LinkRefusedError,
    LinkSilentError,
)

with contextlib.suppress(ImportError):  # which a board at Ethernet does without
    import serial

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
        """Begins a session: whatever program asked the board before has to begin again.

        Raises
        ------
        LinkRefusedError
            If the board's answer is that of another version of the link.
        """
        self._session = 1 + secrets.randbelow(0xFFFF)
        (magic,) = self._ask(Request.OPEN, expected=1)
        if magic != MAGIC:
            raise LinkRefusedError(
                f"{self._port.path}: the board's link has another version: it says {magic:#010x}, not {MAGIC:#010x}: "
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


class SerialPort:
    """A serial port, held by this process alone.

    Parameters
    ----------
    path : str
        As ``/dev/ttyUSB1``.
    baud : int
        Bits a second.

    Attributes
    ----------
    path : str
    baud : int
    check : str
        What to look at when no answer comes.

    Raises
    ------
    LinkPortError
        If it is not there, may not be opened, or another program has it.
    """

    def __init__(self, path: str, baud: int):
        self.path = path
        self.baud = baud
        self.check = f"that this is the board's port, whose bitstream was built for {baud} baud"
        try:
            self._port = serial.Serial(path, baud, timeout=0, write_timeout=10, exclusive=True)
        except (serial.SerialException, ValueError) as error:
            raise LinkPortError(
                f"{path} cannot be opened at {baud} baud ({error}): check that the board is plugged in, that no other "
                "program has it, and that you may use serial ports"
            ) from error
        self._free = weakref.finalize(self, _give_back, self._port)
        # USB bridges keep what came for 16 ms, unless they are told not to; not every driver can be told.
        with contextlib.suppress(OSError, ValueError, NotImplementedError):
            self._port.set_low_latency_mode(True)

    def send(self, content: bytes) -> None:
        """Sends bytes. Raises LinkLostError if the port is gone."""
        try:
            self._port.write(content)
        except (OSError, serial.SerialException) as error:
            raise self._lost(error) from error

    def receive(self, until: float) -> bytes:
        """What comes, at least one byte unless `until` (of `time.monotonic`) passes before.

        Raises
        ------
        LinkLostError
            If the port is gone.
        """
        try:
            while True:
                self._port.timeout = max(0.0, until - time.monotonic())
                first = self._port.read(1)
                if first:
                    return first + self._port.read(self._port.in_waiting)
                if time.monotonic() >= until:
                    return b""
        except (OSError, serial.SerialException, TypeError) as error:
            raise self._lost(error) from error

    def discard(self) -> None:
        """Forgets what came and was not received. Raises LinkLostError if the port is gone."""
        try:
            self._port.reset_input_buffer()
        except (OSError, serial.SerialException) as error:
            raise self._lost(error) from error
        except Exception as error:  # pyserial lets errors of termios through
            raise self._lost(error) from error

    def close(self) -> None:
        """Gives the port back. Idempotent; done also when it is dropped."""
        self._free()

    def _lost(self, error: Exception) -> LinkLostError:
        return LinkLostError(f"{self.path} is gone ({error}): check the cable and the board's power")


def _give_back(port: serial.Serial) -> None:
    with contextlib.suppress(OSError, serial.SerialException):
        port.close()


_LARGEST = 1 << 16


class UdpPort:
    """A UDP port that a board is at. What others send is not received.

    Parameters
    ----------
    address : str
        The board's IPv4 address.
    port : int

    Attributes
    ----------
    path : str
        Both, as ``192.168.1.50:19788``.
    baud : int
        Bits a second of the line.
    check : str
        What to look at when no answer comes.

    Raises
    ------
    LinkPortError
        If this machine has no way there.
    """

    baud = 1_000_000_000

    def __init__(self, address: str, port: int):
        self.path = f"{address}:{port}"
        self.check = (
            f"that the board is at a network socket of 1 Gbit/s, that {address} is the address its bitstream was built "
            "with, and that this computer has an address in the same network"
        )
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._free = weakref.finalize(self, self._socket.close)
        try:
            self._socket.connect((address, port))
        except OSError as error:
            self.close()
            raise LinkPortError(f"there is no way to {self.path} ({error}): check {self.check}") from error

    def send(self, content: bytes) -> None:
        """Sends a frame, in as many datagrams as it takes. Raises LinkLostError or LinkPortError."""
        try:
            for start in range(0, len(content), DATAGRAM_BYTES):
                self._socket.send(content[start : start + DATAGRAM_BYTES])
        except OSError as error:
            raise self._failed(error) from error

    def receive(self, until: float) -> bytes:
        """A datagram that comes, empty if `until` (of `time.monotonic`) passes before.

        Raises
        ------
        LinkLostError
            If the port is closed, or the network away.
        LinkPortError
            If what is at that address has no such port.
        """
        try:
            self._socket.settimeout(max(0.0, until - time.monotonic()))
            return self._socket.recv(_LARGEST)
        except (TimeoutError, BlockingIOError):
            return b""
        except OSError as error:
            raise self._failed(error) from error

    def discard(self) -> None:
        """Forgets what came and was not received. Raises LinkLostError or LinkPortError."""
        while self.receive(0.0):
            pass

    def close(self) -> None:
        """Gives the port back. Idempotent; done also when it is dropped."""
        self._free()

    def _failed(self, error: OSError) -> LinkError:
        if isinstance(error, ConnectionRefusedError):
            return LinkPortError(f"what is at {self.path} has no such port ({error}): check {self.check}")
        return LinkLostError(f"{self.path} cannot be reached ({error}): check the cable and the board's power")
