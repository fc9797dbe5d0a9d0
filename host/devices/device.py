"""The interface of a device; of most: where sorted runs live, and the four commands over them.

Nothing here knows how a device works. A device for the run engine keeps the runs of one side of one join in a
`RunStore`; the engine schedules `merge`, `probe`, `gather` (or `count`) and `drop` on it.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from host.errors import CapacityError

SOME_RUNS = 128  # that a store is opened for if nobody says


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
    """

    name: str
    kind: str
    description: str
    memory_bytes: int
    available: bool = True
    reason: str = ""


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
        """Frees everything. Idempotent."""


class Device(abc.ABC):
    """What joins are computed on.

    Parameters
    ----------
    info : DeviceInfo
    memory_bytes : int
        Memory that joins may take together.

    Attributes
    ----------
    engine : str
        The engine whose commands it carries out, as the table of engines names it.
    """

    engine: ClassVar[str]

    def __init__(self, info: DeviceInfo, memory_bytes: int):
        self.info = info
        self.memory_bytes = memory_bytes
        self._reserved: dict[int, int] = {}
        self._tickets = itertools.count()
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        """Memory reserved by open joins."""
        return sum(self._reserved.values())

    def reserve(self, needed: int, what: str, ticket: int | None = None) -> int:
        """Sets memory aside; with a ticket, changes what it holds.

        Raises
        ------
        CapacityError
            If that much is not free; nothing changes.
        """
        with self._lock:
            held = self._reserved.get(ticket, 0) if ticket is not None else 0
            available = self.memory_bytes - self.used_bytes + held
            if needed > available:
                raise CapacityError(
                    f"{what} needs {needed:,} bytes on device {self.info.name}, which has {available:,} free of "
                    f"{self.memory_bytes:,}: use smaller windows or another device",
                    needed,
                    available,
                )
            ticket = next(self._tickets) if ticket is None else ticket
            self._reserved[ticket] = needed
            return ticket

    def release(self, ticket: int) -> None:
        """Gives back what a ticket holds."""
        with self._lock:
            self._reserved.pop(ticket, None)

    @classmethod
    @abc.abstractmethod
    def found(cls) -> list[DeviceInfo]:
        """The devices of this kind on this machine, the default one first; an absent one with its reason."""

    @classmethod
    @abc.abstractmethod
    def open(cls, which: str = "") -> Device:
        """Opens the first device of this kind whose name contains `which`. Raises DeviceError if there is none."""

    def close(self) -> None:  # noqa: B027 (most devices have nothing to give back)
        """Gives the device back. Idempotent."""


class RunDevice(Device):
    """A device that carries out the commands of the run engine."""

    engine = "runs"

    @abc.abstractmethod
    def open_store(self, *, key_bits: int, rows: int, what: str, runs: int = SOME_RUNS) -> RunStore:
        """Room for the runs of one side.

        Parameters
        ----------
        key_bits : int
            32 or 64.
        rows : int
            Rows all runs together may hold, merge output included.
        what : str
            Named in the error, such as "the left window".
        runs : int
            How many runs there may be at once: each may be padded to the granule.

        Raises
        ------
        CapacityError
            With the bytes needed and available.
        """
