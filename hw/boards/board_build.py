"""How designs are built for a board."""

from __future__ import annotations

import abc
import dataclasses
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muntin.contract.boards import Board, board
from muntin.hw.boards.tools import Steps


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoardBuild(Board, abc.ABC):
    """A board, and how designs are built for it. Made without any package but the standard library."""

    @classmethod
    def of(cls, known: Board, **more: Any) -> Any:
        """A board with all that is known of it, and what its build adds."""
        return cls(**{field.name: getattr(known, field.name) for field in dataclasses.fields(known)}, **more)

    @abc.abstractmethod
    def files(self, design: str, steps: Steps) -> dict[str, str]:
        """All that is made without a vendor's or other outside tool: names below the build's folder, and texts.

        The folder is named after their content, so they must not tell the time nor where they are.
        """

    @abc.abstractmethod
    def tools(self) -> Mapping[str, str]:
        """Names and versions of the tools that `make` runs; those that are missing have an empty version."""

    @abc.abstractmethod
    def make(self, design: str, folder: Path, steps: Steps) -> dict[str, Any]:
        """Makes what is loaded onto the board, in a folder that has the `files`: what to report, for JSON.

        The report has a key ``bitstream``, the name of the file below the folder.

        Raises
        ------
        BuildError
            If a tool fails.
        ToolMissingError
            If one is not there: it says which, and how to go on.
        TimingError
            If a clock is too slow, with the worst path.
        """


def build_of(name: str) -> Any:
    """How the board of that name is built: `BUILD` in `muntin.hw.boards.data`. Raises UnknownBoardError."""
    return importlib.import_module(f"muntin.hw.boards.data.{board(name).name}").BUILD
