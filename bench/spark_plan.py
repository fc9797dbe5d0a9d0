"""What the Spark benchmark measures."""

from __future__ import annotations

from dataclasses import dataclass

FLOOR = "nothing (Spark's floor)"


@dataclass(frozen=True, kw_only=True)
class SparkPlan:
    """One run of the Spark benchmark.

    Parameters
    ----------
    window : int
        Rows a side in the window: its span in milliseconds, with one row a side per millisecond.
    batch : int
        Rows of both sides in one micro-batch.
    steps : int
        Micro-batches timed.
    warm_up : int
        Micro-batches before those, and after the one that fills the window: the JVM compiles as it goes.
    tuned : bool
        Whether to time the tuned workaround too.
    state : bool
        Whether to time the join with `state=` beside the one without, instead of the workaround.
    device : str
        Device of the join's daemon.
    seed : int
        Every value follows from it.
    """

    window: int = 1 << 20
    batch: int = 1 << 18
    steps: int = 5
    warm_up: int = 2
    tuned: bool = False
    state: bool = False
    device: str = "cpu"
    seed: int = 20


@dataclass(frozen=True, kw_only=True)
class FloorPlan:
    """How near to Spark's floor the join comes, by the size of micro-batches.

    Parameters
    ----------
    window : int
        As of `SparkPlan`; rows a side of the count window, too.
    batches : tuple of int
        Rows of both sides in one micro-batch.
    turns : int
        Micro-batches timed of each size.
    seed : int
        Every value follows from it.
    """

    window: int = 1 << 20
    batches: tuple[int, ...] = (1 << 18, 1 << 20, 1 << 21)
    turns: int = 20
    seed: int = 20
