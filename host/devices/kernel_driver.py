"""Drives a kernel through its registers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import numpy as np

from host.devices.board_link import BoardLink
from host.devices.kernel_command import KernelCommand
from host.errors import DeviceError, KernelError
from hw.register_map import BISORT, ERROR_TEXT, ErrorCode, KernelMap

_TAGS = 1 << 16
_ADVICE: dict[ErrorCode, str] = {
    ErrorCode.MEMORY_ERROR: "check the board's memory",
    ErrorCode.DECODE_ERROR: "check that the link's memory_bytes is what the board has",
    ErrorCode.TIMEOUT: "check the board's memory and clock",
    ErrorCode.UNKNOWN_OPERATION: "build the kernel anew from the sources that this driver is of",
}
_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True)
class KernelFailure:
    """How a command ended that left results behind.

    Attributes
    ----------
    code : ErrorCode
    address : int
        What ERROR_ADDRESS reads.
    """

    code: ErrorCode
    address: int


class KernelDriver:
    """Pushes commands, waits for them, and turns what goes wrong into errors. Not for several threads at once.

    The kernel is reset. After the first error every method raises that error again, as what the queue, the index and
    the insertion buffer hold is not known any more: open the device anew.

    Parameters
    ----------
    link : BoardLink
    name : str
        Of the device, for messages.
    kind : KernelMap
        What kernel it is.

    Attributes
    ----------
    parameters
        Build parameters, as the link has them.
    memory_bytes : int
    queue_rows : int
        Commands that are pushed before a wait.

    Raises
    ------
    DeviceError
        If the board does not answer, has another kernel, or one with other parameters than the link says.
    """

    def __init__(self, link: BoardLink, name: str, kind: KernelMap = BISORT):
        self._link = link
        self._name = name
        self._kind = kind
        self._registers = {register.name: register for register in kind.registers()}
        self._tag = 0
        self._failed: DeviceError | None = None
        self.parameters: Any = link.parameters
        self.memory_bytes: int = link.memory_bytes
        self._ask(link.reset)
        self._check_build()
        status = self._read("QUEUE_STATUS")
        free = self._registers["QUEUE_STATUS"].field("free")
        self.queue_rows = (status & free.mask) >> free.lsb
        if not self.queue_rows:
            raise self._fail(DeviceError(f"device {name}: the kernel's queue has no room after a reset"))

    def _check_build(self) -> None:
        found = self._read("BUILD_ID")
        if found != self._kind.build_id:
            raise self._fail(
                DeviceError(
                    f"device {self._name}: register BUILD_ID reads {found:#010x}, not {self._kind.build_id:#010x}: "
                    f"load a {self._kind.name} kernel of this version onto the board"
                )
            )
        word, expected = self._read("BUILD_PARAMETERS"), self._kind.build_parameters(self.parameters)
        differing = [
            f"{field.name} is {(word & field.mask) >> field.lsb}, not {(expected & field.mask) >> field.lsb}"
            for field in self._registers["BUILD_PARAMETERS"].fields
            if (word ^ expected) & field.mask
        ]
        if differing:
            raise self._fail(
                DeviceError(
                    f"device {self._name}: the kernel on the board was built with other parameters than given "
                    f"({'; '.join(differing)}): give those it was built with, or load another kernel"
                )
            )

    # Commands

    def run(self, commands: Sequence[KernelCommand], survive: Collection[ErrorCode] = ()) -> KernelFailure | None:
        """Carries out commands in order, and returns when their results are in memory.

        Parameters
        ----------
        commands : sequence of KernelCommand
        survive : collection of ErrorCode
            Codes that leave results behind, which the caller still wants. No command behind such a one is begun, and
            none at all before `recover`.

        Returns
        -------
        KernelFailure or None
            What ended the last command that was begun, if it is to be survived.

        Raises
        ------
        KernelError
            If one fails, with the operation, the address at fault and what to do; those behind it are not begun.
        DeviceError
            If the board does not answer.
        """
        try:
            return self._run(commands, survive)
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

    def _run(self, commands: Sequence[KernelCommand], survive: Collection[ErrorCode]) -> KernelFailure | None:
        for start in range(0, len(commands), self.queue_rows):
            part = commands[start : start + self.queue_rows]
            words: list[int] = []
            for place, command in enumerate(part):
                words += command.words((self._tag + place) % _TAGS)
            self._ask(self._link.push_words, self._registers["QUEUE_PUSH"].offset, words)
            self.write("CONTROL", self._registers["CONTROL"].field("start").mask)
            self._ask(self._link.wait)
            code = self._read("ERROR_CODE")
            if code in survive:
                self._tag = (self._read("ERROR_COMMAND") + 1) % _TAGS
                return KernelFailure(ErrorCode(code), self._address())
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
        return None

    def recover(self) -> bool:
        """Makes ready for commands after a failure that was survived; False where the kernel needs a reset."""
        self.write("ERROR_CODE", 1)
        return self._read("ERROR_CODE") == ErrorCode.NONE

    def _address(self) -> int:
        return self._read("ERROR_ADDRESS_LOW") | self._read("ERROR_ADDRESS_HIGH") << 32

    def _command_error(self, code: int, commands: Sequence[KernelCommand]) -> KernelError:
        place = (self._read("ERROR_COMMAND") - self._tag) % _TAGS
        address = self._address()
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
            name: self._read(f"{name.upper()}_LOW") | self._read(f"{name.upper()}_HIGH") << 32
            for name, _ in self._kind.counters
        }

    def clear_counters(self) -> None:
        """Sets all counters to zero."""
        self.write("COUNTER_CLEAR", 1)

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
        return self._ask(self._link.read_register, self._registers[name].offset)

    def write(self, name: str, value: int) -> None:
        """Writes a register by its name. Raises DeviceError if the board does not answer."""
        self._ask(self._link.write_register, self._registers[name].offset, value)

    def _ask(self, call: Callable[..., _T], *arguments: object) -> _T:
        if self._failed is not None:
            raise type(self._failed)(str(self._failed)) from self._failed
        try:
            return call(*arguments)
        except OSError as error:
            raise self._fail(
                DeviceError(
                    f"device {self._name}: the board does not answer ({error}). What it held is lost: open it again"
                )
            ) from error

    def _fail(self, error: DeviceError) -> DeviceError:
        self._failed = error
        return error
