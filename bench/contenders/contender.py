"""The interface of everything that the operator benchmark times."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from bench.workloads import Batch, Workload

_CHUNK = 1 << 15  # pairs, that stay in a cache while they are summed


class Unavailable(Exception):
    """This machine lacks what a contender needs; the message says what, and how to get it."""


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Row-number pairs of one step, in any order: two int64 arrays of one length."""

    left: np.ndarray
    right: np.ndarray

    @property
    def checksum(self) -> int:
        """A 64-bit value that depends on the set of pairs, not on their order."""
        total = 0
        for at in range(0, len(self), _CHUNK):
            part = slice(at, at + _CHUNK)
            mixed = self.left[part].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            mixed += self.right[part].astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
            mixed ^= mixed >> np.uint64(32)
            mixed *= np.uint64(0xD6E8FEB86659FD93)
            mixed ^= mixed >> np.uint64(29)
            total += int(mixed.sum(dtype=np.uint64))
        return total % (1 << 64)

    def __len__(self) -> int:
        return len(self.left)


class Contender(ABC):
    """A window join of two streams, fed batch by batch.

    A contender sees the rows of each stream in arrival order, by `load` (window kept, pairs not wanted, not
    timed) or by `step` (timed by the caller). In one step all left rows arrive before all right rows.
    """

    name: str

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    @abstractmethod
    def load(self, left: Batch, right: Batch) -> None:
        """Bring the windows up to date with these rows; speed does not matter."""

    @abstractmethod
    def step(self, left: Batch, right: Batch) -> Pairs:
        """Join these rows and keep them. The arrays are good until the next step, or `close`."""

    def parts(self) -> dict[str, float]:
        """Seconds spent so far in each part of all steps, where the contender can tell."""
        return {}

    def memory(self) -> dict[str, int]:
        """Bytes held for the windows, where the contender can tell."""
        return {}

    def close(self) -> None:  # noqa: B027 - most have nothing to free
        """Free what the contender holds."""
