"""Opens a board with a link in simulation, through the code that opens one on a desk."""

from __future__ import annotations

from collections.abc import Callable

from host.errors import LinkIdentityError
from host.link.link_client import LinkClient, Port
from host.link.serial_board import SerialBoard
from host.link.serial_port import SerialPort
from host.link.udp_port import UdpPort
from hw.boards.ecp5_board import Ecp5Board
from hw.boards.registry import board as board_of
from sim.linked.linked_board import LinkedBoard

_PATIENCE = 60.0  # seconds; a simulated clock is slow, and its line loses nothing


class OpenedBoard(SerialBoard):
    """A board in simulation, opened; it goes when it is closed.

    Parameters
    ----------
    simulated : LinkedBoard
    board : Ecp5Board
        What it simulates.
    port : Port
        Where it is.
    """

    def __init__(self, simulated: LinkedBoard, board: Ecp5Board, port: Port):
        self._simulated = simulated
        client = LinkClient(port, patience=_PATIENCE)
        try:
            super().__init__(client, board.name, dict(board.parameters))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """See `BoardLink`."""
        if hasattr(self, "_client"):
            super().close()
        self._simulated.close()


def open_linked_board(
    name: str, key_bits: int, *, ethernet: bool = False, progress: Callable[[int, int], None] | None = None
) -> OpenedBoard:
    """Compile, once, and open a simulated board with a link.

    Parameters
    ----------
    name : str
        One of `hw.boards.registry`.
    key_bits : int
        32 or 64.
    ethernet : bool
        Over Ethernet, not its serial line.
    progress : callable, optional
        As in `compile_board`.

    Raises
    ------
    LinkIdentityError
        If the board has no design with such keys.
    BoardBuildError
        If it cannot be compiled.
    """
    board = board_of(name)
    assert isinstance(board, Ecp5Board)
    for design, parameters in board.parameters.items():
        if parameters.key_bits == key_bits:
            simulated = LinkedBoard(board, design, progress=progress)
            if ethernet:
                assert simulated.computer is not None
                return OpenedBoard(simulated, board, UdpPort(*simulated.computer.address))
            return OpenedBoard(simulated, board, SerialPort(simulated.path, board.serial.baud))
    raise LinkIdentityError(f"board {name} has no design with keys of {key_bits} bits")
