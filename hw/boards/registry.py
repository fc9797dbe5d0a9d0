"""Which boards there are, by name."""

from __future__ import annotations

import functools
import importlib
import pkgutil

import muntin.hw.boards.data
from muntin.hw.boards.board import Board
from muntin.hw.boards.build_errors import UnknownBoardError


@functools.cache
def boards() -> dict[str, Board]:
    """Every board by its name: the `BOARD` of each module of `muntin.hw.boards.data`."""
    names = sorted(module.name for module in pkgutil.iter_modules(muntin.hw.boards.data.__path__))
    found = [importlib.import_module(f"muntin.hw.boards.data.{name}").BOARD for name in names]
    return {board.name: board for board in found}


def board(name: str) -> Board:
    """The board of that name.

    Raises
    ------
    UnknownBoardError
        If there is none, with those there are.
    """
    known = boards()
    if name not in known:
        raise UnknownBoardError(f"there is no board {name!r}: there are {', '.join(known)}")
    return known[name]
