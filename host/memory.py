"""An account of memory, and places in it."""

from __future__ import annotations

import bisect
import itertools
import os
import threading
from pathlib import Path
from typing import Any, Protocol

from muntin.host.errors import CapacityError


def usable_memory() -> int:
    """Bytes of this process's memory for windows and rows, by default: half of what the machine has, or the container,
    whatever is free at the moment."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text()
    except OSError:
        limit = "max"
    return (min(memory, int(limit)) if limit.strip().isdecimal() else memory) // 2


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


class Lender(Protocol):
    """What joins have their memory of: a device.

    Attributes
    ----------
    info : DeviceInfo
    host_memory : Memory
    """

    info: Any
    host_memory: Memory

    def reserve(self, needed: int, what: str, ticket: int | None = None) -> int: ...

    def release(self, ticket: int) -> None: ...


class Cores(Lender, Protocol):
    """A device with so many threads at most for a call."""

    threads: int


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
