"""Counts a kernel's commands by how they ended and by what stalled meanwhile, with COVERAGE=1."""

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from muntin.contract.registers import Command, ErrorCode, Operation
from muntin.sim.coverage import Cross

COVERAGE = os.environ.get("COVERAGE") == "1"
"""Whether benches are to take all cells that they can: then they run longer."""

NONE, CONTROL = "none", "control"
READING, WRITING = ("ar", "r"), ("aw", "w", "b")
STALLS = (NONE, CONTROL, *READING, *WRITING)
UNKNOWN = "unknown"
_BEFORE = (
    ErrorCode.ZERO_LENGTH,
    ErrorCode.MISALIGNED_ADDRESS,
    ErrorCode.RUN_TOO_LONG,
    ErrorCode.ADDRESS_RANGE,
    ErrorCode.UNKNOWN_OPERATION,
    ErrorCode.QUEUE_OVERFLOW,
    ErrorCode.BUFFER_ROWS,
    ErrorCode.BAD_INDEX,
)
"""Errors that are found before anything moves."""


def command_cross(
    operations: Iterable[Operation],
    errors: Mapping[ErrorCode, Collection[Operation]],
    writing: Collection[Operation],
    never: Mapping[ErrorCode, str],
) -> Cross:
    """The cross of command, error and stalled channel of a kernel's ports.

    Parameters
    ----------
    operations : iterable of Operation
        What the kernel knows.
    errors : mapping of ErrorCode to Operations
        Which commands a host, or a memory, can make end with an error; those with MEMORY_ERROR read memory.
    writing : collection of Operation
        Which write memory.
    never : mapping of ErrorCode to str
        Why no other commands end with an error, where that is not plain.
    """
    commands = {operation.name: operation for operation in operations}

    def impossible(command: str, error: str, stall: str) -> str:
        code = ErrorCode[error]
        operation = commands.get(command)
        if command == UNKNOWN or code == ErrorCode.UNKNOWN_OPERATION:
            if (command == UNKNOWN) != (code == ErrorCode.UNKNOWN_OPERATION):
                return "the operation is known, or it is not"
        elif code == ErrorCode.QUEUE_OVERFLOW:
            if operation != Operation.NOP:
                return "what the queue has no room for is not looked at: a NOP stands for all"
        elif code != ErrorCode.NONE and operation not in errors.get(code, ()):
            return never.get(code, "the command has nothing that this can be wrong with")
        if stall in (NONE, CONTROL):
            waits = code == ErrorCode.TIMEOUT and stall == NONE
            return "a memory that never answers stalls" if waits else ""
        if code in _BEFORE:
            return "nothing moves before it is found"
        if operation not in errors[ErrorCode.MEMORY_ERROR]:
            return "the command has no arrays"
        if stall in WRITING and operation not in writing:
            return "the command writes nothing"
        return ""

    return Cross(
        "command x error x stall",
        ((name, code.name, stall) for name in (*commands, UNKNOWN) for code in ErrorCode for stall in STALLS),
        impossible,
    )


class CommandCells:
    """Takes cells for a bench, where COVERAGE is 1.

    Parameters
    ----------
    bench : MemoryBench
        With a host, `cocotbext.axi.AxiLiteMaster`.
    cross : Cross
        As of `command_cross`; all benches of a run share it.
    ports : collection of str
        Those of the memory behind the kernel that is tested.
    share : float
        Share of cycles that the memory is paused; the host is so for a part of it.
    """

    def __init__(self, bench: Any, cross: Cross, ports: Collection[str], share: float):
        self._bench, self._cross = bench, cross
        self._stalled: set[str] = set()
        self._pushed: list[Command] = []
        if COVERAGE:
            write, read = bench.host.write_if, bench.host.read_if
            for port in (write, read, *bench.rams):
                port.log.setLevel("WARNING")  # a line for each access takes as long as the access
            bench.pause(
                min(share, 0.2), write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel
            )
            cocotb.start_soon(self._watch(ports))

    async def _watch(self, ports: Collection[str]) -> None:
        dut = self._bench.dut
        waits = {channel: [] for channel in ("ar", "aw", "w")}
        for port in ports:
            for channel, handshakes in waits.items():
                handshakes.append(tuple(getattr(dut, f"{port}__{channel}{end}") for end in ("valid", "ready")))
        answers = [tuple(getattr(dut, f"control__{channel}{end}") for end in ("valid", "ready")) for channel in "br"]
        while True:
            await RisingEdge(dut.clk)
            for channel, handshakes in waits.items():
                if any(valid.value == 1 and ready.value == 0 for valid, ready in handshakes):
                    self._stalled.add(channel)
            for channel in "rb":
                sources = [getattr(ram, f"{channel}_channel", None) for ram in self._bench.rams]
                if any(source is not None and source.pause and not source.empty() for source in sources):
                    self._stalled.add(channel)
            if any(valid.value == 1 and ready.value == 0 for valid, ready in answers):
                self._stalled.add(CONTROL)

    def push(self, command: Command) -> None:
        """A command is going to be pushed."""
        if not self._pushed:
            self._stalled.clear()
        self._pushed.append(command)

    def end(self, code: ErrorCode) -> None:
        """All commands are over; `code` is what the first of them ended with.

        Where several ended well nothing is counted: which of them was stalled is not known.
        """
        pushed, self._pushed = self._pushed, []
        if COVERAGE and pushed and (len(pushed) == 1 or code != ErrorCode.NONE):
            known = code != ErrorCode.UNKNOWN_OPERATION
            name = Operation(pushed[0].operation).name if known else UNKNOWN
            for stall in sorted(self._stalled) or (NONE,):
                self._cross.take(name, code.name, stall)
            self._cross.write(Path())
