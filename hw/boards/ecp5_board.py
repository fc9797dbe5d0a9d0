"""A board with a Lattice ECP5 and DDR3, built with open tools."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hw.boards.board import Board
from hw.boards.steps import Steps


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ecp5Board(Board):
    """A board with a Lattice ECP5 and one DDR3 channel."""

    def files(self, design: str, steps: Steps) -> dict[str, str]:
        raise NotImplementedError

    def tools(self) -> Mapping[str, str]:
        raise NotImplementedError

    def make(self, design: str, folder: Path, steps: Steps) -> dict[str, Any]:
        raise NotImplementedError
