"""Boards with a kernel, as a device."""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from muntin.contract.design import design_of
from muntin.contract.designs.splitjoin import JoinSettings
from muntin.host.devices.device import Device, DeviceInfo
from muntin.host.devices.run_device import RunDevice
from muntin.host.engine.engine import Engine, EngineSpec
from muntin.host.engine.run_store import SOME_RUNS, Reservation
from muntin.host.engines import EngineKind, SplitJoin, Steps, open_engine_kind
from muntin.host.errors import DeviceError, LinkIdentityError, UnsupportedError
from muntin.host.fpga.bisort import SCRATCH_BYTES, BisortBoard, BisortStore
from muntin.host.fpga.driver import BoardLink
from muntin.host.fpga.splitjoin import SplitJoinBoard
from muntin.host.fpga.splitjoin_engine import SplitJoinEngine
from muntin.host.index import BiSort, Index, NestedLoop, SortedRuns
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.sides import Sides


class FpgaDevice(RunDevice):
    """Boards whose kernels carry out joins, by the engine of their design.

    Kernels over sorted runs are shared by all joins whose keys have their width, and asked for with the first of them;
    all take no more memory than one board has. Lanes make a kernel faster, not larger: all rows may have keys of one
    lane, so stores take no more memory than one lane has. A SplitJoin kernel keeps the windows of one join, which takes
    a board.

    Parameters
    ----------
    info : DeviceInfo
        Its memory_bytes is what joins may take together: of kernels over sorted runs the memory of one lane, less
        `scratch_bytes`.
    builds : mapping of str to MemoryPort
        What the boards' kernels may be built with, by the name of the design; all join by one engine.
    link : callable
        Gives the way to a board that no join has, with one of the builds that it is given. It raises DeviceError if
        there is none.
    boards : int or None
        How many there are; None for as many as are asked for, as in simulation.
    scratch_bytes : int
        Memory of each lane that is kept for inputs and results of commands over sorted runs. Less means more commands
        for large batches.

    Attributes
    ----------
    design : Design
    parameters : MemoryPort
        The first build.
    """

    def __init__(
        self,
        info: DeviceInfo,
        builds: Mapping[str, Any],
        link: Callable[[Mapping[str, Any]], BoardLink],
        *,
        boards: int | None = None,
        scratch_bytes: int = SCRATCH_BYTES,
    ):
        self._builds = dict(builds)
        self.parameters: Any = next(iter(self._builds.values()))
        self.design = design_of(self.parameters)
        self._hosted = ENGINES[self.design.engine]
        self.indexes, self.engines = self._hosted.indexes, self._hosted.engines
        super().__init__(info, info.memory_bytes)
        self._link = link
        self._most = boards
        self._scratch_bytes = scratch_bytes
        self._boards: weakref.WeakSet[Any] = weakref.WeakSet()  # one that is not shared goes with its join
        self._shared: dict[int, BisortBoard] = {}  # by width of key
        self._opening = threading.Lock()

    # Boards

    def open_board(self, key_bits: int | None = None) -> Any:
        """A board whose kernel has keys of this width, or any: a shared one, opened once, or one for one join, which
        gives it back with `release_board`, or by dropping it.

        Raises
        ------
        DeviceError
            If all are taken, there is none, or it is not what it should be.
        """
        with self._opening:
            for width, board in self._shared.items():
                if key_bits in (None, width):
                    return board
            fitting = self._fitting(key_bits)
            if self._most is not None and len(self._boards) >= self._most:
                raise self._taken(key_bits)
            board = self._connected(fitting)
            self._boards.add(board)
            if self._hosted.shared:
                self._shared[board.parameters.key_bits] = board
            return board

    def _taken(self, key_bits: int | None) -> DeviceError:
        if self._shared:
            return DeviceError(
                f"device {self.info.name} has a kernel for keys of {next(iter(self._shared))} bits, and one of "
                f"{key_bits} would take its place: close the joins on it first, and open it again"
            )
        joins = "one join" if self._most == 1 else f"{self._most} joins"
        return DeviceError(
            f"device {self.info.name} serves {joins} at a time, as a SplitJoin kernel holds the windows of one join: "
            "close the other one, or use another device"
        )

    def _fitting(self, key_bits: int | None) -> dict[str, Any]:
        """The builds with keys of a width."""
        fitting = {design: build for design, build in self._builds.items() if key_bits in (None, build.key_bits)}
        if not fitting:
            raise LinkIdentityError(
                f"device {self.info.name} has no kernel for keys of {key_bits} bits, but for "
                f"{self.parameters.key_bits} ({', '.join(self._builds)}): open another design, or use another device"
            )
        return fitting

    def _connected(self, fitting: Mapping[str, Any]) -> Any:
        name = self.info.name
        link = self._link(fitting)
        try:
            found = self.design.registers.build_values(link.parameters)
            expected = [self.design.registers.build_values(build) for build in fitting.values()]
            if found not in expected:
                raise DeviceError(f"device {name}: the board was built with {found}, not {expected[0]}")
            return self._hosted.board(self, link)
        except DeviceError:
            link.close()
            raise

    def runs_board(self, link: BoardLink) -> BisortBoard:
        """A board over sorted runs. Raises DeviceError if it has less memory than joins may take."""
        lane_bytes = link.memory_bytes // self.design.registers.lanes(link.parameters)
        if lane_bytes < self.memory_bytes + self._scratch_bytes:
            raise DeviceError(
                f"device {self.info.name}: the board has {lane_bytes:,} bytes of memory a lane, not "
                f"{self.memory_bytes + self._scratch_bytes:,}"
            )
        return BisortBoard(link, self.info.name, self._scratch_bytes)

    def rows_board(self, link: BoardLink) -> SplitJoinBoard:
        """A board for the rows of one join."""
        return SplitJoinBoard(link, self.info.name)

    def release_board(self, board: Any) -> None:
        """Gives a board back. Idempotent."""
        with self._opening:
            self._boards.discard(board)
        board.close()

    @contextmanager
    def board_link(self) -> Iterator[BoardLink]:
        """See `Device`. Raises DeviceError too while a join is on a board that is shared."""
        if self.used_bytes:
            raise DeviceError(
                f"device {self.info.name} has joins on it, and a check of its memory would overwrite their windows: "
                "close them first"
            )
        board = self.open_board(next(iter(self._shared), self.parameters.key_bits))
        try:
            yield board.link
        finally:
            if not self._hosted.shared:
                self.release_board(board)

    def close(self) -> None:
        """See `Device`."""
        with self._opening:
            boards = list(self._boards)
            self._boards.clear()
            self._shared.clear()
            for board in boards:
                board.close()

    # Joins

    def engine(self, chosen: str | EngineKind) -> EngineKind:
        """See `Device`. The kernel's build has the cores and the trees: what differs from the default is refused."""
        engine = super().engine(chosen)
        if engine != open_engine_kind(engine.name):
            raise UnsupportedError(
                f"device {self.info.name} runs as its kernel was built, with {self.parameters.cores} cores, and not as "
                f"{engine!r}: give engine='splitjoin'"
            )
        return engine

    def beside(self, index: Index, parts: Sequence[BoundaryGenerator]) -> tuple[int, ...]:
        """See `Device`. A kernel with a second column takes the part that is bounded at both ends, else at one, else
        the first."""
        if self._hosted.shared or self.parameters.columns == 1:
            return ()
        fitting = [
            at
            for at, part in enumerate(parts)
            if max(kind.bits for kind in part.key_types.values()) <= self.parameters.key_bits
        ]
        return tuple(sorted(fitting, key=lambda at: parts[at].open_ends)[:1])

    def open_engine(self, spec: EngineSpec, generator: BoundaryGenerator, key_bits: Sides[int], index: Index) -> Engine:
        """See `Device`. Raises DeviceError too, if no board is free or it fails."""
        return self._hosted.engine(self, spec, generator, key_bits, index)

    def open_store(self, *, key_bits: int, rows: int, what: str, runs: int = SOME_RUNS) -> BisortStore:
        """See `RunDevice`: of a design over sorted runs."""
        return BisortStore(self, self.open_board(key_bits), rows, what, runs)

    def room(self, *, key_bits: int, rows: int, what: str, runs: int = SOME_RUNS) -> Reservation:
        """See `RunDevice`: of a design over sorted runs."""
        return self.open_board(key_bits).room(rows, runs)

    def trial(self) -> Device:
        """See `Device`."""
        return self._hosted.trial(self)

    def rows_trial(self) -> Device:
        """What the build of a kernel that keeps windows says is known without a board."""
        return _RowsTrial(self.info, self._builds, self._link, boards=self._most)


class _RowsTrial(FpgaDevice):
    """See `Device.trial`."""

    def _connected(self, fitting: Mapping[str, Any]) -> SplitJoinBoard:
        return cast(SplitJoinBoard, _NoBoard())


class _NoBoard:
    """What is asked of a board until rows come."""

    nbytes = 0

    def configure(self, settings: JoinSettings) -> None:
        """Takes any settings."""

    def close(self) -> None:
        """Nothing was given."""


def _rows_engine(
    device: FpgaDevice, spec: EngineSpec, generator: BoundaryGenerator, key_bits: Sides[int], index: Index
) -> SplitJoinEngine:
    return SplitJoinEngine(device, spec, generator, key_bits)


@dataclasses.dataclass(frozen=True)
class Hosted:
    """How kernels of one engine are driven.

    Attributes
    ----------
    indexes, engines : tuple of str
        As of `Device`.
    shared : bool
        Whether joins share a board.
    board, engine, trial : callable
        What a device makes: of a link, of `Device.open_engine`, and of `Device.trial`.
    """

    indexes: tuple[str, ...]
    engines: tuple[str, ...]
    shared: bool
    board: Callable[[FpgaDevice, BoardLink], Any]
    engine: Callable[..., Engine]
    trial: Callable[[FpgaDevice], Device]


ENGINES: dict[str, Hosted] = {
    "runs": Hosted(
        (SortedRuns.name, BiSort.name),
        (Steps.name,),
        True,
        FpgaDevice.runs_board,
        RunDevice.open_engine,
        RunDevice.trial,
    ),
    "split_join": Hosted(
        (NestedLoop.name,), (SplitJoin.name,), False, FpgaDevice.rows_board, _rows_engine, FpgaDevice.rows_trial
    ),
}
"""How each engine of `muntin.contract.design.Design` is driven."""
