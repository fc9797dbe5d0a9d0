"""A UDP port that a board is at."""

from __future__ import annotations

import socket
import time
import weakref

from muntin.contract.link import DATAGRAM_BYTES
from muntin.host.errors import LinkError, LinkLostError, LinkPortError

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
