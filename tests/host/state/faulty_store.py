"""A store in memory whose process may die, and whose storage may fail, in the middle of any operation."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from muntin.host.errors import StateError, StateTakenError
from muntin.host.state import Store


class Died(BaseException):
    """The process has ended."""


class FaultyStore(Store):
    """A store that outlives its users.

    Attributes
    ----------
    blobs : dict of str to bytes
    die_at : float
        How many more operations succeed; the next one ends the process, before it has an effect or (by halves:
        ``die_at=2.5``) after.
    fail_at : int or None
        How many more writes succeed; the next ones fail, as on a full disk.
    """

    place = "memory"

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.die_at = float("inf")
        self.fail_at: int | None = None
        self.operations = 0

    def _count(self) -> None:
        self.operations += 1
        if self.die_at <= 0:
            raise Died
        self.die_at -= 1

    def _done(self) -> None:
        if -1 < self.die_at < 0:
            self.die_at = 0
            raise Died

    def create(self, name: str, pieces: Sequence[bytes | pa.Buffer]) -> None:
        self._count()
        if name in self.blobs:
            raise StateTakenError(f"the state's file {self.path(name)} is there already")
        if self.fail_at is not None:
            if self.fail_at == 0:
                raise StateError(f"cannot write the state's file {self.path(name)}: no space left on device")
            self.fail_at -= 1
        self.blobs[name] = b"".join(pieces)
        self._done()

    def read(self, name: str) -> bytes:
        if name not in self.blobs:
            raise StateError(f"cannot read the state's file {self.path(name)}: it is not there")
        return self.blobs[name]

    def names(self, after: str = "") -> list[str]:
        return sorted(name for name in self.blobs if name > after)

    def below(self) -> list[str]:
        return []

    def delete(self, name: str) -> None:
        self._count()
        self.blobs.pop(name, None)
        self._done()
