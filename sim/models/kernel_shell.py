"""What the models of all kernels have alike: registers, queue and memory, without a clock."""

from __future__ import annotations

import abc
import importlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from muntin.contract.design import design_of
from muntin.contract.registers import (
    COMMAND_WORDS,
    CONTROL_REGISTERS,
    LANE_STRIDE,
    Access,
    Command,
    ErrorCode,
    parameter_hash,
)

_OFFSETS = {register.name: register.offset for register in CONTROL_REGISTERS}
_CONTROL = {field.name: field.mask for field in CONTROL_REGISTERS[0].fields}
_EVENTS = {
    field.name: field.mask
    for register in CONTROL_REGISTERS
    if register.name == "INTERRUPT_ENABLE"
    for field in register.fields
}


class CommandFaultError(Exception):
    """A command fails with this code; the address is the start of the array at fault, 0 where it is none of them."""

    def __init__(self, code: ErrorCode, address: int = 0):
        super().__init__(code)
        self.code = code
        self.address = address


class KernelShell(abc.ABC):
    """The registers, queue and memory of a kernel's model; what its commands do is the subclass's.

    It has all of a `BoardLink`, and so can stand in for a board. `KernelModel` says how registers, queue and errors
    behave, which is the same for every kernel.

    Parameters
    ----------
    parameters
        The build parameters of the kernel.
    memory_bytes : int
        On all channels together, each an equal share from the start of its addresses; zeros at first.

    Raises
    ------
    ValueError
        If the memory does not fit the address space, or has no equal share of whole beats for each channel.
    """

    def __init__(self, parameters: Any, memory_bytes: int):
        p = self.parameters = parameters
        kind = self._kind_of_kernel = design_of(parameters).registers
        self._registers = {register.offset: register for register in kind.registers()}
        self._offsets = {register.name: register.offset for register in kind.registers()}
        self._channel_space = 1 << (p.address_bits - (p.channels.bit_length() - 1))
        if memory_bytes < 1 or memory_bytes % (p.channels * p.beat_bytes):
            raise ValueError(
                f"memory_bytes must be a multiple of {p.channels} channels' beats of {p.beat_bytes} bytes, "
                f"not {memory_bytes}"
            )
        self.memory_bytes = memory_bytes
        self._channel_bytes = memory_bytes // p.channels
        if self._channel_bytes > self._channel_space:
            raise ValueError(
                f"memory_bytes must be at most {self._channel_space * p.channels}, the address space, "
                f"not {memory_bytes}"
            )
        self.memory = np.zeros(memory_bytes, np.uint8)
        self.reset()

    # What a kernel does

    @abc.abstractmethod
    def _clear(self) -> None:
        """Everything that is the kernel's own as after a reset."""

    @abc.abstractmethod
    def _carry_out(self, c: Command) -> None:
        """Checks a command, then does what it asks for. Raises CommandFaultError."""

    # The board

    def reset(self) -> None:
        """Everything but the memory as it was at first."""
        self._values = dict.fromkeys(self._registers, 0)
        self._auto_restart = self._done = self._ready = False
        self._events = 0
        self._queue: deque[tuple[Command, int]] = deque()  # each with its tag
        self._words: list[int] = []
        self._high = 0  # of the counter that is being read
        self._dropping = False
        self.counters = {name: 0 for name, _ in self._kind_of_kernel.counters}
        self._set("BUILD_ID", self._kind_of_kernel.build_id)
        self._set("BUILD_PARAMETERS", self._kind_of_kernel.build_parameters(self.parameters))
        self._set("LAYOUT_HASH", self._kind_of_kernel.layout_hash())
        self._set("PARAMETER_HASH", parameter_hash(self.parameters))
        self._clear()

    def close(self) -> None:  # noqa: B027 (there is no board)
        """Nothing to give back."""

    def write_memory(self, address: int, content: np.ndarray | bytes) -> None:
        """Writes bytes. Raises IndexError where there is no memory."""
        data = np.frombuffer(content, np.uint8) if isinstance(content, bytes) else content.reshape(-1).view(np.uint8)
        place = self._place(address, data.size)
        if place is None:
            raise IndexError(f"there is no memory for {data.size} bytes at {address:#x}")
        self.memory[place : place + data.size] = data

    def read_memory(self, address: int, length: int) -> np.ndarray:
        """A copy of so many bytes. Raises IndexError where there is no memory."""
        place = self._place(address, length)
        if place is None:
            raise IndexError(f"there is no memory for {length} bytes at {address:#x}")
        return self.memory[place : place + length].copy()

    def wait(self) -> None:
        """Reads CONTROL. Raises TimeoutError if done is not set: nothing is under way, so it never would be."""
        if not self.read_register(_OFFSETS["CONTROL"]) & _CONTROL["done"]:
            raise TimeoutError("done is not set, and nothing is under way: was the kernel started?")

    def push_words(self, offset: int, words: Sequence[int]) -> None:
        """Writes words to one register, one after the other."""
        for word in words:
            self.write_register(offset, word)

    # Registers

    @property
    def interrupt(self) -> bool:
        return bool(self._values[_OFFSETS["GLOBAL_INTERRUPT_ENABLE"]] & 1 and self._events)

    def read_register(self, offset: int) -> int:
        """The register at a byte offset; 0 where there is none. Reading CONTROL clears done and ready."""
        register = self._registers.get(offset & ~3)
        if register is None or register.access is Access.PULSE:
            return 0
        name = register.name
        if name == "CONTROL":
            bits = {"done": self._done, "idle": True, "ready": self._ready, "auto_restart": self._auto_restart}
            self._done = self._ready = False
            return sum(_CONTROL[bit] for bit, is_set in bits.items() if is_set)
        if name == "INTERRUPT_STATUS":
            return self._events
        if name == "QUEUE_STATUS":
            partial = bool(self._words)
            taken = len(self._queue) + (partial and not self._dropping)
            return len(self._queue) | (self.parameters.queue_rows - taken) << 16 | partial << 31
        if name.removesuffix("_LOW").lower() in self.counters:
            value = self.counters[name.removesuffix("_LOW").lower()]
            self._high = value >> 32 & 0xFFFFFFFF
            return value & 0xFFFFFFFF
        if name.removesuffix("_HIGH").lower() in self.counters:
            return self._high
        return self._values[register.offset]

    def read_registers(self, offsets: Sequence[int]) -> list[int]:
        """Registers as `read_register` reads them, in this order."""
        return [self.read_register(offset) for offset in offsets]

    def write_registers(self, values: Sequence[tuple[int, int]]) -> None:
        """Registers as `write_register` writes them, in this order."""
        for offset, value in values:
            self.write_register(offset, value)

    def write_register(self, offset: int, value: int) -> None:
        """Writes all 32 bits of the register at a byte offset; nothing where there is none."""
        register = self._registers.get(offset & ~3)
        if register is None:
            return
        value &= 0xFFFFFFFF
        name = register.name
        if name == "CONTROL":
            self._auto_restart = bool(value & _CONTROL["auto_restart"])
            if value & _CONTROL["start"]:
                self._event("ready")
                self._work()
                self._event("done")
            elif self._auto_restart and self._queue and not self._error:
                self._work()
                self._event("done")
        elif name == "INTERRUPT_STATUS":
            self._events &= ~value
        elif name == "ERROR_CODE":
            for cleared in ("ERROR_CODE", "ERROR_COMMAND", "ERROR_ADDRESS_LOW", "ERROR_ADDRESS_HIGH"):
                self._set(cleared, 0)
            self._queue.clear()
            self._words.clear()
        elif name == "QUEUE_PUSH":
            self._push(value)
        elif name == "COUNTER_CLEAR":
            self.counters = dict.fromkeys(self.counters, 0)
        elif register.access is Access.WRITE:
            self._values[register.offset] = value

    def _set(self, name: str, value: int) -> None:
        self._values[self._offsets[name]] = value & 0xFFFFFFFF

    def _event(self, name: str) -> None:
        if name == "done":
            self._done = True
        else:
            self._ready = True
        self._events |= self._values[_OFFSETS["INTERRUPT_ENABLE"]] & _EVENTS[name]

    # The queue

    @property
    def _error(self) -> bool:
        return self._values[_OFFSETS["ERROR_CODE"]] != 0

    def _push(self, word: int) -> None:
        if not self._words:
            self._dropping = len(self._queue) == self.parameters.queue_rows
            if self._dropping:
                self._fail(ErrorCode.QUEUE_OVERFLOW, 0, 0)
        self._words.append(word)
        if len(self._words) < COMMAND_WORDS:
            return
        words, self._words = self._words, []
        if self._dropping:
            return
        self._queue.append(Command.of_words(words, self.parameters.key_bits))
        if self._auto_restart and not self._error:
            self._work()
            self._event("done")

    def _fail(self, code: ErrorCode, tag: int, address: int) -> None:
        if not self._error:
            self._set("ERROR_CODE", code)
            self._set("ERROR_COMMAND", tag)
            self._set("ERROR_ADDRESS_LOW", address)
            self._set("ERROR_ADDRESS_HIGH", address >> 32)

    def _work(self) -> None:
        while self._queue and not self._error:
            command, tag = self._queue.popleft()
            try:
                self._carry_out(command)
            except CommandFaultError as fault:
                self._fail(fault.code, tag, fault.address)
                return
            self.counters["commands"] += 1
            self._set("COMPLETED_TAG", tag)
            self._set("COMPLETED_COUNT", self._values[_OFFSETS["COMPLETED_COUNT"]] + 1)

    # Memory

    def _in_space(self, address: int, length: int) -> bool:
        last = address + length - 1
        same = address // self._channel_space == last // self._channel_space
        return same and last >> self.parameters.address_bits == 0

    def _place(self, address: int, length: int) -> int | None:
        """Where in `memory` so many bytes lie; None where there is no memory for all of them in one channel."""
        channel, offset = divmod(address, self._channel_space)
        if not 0 <= channel < self.parameters.channels or offset + length > self._channel_bytes:
            return None
        return channel * self._channel_bytes + offset

    def _view(self, address: int, count: int, kind: np.dtype) -> np.ndarray:
        """An array that lies in memory, counted as read."""
        place = self._place(address, count * kind.itemsize)
        assert place is not None  # checked before
        self.counters["read_beats"] += self._beats(count * kind.itemsize)
        return self.memory[place : place + count * kind.itemsize].view(kind)

    def _write(self, address: int, values: np.ndarray) -> None:
        place = self._place(address, values.nbytes)
        assert place is not None
        self.counters["write_beats"] += self._beats(values.nbytes)
        self.memory[place : place + values.nbytes] = values.reshape(-1).view(np.uint8)

    def _beats(self, length: int) -> int:
        return -(-length // self.parameters.beat_bytes)

    def _count(self, rows_in: int, rows_out: int) -> None:
        self.counters["rows_in"] += rows_in
        self.counters["rows_out"] += rows_out

    def _check_arrays(self, arrays: list[tuple[int, int]]) -> None:
        """Raises CommandFaultError where an array, by address and bytes, does not lie as it must."""
        for address, length in arrays:
            if address % self.parameters.beat_bytes:
                raise CommandFaultError(ErrorCode.MISALIGNED_ADDRESS, address)
            if not self._in_space(address, length):
                raise CommandFaultError(ErrorCode.ADDRESS_RANGE, address)
        for address, length in arrays:
            if self._place(address, length) is None:
                raise CommandFaultError(ErrorCode.DECODE_ERROR, address)


class LanedModel:
    """A kernel of any number of lanes, and their memories. It can stand in for a board: it has all of a `BoardLink`.

    Every lane is a kernel of its own: it does all that it is started for within that register write, and so
    before the next lane begins.

    Parameters
    ----------
    parameters
    memory_bytes : int
        Of all lanes, each an equal share.
    lane : callable
        Makes the model of a lane with its memory.

    Attributes
    ----------
    parameters
    memory_bytes : int
    lanes : list of KernelShell

    Raises
    ------
    ValueError
        As the model of a lane does.
    """

    def __init__(self, parameters: Any, memory_bytes: int, lane: Callable[[Any, int], KernelShell]):
        lanes = design_of(parameters).registers.lanes(parameters)
        self.parameters = parameters
        self.memory_bytes = memory_bytes
        self.lanes = [lane(parameters, memory_bytes // lanes) for _ in range(lanes)]

    def reset(self) -> None:
        """Everything but the memory as it was at first."""
        for lane in self.lanes:
            lane.reset()

    def close(self) -> None:
        """As each lane does."""
        for lane in self.lanes:
            lane.close()

    @property
    def interrupt(self) -> bool:
        """The interrupt line: that of any lane."""
        return any(lane.interrupt for lane in self.lanes)

    def read_registers(self, offsets: Sequence[int]) -> list[int]:
        """The registers at these byte offsets; raises IndexError where there is no such lane."""
        return [self.lanes[offset // LANE_STRIDE].read_register(offset % LANE_STRIDE) for offset in offsets]

    def write_registers(self, values: Sequence[tuple[int, int]]) -> None:
        """Writes registers; raises IndexError where there is no such lane."""
        for offset, value in values:
            self.lanes[offset // LANE_STRIDE].write_register(offset % LANE_STRIDE, value)

    def push_words(self, offset: int, words: Sequence[int]) -> None:
        """Writes words to one register, one after the other."""
        number, own = divmod(offset, LANE_STRIDE)
        self.lanes[number].push_words(own, words)

    def write_memory(self, address: int, content: np.ndarray | bytes) -> None:
        """Writes bytes. Raises IndexError where there is no memory."""
        number, own = self._place(address)
        self.lanes[number].write_memory(own, content)

    def read_memory(self, address: int, length: int) -> np.ndarray:
        """A copy of so many bytes. Raises IndexError where there is no memory."""
        number, own = self._place(address)
        return self.lanes[number].read_memory(own, length)

    def _place(self, address: int) -> tuple[int, int]:
        """The lane, and the address as it knows it."""
        return divmod(address, 1 << self.parameters.address_bits)

    def wait(self) -> None:
        """As each lane does."""
        for lane in self.lanes:
            lane.wait()


def open_model(parameters: Any, *, memory_bytes: int) -> Any:
    """The model of the kernel that is built with these parameters, with so much memory for each lane: a `BoardLink`."""
    module, name = design_of(parameters).model.split(":")
    model = getattr(importlib.import_module(f"muntin.sim.models.{module}"), name)
    lanes = design_of(parameters).registers.lanes(parameters)
    return model(parameters, memory_bytes) if lanes == 1 else LanedModel(parameters, lanes * memory_bytes, model)
