"""Boards, as devices."""

from __future__ import annotations

import functools
import importlib.util
import ipaddress
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from muntin.contract.boards import BOARDS, Board
from muntin.contract.design import design_of
from muntin.contract.designs.bisort import Parameters
from muntin.contract.errors import UnknownBoardError
from muntin.host.devices.bisort_device import SCRATCH_BYTES, BisortDevice
from muntin.host.devices.board_link import BoardLink
from muntin.host.devices.device import Device, DeviceInfo
from muntin.host.devices.opencl_board_device import OpenClBoardDevice
from muntin.host.devices.sim_board import split_design
from muntin.host.devices.splitjoin_device import SplitJoinDevice
from muntin.host.errors import DeviceError, LinkIdentityError, LinkPortError

if TYPE_CHECKING:
    from muntin.host.link.link_client import Port
    from muntin.host.link.serial_board import SerialBoard

_INSTALL = "the Python package pyserial is not installed: pip install 'muntin[board]'"


class BoardDevice(BisortDevice):
    """A board at a serial port, or at Ethernet, with a BI-Sort kernel.

    It is opened, and its memory started, when the first window with keys of its width is opened.

    Parameters
    ----------
    board : Board
        One with a serial line.
    path : str
        The serial port; empty for the one that looks like such a board's. ``"ethernet"``, or an IPv4 address and a UDP
        port behind a colon, which may be left out, for a board with Ethernet.
    design : str
        What the board must carry; empty for any with a BI-Sort kernel.
    """

    def __init__(self, board: Board, path: str, design: str = ""):
        designs = {name: of for name, of in board.builds("runs").items() if design in ("", name)}
        info = _info(board, path, design)
        # No method of this device, as that would be a cycle.
        super().__init__(info, functools.partial(_open_bisort, info.name, board, path, designs))

    @classmethod
    def found(cls) -> list[DeviceInfo]:
        """Every board that can be opened by name, once for BI-Sort and for each other design; those that this machine
        has not, with the reason."""
        serial = [
            _info(board, "", design)
            for board in BOARDS.values()
            if board.serial is not None
            for design in ("", *board.builds("split_join"))
        ]
        return serial + OpenClBoardDevice.found()

    @classmethod
    def open(cls, which: str = "") -> Device:
        """The board ``which``, or ``which:port``; one behind an OpenCL shell is ``which:folder``.

        The port is a serial one, ``ethernet``, or an IPv4 address with a UDP port behind a colon or without. With
        ``:design=NAME`` behind it the board must carry that design, else one of BI-Sort.

        Raises
        ------
        DeviceError
            If there is no such board, it has no such design or no Ethernet, or there is no port that looks like its, or
            several.
        """
        rest, design = split_design(which)
        name, _, path = rest.partition(":")
        with_shell = OpenClBoardDevice.kinds()
        if name in with_shell:
            return OpenClBoardDevice.open(which)
        with_line = {board.name: board for board in BOARDS.values() if board.serial is not None}
        if name not in with_line:
            raise DeviceError(
                f"there is no board {name!r} that can be opened: there are {', '.join([*with_line, *with_shell])}; "
                "write board:<name>, board:<name>:<port>, or board:<name>:ethernet"
            )
        board = with_line[name]
        try:
            parameters = board.parameters[board.design(design)]
        except UnknownBoardError as error:
            raise DeviceError(str(error)) from error
        info = _info(board, path, design)
        if not info.available:
            raise DeviceError(f"device {info.name} cannot be opened: {info.reason}")
        if design_of(parameters).engine == "split_join":
            return SplitJoinDevice(info, parameters, functools.partial(_open, board, path, {design: parameters}))
        return cls(board, path, design)


def _open_bisort(name: str, board: Board, path: str, designs: Mapping[str, Parameters], key_bits: int) -> BoardLink:
    """The way to a board that carries one of these designs, with keys of this width."""
    link = _open(board, path, designs)
    if link.parameters.key_bits != key_bits:
        link.close()
        fitting = [design for design, of in designs.items() if of.key_bits == key_bits]
        raise LinkIdentityError(
            f"device {name}: the design {link.description['design']!r} on the board has keys of "
            f"{link.parameters.key_bits} bits, and {key_bits} are needed: "
            + (f"load {' or '.join(fitting)}" if fitting else "the board has no such design for these")
        )
    return link


def _open(board: Board, path: str, designs: Mapping[str, Any]) -> SerialBoard:
    """The way to a board that carries one of these designs."""
    # Only here, so that nobody needs pyserial who has no board.
    from muntin.host.link.link_client import LinkClient
    from muntin.host.link.serial_board import SerialBoard

    client = LinkClient(_line(board, path))
    try:
        return SerialBoard(client, board.name, designs)
    except BaseException:
        client.close()
        raise


def _line(board: Board, path: str) -> Port:
    """The serial port or the socket that a path says."""
    if (address := _ethernet(board, path)) is not None:
        from muntin.host.link.udp_port import UdpPort

        return UdpPort(*address)
    from muntin.host.link.serial_port import SerialPort

    assert board.serial is not None
    return SerialPort(path or _port(board), board.serial.baud)


def _port(board: Board) -> str:
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


def _ethernet(board: Board, path: str) -> tuple[str, int] | None:
    """The address and UDP port that a path says; None where it says a serial port. Raises DeviceError."""
    address, _, number = path.partition(":")
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


def _info(board: Board, path: str, design: str) -> DeviceInfo:
    reason = ""
    by_serial = _ethernet(board, path) is None  # Ethernet takes but a socket, and only asking tells what is there
    if by_serial and importlib.util.find_spec("serial") is None:
        reason = _INSTALL
    elif not path:
        try:
            _port(board)
        except LinkPortError as error:
            reason = str(error)
    name = f"board:{board.name}" + (f":{path}" if path else "") + (f":design={design}" if design else "")
    description, memory = board.description, board.memory_bytes
    parameters = board.parameters[board.design(design)]
    rows = design_of(parameters).engine == "split_join"
    if rows:
        description += f"; SplitJoin, windows of at most {parameters.capacity:,} rows"
    else:
        memory -= SCRATCH_BYTES
    indexes = SplitJoinDevice.indexes if rows else BisortDevice.indexes
    return DeviceInfo(name, "board", description, 0 if reason else memory, not reason, reason, indexes)
