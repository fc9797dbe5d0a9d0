"""Boards behind a vendor's OpenCL shell, as devices."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

from muntin.contract.boards import BOARDS, Board
from muntin.contract.design import design_of
from muntin.contract.errors import UnknownBoardError
from muntin.contract.opencl import BINARY
from muntin.host.devices.bisort_device import SCRATCH_BYTES, BisortDevice
from muntin.host.devices.board_link import BoardLink
from muntin.host.devices.device import Device, DeviceInfo
from muntin.host.devices.opencl_board import OpenClBoard
from muntin.host.devices.opencl_device import OpenClDevice, built, cl
from muntin.host.devices.sim_board import split_design
from muntin.host.devices.splitjoin_device import SplitJoinDevice
from muntin.host.errors import DeviceError

_BUILDS = Path(__file__).resolve().parents[2] / "build" / "bitstreams"
_VENDOR = "intel(r) fpga"  # how the platform's name begins
_SPLITJOIN_BYTES = 1 << 26  # of memory for rows and results on their way, more than the driver uses


class OpenClBoardDevice(BisortDevice):
    """A board behind a vendor's OpenCL shell, with a BI-Sort kernel.

    The bitstream is loaded when the first window is opened. A board has one bitstream at a time, so one width of keys.

    Parameters
    ----------
    board : Board
    folder : str
        Where the bitstream is; empty for what `make bitstream` has built last.
    design : str
        What it is; empty for any with a BI-Sort kernel.
    """

    def __init__(self, board: Board, folder: str, design: str = ""):
        info = _info(board, folder, design)
        super().__init__(info, _Shell(info.name, board, folder, design))

    @classmethod
    def found(cls) -> list[DeviceInfo]:
        """Every board behind a shell, once for BI-Sort and for each other design; those that are not in this machine,
        or have no bitstream, with the reason."""
        return [
            _info(board, "", design)
            for board in cls.kinds().values()
            for design in (
                "",
                *filter(board.in_shell, board.builds("split_join")),
            )
        ]

    @classmethod
    def kinds(cls) -> dict[str, Board]:
        """The boards that have a shell, by name."""
        return {board.name: board for board in BOARDS.values() if board.shell}

    @classmethod
    def open(cls, which: str = "") -> Device:
        """The board ``which``, or ``which:folder``, with a kernel of BI-Sort or of the design in ``:design=NAME``.

        Raises DeviceError if there is none, or it cannot be used here.
        """
        rest, design = split_design(which)
        name, _, folder = rest.partition(":")
        kinds = cls.kinds()
        if name not in kinds:
            raise DeviceError(f"there is no board {name!r} with an OpenCL shell: there are {', '.join(kinds)}")
        board = kinds[name]
        designs = _designs(board, design)
        info = _info(board, folder, design)
        if not info.available:
            raise DeviceError(f"device {info.name} cannot be opened: {info.reason}")
        parameters = designs.get(design)
        if parameters is not None and design_of(parameters).engine == "split_join":
            return SplitJoinDevice(
                info, parameters, functools.partial(_load_splitjoin, info.name, board, folder, designs)
            )
        return cls(board, folder, design)


@dataclasses.dataclass
class _Shell:
    """Loads a bitstream of BI-Sort for keys of one width. Not the device itself, as that would be a cycle."""

    name: str
    board: Board
    folder: str
    design: str
    loaded: int | None = None

    def __call__(self, key_bits: int) -> BoardLink:
        if self.loaded is not None:
            raise DeviceError(
                f"device {self.name} has a kernel for keys of {self.loaded} bits, and one of {key_bits} would take its "
                "place: close the joins on it first, and open it again"
            )
        fitting = {name: of for name, of in _designs(self.board, self.design).items() if of.key_bits == key_bits}
        if not fitting:
            raise DeviceError(
                f"device {self.name} has no kernel for keys of {key_bits} bits: open the board with another design"
            )
        link = _load(self.name, *_binary(self.board, self.folder, fitting), self.board.memory_bytes)
        self.loaded = key_bits
        return link


def _device() -> Any:
    """The vendor's first device that is no emulator. Raises DeviceError if there is none."""
    found = [device for device in OpenClDevice.cl_devices() if device.platform.name.lower().startswith(_VENDOR)]
    if not found:
        names = sorted({device.platform.name.strip() for device in OpenClDevice.cl_devices()})
        raise DeviceError(
            f"no OpenCL platform of Intel's FPGA SDK is here (there is {', '.join(names)}): install its runtime and "
            "the board's support package, and run `aocl install`"
        )
    return found[0]


def _load(name: str, binary: Path, parameters: Any, memory_bytes: int) -> OpenClBoard:
    """Loads a bitstream. Raises DeviceError if it is none."""
    device = _device()
    try:
        program = built(cl.Program(cl.Context([device]), [device], [binary.read_bytes()]), [])
    except (cl.Error, OSError) as error:
        raise DeviceError(f"device {name}: {binary} cannot be loaded: {error}") from error
    return OpenClBoard(program, parameters, memory_bytes, banks=True)


def _load_splitjoin(name: str, board: Board, folder: str, designs: dict[str, Any]) -> OpenClBoard:
    return _load(name, *_binary(board, folder, designs), _SPLITJOIN_BYTES)


def _designs(board: Board, design: str) -> dict[str, Any]:
    """That design of the shell's, with its parameters, or all with a BI-Sort kernel. Raises DeviceError if the board
    has no such design."""
    if design:
        try:
            board.design(design)
        except UnknownBoardError as error:
            raise DeviceError(str(error)) from error
        if not board.in_shell(design):
            raise DeviceError(
                f"the design {design!r} of board {board.name} has no OpenCL shell that it is reached through"
            )
        return {design: board.parameters[design]}
    return {name: of for name, of in board.builds("runs").items() if board.in_shell(name)}


def _binary(board: Board, folder: str, fitting: dict[str, Any]) -> tuple[Path, Any]:
    """The bitstream of one of these designs, newest first, and what it was built with. Raises DeviceError if there is
    none."""
    places: dict[Path, Any] = {}
    for design, parameters in fitting.items():
        folders = [Path(folder)] if folder else sorted(_BUILDS.glob(f"{board.name}-{design}-*"))
        places |= {found / BINARY: parameters for found in folders if (found / BINARY).is_file()}
    if not places:
        where = folder or f"{_BUILDS}/{board.name}-*"
        raise DeviceError(
            f"there is no {BINARY} in {where}: build it with `make bitstream BOARD={board.name} "
            f"DESIGN={' or '.join(fitting)}` on a machine with the vendor's tools, or name the folder it is in as "
            f"board:{board.name}:FOLDER"
        )
    newest = max(places, key=lambda path: path.stat().st_mtime)
    return newest, places[newest]


def _info(board: Board, folder: str, design: str) -> DeviceInfo:
    reason = ""
    try:
        _device()
        _binary(board, folder, _designs(board, design))
    except DeviceError as error:
        reason = str(error)
    name = f"board:{board.name}" + (f":{folder}" if folder else "") + (f":design={design}" if design else "")
    description, memory = board.description, board.memory_bytes - SCRATCH_BYTES
    parameters = board.parameters.get(design)
    rows = parameters is not None and design_of(parameters).engine == "split_join"
    if parameters is not None and rows:
        description += f"; SplitJoin, windows of at most {parameters.capacity:,} rows"
        memory = _SPLITJOIN_BYTES
    indexes = SplitJoinDevice.indexes if rows else BisortDevice.indexes
    return DeviceInfo(name, "board", description, 0 if reason else memory, not reason, reason, indexes)
