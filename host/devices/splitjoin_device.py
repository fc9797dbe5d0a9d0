"""Boards with a SplitJoin kernel, as a device."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import cast

from muntin.contract.designs.splitjoin import SPLITJOIN, JoinSettings, SplitJoinParameters
from muntin.host.devices.board_link import BoardLink
from muntin.host.devices.device import Device, DeviceInfo
from muntin.host.devices.splitjoin_board import SplitJoinBoard
from muntin.host.engines import EngineKind, SplitJoin
from muntin.host.errors import DeviceError, UnsupportedError
from muntin.host.index import Index, NestedLoop
from muntin.host.join.boundary_generator import BoundaryGenerator
from muntin.host.join.engine import EngineSpec
from muntin.host.join.splitjoin_engine import SplitJoinEngine


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

    indexes = (NestedLoop.name,)
    engines = (SplitJoin.name,)

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
        self._boards: weakref.WeakSet[SplitJoinBoard] = weakref.WeakSet()  # one goes with its join
        self._opening = threading.Lock()

    def engine(self, chosen: str | EngineKind) -> EngineKind:
        """See `Device`. The kernel's build has the cores and the trees: what differs from the default is refused."""
        engine = super().engine(chosen)
        if engine != SplitJoin():
            raise UnsupportedError(
                f"device {self.info.name} runs as its kernel was built, with {self.parameters.cores} cores, and not as "
                f"{engine!r}: give engine='splitjoin'"
            )
        return engine

    def open_engine(
        self, spec: EngineSpec, generator: BoundaryGenerator, key_bits: dict[str, int], index: Index
    ) -> SplitJoinEngine:
        """See `Device`. Raises DeviceError too, if no board is free or it fails."""
        return SplitJoinEngine(self, spec, generator, key_bits)

    def open_board(self) -> SplitJoinBoard:
        """A board for one join, which gives it back with `release_board`, or by dropping it.

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
            board = self._connected()
            self._boards.add(board)
            return board

    def _connected(self) -> SplitJoinBoard:
        link = self._link()
        try:
            found, expected = (SPLITJOIN.build_values(p) for p in (link.parameters, self.parameters))
            if found != expected:
                raise DeviceError(f"device {self.info.name}: the board was built with {found}, not {expected}")
            return SplitJoinBoard(link, self.info.name)
        except DeviceError:
            link.close()
            raise

    def release_board(self, board: SplitJoinBoard) -> None:
        """Gives a board back. Idempotent."""
        with self._opening:
            self._boards.discard(board)
        board.close()

    def trial(self) -> Device:
        return _TrialDevice(self.info, self.parameters, self._link, boards=self._most)

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


class _TrialDevice(SplitJoinDevice):
    """See `Device.trial`: what the kernels' build says is known without a board."""

    def _connected(self) -> SplitJoinBoard:
        return cast(SplitJoinBoard, _NoBoard())


class _NoBoard:
    """What is asked of a board until rows come."""

    nbytes = 0

    def configure(self, settings: JoinSettings) -> None:
        """Takes any settings."""

    def close(self) -> None:
        """Nothing was given."""


def _joins(count: int) -> str:
    return "one join" if count == 1 else f"{count} joins"
