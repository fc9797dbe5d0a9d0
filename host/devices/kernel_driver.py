"""Drives a kernel through its registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from host.devices.board_link import BoardLink
from host.devices.kernel_command import KernelCommand
from host.errors import DeviceError, KernelError
from hw.identity import parameter_hash
from hw.parameters import Parameters
from hw.register_map import BUILD_ID, COUNTERS, ERROR_TEXT, ErrorCode, build_parameters, layout_hash, registers

_REGISTERS = {register.name: register for register in registers()}
_TAGS = 1 << 16
_ADVICE: dict[ErrorCode, str] = {
    ErrorCode.MEMORY_ERROR: "check the board's memory",
    ErrorCode.DECODE_ERROR: "check that the link's memory_bytes is what the board has",
    ErrorCode.TIMEOUT: "check the board's memory and clock",
    ErrorCode.UNKNOWN_OPERATION: "build the kernel anew from the sources that this driver is of",
}
_T = TypeVar("_T")


class KernelDriver:
    """Pushes commands, waits for them, and turns what goes wrong into errors. Not for several threads at once.

    The kernel is reset. After the first error every method raises that error again, as what the queue, the index and
    the insertion buffer hold is not known any more: open the device anew.

    Parameters
    ----------
    link : BoardLink
    name : str
        Of the device, for messages.

    Attributes
    ----------
    parameters : Parameters
    memory_bytes : int
    queue_rows : int
        Commands that are pushed before a wait.

    Raises
    ------
    DeviceError
        If the board does not answer, has another kernel, or one with other parameters than the link says.
    """

    def __init__(self, link: BoardLink, name: str):
        self._link = link
        self._name = name
        self._tag = 0
        self._failed: DeviceError | None = None
        self.parameters: Parameters = link.parameters
        self.memory_bytes: int = link.memory_bytes
        self._ask(link.reset)
        self._check_build()
        status = self._read("QUEUE_STATUS")
        free = _REGISTERS["QUEUE_STATUS"].field("free")
        self.queue_rows = (status & free.mask) >> free.lsb
        if not self.queue_rows:
            raise self._fail(DeviceError(f"device {name}: the kernel's queue has no room after a reset"))

    def _check_build(self) -> None:
        found = self._read("BUILD_ID")
        if found != BUILD_ID:
            raise self._fail(
                DeviceError(
                    f"device {self._name}: register BUILD_ID reads {found:#010x}, not {BUILD_ID:#010x}: load a "
                    "kernel of this version onto the board"
                )
            )
        layout = self._read("LAYOUT_HASH")
        if layout != layout_hash():
            raise self._fail(
                DeviceError(
                    f"device {self._name}: the kernel's tables of registers and commands are others than this "
                    f"driver's: LAYOUT_HASH reads {layout:#010x}, not {layout_hash():#010x}: load a kernel of this "
                    "version onto the board"
                )
            )
        word, expected = self._read("BUILD_PARAMETERS"), build_parameters(self.parameters)
        differing = [
            f"{field.name} is {(word & field.mask) >> field.lsb}, not {(expected & field.mask) >> field.lsb}"
            for field in _REGISTERS["BUILD_PARAMETERS"].fields
            if (word ^ expected) & field.mask
        ]
        if differing:
            raise self._fail(
                DeviceError(
                    f"device {self._name}: the kernel on the board was built with other parameters than given "
                    f"({'; '.join(differing)}): give those it was built with, or load another kernel"
                )
            )
        whole = self._read("PARAMETER_HASH")
        if whole != parameter_hash(self.parameters):
            raise self._fail(
                DeviceError(
                    f"device {self._name}: the kernel on the board was built with other parameters than given, in some "
                    f"that BUILD_PARAMETERS does not show: PARAMETER_HASH reads {whole:#010x}, not "
                    f"{parameter_hash(self.parameters):#010x} of {self.parameters}: give those it was built with, or "
                    "load another kernel"
                )
            )

    # Commands

    def run(self, commands: Sequence[KernelCommand]) -> None:
        """Carries out commands in order, and returns when their results are in memory.

        Raises
        ------
        KernelError
            If one fails, with the operation, the address at fault and what to do; those behind it are not begun.
        DeviceError
            If the board does not answer.
        """
        try:
            self._run(commands)
        except BaseException:
            # Whoever is interrupted here does not know what the kernel has done, and nobody after him does.
            if self._failed is None:
                self._fail(
                    DeviceError(
                        f"device {self._name}: a command was interrupted, and what the device held is lost: open it "
                        "again"
                    )
                )
            raise

    def _run(self, commands: Sequence[KernelCommand]) -> None:
        for start in range(0, len(commands), self.queue_rows):
            part = commands[start : start + self.queue_rows]
            words: list[int] = []
            for place, command in enumerate(part):
                words += command.words((self._tag + place) % _TAGS)
            self._ask(self._link.push_words, _REGISTERS["QUEUE_PUSH"].offset, words)
            self._write("CONTROL", _REGISTERS["CONTROL"].field("start").mask)
            self._ask(self._link.wait)
            code = self._read("ERROR_CODE")
            if code:
                raise self._fail(self._command_error(code, part))
            last = (self._tag + len(part) - 1) % _TAGS
            completed = self._read("COMPLETED_TAG")
            if completed != last:
                raise self._fail(
                    DeviceError(
                        f"device {self._name}: the kernel reports that it is done after command {completed}, and "
                        f"command {last} was the last one pushed: the board and this driver are out of step"
                    )
                )
            self._tag = (last + 1) % _TAGS

    def _command_error(self, code: int, commands: Sequence[KernelCommand]) -> KernelError:
        place = (self._read("ERROR_COMMAND") - self._tag) % _TAGS
        address = self._read("ERROR_ADDRESS_LOW") | self._read("ERROR_ADDRESS_HIGH") << 32
        operation = commands[place].operation.name if place < len(commands) else "a command it was not given"
        try:
            known = ErrorCode(code)
        except ValueError:
            text, advice = f"error code {code}, which this driver does not know", "use one of the same version"
        else:
            text = ERROR_TEXT[known]
            advice = _ADVICE.get(known, "the driver should not have asked for that, so this is a defect of Mullion's")
        where = f" at address {address:#x}" if address else ""
        return KernelError(
            f"device {self._name}: the kernel failed in {operation}{where}: {text}; {advice}. What the device held is "
            "lost: open it again"
        )

    def counters(self) -> dict[str, int]:
        """The performance counters of `hw.register_map`, by name, since the reset or `clear_counters`."""
        return {
            name: self._read(f"{name.upper()}_LOW") | self._read(f"{name.upper()}_HIGH") << 32 for name, _ in COUNTERS
        }

    def clear_counters(self) -> None:
        """Sets all counters to zero."""
        self._write("COUNTER_CLEAR", 1)

    # Memory

    def write_memory(self, address: int, content: np.ndarray | bytes) -> None:
        """As `BoardLink.write_memory`. Raises DeviceError if the board does not answer."""
        self._ask(self._link.write_memory, address, content)

    def read_memory(self, address: int, length: int) -> np.ndarray:
        """As `BoardLink.read_memory`. Raises DeviceError if the board does not answer."""
        return self._ask(self._link.read_memory, address, length)

    def close(self) -> None:
        """Gives the board back; from then on every other method raises DeviceError. Idempotent."""
        if self._failed is None:
            self._failed = DeviceError(f"device {self._name} was closed")
        self._link.close()

    # The link

    def _read(self, name: str) -> int:
        return self._ask(self._link.read_register, _REGISTERS[name].offset)

    def _write(self, name: str, value: int) -> None:
        self._ask(self._link.write_register, _REGISTERS[name].offset, value)

    def _ask(self, call: Callable[..., _T], *arguments: object) -> _T:
        if self._failed is not None:
            raise type(self._failed)(str(self._failed)) from self._failed
        try:
            return call(*arguments)
        except OSError as error:
            kind = type(error) if isinstance(error, DeviceError) else DeviceError
            raise self._fail(
                kind(f"device {self._name}: the board does not answer ({error}). What it held is lost: open it again")
            ) from error

    def _fail(self, error: DeviceError) -> DeviceError:
        self._failed = error
        return error
