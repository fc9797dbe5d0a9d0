"""Boards with a SplitJoin kernel, as a device."""

from __future__ import annotations

import threading
from collections.abc import Callable

from host.devices.board_link import BoardLink
from host.devices.device import Device, DeviceInfo
from host.devices.splitjoin_board import SplitJoinBoard
from host.errors import DeviceError
from hw.register_map import SPLITJOIN
from hw.splitjoin.parameters import SplitJoinParameters


class SplitJoinDevice(Device):
    """Boards whose kernels keep the windows of a join and compare every row with them. Each join takes a board.

    Parameters
    ----------
    info : DeviceInfo
        Its memory_bytes is that of a board.
    parameters : SplitJoinParameters
        What the boards' kernels were built with.
    link : callable
        Gives the way to a board that no join has. It raises DeviceError if there is none.
    boards : int or None
        How many there are; None for as many as are asked for, as in simulation.

    Attributes
    ----------
    parameters : SplitJoinParameters
    """

    engine = "splitjoin"

    def __init__(
        self,
        info: DeviceInfo,
        parameters: SplitJoinParameters,
        link: Callable[[], BoardLink],
        *,
        boards: int | None = 1,
    ):
        super().__init__(info, info.memory_bytes)
        self.parameters = parameters
        self._link = link
        self._most = boards
        self._boards: set[SplitJoinBoard] = set()
        self._opening = threading.Lock()

    def open_board(self) -> SplitJoinBoard:
        """A board for one join, which gives it back with `release_board`.

        Raises
        ------
        DeviceError
            If all are taken, or it is not what it should be.
        """
        with self._opening:
            if self._most is not None and len(self._boards) >= self._most:
                raise DeviceError(
                    f"device {self.info.name} serves {_joins(self._most)} at a time, as a SplitJoin kernel holds the "
                    "windows of one join: close the other one, or use another device"
                )
            link = self._link()
            try:
                found, expected = (SPLITJOIN.build_values(p) for p in (link.parameters, self.parameters))
                if found != expected:
                    raise DeviceError(f"device {self.info.name}: the board was built with {found}, not {expected}")
                board = SplitJoinBoard(link, self.info.name)
            except DeviceError:
                link.close()
                raise
            self._boards.add(board)
            return board

    def release_board(self, board: SplitJoinBoard) -> None:
        """Gives a board back. Idempotent."""
        with self._opening:
            self._boards.discard(board)
        board.close()

    def close(self) -> None:
        for board in list(self._boards):
            self.release_board(board)

    @classmethod
    def found(cls) -> list[DeviceInfo]:
        """None: which boards there are is known to those that open them."""
        return []

    @classmethod
    def open(cls, which: str = "") -> Device:
        raise DeviceError(f"there is no board named like {which!r}")


def _joins(count: int) -> str:
    return "one join" if count == 1 else f"{count} joins"
