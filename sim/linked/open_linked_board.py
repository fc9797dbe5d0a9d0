"""Opens a board with a link in simulation, through the code that opens one on a desk."""

from __future__ import annotations

from collections.abc import Callable

from muntin.host.link.link_client import LinkClient, Port
from muntin.host.link.serial_board import SerialBoard
from muntin.host.link.serial_port import SerialPort
from muntin.host.link.udp_port import UdpPort
from muntin.hw.boards.board_build import build_of
from muntin.hw.boards.ecp5_board import Ecp5Board
from muntin.sim.linked.linked_board import LinkedBoard

_PATIENCE = 60.0  # seconds; a simulated clock is slow, and its line loses nothing


class OpenedBoard(SerialBoard):
    """A board in simulation, opened; it goes when it is closed.

    Parameters
    ----------
    simulated : LinkedBoard
    board : Ecp5Board
    design : str
        What it simulates.
    port : Port
        Where it is.
    """

    def __init__(self, simulated: LinkedBoard, board: Ecp5Board, design: str, port: Port):
        self._simulated = simulated
        client = LinkClient(port, patience=_PATIENCE)
        try:
            super().__init__(client, board.name, {design: board.parameters[design]})
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """See `BoardLink`."""
        if hasattr(self, "_client"):
            super().close()
        self._simulated.close()


def open_linked_board(
    name: str, design: str, *, ethernet: bool = False, progress: Callable[[int, int], None] | None = None
) -> OpenedBoard:
    """Compile, once, and open a simulated board with a link.

    Parameters
    ----------
    name : str
        One of `muntin.contract.boards`.
    design : str
        One of the board's.
    ethernet : bool
        Over Ethernet, not its serial line.
    progress : callable, optional
        As in `compile_board`.

    Raises
    ------
    BoardBuildError
        If it cannot be compiled.
    """
    board = build_of(name)
    simulated = LinkedBoard(board, design, progress=progress)
    if ethernet:
        assert simulated.computer is not None
        return OpenedBoard(simulated, board, design, UdpPort(*simulated.computer.address))
    return OpenedBoard(simulated, board, design, SerialPort(simulated.path, board.serial.baud))
