"""What a driver needs of a board, and the driver of a kernel through its registers."""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from muntin.contract.design import design_of
from muntin.contract.registers import ERROR_TEXT, LANE_STRIDE, Command, ErrorCode, Operation, parameter_hash
from muntin.host.errors import DeviceError, KernelError

_TAGS = 1 << 16
_IDENTITY = ("BUILD_ID", "LAYOUT_HASH", "BUILD_PARAMETERS", "PARAMETER_HASH", "QUEUE_STATUS")
_STATUS = ("ERROR_CODE", "ERROR_COMMAND", "ERROR_ADDRESS_LOW", "ERROR_ADDRESS_HIGH", "COMPLETED_TAG")
_ADVICE: dict[ErrorCode, str] = {
    ErrorCode.MEMORY_ERROR: "check the board's memory",
    ErrorCode.DECODE_ERROR: "check that the link's memory_bytes is what the board has",
    ErrorCode.TIMEOUT: "check the board's memory and clock",
    ErrorCode.UNKNOWN_OPERATION: "build the kernel again, from the sources of this driver",
}
_T = TypeVar("_T")


class BoardLink(Protocol):
    """The way to one kernel and its memory: registers by number, memory by address.

    A board in simulation, one behind PCIe and one behind a serial line each have their own. Whoever has these
    members is one; nothing needs to be inherited. Every call may cost a round trip, so callers make few and large
    ones.

    Registers of lane n begin at ``n * LANE_STRIDE``. Lanes share no memory: an address of lane n, as its commands know
    it, is ``(n << address_bits) + address`` here. The top ``log2(channels)`` bits of an address choose the channel: the
    memory of channel c begins at ``c << (address_bits - log2(channels))``. Each channel of each lane has an equal share
    of `memory_bytes`, from its start on.

    Attributes
    ----------
    parameters : Parameters or SplitJoinParameters
        What the kernel was built with, as far as this side knows; the driver compares it with BUILD_PARAMETERS.
    memory_bytes : int
        Bytes of memory on all channels of all lanes together.

    Raises
    ------
    OSError
        By every method, where the board does not answer.
    """

    @property
    @abc.abstractmethod
    def parameters(self) -> Any: ...

    @property
    @abc.abstractmethod
    def memory_bytes(self) -> int: ...

    @abc.abstractmethod
    def read_registers(self, offsets: Sequence[int]) -> list[int]:
        """The 32-bit registers at these byte offsets, read in this order."""

    @abc.abstractmethod
    def write_registers(self, values: Sequence[tuple[int, int]]) -> None:
        """Writes 32-bit registers, a byte offset and a value each, in this order."""

    @abc.abstractmethod
    def push_words(self, offset: int, words: Sequence[int]) -> None:
        """Writes 32-bit words to one register, one after the other."""

    @abc.abstractmethod
    def write_memory(self, address: int, content: np.ndarray | bytes) -> None:
        """Writes the bytes of a C-contiguous array of any type, or bytes. They must lie in one channel."""

    @abc.abstractmethod
    def read_memory(self, address: int, length: int) -> np.ndarray:
        """So many bytes from an address on, all of one channel: uint8, shape (length,), the caller's own."""

    @abc.abstractmethod
    def wait(self) -> None:
        """Returns when CONTROL.done is set on every lane, which reading has then cleared.

        Raises
        ------
        TimeoutError
            If it is not set within the time that this link deems too long.
        """

    @abc.abstractmethod
    def reset(self) -> None:
        """Resets the kernel: registers, queue, index, insertion buffer and counters. Memory stays."""

    @abc.abstractmethod
    def close(self) -> None:
        """Gives the board back. Idempotent."""


def memories(link: BoardLink) -> tuple[list[int], int]:
    """Where the memory of each channel of each lane begins, and the bytes that each has; see `BoardLink`."""
    p = link.parameters
    ports = p.channels * design_of(p).registers.lanes(p)
    space = (1 << p.address_bits) // p.channels
    return [port * space for port in range(ports)], link.memory_bytes // ports


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
    the insertion buffer hold is not known any more: open the device again.

    Parameters
    ----------
    link : BoardLink
    name : str
        Of the device, for messages.

    Attributes
    ----------
    parameters
        Build parameters, as the link has them.
    lane_bytes : int
        Memory of each lane, on all its channels together.
    queue_rows : int
        Commands that are pushed to a lane before a wait.

    Raises
    ------
    DeviceError
        If the board does not answer, has another kernel, or one with other parameters than the link says.
    """

    def __init__(self, link: BoardLink, name: str):
        self._link = link
        self._name = name
        kind = self._kind = design_of(link.parameters).registers
        self._registers = {register.name: register for register in kind.registers()}
        self._failed: DeviceError | None = None
        self.parameters: Any = link.parameters
        self._tags = [0] * kind.lanes(link.parameters)
        self.lane_bytes: int = link.memory_bytes // len(self._tags)
        self._ask(link.reset)
        build_id, layout, build, whole, status = self._read(*_IDENTITY)
        self._check_build(build_id, layout, build, whole)
        free = self._registers["QUEUE_STATUS"].field("free")
        self.queue_rows = (status & free.mask) >> free.lsb
        if not self.queue_rows:
            raise self._fail(DeviceError(f"device {name}: the kernel's queue has no room after a reset"))

    def _check_build(self, build_id: int, layout: int, build: int, whole: int) -> None:
        if build_id != self._kind.build_id:
            raise self._fail(
                DeviceError(
                    f"device {self._name}: register BUILD_ID reads {build_id:#010x}, not {self._kind.build_id:#010x}: "
                    f"load a {self._kind.name} kernel of this version onto the board"
                )
            )
        if layout != (expected := self._kind.layout_hash()):
            raise self._fail(
                DeviceError(
                    f"device {self._name}: the kernel's tables of registers and commands are others than this "
                    f"driver's: LAYOUT_HASH reads {layout:#010x}, not {expected:#010x}: load a kernel of this "
                    "version onto the board"
                )
            )
        expected = self._kind.build_parameters(self.parameters)
        differing = [
            f"{field.name} is {(build & field.mask) >> field.lsb}, not {(expected & field.mask) >> field.lsb}"
            for field in self._registers["BUILD_PARAMETERS"].fields
            if (build ^ expected) & field.mask
        ]
        if differing:
            raise self._fail(
                DeviceError(
                    f"device {self._name}: the kernel on the board was built with other parameters than given "
                    f"({'; '.join(differing)}): give those it was built with, or load another kernel"
                )
            )
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

    def run(
        self, commands: Sequence[Command], lane: int = 0, *, survive: Collection[ErrorCode] = ()
    ) -> KernelFailure | None:
        """As `run_lanes`, of one lane."""
        return self.run_lanes({lane: commands}, survive)

    def run_lanes(
        self, commands: Mapping[int, Sequence[Command]], survive: Collection[ErrorCode] = ()
    ) -> KernelFailure | None:
        """Carries out the commands of each lane in order, and returns when all results are in memory.

        Lanes work at the same time. As many commands as their queues take are pushed to all of them before any is
        waited for.

        Parameters
        ----------
        commands : sequence of Command
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
            most = max(map(len, commands.values()), default=0)
            for start in range(0, most, self.queue_rows):
                part = {lane: some[start : start + self.queue_rows] for lane, some in commands.items()}
                if (failure := self._run(part, survive)) is not None:
                    return failure
            return None
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

    def _run(self, commands: Mapping[int, Sequence[Command]], survive: Collection[ErrorCode]) -> KernelFailure | None:
        """Carries out as many commands as the queues take."""
        # A lane without any is started, too: then done is set in all of them, which is what the link waits for.
        for lane, tag in enumerate(self._tags):
            words: list[int] = []
            for place, command in enumerate(commands.get(lane, ())):
                words += command.words((tag + place) % _TAGS)
            if words:
                self._ask(self._link.push_words, self._offset("QUEUE_PUSH", lane), words)
        start = self._registers["CONTROL"].field("start").mask
        self._ask(
            self._link.write_registers, [(self._offset("CONTROL", lane), start) for lane in range(len(self._tags))]
        )
        self._ask(self._link.wait)
        at_work = {lane: some for lane, some in commands.items() if some}
        offsets = [self._offset(name, lane) for lane in at_work for name in _STATUS]
        status = iter(self._ask(self._link.read_registers, offsets) if offsets else [])
        failures = [
            self._check(lane, some, survive, *itertools.islice(status, len(_STATUS))) for lane, some in at_work.items()
        ]
        return next((failure for failure in failures if failure is not None), None)

    def _check(
        self,
        lane: int,
        commands: Sequence[Command],
        survive: Collection[ErrorCode],
        code: int,
        failed: int,
        low: int,
        high: int,
        completed: int,
    ) -> KernelFailure | None:
        """Raises what has gone wrong with the commands of a lane, or returns it where it is survived; they are over."""
        if code in survive:
            self._tags[lane] = (failed + 1) % _TAGS
            return KernelFailure(ErrorCode(code), low | high << 32)
        if code:
            raise self._fail(self._command_error(code, failed, low | high << 32, commands, lane))
        last = (self._tags[lane] + len(commands) - 1) % _TAGS
        if completed != last:
            raise self._fail(
                DeviceError(
                    f"device {self._name}: the kernel reports that it is done after command {completed}, and "
                    f"command {last} was the last one pushed: the board and this driver are out of step"
                )
            )
        self._tags[lane] = (last + 1) % _TAGS
        return None

    def recover(self, lane: int = 0) -> bool:
        """Makes ready for commands after a failure that was survived; False where the kernel needs a reset."""
        self.write({"ERROR_CODE": 1}, lane)
        return self._read("ERROR_CODE", lane=lane) == [ErrorCode.NONE]

    def _command_error(
        self, code: int, failed: int, address: int, commands: Sequence[Command], lane: int
    ) -> KernelError:
        place = (failed - self._tags[lane]) % _TAGS
        operation = Operation(commands[place].operation).name if place < len(commands) else "a command it was not given"
        try:
            known = ErrorCode(code)
        except ValueError:
            text, advice = f"error code {code}, which this driver does not know", "use one of the same version"
        else:
            text = ERROR_TEXT[known]
            advice = _ADVICE.get(known, "the driver should not have asked for that, so this is a defect of Muntin's")
        where = f" at address {address:#x}" if address else ""
        if len(self._tags) > 1:
            where += f" of lane {lane}"
        return KernelError(
            f"device {self._name}: the kernel failed in {operation}{where}: {text}; {advice}. What the device held is "
            "lost: open it again"
        )

    def counters(self, lane: int = 0) -> dict[str, int]:
        """A lane's counters, of `KernelMap.counters`, by name, since the reset or `clear_counters`."""
        names = [name for name, _ in self._kind.counters]
        words = self._read(*(f"{name.upper()}_{end}" for name in names for end in ("LOW", "HIGH")), lane=lane)
        return {name: low | high << 32 for name, low, high in zip(names, words[::2], words[1::2], strict=True)}

    def clear_counters(self) -> None:
        """Sets all counters of all lanes to zero."""
        for lane in range(len(self._tags)):
            self.write({"COUNTER_CLEAR": 1}, lane)

    # Memory

    def write_memory(self, address: int, content: np.ndarray | bytes, lane: int = 0) -> None:
        """Writes to a lane's memory, by its own addresses, as `BoardLink.write_memory` does.

        Raises
        ------
        DeviceError
            If the board does not answer.
        """
        self._ask(self._link.write_memory, self._address(address, lane), content)

    def read_memory(self, address: int, length: int, lane: int = 0) -> np.ndarray:
        """Reads a lane's memory, by its own addresses, as `BoardLink.read_memory` does. Raises as `write_memory`."""
        return self._ask(self._link.read_memory, self._address(address, lane), length)

    def _address(self, address: int, lane: int) -> int:
        """A lane's address, as the link knows it."""
        return address + (lane << self.parameters.address_bits)

    def close(self) -> None:
        """Gives the board back; from then on every other method raises DeviceError. Idempotent."""
        if self._failed is None:
            self._failed = DeviceError(f"device {self._name} was closed")
        self._link.close()

    # The link

    def _offset(self, name: str, lane: int) -> int:
        return self._registers[name].offset + lane * LANE_STRIDE

    def _read(self, *names: str, lane: int = 0) -> list[int]:
        return self._ask(self._link.read_registers, [self._offset(name, lane) for name in names])

    def write(self, values: Mapping[str, int], lane: int = 0) -> None:
        """Writes registers by their names. Raises DeviceError if the board does not answer."""
        self._ask(self._link.write_registers, [(self._offset(name, lane), value) for name, value in values.items()])

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
        self._failed = type(error)(str(error))  # not the one raised, whose traceback would keep this driver alive
        return error
