"""The interface of a device, and of a store of sorted runs on it.

Nothing here knows how a device works. One with sorted runs keeps those of one window in a `RunStore`; the window's
index schedules `merge`, `probe`, `gather` (or `count`) and `drop` on it.
"""

from __future__ import annotations

import abc
import bisect
import dataclasses
import itertools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from muntin.host.engines import EngineKind, Steps, open_engine_kind
from muntin.host.errors import CapacityError, UnsupportedError
from muntin.host.index import Auto, Index, open_index
from muntin.host.join.aggregate_plan import AggregatePlan
from muntin.host.join.boundary_generator import BoundaryGenerator
from muntin.host.join.engine import Engine, EngineSpec
from muntin.host.public import public

SOME_RUNS = 128  # that a store is opened for if nobody says


def usable_memory() -> int:
    """Bytes of this process's memory for windows and rows, by default: half of what the machine has, or the container,
    whatever is free at the moment."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text()
    except OSError:
        limit = "max"
    return (min(memory, int(limit)) if limit.strip().isdecimal() else memory) // 2


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


@dataclasses.dataclass
class Run:
    """A sorted run on a device; its owner is the store that made it.

    Attributes
    ----------
    length : int
        Rows, at least 1.
    handle : object
        The store's own.
    """

    length: int
    handle: Any


@dataclasses.dataclass(frozen=True)
class Room:
    """What a `RunStore` takes when it is opened, known without opening it.

    Attributes
    ----------
    nbytes : int
        Device memory.
    most_run_rows : int or None
        As of `RunStore`.
    """

    nbytes: int
    most_run_rows: int | None = None

    def close(self) -> None:
        """Does nothing: nothing was taken."""


@dataclasses.dataclass
class Limits:
    """Which stored rows each probe may meet: ``first <= row < first + span``, row numbers modulo 2**32.

    Attributes
    ----------
    first, span : ndarray of uint32, shape (n,)
    runs : ndarray of bool, shape (number of probed runs,)
        The runs that need the check; the others lie inside the limits of every probe.
    """

    first: np.ndarray
    span: np.ndarray
    runs: np.ndarray


@dataclasses.dataclass
class Probe:
    """The answer to a probe command, kept on the device until it is gathered or counted.

    Attributes
    ----------
    probes : int
        Number n of probes.
    runs : list of Run
    candidates : int
        Pairs before any limits.
    handle : object
        The store's own.
    """

    probes: int
    runs: list[Run]
    candidates: int
    handle: Any


class RunStore(abc.ABC):
    """Sorted runs of one side of one join.

    Keys have one width; row numbers are the low 32 bits of the rows' arrival numbers. Within a run, equal keys
    stand in no particular order.

    Attributes
    ----------
    key_bits : int
        32 or 64.
    granule : int
        Every run takes room for a multiple of this many rows.
    capacity_rows : int
        Rows that all runs together may hold, the output of a merge included. There is room beside them to round up as
        many runs as the store was opened for; what more runs are padded with counts as rows.
    nbytes : int
        Device memory taken, all of it from the start or from the last `grow`.
    most_run_rows : int or None
        Rows of the longest run it can make; None for any number.
    """

    key_bits: int
    granule: int = 1
    most_run_rows: int | None = None
    capacity_rows: int
    nbytes: int

    @property
    def key_dtype(self) -> np.dtype[Any]:
        """int32 or int64."""
        return np.dtype(np.int32 if self.key_bits == 32 else np.int64)

    @abc.abstractmethod
    def grow(self, rows: int) -> None:
        """Makes room for `rows` rows in all, runs kept. Raises CapacityError, and changes nothing, if it cannot."""

    @abc.abstractmethod
    def load(self, keys: np.ndarray, rows: np.ndarray) -> Run:
        """Stores ascending keys, shape (n,), n >= 1, with their row numbers (uint32) as a run."""

    @abc.abstractmethod
    def merge(self, older: Run, newer: Run) -> Run:
        """Merges two runs into one and frees both."""

    @abc.abstractmethod
    def drop(self, run: Run) -> None:
        """Frees a run."""

    @abc.abstractmethod
    def probe(self, runs: list[Run], lower: np.ndarray, upper: np.ndarray) -> Probe:
        """Finds, for each probe and run, the range of keys with ``lower <= key <= upper``.

        Both bounds ascend, shape (n,), n >= 1, of `key_dtype`, and ``lower <= upper``.
        """

    @abc.abstractmethod
    def gather(
        self, probe: Probe, numbers: np.ndarray, base: int, limits: Limits | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The pairs of a probe, in blocks.

        Parameters
        ----------
        probe : Probe
            The latest of this store.
        numbers : ndarray of int64, shape (n,)
            Arrival number of each probing row.
        base : int
            An arrival number at or before all rows of the probed runs, and less than 2**32 before any.
        limits : Limits, optional

        Yields
        ------
        probing, stored : ndarray of int64, shape (m,)
            Arrival numbers of the two rows of each pair.
        """

    @abc.abstractmethod
    def count(self, probe: Probe, limits: Limits | None = None) -> np.ndarray:
        """Pairs of each probe, int64, shape (n,)."""

    @abc.abstractmethod
    def close(self) -> None:
        """Frees everything, once the commands under way have ended. Idempotent; done also when the store is dropped."""


class Memory:
    """An account of memory with a fixed limit.

    Parameters
    ----------
    limit : int
        Bytes.
    where : str
        Named in errors: ``"device cpu"``.
    """

    def __init__(self, limit: int, where: str):
        self.limit, self._where = limit, where
        self._reserved: dict[int, int] = {}
        self._tickets = itertools.count()
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes that are set aside."""
        return sum(list(self._reserved.values()))

    @property
    def room(self) -> int:
        """Bytes that results in the making may take: what is not set aside, but a 64th of all at least."""
        return max(self.limit - self.used, self.limit // 64)

    def reserve(self, needed: int, what: str, ticket: int | None = None) -> int:
        """Sets memory aside; with a ticket, changes what it holds.

        Raises
        ------
        CapacityError
            If that much is not free; nothing changes.
        """
        with self._lock:
            held = self._reserved.get(ticket, 0) if ticket is not None else 0
            available = self.limit - self.used + held
            if needed > available and needed > held:
                raise CapacityError(
                    f"{what} needs {needed:,} bytes on {self._where}, which has {available:,} free of "
                    f"{self.limit:,}: use smaller windows or another device",
                    needed,
                    available,
                )
            ticket = next(self._tickets) if ticket is None else ticket
            self._reserved[ticket] = needed
            return ticket

    def release(self, ticket: int) -> None:
        """Gives back what a ticket holds. Idempotent; takes no lock, as a finalizer calls it at any point."""
        self._reserved.pop(ticket, None)


class Arena:
    """Hands out ranges of rows in a region, best fit first.

    Parameters
    ----------
    rows : int
        Size of the region, a multiple of `align`.
    align : int
        Starts and sizes of ranges are multiples of this.
    """

    def __init__(self, rows: int, align: int):
        self.rows = rows
        self.align = align
        self._free: list[tuple[int, int]] = [(0, rows)] if rows else []  # start, size; by start

    def padded(self, rows: int) -> int:
        """The size of the range that holds so many rows."""
        return -(-rows // self.align) * self.align

    @property
    def free_rows(self) -> int:
        """Rows free, in one piece or several."""
        return sum(size for _, size in self._free)

    def take(self, rows: int) -> int | None:
        """The start of a range for so many rows; None where no piece is large enough."""
        size = self.padded(rows)
        fits = [(free, start) for start, free in self._free if free >= size]
        if not fits:
            return None
        free, start = min(fits)
        at = bisect.bisect_left(self._free, (start, 0))
        if free == size:
            del self._free[at]
        else:
            self._free[at] = (start + size, free - size)
        return start

    def give(self, start: int, rows: int) -> None:
        """Takes a range back."""
        size = self.padded(rows)
        at = bisect.bisect_left(self._free, (start, 0))
        if at < len(self._free) and self._free[at][0] == start + size:
            size += self._free.pop(at)[1]
        if at and sum(self._free[at - 1]) == start:
            self._free[at - 1] = (self._free[at - 1][0], self._free[at - 1][1] + size)
        else:
            self._free.insert(at, (start, size))

    def grow(self, rows: int) -> None:
        """Enlarges the region at its end."""
        added, start = rows - self.rows, self.rows
        self.rows = rows
        self.give(start, added)


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
        """The engine of a join with ``form="aggregate"``; parameters as of `muntin.host.join.aggregate_engine`.

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

    @abc.abstractmethod
    def open_engine(
        self, spec: EngineSpec, generator: BoundaryGenerator, key_bits: dict[str, int], index: Index
    ) -> Engine:
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
