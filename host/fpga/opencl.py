"""The way to a kernel behind a vendor's OpenCL shell."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from muntin.contract.boards import Board
from muntin.contract.design import design_of
from muntin.contract.opencl import (
    BUILD_HEADER,
    HEADER,
    KERNEL,
    Request,
    Shell,
    build_header,
    declaration,
    kernels,
    model,
    request,
    state_bytes,
)
from muntin.contract.registers import CONTROL_REGISTERS, LANE_STRIDE
from muntin.host.devices.opencl_device import OpenClDevice, built, cl, finish, shared_context
from muntin.host.errors import DeviceError

_CONTROL = next(register for register in CONTROL_REGISTERS if register.name == "CONTROL")
_DONE = _CONTROL.field("done").mask
_MAX_REQUESTS = 4096  # handed over at a time
BUILDS = Path(__file__).resolve().parents[2] / "build" / "bitstreams"


class OpenClBoard:
    """A `BoardLink` to a kernel that is a function of an OpenCL program.

    The kernel's memory is buffers, one for each of its memory ports. Registers are reached by calls: a request each,
    many at a time. A write to a register is kept until something is asked for, as it gives nothing back, and goes
    there with that: a whole batch of commands is one call.

    Parameters
    ----------
    program : pyopencl.Program
        Built; it has the OpenCL kernel `muntin.contract.opencl.KERNEL`.
    parameters : Parameters or SplitJoinParameters
        What the kernel was built with.
    memory_bytes : int
        Of all buffers together.
    shell : Shell, optional
        Of a board: each channel's buffer is asked for in a memory bank of its own, and must be aligned to the kernel's
        bursts.

    Attributes
    ----------
    parameters, memory_bytes
        As given.

    Raises
    ------
    DeviceError
        If the program has no such kernel, or one that takes other arguments, or the device has too little memory.
    """

    def __init__(self, program: Any, parameters: Any, memory_bytes: int, *, shell: Shell | None = None):
        self.parameters = parameters
        self.memory_bytes = memory_bytes
        p, context = parameters, program.context
        self._lanes = design_of(p).registers.lanes(p)
        ports = self._lanes * p.channels
        self._channel_bytes = memory_bytes // ports
        self._space_bits = p.address_bits - (p.channels.bit_length() - 1)
        self._pending: list[int] = []
        self._memories: list[Any] = []
        device = context.devices[0]
        try:
            self._kernel = cl.Kernel(program, KERNEL)
            self._queue = cl.CommandQueue(context)
            self._free = weakref.finalize(self, _give_back, self._queue, os.getpid(), context, self._memories)
            if self._kernel.num_args != ports + 4:
                raise DeviceError(
                    f"the OpenCL kernel {KERNEL} takes {self._kernel.num_args} arguments, not {ports + 4}: it was "
                    "built from another version, or for another number of memory channels"
                )
            if device.max_mem_alloc_size < self._channel_bytes:
                raise DeviceError(
                    f"device {device.name.strip()} has buffers of at most {device.max_mem_alloc_size:,} bytes, and "
                    f"each of the {ports} memory channels needs one of {self._channel_bytes:,}"
                )
            if shell and device.mem_base_addr_align < 8 * p.burst_bytes:  # no burst crosses a multiple of its length
                raise DeviceError(
                    f"device {device.name.strip()} aligns buffers to {device.mem_base_addr_align // 8} bytes, and the "
                    f"kernel's bursts need {p.burst_bytes}"
                )
            flags = cl.mem_flags.READ_WRITE
            lsb = shell and shell.bank_lsb
            banks = [0 if lsb is None else (1 + port % p.channels) << lsb for port in range(ports)]
            self._memories += [cl.Buffer(context, flags | bank, max(self._channel_bytes, 1)) for bank in banks]
            self._state = cl.Buffer(context, flags, state_bytes(p))
            self._requests = cl.Buffer(context, flags, 8 * _MAX_REQUESTS)
            self._results = cl.Buffer(context, flags, 4 * _MAX_REQUESTS)
            # Before any of them is used: a shell may take a buffer's bank from the argument that it is.
            self._kernel.set_args(*self._memories, self._state, self._requests, np.uint32(0), self._results)
            # The first member of the state is the host's; see muntin.contract.opencl.state_fields.
            cl.enqueue_copy(self._queue, self._state, np.array([self._channel_bytes], np.uint64))
        except cl.Error as error:
            raise DeviceError(
                f"device {device.name.strip()}: the board's OpenCL kernel cannot be used: {error}"
            ) from error

    # Registers

    def read_registers(self, offsets: Sequence[int]) -> list[int]:
        return self._call(*(request(Request.READ, offset) for offset in offsets))

    def write_registers(self, values: Sequence[tuple[int, int]]) -> None:
        self._pending += [request(Request.WRITE, offset, value) for offset, value in values]

    def push_words(self, offset: int, words: Sequence[int]) -> None:
        self._pending += [request(Request.WRITE, offset, word) for word in words]

    def wait(self) -> None:
        for lane in range(self._lanes):
            (control,) = self._call(request(Request.WAIT, lane * LANE_STRIDE + _CONTROL.offset, _DONE))
            if not control & _DONE:
                raise TimeoutError(f"the kernel is not done, and CONTROL reads {control:#x}")

    def reset(self) -> None:
        self._pending.clear()
        if self._call(request(Request.RESET)) != [0]:
            raise OSError("the board's memory owes the kernel an answer and does not give it: load the bitstream again")

    def _call(self, *asked: int) -> list[int]:
        """Hands over what is pending and these requests, whose results are given back."""
        words = np.array([*self._pending, *asked], np.uint64)
        self._pending.clear()
        results = np.zeros(len(words), np.uint32)
        with _as_os_error():
            for at in range(0, len(words), _MAX_REQUESTS):
                part = words[at : at + _MAX_REQUESTS]
                cl.enqueue_copy(self._queue, self._requests, part)
                self._kernel(
                    self._queue,
                    (1,),
                    (1,),
                    *self._memories,
                    self._state,
                    self._requests,
                    np.uint32(len(part)),
                    self._results,
                )
                cl.enqueue_copy(self._queue, results[at : at + len(part)], self._results)
        return results[len(words) - len(asked) :].tolist()

    # Memory

    def write_memory(self, address: int, content: np.ndarray | bytes) -> None:
        data = np.frombuffer(content, np.uint8) if isinstance(content, bytes) else content.reshape(-1).view(np.uint8)
        self._settle()
        memory, offset = self._place(address, data.size)
        with _as_os_error():
            cl.enqueue_copy(self._queue, memory, data, dst_offset=offset)

    def read_memory(self, address: int, length: int) -> np.ndarray:
        self._settle()
        memory, offset = self._place(address, length)
        content = np.empty(length, np.uint8)
        with _as_os_error():
            cl.enqueue_copy(self._queue, content, memory, src_offset=offset)
        return content

    def _settle(self) -> None:
        """What was written to registers before memory is touched comes before that."""
        if self._pending:
            self._call(self._pending.pop())

    def _place(self, address: int, length: int) -> tuple[Any, int]:
        port, offset = divmod(address, 1 << self._space_bits)
        if not 0 <= port < len(self._memories) or offset + length > self._channel_bytes:
            raise OSError(f"there is no memory for {length} bytes at {address:#x}")
        return self._memories[port], offset

    def close(self) -> None:
        self._free()

    def __enter__(self) -> OpenClBoard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _give_back(queue: Any, process: int, context: Any, memories: list[Any]) -> None:
    """Frees the kernel's memory once it has done what it was asked; the context outlives all that is made in it."""
    finish(queue, process)
    memories.clear()


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    """What the shell's driver refuses is a board that does not answer."""
    try:
        yield
    except cl.Error as error:
        raise OSError(str(error)) from error


def model_source(parameters: Any) -> str:
    """The whole program as one OpenCL source: what a build has in files, with its headers in place of their names."""
    headers = {BUILD_HEADER: build_header(parameters), HEADER: declaration(parameters)}
    text = model(parameters) + kernels(parameters)
    for name, header in headers.items():
        line = f'#include "{name}"\n'
        assert text.count(line) == 1
        text = text.replace(line, header)
    return text


def model_program(parameters: Any, device: Any = None) -> Any:
    """The program, built.

    Parameters
    ----------
    parameters : Parameters or SplitJoinParameters
    device : pyopencl.Device, optional
        By default the first that is a CPU, as the model is one work-item, else the first of all.

    Raises
    ------
    DeviceError
        If there is no OpenCL device, or the program does not build on it.
    """
    if device is None:
        device = min(OpenClDevice.cl_devices(), key=lambda device: not device.type & cl.device_type.CPU)
    try:
        program = cl.Program(shared_context(device), model_source(parameters))
        return built(program, ["-cl-std=CL1.2"])
    except cl.Error as error:
        raise DeviceError(
            f"the model of the board's kernel does not build on {device.name.strip()}: {error}"
        ) from error


def open_opencl_model(parameters: Any, memory_bytes: int) -> OpenClBoard:
    """The board's program with the model in its module's place, opened.

    Parameters
    ----------
    parameters : Parameters or SplitJoinParameters
        What the module is built with.
    memory_bytes : int

    Raises
    ------
    DeviceError
        As of `model_program`, or if the device has too little memory.
    """
    return OpenClBoard(model_program(parameters), parameters, memory_bytes)


# A vendor's shell


def shell_device(shell: Shell) -> Any:
    """The vendor's first device that is no emulator. Raises DeviceError if there is none."""
    found = [device for device in OpenClDevice.cl_devices() if device.platform.name.lower().startswith(shell.vendor)]
    if not found:
        names = sorted({device.platform.name.strip() for device in OpenClDevice.cl_devices()})
        raise DeviceError(f"its OpenCL platform is not here (there is {', '.join(names)}). It needs {shell.runtime}")
    return found[0]


def bitstream(board: Board, folder: str, builds: Mapping[str, Any]) -> tuple[Path, Any]:
    """The bitstream of one of these builds, newest first, and what it was built with.

    Parameters
    ----------
    board : Board
    folder : str
        Where it is; empty for what `make bitstream` has built last.
    builds : mapping of str to MemoryPort
        By the name of the design.

    Raises
    ------
    DeviceError
        If there is none, or no device for it.
    """
    assert board.sdk is not None
    shell_device(board.sdk)
    name, binary = board.name, board.sdk.binary
    places: dict[Path, Any] = {}
    for design, parameters in builds.items():
        folders = [Path(folder)] if folder else sorted(BUILDS.glob(f"{name}-{design}-*"))
        places |= {found / binary: parameters for found in folders if (found / binary).is_file()}
    if not places:
        where = folder or f"{BUILDS}/{name}-*"
        raise DeviceError(
            f"there is no {binary} in {where}: build it with `make bitstream BOARD={name} "
            f"DESIGN={' or '.join(builds)}` on a machine with the vendor's tools, or name the folder it is in as "
            f"board:{name}:FOLDER"
        )
    newest = max(places, key=lambda path: path.stat().st_mtime)
    return newest, places[newest]


def load(board: Board, binary: Path, parameters: Any, memory_bytes: int) -> OpenClBoard:
    """Loads a bitstream. Raises DeviceError if it is none."""
    assert board.sdk is not None
    device = shell_device(board.sdk)
    try:
        program = built(cl.Program(cl.Context([device]), [device], [binary.read_bytes()]), [])
    except (cl.Error, OSError) as error:
        raise DeviceError(f"board {board.name}: {binary} cannot be loaded: {error}") from error
    return OpenClBoard(program, parameters, memory_bytes, shell=board.sdk)
