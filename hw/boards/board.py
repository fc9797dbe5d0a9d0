"""A board, as data."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muntin.hw.boards.build_errors import UnknownBoardError
from muntin.hw.boards.ethernet_line import EthernetLine
from muntin.hw.boards.serial_line import SerialLine
from muntin.hw.boards.steps import Steps


@dataclasses.dataclass(frozen=True, kw_only=True)
class Board(abc.ABC):
    """A board: what is known of it, and how designs are built for it.

    Made without any package but the standard library.

    Parameters
    ----------
    name : str
        What is written in ``BOARD=``.
    description : str
        One line: the part, its memory, what builds it.
    part : str
        The FPGA's name with its vendor.
    memory_bytes : int
        Bytes of memory on all its channels together.
    parameters : mapping of str to object
        What is built for each design that the board has; the first is the default.
    serial : SerialLine, optional
        Where the host reaches it.
    ethernet : EthernetLine, optional
        Where the host reaches it, too.
    serial_only : tuple of str
        Designs that leave out Ethernet.
    """

    name: str
    description: str
    part: str
    memory_bytes: int
    parameters: Mapping[str, Any]
    serial: SerialLine | None = None
    ethernet: EthernetLine | None = None
    serial_only: tuple[str, ...] = ()

    @property
    def designs(self) -> tuple[str, ...]:
        """Designs that the board can be built with, the default first."""
        return tuple(self.parameters)

    def design(self, name: str | None) -> str:
        """That design, or the default one for None or an empty name.

        Raises
        ------
        UnknownBoardError
            If the board has none of that name, with those it has.
        """
        if not name:
            return self.designs[0]
        if name not in self.designs:
            raise UnknownBoardError(f"board {self.name} has no design {name!r}: there are {', '.join(self.designs)}")
        return name

    def ethernet_of(self, design: str) -> EthernetLine | None:
        """Where the host reaches that design over Ethernet; None where it does not."""
        return None if design in self.serial_only else self.ethernet

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
