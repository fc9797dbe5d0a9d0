"""Any OpenCL device.

Drivers are found by pyopencl's loader: those of the system, in /etc/OpenCL/vendors, or what ``OCL_ICD_VENDORS`` names.
Where there is neither, the CPU driver that ``pip install 'muntin[opencl-cpu]'`` brings is used, if it is installed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import mmap
import os
import pathlib
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from muntin.host.devices.device import DeviceInfo
from muntin.host.devices.run_device import RunDevice
from muntin.host.engine.run_store import SOME_RUNS, Limits, Probe, Reservation, Run, RunStore
from muntin.host.errors import CapacityError, DeviceError
from muntin.host.memory import Arena

_VENDORS = pathlib.Path("/etc/OpenCL/vendors")
_DRIVER_VARIABLES = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES")
_NO_DRIVER = (
    "install the driver of a GPU or another device, or a CPU driver with pip install 'muntin[opencl-cpu]', which is "
    f"used where {_VENDORS} holds no other and OCL_ICD_VENDORS is not set"
)


def find_driver() -> None:
    """Points pyopencl's loader at the CPU driver from PyPI, where it would find no other.

    The package's own .icd file names a folder of the machine it was built on, so that no loader finds it.
    """
    if any(name in os.environ for name in _DRIVER_VARIABLES) or any(_VENDORS.glob("*.icd")):
        return
    try:
        files = importlib.metadata.files("intel-opencl-rt") or []
    except importlib.metadata.PackageNotFoundError:
        return
    for file in files:
        if file.name == "libintelocl.so":
            os.environ["OCL_ICD_VENDORS"] = str(pathlib.Path(file.locate()).resolve())


cl: Any
try:
    find_driver()
    import pyopencl as cl
except ImportError as error:  # the reason is shown by list_devices and by open
    cl = None
    _MISSING = f"pyopencl cannot be imported ({error}): pip install 'muntin[opencl]', or 'muntin[opencl-cpu]'"
else:
    _MISSING = ""

PARTITION_BYTES = 128  # the keys of a partition, which has one index entry: two cache lines
TASK_PAIRS = 1 << 14  # pairs one work-item gathers at most
BLOCK_PAIRS = 1 << 20  # pairs gathered at a time
MERGE_CHUNK = 1024
HUGE_PAGE = 1 << 21
MAX_HELD = 128  # arguments and events that are kept before a wait
MERGE_CHAINS = 4
_KERNELS = pathlib.Path(__file__).parent / "kernels" / "runs.cl"
_RUN = np.dtype([("start", "u4"), ("length", "u4"), ("limited", "u4"), ("unused", "u4")])
_TASK = np.dtype([("chunk", "u4"), ("length", "u4"), ("first", "u8"), ("output", "u8")])


def _name(device: Any) -> str:
    return f"opencl:{device.name.strip()}"


def _preference(device: Any) -> int:
    """GPUs first, then CPUs; then what else has an OpenCL driver, such as FPGA boards, and mostly no compiler."""
    return 0 if device.type & cl.device_type.GPU else 1 if device.type & cl.device_type.CPU else 2


@functools.cache
def shared_context(device: Any) -> Any:
    """The context of a device, one for the whole process: joins come and go, and no driver frees all of a context.

    Intel's programs do not keep the context that they were made in, so it must outlive them.
    """
    return cl.Context([device])


def finish(queue: Any, process: int) -> None:
    """Waits for a queue's commands; not in a child forked from the process, where no thread carries them out."""
    if os.getpid() == process:
        queue.finish()


def built(program: Any, options: list[str]) -> Any:
    """A program, built; what a compiler says that succeeded is dropped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        return program.build(options)


@functools.cache
def _program(device: Any, options: tuple[str, ...]) -> Any:
    return built(cl.Program(shared_context(device), _KERNELS.read_text()), list(options))


class OpenClDevice(RunDevice):
    """An OpenCL device.

    Parameters
    ----------
    device : pyopencl.Device

    Raises
    ------
    DeviceError
        If the kernels do not build on it.
    """

    def __init__(self, device: Any):
        memory = int(device.global_mem_size)
        super().__init__(
            DeviceInfo(_name(device), "opencl", f"{device.platform.name.strip()}, {device.version.strip()}", memory),
            memory,
        )
        self.cl_device = device
        self.is_cpu = bool(device.type & cl.device_type.CPU)
        self.probe_chunk = 64 if self.is_cpu else 4
        # A group of work-items runs on one core of a CPU, and in the lanes of one core of a GPU.
        self.group = 1 if self.is_cpu else min(64, int(device.max_work_group_size))
        try:
            self.context = shared_context(device)
            self.queue = cl.CommandQueue(self.context)
        except cl.Error as error:
            raise DeviceError(f"device {self.info.name} cannot be opened: {error}") from error

    @classmethod
    def cl_devices(cls) -> list[Any]:
        """Every device of every OpenCL platform, the default one first. Raises DeviceError if there is none."""
        if cl is None:
            raise DeviceError(_MISSING)
        try:
            devices = [d for platform in cl.get_platforms() for d in platform.get_devices()]
        except cl.Error as error:
            raise DeviceError(f"no OpenCL platform is installed ({error}): {_NO_DRIVER}") from error
        if not devices:
            raise DeviceError(f"no OpenCL device is installed: {_NO_DRIVER}")
        return sorted(devices, key=_preference)

    @classmethod
    def found(cls) -> list[DeviceInfo]:
        """Every OpenCL device, the default one first."""
        try:
            devices = cls.cl_devices()
        except DeviceError as error:
            return [DeviceInfo("opencl", "opencl", "OpenCL", 0, False, str(error), cls.indexes)]
        return [
            DeviceInfo(
                _name(device),
                "opencl",
                f"{device.platform.name.strip()}, {device.version.strip()}",
                int(device.global_mem_size),
                indexes=cls.indexes,
            )
            for device in devices
        ]

    @classmethod
    def open(cls, which: str = "") -> OpenClDevice:
        """Opens the first device whose name contains `which`. Raises DeviceError if there is none."""
        devices = cls.cl_devices()
        for device in devices:
            if which.lower() in device.name.lower():
                return cls(device)
        raise DeviceError(
            f"there is no OpenCL device named like {which!r}: there are {', '.join(_name(d) for d in devices)}"
        )

    def program(self, key_bits: int) -> Any:
        """The kernels for keys of this width, built once in a process. Raises DeviceError if they do not build."""
        most = (1 << (key_bits - 1)) - 1
        options = (
            "-cl-std=CL1.2",
            f"-DKEY={'int' if key_bits == 32 else 'long'}",
            f"-DKEY_MAX={most}{'' if key_bits == 32 else 'L'}",
            f"-DPARTITION_SHIFT={_partition_shift(key_bits)}",
            f"-DPROBE_CHUNK={self.probe_chunk}",
            f"-DMERGE_CHUNK={MERGE_CHUNK}",
            f"-DMERGE_CHAINS={MERGE_CHAINS}",
        )
        try:
            return _program(self.cl_device, options)
        except cl.Error as error:
            raise DeviceError(f"the kernels do not build on {self.info.name}: {error}") from error

    def buffer(self, nbytes: int) -> Any:
        """A buffer for long-lived data.

        On a CPU device it lies in huge pages: probes hop through it, and with small pages every hop would also
        miss the TLB.
        """
        if not self.is_cpu or not hasattr(mmap, "MADV_HUGEPAGE"):
            return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, nbytes)
        size = -(-nbytes // HUGE_PAGE) * HUGE_PAGE
        memory = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(OSError):  # a kernel without huge pages: slower, nothing else
            memory.madvise(mmap.MADV_HUGEPAGE)
        host = np.frombuffer(memory, np.uint8, nbytes)
        return cl.Buffer(self.context, cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=host)

    def open_store(self, *, key_bits: int, rows: int, what: str, runs: int = SOME_RUNS) -> OpenClStore:
        return OpenClStore(self, key_bits, rows, what, runs)

    def room(self, *, key_bits: int, rows: int, what: str, runs: int = SOME_RUNS) -> Reservation:
        size, partition, key_bytes = _region_rows(key_bits, rows, runs), 1 << _partition_shift(key_bits), key_bits // 8
        ceiling = int(self.cl_device.max_mem_alloc_size)
        if (size + 64) * key_bytes > ceiling:
            raise CapacityError(
                f"{what} needs {(size + 64) * key_bytes:,} bytes in one piece on device "
                f"{self.info.name}, which gives {ceiling:,} at most: use a smaller window or another device",
                (size + 64) * key_bytes,
                ceiling,
            )
        # One partition more than the region: a merge may read one row past a run.
        return Reservation((size + partition) * (key_bytes + 4) + (size // partition + 1) * key_bytes)


class _Memory:
    """All that the commands of a store read and write. It outlives the store, and every command that uses it.

    On a CPU device commands use the host's own arrays: were one freed under a command, that would write to memory that
    is somebody else's by then.

    Parameters
    ----------
    device : OpenClDevice

    Attributes
    ----------
    ticket : int or None
        What is reserved on the device.
    keys, numbers, index : pyopencl.Buffer
        Of all runs.
    scratch : dict of str to pyopencl.Buffer
    """

    def __init__(self, device: OpenClDevice):
        self.ticket: int | None = None
        self.keys: Any = None
        self.numbers: Any = None
        self.index: Any = None
        self.scratch: dict[str, Any] = {}
        self._device = device
        self._held: list[Any] = []  # arguments and events of the commands since the last wait
        self._freed = False
        self._process = os.getpid()
        self._lock = threading.RLock()

    def enqueue(self, command: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        """Enqueues a command, and keeps its buffers and arrays until it is done. Raises DeviceError once freed."""
        with self._lock:
            if self._freed:
                raise DeviceError(f"a window on device {self._device.info.name} was closed, and is used again")
            self._held.append(arguments)
            self._held.append(command(self._device.queue, *arguments, **options))  # an event that is released waits
            if len(self._held) > MAX_HELD:
                self.settle()

    def settle(self) -> None:
        """Waits for all commands."""
        with self._lock:
            self._device.queue.finish()
            self._held.clear()

    def free(self) -> None:
        """Gives everything back once no command uses it."""
        with self._lock:
            finish(self._device.queue, self._process)
            self._held.clear()
            self._freed = True
            self.keys = self.numbers = self.index = None
            self.scratch.clear()
            if self.ticket is not None:
                self._device.release(self.ticket)


class OpenClStore(RunStore):
    """See `RunStore`. One queue, in order: a freed range may be written again at once."""

    def __init__(self, device: OpenClDevice, key_bits: int, rows: int, what: str, runs: int):
        self.key_bits = key_bits
        self._device = device
        self._what = what
        self._max_runs = runs
        self._key_bytes = key_bits // 8
        self._queue = device.queue
        program = device.program(key_bits)
        self._kernels = {name: cl.Kernel(program, name) for name in ("probe", "fit", "gather", "count", "merge")}
        self._shift = _partition_shift(key_bits)
        self.granule = 1 << self._shift
        self._arena = Arena(0, self.granule)
        self._runs: dict[int, Run] = {}  # by start
        self._memory = _Memory(device)
        self._free = weakref.finalize(self, self._memory.free)
        self._region_bytes = 0
        self.grow(rows)

    # Memory

    def grow(self, rows: int) -> None:
        size = _region_rows(self.key_bits, rows, self._max_runs)
        nbytes = self._device.room(key_bits=self.key_bits, rows=rows, what=self._what, runs=self._max_runs).nbytes
        memory = self._memory
        memory.ticket = self._device.reserve(nbytes, self._what, memory.ticket)
        partition = 1 << self._shift
        try:
            keys = self._device.buffer((size + partition) * self._key_bytes)
            numbers = self._device.buffer((size + partition) * 4)
            index = self._device.buffer((size // partition + 1) * self._key_bytes)
        except cl.Error as error:
            self._device.reserve(self._region_bytes, self._what, memory.ticket)
            available = self._device.memory_bytes - self._device.used_bytes + self._region_bytes
            raise CapacityError(
                f"{self._what}: device {self._device.info.name} gave no {nbytes:,} bytes: {error}",
                nbytes,
                available,
            ) from error
        if self._arena.rows:
            old = self._arena.rows
            memory.enqueue(cl.enqueue_copy, keys, memory.keys, byte_count=old * self._key_bytes)
            memory.enqueue(cl.enqueue_copy, numbers, memory.numbers, byte_count=old * 4)
            memory.enqueue(cl.enqueue_copy, index, memory.index, byte_count=old // partition * self._key_bytes)
            memory.settle()
        memory.keys, memory.numbers, memory.index = keys, numbers, index
        self._arena.grow(size)
        self.capacity_rows = rows
        self._region_bytes = nbytes

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        return self._region_bytes + sum(buffer.size for buffer in self._memory.scratch.values())

    def _buffer(self, name: str, nbytes: int) -> Any:
        """Scratch memory of at least so many bytes; what it held is lost."""
        held = self._memory.scratch.get(name)
        if held is None or held.size < nbytes:
            size = max(4096, 1 << (nbytes - 1).bit_length())
            self._memory.scratch[name] = held = cl.Buffer(self._device.context, cl.mem_flags.READ_WRITE, size)
        return held

    def _input(self, name: str, values: np.ndarray) -> Any:
        """A buffer that holds an array for the next command: the array's own memory on a CPU device."""
        values = np.ascontiguousarray(values)
        if self._device.is_cpu:
            return self._shared(values, cl.mem_flags.READ_ONLY)
        buffer = self._buffer(name, values.nbytes)
        self._write(buffer, values, 0)
        return buffer

    def _shared(self, array: np.ndarray, access: int) -> Any:
        """A buffer in an array's own memory, which it keeps."""
        return cl.Buffer(self._device.context, access | cl.mem_flags.USE_HOST_PTR, hostbuf=array)

    def _write(self, buffer: Any, values: np.ndarray, offset: int) -> None:
        """Copies an array to a buffer without waiting for it; offset in bytes."""
        self._memory.enqueue(cl.enqueue_copy, buffer, values, dst_offset=offset, is_blocking=False)

    def _run(self, kernel: str, items: int, *arguments: Any) -> None:
        """Enqueues a kernel with at least so many work-items: groups are whole."""
        # Not by set_scalar_arg_dtypes, which puts each kernel into a cycle.
        kinds = zip(arguments, _SCALARS[kernel], strict=True)
        typed = (argument if kind is None else kind(argument) for argument, kind in kinds)
        group = self._device.group
        self._memory.enqueue(self._kernels[kernel], (-(-items // group) * group,), (group,), *typed)

    def _output(self, name: str, array: np.ndarray) -> Any:
        """A buffer that a kernel writes and `_fetch` reads into an array: the array's own memory on a CPU device."""
        if not self._device.is_cpu:
            return self._buffer(name, array.nbytes)
        return self._shared(array, cl.mem_flags.WRITE_ONLY)

    def _fetch(self, *outputs: tuple[np.ndarray, Any]) -> None:
        """Waits for all commands so far, and brings what was written to output buffers to their arrays."""
        queue = self._device.queue
        for array, buffer in outputs:
            if self._device.is_cpu:
                view, _ = cl.enqueue_map_buffer(queue, buffer, cl.map_flags.READ, 0, array.shape, array.dtype)
                view.base.release(queue)
            else:
                cl.enqueue_copy(queue, array, buffer)
        self._memory.settle()  # the unmapping touches the arrays, too

    def _take(self, rows: int) -> int:
        start = self._arena.take(rows)
        if start is None and self._arena.free_rows >= self._arena.padded(rows):
            self._compact()
            start = self._arena.take(rows)
        if start is None:
            raise CapacityError(
                f"{self._what} has {self._arena.free_rows} rows free on device {self._device.info.name} "
                f"and needs {rows} more",
                rows,
                self._arena.free_rows,
            )
        return start

    def _compact(self) -> None:
        """Moves the runs together, by way of the host: rare, as runs are few and lie where the best fit put them."""
        runs = [self._runs.pop(start) for start in sorted(self._runs)]
        self._arena = Arena(self._arena.rows, self._arena.align)
        for run in runs:
            # In ascending order every run moves down, onto nothing that is still needed.
            size = self._arena.padded(run.length)
            keys, numbers = np.empty(size, self.key_dtype), np.empty(run.length, np.uint32)
            memory = self._memory
            memory.enqueue(cl.enqueue_copy, keys, memory.keys, src_offset=run.handle * self._key_bytes)
            memory.enqueue(cl.enqueue_copy, numbers, memory.numbers, src_offset=run.handle * 4)
            start = self._arena.take(run.length)
            assert start is not None
            self._store(start, keys, numbers)
            run.handle = start
            self._runs[start] = run

    # Runs

    def load(self, keys: np.ndarray, rows: np.ndarray) -> Run:
        start = self._take(len(keys))
        size = self._arena.padded(len(keys))
        padded = np.full(size, np.iinfo(self.key_dtype).max, self.key_dtype)
        padded[: len(keys)] = keys
        self._store(start, padded, rows)
        run = Run(len(keys), start)
        self._runs[start] = run
        return run

    def _store(self, start: int, padded: np.ndarray, rows: np.ndarray) -> None:
        memory, index = self._memory, np.ascontiguousarray(padded[:: 1 << self._shift])
        self._write(memory.keys, padded, start * self._key_bytes)
        self._write(memory.numbers, np.ascontiguousarray(rows, np.uint32), start * 4)
        self._write(memory.index, index, (start >> self._shift) * self._key_bytes)

    def merge(self, older: Run, newer: Run) -> Run:
        length = older.length + newer.length
        start = self._take(length)
        memory = self._memory
        self._run(
            "merge", -(-length // MERGE_CHUNK), memory.keys, memory.numbers, memory.index,
            older.handle, older.length, newer.handle, newer.length, start,
        )  # fmt: skip
        self.drop(older)
        self.drop(newer)
        run = Run(length, start)
        self._runs[start] = run
        return run

    def drop(self, run: Run) -> None:
        del self._runs[run.handle]
        self._arena.give(run.handle, run.length)

    # Probing

    def _table(self, runs: list[Run], limited: np.ndarray | None = None) -> Any:
        table = np.zeros(len(runs), _RUN)
        table["start"] = [run.handle for run in runs]
        table["length"] = [run.length for run in runs]
        if limited is not None:
            table["limited"] = limited
        return self._input("runs", table)

    def probe(self, runs: list[Run], lower: np.ndarray, upper: np.ndarray) -> Probe:
        n = len(lower)
        chunks = -(-n // self._device.probe_chunk)
        totals = np.empty(chunks, np.uint64)
        total_buffer = self._output("totals", totals)
        self._run(
            "probe", chunks, self._memory.keys, self._memory.index, self._table(runs), len(runs), n,
            self._input("lower", lower), self._input("upper", upper),
            self._buffer("starts", 4 * n * len(runs)), self._buffer("lengths", 4 * n * len(runs)), total_buffer,
        )  # fmt: skip
        self._fetch((totals, total_buffer))
        return Probe(n, runs, int(totals.sum()), totals.astype(np.int64))

    def _limit_buffers(self, limits: Limits | None) -> tuple[int, Any, Any]:
        if limits is None:
            return 0, self._buffer("limit_first", 4), self._buffer("limit_span", 4)
        return 1, self._input("limit_first", limits.first), self._input("limit_span", limits.span)

    def gather(
        self, probe: Probe, numbers: np.ndarray, base: int, limits: Limits | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        runs = self._table(probe.runs, None if limits is None else limits.runs)
        limited, first, span = self._limit_buffers(limits)
        ranges = self._memory.scratch["starts"], self._memory.scratch["lengths"]
        of_runs = self._memory.numbers, runs, len(probe.runs), probe.probes, *ranges
        number_buffer = self._input("numbers", numbers)
        tasks = _tasks(probe.handle)
        pairs = tasks["length"]
        if limited:
            pairs = np.empty(len(tasks), np.uint32)
            fitting = self._output("fitting", pairs)
            self._run("fit", len(tasks), *of_runs, self._input("tasks", tasks), len(tasks), first, span, fitting)
            self._fetch((pairs, fitting))
        ends = np.cumsum(pairs, dtype=np.int64)
        tasks["output"] = ends - pairs
        at = 0
        while at < len(tasks):
            done = int(ends[at - 1]) if at else 0
            to = max(int(np.searchsorted(ends, done + BLOCK_PAIRS, "right")), at + 1)
            block, total = tasks[at:to], int(ends[to - 1]) - done
            at = to
            if not total:
                continue
            block["output"] -= done
            probing, stored = np.empty(total, np.int64), np.empty(total, np.int64)
            probing_buffer, stored_buffer = self._output("probing", probing), self._output("stored", stored)
            self._run(
                "gather", len(block), *of_runs, self._input("tasks", block), len(block), limited, first, span,
                number_buffer, base, probing_buffer, stored_buffer,
            )  # fmt: skip
            self._fetch((stored, stored_buffer), (probing, probing_buffer))
            yield probing, stored

    def count(self, probe: Probe, limits: Limits | None = None) -> np.ndarray:
        runs = self._table(probe.runs, None if limits is None else limits.runs)
        limited, first, span = self._limit_buffers(limits)
        counts = np.empty(probe.probes, np.int64)
        buffer = self._output("counts", counts)
        self._run(
            "count", len(probe.handle), self._memory.numbers, runs, len(probe.runs), probe.probes,
            self._memory.scratch["starts"], self._memory.scratch["lengths"], limited, first, span, buffer,
        )  # fmt: skip
        self._fetch((counts, buffer))
        return counts

    def close(self) -> None:
        self._free()
        self._region_bytes = 0


def _region_rows(key_bits: int, rows: int, runs: int) -> int:
    """Rows of the region for so many rows of runs: each is padded to a partition."""
    partition = 1 << _partition_shift(key_bits)
    return -(-(rows + max(runs * partition, rows // 64)) // partition) * partition


def _partition_shift(key_bits: int) -> int:
    """The number of keys in a partition, as a power of two."""
    return (PARTITION_BYTES * 8 // key_bits).bit_length() - 1


def _tasks(totals: np.ndarray) -> np.ndarray:
    """Shares of the candidates of each chunk, none larger than `TASK_PAIRS`."""
    shares = -(-totals // TASK_PAIRS)
    tasks = np.zeros(int(shares.sum()), _TASK)
    chunk = np.repeat(np.arange(len(totals)), shares)
    number = np.arange(len(tasks)) - np.repeat(np.cumsum(shares) - shares, shares)
    tasks["chunk"] = chunk
    tasks["first"] = number * TASK_PAIRS
    tasks["length"] = np.minimum(totals[chunk] - number * TASK_PAIRS, TASK_PAIRS)
    return tasks


_SCALARS: dict[str, list[Any]] = {
    "probe": [None, None, None, np.uint32, np.uint32, None, None, None, None, None],
    "fit": [None, None, np.uint32, np.uint32, None, None, None, np.uint32, None, None, None],
    "gather": [
        *(None, None, np.uint32, np.uint32, None, None, None, np.uint32, np.uint32),
        *(None, None, None, np.int64, None, None),
    ],
    "count": [None, None, np.uint32, np.uint32, None, None, np.uint32, None, None, None],
    "merge": [None, None, None, np.uint32, np.uint32, np.uint32, np.uint32, np.uint32],
}
