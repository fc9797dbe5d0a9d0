"""What the operator asks of an engine."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import numpy as np

from muntin.host.call import Call, Found
from muntin.host.engines import EngineKind, Steps
from muntin.host.errors import CapacityError, ResultTooLargeError
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.sides import SIDES, Side, Sides

PAIR_BYTES = 16  # of two arrival numbers
_NONE = np.zeros(0, np.int64)
_K = TypeVar("_K")


@dataclasses.dataclass(frozen=True)
class EngineSpec:
    """What an engine must know of a query.

    Attributes
    ----------
    counts : dict of str to int, or None
        Rows of the window of each side, for count windows.
    within : tuple of int, or None
        ``(low, high)`` of ``right_time - left_time``, for time windows.
    delay : int
        How far a row may come after a newer one, as far as known.
    capacity : int or None
        Rows kept per side at most, for time windows.
    order : str
        Of the pairs: "none", "outer" or "inner". An engine that cannot put them in order gives `Pairs`, and the
        operator sorts them.
    every : int
        The interval of the order, as `muntin.host.engines.Outer` and `Inner` have it; an order of a lesser one will do.
    self_join : bool
        Both sides are one stream: the batches of a call hold the same rows under the same arrival numbers, and
        `other_position` is each row's own number, so that a row meets earlier rows alone. Where both sides have
        the same key too, an engine may store the rows once.
    time_unit : Fraction or None
        Nanoseconds of a unit of times; None where they are plain integers, or there are none.
    ranges : bool
        Ranges of runs are wanted, and not pairs: `Ranges`.
    engine : EngineKind
        How the join runs: one that the device has.
    others : tuple of BoundaryGenerator
        Further parts of a conjunction that the engine must index or ask too, whose keys stand in `Batch.others`.
    partitions : int
        Of so many engines with a share of the rows each: memory is set aside as rows come.
    """

    counts: Sides[int] | None
    within: tuple[int, int] | None
    delay: int = 0
    capacity: int | None = None
    order: str = "none"
    every: int = 1
    self_join: bool = False
    time_unit: Fraction | None = None
    ranges: bool = False
    engine: EngineKind = dataclasses.field(default_factory=Steps)
    others: tuple[BoundaryGenerator, ...] = ()
    partitions: int = 1


def beyond_capacity(side: Side, rows: int, capacity: int) -> CapacityError:
    """The error of a time window that would hold more rows than declared."""
    return CapacityError(
        f"the {side} window would hold {rows} rows, above the declared capacity of {capacity}: "
        "raise the capacity, shorten the window or give a watermark",
        rows,
        capacity,
    )


def beyond_memory(what: str, pairs: int, room: int) -> ResultTooLargeError:
    """The error of a result, or of a part of it, that would take more memory than there is room."""
    return ResultTooLargeError(
        f"{what} of this call finds {pairs:,} pairs or more, which take more than the {room:,} bytes that are free for "
        "results: narrow the condition, give fewer rows in a call, or take the result in blocks, by process_blocks() "
        "with engine='steps'",
        PAIR_BYTES * pairs,
        room,
    )


class Held(NamedTuple):
    """What an engine holds of a side once it has let expired rows go.

    Attributes
    ----------
    first : int or None
        The oldest row in the window; None: there is none.
    beyond : ndarray of int64, shape (n,)
        Rows that are held beyond their windows, as prevailing ones; ascending.
    """

    first: int | None
    beyond: np.ndarray = _NONE

    @property
    def oldest(self) -> int | None:
        """The oldest row of all; None: there is none."""
        return min((row for row in (self.first, *self.beyond[:1].tolist()) if row is not None), default=None)


@dataclasses.dataclass
class EngineStatus:
    """What an engine holds, and what it has done since it was opened.

    The status of several engines that share the rows is their sum.

    Attributes
    ----------
    stored : dict of str to int
        Rows of each side that are stored.
    device_bytes : int
        Device memory taken by both windows.
    seconds : dict of str to float
        Time per step.
    probed_runs : int
        Runs probed, summed over probe commands; 0 where there are no runs.
    waiting : dict of str to int
        Rows that the engine itself lets wait for their result, by side.
    index : dict of str to dict
        What the index of each side tells of its inside, by name; of several engines, the first one's.
    report : dict
        What the engine tells of itself, by name; as `index`.
    """

    stored: Sides[int]
    device_bytes: int = 0
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    probed_runs: int = 0
    waiting: Sides[int] = dataclasses.field(default_factory=dict)
    index: Sides[dict[str, Any]] = dataclasses.field(default_factory=lambda: {side: {} for side in SIDES})
    report: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __add__(self, other: EngineStatus) -> EngineStatus:
        return EngineStatus(
            _sums(self.stored, other.stored),
            self.device_bytes + other.device_bytes,
            _sums(self.seconds, other.seconds),
            self.probed_runs + other.probed_runs,
            _sums(self.waiting, other.waiting),
            self.index,
            self.report,
        )


def _sums(a: dict[_K, Any], b: dict[_K, Any]) -> dict[_K, Any]:
    return {name: a.get(name, 0) + b.get(name, 0) for name in {**a, **b}}


class Engine(abc.ABC):
    """Turns sequenced batches of encoded keys into row-number pairs, on one device, for one join.

    Attributes
    ----------
    spec : EngineSpec
    changed : bool
        Whether the call that was admitted last has changed what is held, should it fail; True where that is unknown.
    """

    spec: EngineSpec
    changed: bool = True

    @abc.abstractmethod
    def admit(self, call: Call) -> Call:
        """Makes sure that the rows of a call fit, before anything is applied: the call as `run` takes it.

        Raises
        ------
        CapacityError
            If they do not. Nothing has changed then, nor as long as the call is not run.
        """

    @abc.abstractmethod
    def run(self, call: Call) -> Iterator[Found]:
        """Joins and stores the rows of a call, as `admit` has given it.

        Yields
        ------
        Pairs or OrderedPairs, Counts, Ranges and then `RunEvents`, or Aggregates
            As `Call.want` says, in no particular order, but that a `Punctuation` may stand between pairs. All must be
            taken. Of rows that wait for theirs, the results of those whose time is over by `Call.expiry`.

        Raises
        ------
        IncompleteError
            After the last of them, if the device lost some.
        """

    @abc.abstractmethod
    def expire(self, expiry: Sides[int | None]) -> Sides[Held]:
        """Of a time window, drops the rows up to a time of 64 bits (None: none), or some of them: whole runs, or the
        oldest. What is held then."""

    @abc.abstractmethod
    def status(self) -> EngineStatus:
        """What it holds and has done; not in the middle of a call."""

    def stop(self) -> None:  # noqa: B027 - what cannot end a call ends it where it ends
        """Ends a call that is under way in another thread, where it can; the engine takes no other one."""

    @abc.abstractmethod
    def close(self) -> None:
        """Frees what the device holds. Idempotent."""
