"""Which cells of the benchmark tables are measured, by whom, and for how long."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from bench.workloads import KINDS

K, M = 1 << 10, 1 << 20
PARTS = ("operator", "peers", "spark", "floor", "state", "calls", "conditions")
BATCHES = (256 * K, 32 * K, 4 * K, 1 * K)  # large first: a cell leaves the windows to the next one
WINDOWS = (8 * M, 1 * M)
ONE_THREAD = "cpu:threads=1"
CONTENDERS = ("cpu", ONE_THREAD, "cpp", "opencl")
CONDITION_PEERS = ("duckdb", "polars", "chdb", "spark")
SLOW = ("opencl/bisort", "numpy", "numpy-searchsorted", "polars", "duckdb")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run of the operator benchmark.

    Parameters
    ----------
    kinds : tuple of str
        Workloads, names from `bench.workloads.KINDS`.
    windows : tuple of int
        Rows a side in the window.
    batches : tuple of int
        Rows a side in one call.
    contenders : tuple of str
        Timed in every cell.
    extra : tuple of str
        Timed besides in the cells `extra_cells` names; these are slow.
    extra_cells : tuple of (str, int)
        Workload and batch.
    turns : int
        How often each cell is measured; the figure is the median.
    rounds : int
        Pieces of a turn; within each the contenders come one after the other, in alternating order.
    seconds : float
        Time for one contender in one cell; twice as much in `extra_cells`.
    thorough_factor : float
        The `thorough` ones get this many times as much: their costs come in waves.
    min_windows : float
        How many windows those go through at least in one cell, whatever the time: a half or more, so
        that a subwindow fills from empty to full. What a subwindow costs depends on how full it is.
    seed : int
        Every value follows from it.
    """

    kinds: tuple[str, ...] = tuple(KINDS)
    windows: tuple[int, ...] = WINDOWS
    batches: tuple[int, ...] = BATCHES
    contenders: tuple[str, ...] = CONTENDERS
    extra: tuple[str, ...] = SLOW
    extra_cells: tuple[tuple[str, int], ...] = (("uniform", 32 * K),)
    turns: int = 3
    rounds: int = 4
    seconds: float = 1.0
    thorough_factor: float = 3.0
    min_windows: float = 0.5
    seed: int = 20

    def names(self, kind: str, batch: int) -> tuple[str, ...]:
        """Contenders of one cell."""
        return self.contenders + (self.extra if (kind, batch) in self.extra_cells else ())

    def without(self, left_out: Collection[str]) -> Plan:
        """The plan less some contenders: ``opencl`` leaves out ``opencl/bisort``, too.

        Raises
        ------
        ValueError
            Nothing is left.
        """
        kept: dict[str, Any] = {
            field: tuple(name for name in getattr(self, field) if not leaves_out(name, left_out))
            for field in ("contenders", "extra")
        }
        if not kept["contenders"]:
            raise ValueError(f"no contender is left without {', '.join(left_out)}")
        return replace(self, **kept)

    def thorough(self, name: str) -> bool:
        """Whether a contender goes through every batch of a cell: the first device's default index, for any threads."""
        devices = [contender for contender in self.contenders if device_kind(contender)]
        return name in devices and "/bisort" not in name and device_kind(name) == device_kind(devices[0])

    def budget(self, name: str, kind: str, batch: int) -> float:
        """Seconds for one contender in one cell."""
        headline = 2.0 if (kind, batch) in self.extra_cells else 1.0
        return self.seconds * headline * (self.thorough_factor if self.thorough(name) else 1.0)

    def cells(self) -> int:
        """Number of cells."""
        return len(self.kinds) * len(self.windows) * len(self.batches)


@dataclass(frozen=True, kw_only=True)
class BatchJoinsPlan:
    """One run of the batch joins.

    Parameters
    ----------
    window : int
        Rows of the large side.
    batch : int
        Rows that are joined with them at a time.
    contenders : tuple of str
        Names from `bench.batch_joins.CONTENDERS`.
    calls : int
        How often each joins, in turns; the figure is the median.
    seed : int
        Every value follows from it.
    """

    window: int = 8 * M
    batch: int = 32 * K
    contenders: tuple[str, ...] = ("cpu", "polars", "chdb", "duckdb")
    calls: int = 5
    seed: int = 20

    def without(self, left_out: Collection[str]) -> BatchJoinsPlan:
        """The plan less some contenders."""
        return replace(self, contenders=tuple(name for name in self.contenders if not leaves_out(name, left_out)))


@dataclass(frozen=True, kw_only=True)
class ConditionsPlan:
    """One run of the joins beyond one band.

    Parameters
    ----------
    window : int
        Rows of each side's window, of all figures but as-of.
    batch, calls : int
        Rows a side in one timed call, and timed calls: half of them for aggregates.
    range_batch : int
        Left rows in one call of two ranges, and at most in one query of a peer.
    as_of_rows, as_of_batch : int
        Rows of each side of an as-of join, and in one call.
    as_of_values : tuple of int
        Distinct values of the column that is equal; 1: times alone.
    matches : tuple of int
        Matches a row of aggregates.
    turns : int
        How often as-of joins run.
    seconds : float
        Time for one contender of two ranges, after which it takes no further call.
    micro_batch : int
        Rows of both sides in one Spark micro-batch.
    keys : tuple of int
        Distinct values that are compared for equality in Spark.
    rows_a_key : int
        The most rows of a side's window with one of these values: windows are smaller where values are few, as Spark's
        own joins read all rows of a value for each row.
    steps : int
        Micro-batches timed.
    spark_seconds : float
        Time for one of Spark's own joins in timed micro-batches, after which it takes no further one.
    left_out : tuple of str
        Of `CONDITION_PEERS`.
    seed : int
        Every value follows from it.
    """

    window: int = 1 * M
    batch: int = 32 * K
    calls: int = 16
    range_batch: int = 1 * K
    as_of_rows: int = 8 * M
    as_of_batch: int = 32 * K
    as_of_values: tuple[int, ...] = (1, 1000)
    matches: tuple[int, ...] = (1, 64, 4096)
    turns: int = 3
    seconds: float = 10.0
    micro_batch: int = 256 * K
    keys: tuple[int, ...] = (100_000, 1_000)
    rows_a_key: int = 256
    steps: int = 3
    spark_seconds: float = 15.0
    left_out: tuple[str, ...] = ()
    seed: int = 20

    def without(self, left_out: Collection[str]) -> ConditionsPlan:
        """The plan less some peers."""
        return replace(self, left_out=tuple(name for name in CONDITION_PEERS if name in left_out))


def device_kind(name: str) -> str:
    """Kind of the device of a contender (``opencl`` of ``opencl:nvidia/bisort``); empty for one of the peers."""
    from muntin.host.devices.registry import KINDS as DEVICES  # not before it is needed: the command line is quick

    kind = name.partition("/")[0].partition(":")[0]
    return kind if kind in DEVICES else ""


def leaves_out(name: str, left_out: Collection[str]) -> bool:
    """Whether a contender is one of these, or an index of a device that is."""
    return name in left_out or name.rpartition("/")[0] in left_out


def quick_plan() -> Plan:
    """About a minute: the headline cell, and the small window at two batch sizes."""
    return Plan(
        kinds=("uniform",), batches=(32 * K, 4 * K), extra=("polars",), rounds=2, seconds=0.7, thorough_factor=2.0
    )


def quick_conditions_plan() -> ConditionsPlan:
    """Under a minute: every figure, small."""
    return ConditionsPlan(
        window=64 * K, batch=8 * K, calls=4, as_of_rows=256 * K, turns=1, seconds=2.0, micro_batch=16 * K, steps=1
    )


def full_plan() -> Plan:
    """Every cell with whole windows and all peers, for a machine with hours to spare."""
    cells = tuple((kind, batch) for kind in KINDS for batch in (32 * K, 256 * K))
    return Plan(turns=5, seconds=6.0, thorough_factor=4.0, min_windows=1.0, extra_cells=cells)
