"""The interface of a device: nothing here knows how one works."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from muntin.host.aggregates.plan import AggregatePlan
from muntin.host.engine.engine import Engine, EngineSpec
from muntin.host.engines import EngineKind, Steps, open_engine_kind
from muntin.host.errors import UnsupportedError
from muntin.host.index import Auto, Index, open_index
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.memory import Memory, usable_memory
from muntin.host.public import public
from muntin.host.sides import Sides


@public("muntin.hardware")
@dataclasses.dataclass(frozen=True)
class DeviceInfo:
    """What `list_devices` tells of one device.

    Attributes
    ----------
    name : str
        What to pass as ``device=``.
    kind : str
    description : str
    memory_bytes : int
        0 where the device is absent.
    available : bool
    reason : str
        Why it is absent, else empty.
    indexes : tuple of str
        What ``index=`` may name there, the default first; filled in by `list_devices`.

    Examples
    --------
    >>> from muntin.hardware import list_devices
    >>> [device.name for device in list_devices() if device.kind in ("cpu", "numpy")]
    ['cpu', 'numpy']
    """

    name: str
    kind: str
    description: str
    memory_bytes: int
    available: bool = True
    reason: str = ""
    indexes: tuple[str, ...] = ()


@public("muntin.hardware")
class Device(abc.ABC):
    """What joins are computed on.

    Parameters
    ----------
    info : DeviceInfo
    memory_bytes : int
        Memory that joins may take together: fixed, whatever is free at the moment.

    Attributes
    ----------
    indexes : tuple of str
        Names of the indexes it has, the default one first.
    engines : tuple of str
        Names of the engines it has, the default one first.
    as_of : bool
        Whether as-of joins run beside it: in this process, by the native core.
    range_indexes : tuple of str
        Those of its indexes that give ``form="ranges"``.
    aggregates : bool
        Whether it gives ``form="aggregate"``, by `open_aggregates`.
    threads : int
        The most that a call uses beside it, in this process.
    in_process : bool
        Whether its memory is that of this process.
    host_memory : Memory
        For rows that are kept for output, and for results: of this process.

    Examples
    --------
    >>> from muntin.hardware import open_device
    >>> device = open_device("cpu")
    >>> device.info.name
    'cpu'
    >>> device.close()
    """

    threads: int = 1
    in_process: ClassVar[bool] = False
    indexes: tuple[str, ...]
    engines: tuple[str, ...] = (Steps.name,)
    range_indexes: ClassVar[tuple[str, ...]] = ()
    as_of: ClassVar[bool] = False
    aggregates: ClassVar[bool] = False

    def __init__(self, info: DeviceInfo, memory_bytes: int):
        self.info = dataclasses.replace(info, indexes=self.indexes)
        self._memory = Memory(memory_bytes, f"device {info.name}")
        self.host_memory = self._memory if self.in_process else Memory(usable_memory(), "the host")

    @property
    def memory_bytes(self) -> int:
        """Memory that joins may take together."""
        return self._memory.limit

    def limit_host_memory(self, limit: int) -> None:
        """Sets `host_memory`'s limit, in bytes; of a device in this process, its whole memory."""
        self.host_memory.limit = limit
        if self.in_process:
            self.info = dataclasses.replace(self.info, memory_bytes=limit)

    @property
    def used_bytes(self) -> int:
        """Memory reserved by open joins."""
        return self._memory.used

    def reserve(self, needed: int, what: str, ticket: int | None = None) -> int:
        """As `Memory.reserve`, of the device's memory."""
        return self._memory.reserve(needed, what, ticket)

    def release(self, ticket: int) -> None:
        """As `Memory.release`, of the device's memory."""
        self._memory.release(ticket)

    def open_aggregates(
        self, spec: EngineSpec, generator: BoundaryGenerator, plan: AggregatePlan, *, itself: bool, close: bool
    ) -> Engine:
        """The engine of a join with ``form="aggregate"``; parameters as of `muntin.host.engine.aggregate_engine`.

        Raises
        ------
        UnsupportedError
            If the device has none: see `aggregates`.
        """
        raise UnsupportedError(f"device {self.info.name!r} gives no aggregates: use device='cpu'")

    def engine(self, chosen: str | EngineKind) -> EngineKind:
        """The engine that a join asks for; ``"auto"`` is this device's default.

        Raises
        ------
        UnsupportedError
            If the device does not have it, or not that engine.
        """
        engine = open_engine_kind(self.engines[0] if chosen == "auto" else chosen)
        if engine.name not in self.engines:
            raise UnsupportedError(
                f"device {self.info.name} has no engine {engine.name!r}: it has {', '.join(self.engines)}"
            )
        return engine

    def indexes_of(self, engine: EngineKind) -> tuple[str, ...]:
        """Names of the indexes that an engine runs on here, the default one first."""
        return self.indexes

    def index(self, chosen: str | Index, engine: EngineKind) -> Index:
        """The index that a join asks for; ``"auto"``, or `Auto()`, is the default of the engine.

        Raises
        ------
        UnsupportedError
            If the engine does not run on it here.
        """
        names = self.indexes_of(engine)
        index = open_index(names[0] if chosen in ("auto", Auto()) else chosen)
        if index.name not in names:
            of = "" if names == self.indexes else f" for the engine {engine.name!r}"
            raise UnsupportedError(
                f"device {self.info.name} has no index {index.name!r}{of}: it has {', '.join(names)}"
            )
        return index

    def key_bits(self, index: Index, engine: EngineKind) -> int:
        """Of the widest composite key that an index takes here: 64, or 128."""
        return 64

    def beside(self, index: Index, parts: Sequence[BoundaryGenerator]) -> tuple[int, ...]:
        """Which further parts of a conjunction an index here takes beside the one that drives, by their places; the
        others are asked of the pairs that it finds."""
        return tuple(range(len(parts))) if index.conjunctive else ()

    @abc.abstractmethod
    def open_engine(self, spec: EngineSpec, generator: BoundaryGenerator, key_bits: Sides[int], index: Index) -> Engine:
        """An engine for one join.

        Parameters
        ----------
        spec : EngineSpec
        generator : BoundaryGenerator
        key_bits : dict of str to int
            Width of the encoded keys of each side.
        index : Index
            One that `index` gave.

        Raises
        ------
        CapacityError
            If the windows do not fit.
        UnsupportedError
            If the device cannot carry out the join, saying why.
        """

    @abc.abstractmethod
    def trial(self) -> Device:
        """A stand-in with all of this device's memory and places free, which gives none of them.

        Opening a join on it and closing it again tells whether the join could ever run here: what the device cannot
        do, or could not hold if it were empty, raises as it would there. It takes no rows.
        """

    @contextmanager
    def board_link(self) -> Iterator[Any]:
        """The way to a board of this device, a `muntin.host.fpga.driver.BoardLink`, for a check of its memory while no
        join is on it; None where it has no boards.

        Raises
        ------
        DeviceError
            If no board is free, or it is not what it should be.
        """
        yield None

    def close(self) -> None:  # noqa: B027 (most devices have nothing to give back)
        """Gives the device back. Idempotent; done also when the device is dropped."""
