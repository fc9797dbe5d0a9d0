"""Boards behind a vendor's OpenCL shell, as devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from host.devices.bisort_device import SCRATCH_BYTES, BisortDevice
from host.devices.board_link import BoardLink
from host.devices.device import DeviceInfo
from host.devices.opencl_board import OpenClBoard
from host.devices.opencl_device import OpenClDevice, cl
from host.errors import DeviceError
from hw.boards.de5a_board import De5aBoard
from hw.boards.registry import boards
from hw.opencl.names import BINARY
from hw.parameters import Parameters

_BUILDS = Path(__file__).parents[2] / "build" / "bitstreams"
_VENDOR = "intel(r) fpga"  # how the platform's name begins


class OpenClBoardDevice(BisortDevice):
    """A board behind a vendor's OpenCL shell.

    The bitstream is loaded when the first window is opened. A board has one bitstream at a time, so one width of keys.

    Parameters
    ----------
    board : De5aBoard
    folder : str
        Where the bitstream is; empty for what `make bitstream` has built last.
    """

    def __init__(self, board: De5aBoard, folder: str):
        self._kind = board
        self._folder = folder
        self._loaded: int | None = None
        super().__init__(_info(board, folder), self._open_link)

    def _open_link(self, key_bits: int) -> BoardLink:
        if self._loaded is not None:
            raise DeviceError(
                f"device {self.info.name} has a kernel for keys of {self._loaded} bits, and one of {key_bits} would "
                "take its place: close the joins on it first, and open it anew"
            )
        binary, parameters = _binary(self._kind, self._folder, key_bits)
        device = _device()
        try:
            program = cl.Program(cl.Context([device]), [device], [binary.read_bytes()]).build()
        except (cl.Error, OSError) as error:
            raise DeviceError(f"device {self.info.name}: {binary} cannot be loaded: {error}") from error
        link = OpenClBoard(program, parameters, self._kind.memory_bytes, banks=True)
        self._loaded = key_bits
        return link

    @classmethod
    def found(cls) -> list[DeviceInfo]:
        """Every board behind a shell; those that are not in this machine, or have no bitstream, with the reason."""
        return [_info(board, "") for board in cls.kinds().values()]

    @classmethod
    def kinds(cls) -> dict[str, De5aBoard]:
        """The boards that have a shell, by name."""
        return {board.name: board for board in boards().values() if isinstance(board, De5aBoard)}

    @classmethod
    def open(cls, which: str = "") -> OpenClBoardDevice:
        """The board ``which``, or ``which:folder``. Raises DeviceError if there is none, or it cannot be used here."""
        name, _, folder = which.partition(":")
        kinds = cls.kinds()
        if name not in kinds:
            raise DeviceError(f"there is no board {name!r} with an OpenCL shell: there are {', '.join(kinds)}")
        info = _info(kinds[name], folder)
        if not info.available:
            raise DeviceError(f"device {info.name} cannot be opened: {info.reason}")
        return cls(kinds[name], folder)


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


def _binary(board: De5aBoard, folder: str, key_bits: int | None = None) -> tuple[Path, Parameters]:
    """The bitstream, newest first, and what it was built with. Raises DeviceError if there is none."""
    fitting = {
        design: of
        for design, of in board.parameters.items()
        if isinstance(of, Parameters) and not design.endswith("-quartus") and key_bits in (None, of.key_bits)
    }
    places: dict[Path, Parameters] = {}
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


def _info(board: De5aBoard, folder: str) -> DeviceInfo:
    reason = ""
    try:
        _device()
        _binary(board, folder)
    except DeviceError as error:
        reason = str(error)
    name = f"board:{board.name}" + (f":{folder}" if folder else "")
    memory = 0 if reason else board.memory_bytes - SCRATCH_BYTES
    return DeviceInfo(name, "board", board.description, memory, not reason, reason)
