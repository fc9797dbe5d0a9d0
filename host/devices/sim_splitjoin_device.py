"""The SplitJoin kernel in simulation, as a device."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable

from muntin.contract.boards import board as board_of
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.host.devices.board_link import BoardLink
from muntin.host.devices.device import DeviceInfo
from muntin.host.devices.sim_board import Compiling, SimBoard
from muntin.host.devices.splitjoin_device import SplitJoinDevice
from muntin.host.errors import DeviceError

_BUILD = SplitJoinParameters.preset("operator")
_ECPIX5: SplitJoinParameters = board_of("ecpix5").parameters["splitjoin"]
_DE5A: SplitJoinParameters = board_of("de5a").parameters["splitjoin"]
_MODEL_BYTES = 1 << 24


def _verilated(name: str, memory: str) -> Callable[[], BoardLink]:
    def open_board() -> BoardLink:
        # Only here, so that nobody needs Amaranth who does not simulate.
        open_splitjoin_board = importlib.import_module("muntin.sim.board.splitjoin_link").open_splitjoin_board
        with Compiling(f"compile {name}, once") as compiling:
            return open_splitjoin_board(memory, progress=compiling.tell)

    return open_board


def _model() -> BoardLink:
    return importlib.import_module("muntin.sim.models.splitjoin_kernel").SplitJoinKernelModel(_BUILD, _MODEL_BYTES)


def _linked(name: str, board: str) -> Callable[[], BoardLink]:
    def open_board() -> BoardLink:
        open_linked_board = importlib.import_module("muntin.sim.linked.open_linked_board").open_linked_board
        with Compiling(f"compile {name}, once") as compiling:
            return open_linked_board(board, "splitjoin", progress=compiling.tell)

    return open_board


def _opencl_model() -> BoardLink:
    # Only here, as OpenCL may be missing.
    return importlib.import_module("muntin.host.devices.opencl_model").open_opencl_model(_DE5A, _MODEL_BYTES)


@dataclasses.dataclass(frozen=True)
class _Simulated:
    """A board in simulation, what its kernel was built with, and how many there are; None for as many as are asked
    for."""

    board: SimBoard
    build: SplitJoinParameters = _BUILD
    boards: int | None = None


_BOARDS: dict[str, _Simulated] = {
    "sim:splitjoin": _Simulated(
        SimBoard("SplitJoin kernel on Verilator", 1 << 26, ("amaranth",), True, _verilated("sim:splitjoin", "fast"))
    ),
    "sim:splitjoin-model": _Simulated(
        SimBoard("model of the SplitJoin kernel in NumPy", _MODEL_BYTES, (), False, _model)
    ),
    "sim:ecpix5:design=splitjoin": _Simulated(
        SimBoard(
            "what the board ecpix5 carries with SplitJoin on Verilator, with LiteDRAM and its model of DDR3, at a "
            "serial line",
            1 << 29,
            ("amaranth", "litedram", "serial"),
            True,
            _linked("sim:ecpix5:design=splitjoin", "ecpix5"),
        ),
        _ECPIX5,
        1,
    ),
    "sim:de5a:design=splitjoin": _Simulated(
        SimBoard(
            "the DE5a-Net's OpenCL kernel with SplitJoin, with its RTL module's model in C, on an OpenCL device",
            _MODEL_BYTES,
            ("pyopencl",),
            False,
            _opencl_model,
        ),
        _DE5A,
        1,
    ),
}


class SimSplitJoinDevice(SplitJoinDevice):
    """SplitJoin boards in simulation: one for each join that asks, or, where a whole board is simulated, one.

    ``sim:splitjoin`` simulates the hardware cycle by cycle; the board is compiled when the first join is opened, once
    for each state of its sources, which standard error tells. ``sim:splitjoin-model`` carries out the same commands by
    their model, and needs but NumPy. ``sim:ecpix5:design=splitjoin`` and ``sim:de5a:design=splitjoin`` are those
    boards with that design.

    Parameters
    ----------
    name : str
        One that `found` lists.
    """

    def __init__(self, name: str):
        simulated = _BOARDS[name]
        link = functools.partial(_open_link, simulated.board, name)  # no method, as that would be a cycle
        super().__init__(_info(name), simulated.build, link, boards=simulated.boards)

    @classmethod
    def found(cls) -> list[DeviceInfo]:
        """Every board in simulation; those that this machine cannot simulate with the reason."""
        return [_info(name) for name in _BOARDS]

    @classmethod
    def open(cls, which: str = "") -> SimSplitJoinDevice:
        """Opens the first whose name contains `which`. Raises DeviceError if there is none, or it cannot run here."""
        named = [info for info in cls.found() if which.lower() in info.name]
        if not named and ":" in which:
            options = which.partition(":")[2]
            raise DeviceError(f"nothing comes behind the name of a simulated SplitJoin device, not ':{options}'")
        for info in named:
            if not info.available:
                raise DeviceError(f"device {info.name} cannot run here: {info.reason}")
            return cls(info.name)
        raise DeviceError(f"there is no simulated device named like {which!r}: there are {', '.join(_BOARDS)}")


def _open_link(board: SimBoard, name: str) -> BoardLink:
    try:
        return board.open()
    except (
        ImportError,
        OSError,
        RuntimeError,
    ) as error:  # of the last kind are those of Verilator and the compiler
        raise DeviceError(f"device {name} cannot be opened: {error}") from error


def _info(name: str) -> DeviceInfo:
    board, build = _BOARDS[name].board, _BOARDS[name].build
    reason = board.missing
    description = f"{board.description}, windows of at most {build.capacity:,} rows"
    return DeviceInfo(name, "sim", description, 0 if reason else board.memory_bytes, not reason, reason)
