"""The BI-Sort kernel in simulation, as a device."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable

from muntin.contract.boards import BOARDS
from muntin.contract.designs.bisort import Parameters
from muntin.contract.errors import ParameterError
from muntin.host.devices.bisort_device import SCRATCH_BYTES, BisortDevice
from muntin.host.devices.board_link import BoardLink
from muntin.host.devices.device import DeviceInfo
from muntin.host.devices.sim_board import Compiling, SimBoard, split_design
from muntin.host.errors import DeviceError, LinkIdentityError

_MODEL_BYTES = 1 << 28


def _verilated(name: str, memory: str) -> Callable[[int, int], BoardLink]:
    def open_board(key_bits: int, lanes: int) -> BoardLink:
        # Only here, so that nobody needs Amaranth who does not simulate.
        open_bisort_board = importlib.import_module("muntin.sim.board.bisort_link").open_bisort_board
        with Compiling(f"compile {name} for keys of {key_bits} bits, once") as compiling:
            return open_bisort_board(key_bits, memory, lanes=lanes, progress=compiling.tell)

    return open_board


def _model(key_bits: int, lanes: int) -> BoardLink:
    model = importlib.import_module("muntin.sim.models.laned_kernel").LanedKernelModel
    parameters = dataclasses.replace(Parameters.preset("ecp5"), key_bits=key_bits, lanes=lanes)
    return model(parameters, lanes * _MODEL_BYTES)


def _linked(name: str, board: str, *, ethernet: bool = False) -> Callable[[int, int], BoardLink]:
    def open_board(key_bits: int, lanes: int) -> BoardLink:
        if lanes != 1:
            raise ParameterError(f"lanes of {name} must be 1, as on the board, not {lanes}")
        fitting = [design for design, of in _designs(board, ethernet=ethernet).items() if of.key_bits == key_bits]
        if not fitting:
            raise LinkIdentityError(f"board {board} has no design of BI-Sort with keys of {key_bits} bits")
        open_linked_board = importlib.import_module("muntin.sim.linked.open_linked_board").open_linked_board
        with Compiling(f"compile {name}, once") as compiling:
            return open_linked_board(board, fitting[0], ethernet=ethernet, progress=compiling.tell)

    return open_board


def _opencl_model(key_bits: int, lanes: int) -> BoardLink:
    if lanes != 1:
        raise ParameterError(f"lanes of sim:de5a must be 1, as on the board, not {lanes}")
    # Only here, as OpenCL may be missing.
    open_opencl_model = importlib.import_module("muntin.host.devices.opencl_model").open_opencl_model
    designs = _designs("de5a").values()
    return open_opencl_model(next(of for of in designs if of.key_bits == key_bits), _MODEL_BYTES)


def _designs(board: str, *, ethernet: bool = False) -> dict[str, Parameters]:
    """The designs of a board that have a BI-Sort kernel, and Ethernet or not; none where there is no such board."""
    if board not in BOARDS:
        return {}
    kind = BOARDS[board]
    return {name: of for name, of in kind.builds("runs").items() if (kind.ethernet_of(name) is not None) == ethernet}


_BOARDS: dict[str, SimBoard] = {
    "sim:bisort": SimBoard(
        "BI-Sort kernel on Verilator, with LiteDRAM and its model of DDR3",
        1 << 29,
        ("amaranth", "litedram"),
        True,
        _verilated("sim:bisort", "litedram"),
    ),
    "sim:bisort-fast": SimBoard(
        "BI-Sort kernel on Verilator, with a memory that never makes it wait",
        1 << 26,
        ("amaranth",),
        True,
        _verilated("sim:bisort-fast", "fast"),
    ),
    "sim:ecpix5": SimBoard(
        "what the board ecpix5 carries on Verilator, with LiteDRAM and its model of DDR3, at a serial line",
        1 << 29,
        ("amaranth", "litedram", "liteeth", "dpkt", "serial"),
        True,
        _linked("sim:ecpix5", "ecpix5"),
    ),
    "sim:ecpix5:ethernet": SimBoard(
        "the same over its Ethernet, with LiteEth and a model of the wire",
        1 << 29,
        ("amaranth", "litedram", "liteeth", "dpkt", "serial"),
        True,
        _linked("sim:ecpix5:ethernet", "ecpix5", ethernet=True),
    ),
    "sim:bisort-model": SimBoard(
        "model of the BI-Sort kernel in NumPy, without a clock", _MODEL_BYTES, (), False, _model
    ),
    "sim:de5a": SimBoard(
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

    Any of them can have several lanes, each with a memory of its own: ``sim:bisort-fast:lanes=2``.

    Parameters
    ----------
    name : str
        One that `found` lists.
    lanes : int
        Engines that work side by side.
    scratch_bytes : int
        As of `BisortDevice`.

    Raises
    ------
    DeviceError
        If a kernel cannot have so many lanes.
    """

    def __init__(self, name: str, *, lanes: int = 1, scratch_bytes: int = SCRATCH_BYTES):
        try:
            dataclasses.replace(Parameters.preset("tiny"), lanes=lanes)
        except ParameterError as error:
            raise DeviceError(f"device {name}: {error}") from error
        info = _info(name, scratch_bytes)
        if lanes > 1:
            info = dataclasses.replace(
                info, name=f"{name}:lanes={lanes}", description=f"{info.description}; {lanes} lanes"
            )
        link = functools.partial(_open_link, _BOARDS[name], info.name, lanes)  # no method, as that would be a cycle
        super().__init__(info, link, scratch_bytes=scratch_bytes)

    @classmethod
    def found(cls) -> list[DeviceInfo]:
        """Every board in simulation; those that this machine cannot simulate with the reason."""
        return [_info(name, SCRATCH_BYTES) for name in _BOARDS]

    @classmethod
    def open(cls, which: str = "") -> SimDevice:
        """Opens the first whose name contains `which`, with as many lanes as ``:lanes=N`` behind it says, else one.

        Of a board with several designs, ``:design=NAME`` names one.

        Raises DeviceError if there is none, it cannot run here, or has no such number of lanes, or no such design.
        """
        rest, design = split_design(which.lower())
        if f"sim:{rest}" in _BOARDS:  # a name may have a colon itself
            return cls._opened(f"sim:{rest}", 1, design)
        part, *options = rest.split(":")
        lanes = 1
        for option in options:
            name, _, value = option.partition("=")
            if name != "lanes" or not value.isdecimal():
                raise DeviceError(f"behind the name of a simulated device comes ':lanes=N' or nothing, not ':{option}'")
            lanes = int(value)
        for info in cls.found():
            if part in info.name:
                return cls._opened(info.name, lanes, design)
        raise DeviceError(f"there is no simulated device named like {part!r}: there are {', '.join(_BOARDS)}")

    @classmethod
    def _opened(cls, name: str, lanes: int, design: str) -> SimDevice:
        if reason := _BOARDS[name].missing:
            raise DeviceError(f"device {name} cannot run here: {reason}")
        board, _, line = name.removeprefix("sim:").partition(":")
        designs = _designs(board, ethernet=line == "ethernet")
        if design and design not in designs:
            there = f"there are {', '.join(designs)}" if designs else "it has but one"
            raise DeviceError(f"device {name} has no design {design!r} of BI-Sort: {there}")
        return cls(name, lanes=lanes)


def _open_link(board: SimBoard, name: str, lanes: int, key_bits: int) -> BoardLink:
    try:
        return board.open(key_bits, lanes)
    except (
        ImportError,
        OSError,
        ParameterError,
        RuntimeError,
    ) as error:  # of the last kind are those of Verilator and the compiler
        raise DeviceError(f"device {name} cannot be opened: {error}") from error


def _info(name: str, scratch_bytes: int) -> DeviceInfo:
    board = _BOARDS[name]
    reason = board.missing
    return DeviceInfo(
        name, "sim", board.description, 0 if reason else board.memory_bytes - scratch_bytes, not reason, reason
    )
