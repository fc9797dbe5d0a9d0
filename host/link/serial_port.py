"""A serial port that a board is at."""

from __future__ import annotations

import contextlib
import time
import weakref

import serial

from muntin.host.errors import LinkLostError, LinkPortError


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
