"""How AMD's Alveo U55C is built."""

from muntin.contract.boards import board
from muntin.hw.boards.vitis_board import VitisBoard

BUILD = VitisBoard.of(board("u55c"))
