"""How Terasic's DE5a-Net is built."""

from muntin.contract.boards import board
from muntin.hw.boards.de5a_board import De5aBoard

_BOARD = board("de5a")

BUILD = De5aBoard.of(_BOARD, global_address_bits=33, project_hz=_BOARD.parameters["bisort-quartus"].clock_hz)
