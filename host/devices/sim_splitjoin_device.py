"""The SplitJoin kernel in simulation, as a device."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from host.devices.board_link import BoardLink
from host.devices.compiling import Compiling
from host.devices.device import DeviceInfo
from host.devices.sim_board import SimBoard
from host.devices.splitjoin_device import SplitJoinDevice
from host.errors import DeviceError
from hw.splitjoin.parameters import SplitJoinParameters

_BUILD = SplitJoinParameters.preset("operator")
_MODEL_BYTES = 1 << 24
_SIZE = f"windows of at most {_BUILD.capacity:,} rows"


def _verilated(name: str, memory: str) -> Callable[[], BoardLink]:
    def open_board() -> BoardLink:
        # Only here, so that nobody needs Amaranth who does not simulate.
        open_splitjoin_board = importlib.import_module("sim.board.splitjoin_link").open_splitjoin_board
        with Compiling(f"compile {name}, once") as compiling:
            return open_splitjoin_board(memory, progress=compiling.tell)

    return open_board


def _model() -> BoardLink:
    return importlib.import_module("sim.models.splitjoin_kernel").SplitJoinKernelModel(_BUILD, _MODEL_BYTES)


_BOARDS: dict[str, SimBoard] = {
    "sim:splitjoin": SimBoard(
        f"SplitJoin kernel on Verilator, {_SIZE}", 1 << 26, ("amaranth",), True, _verilated("sim:splitjoin", "fast")
    ),
    "sim:splitjoin-model": SimBoard(
        f"model of the SplitJoin kernel in NumPy, {_SIZE}", _MODEL_BYTES, (), False, _model
    ),
}


class SimSplitJoinDevice(SplitJoinDevice):
    """SplitJoin boards in simulation: one for each join that asks.

    ``sim:splitjoin`` simulates the hardware cycle by cycle; the board is compiled when the first join is opened, once
    for each state of its sources, which standard error tells. ``sim:splitjoin-model`` carries out the same commands by
    their model, and needs but NumPy.

    Parameters
    ----------
    name : str
        One that `found` lists.
    """

    def __init__(self, name: str):
        self._board_kind = _BOARDS[name]
        super().__init__(_info(name), _BUILD, self._open_link, boards=None)

    def _open_link(self) -> BoardLink:
        try:
            return self._board_kind.open()
        except (
            ImportError,
            OSError,
            RuntimeError,
        ) as error:  # of the last kind are those of Verilator and the compiler
            raise DeviceError(f"device {self.info.name} cannot be opened: {error}") from error

    @classmethod
    def found(cls) -> list[DeviceInfo]:
        """Every board in simulation; those that this machine cannot simulate with the reason."""
        return [_info(name) for name in _BOARDS]

    @classmethod
    def open(cls, which: str = "") -> SimSplitJoinDevice:
        """Opens the first whose name contains `which`. Raises DeviceError if there is none, or it cannot run here."""
        which, colon, options = which.partition(":")
        if colon:
            raise DeviceError(f"nothing comes behind the name of a simulated SplitJoin device, not ':{options}'")
        for info in cls.found():
            if which.lower() in info.name:
                if not info.available:
                    raise DeviceError(f"device {info.name} cannot run here: {info.reason}")
                return cls(info.name)
        raise DeviceError(f"there is no simulated device named like {which!r}: there are {', '.join(_BOARDS)}")


def _info(name: str) -> DeviceInfo:
    board = _BOARDS[name]
    reason = board.missing
    return DeviceInfo(name, "sim", board.description, 0 if reason else board.memory_bytes, not reason, reason)
