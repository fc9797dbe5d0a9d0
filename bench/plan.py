"""Which cells of the benchmark table are measured, by whom, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from bench.workloads import KINDS

K, M = 1 << 10, 1 << 20
BATCHES = (256 * K, 32 * K, 4 * K, 1 * K)  # large first: a cell leaves the windows to the next one
WINDOWS = (8 * M, 1 * M)
SLOW = ("numpy/ladder", "numpy-searchsorted", "polars", "duckdb")


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
    ladder_factor : float
        The ladders of `contenders` get this many times as much: their costs come in waves.
    least_windows : float
        How many windows those ladders go through at least in one cell, whatever the time: a half or more, so
        that a subwindow fills from empty to full. What a subwindow costs depends on how full it is.
    seed : int
        Every value follows from it.
    """

    kinds: tuple[str, ...] = tuple(KINDS)
    windows: tuple[int, ...] = WINDOWS
    batches: tuple[int, ...] = BATCHES
    contenders: tuple[str, ...] = ("opencl/ladder", "opencl/flat", "cpp")
    extra: tuple[str, ...] = SLOW
    extra_cells: tuple[tuple[str, int], ...] = (("uniform", 32 * K),)
    turns: int = 3
    rounds: int = 4
    seconds: float = 1.0
    ladder_factor: float = 3.0
    least_windows: float = 0.5
    seed: int = 20

    def names(self, kind: str, batch: int) -> tuple[str, ...]:
        """Contenders of one cell."""
        return self.contenders + (self.extra if (kind, batch) in self.extra_cells else ())

    def thorough(self, name: str) -> bool:
        """Whether a contender goes through every batch of a cell: the ladders that are timed in every cell."""
        return name in self.contenders and name.endswith("/ladder")

    def budget(self, name: str, kind: str, batch: int) -> float:
        """Seconds for one contender in one cell."""
        headline = 2.0 if (kind, batch) in self.extra_cells else 1.0
        return self.seconds * headline * (self.ladder_factor if self.thorough(name) else 1.0)

    def cells(self) -> int:
        """Number of cells."""
        return len(self.kinds) * len(self.windows) * len(self.batches)


def quick_plan() -> Plan:
    """About a minute: the headline cell, and the small window at two batch sizes."""
    return Plan(
        kinds=("uniform",), batches=(32 * K, 4 * K), extra=("polars",), rounds=2, seconds=0.7, ladder_factor=2.0
    )


def full_plan() -> Plan:
    """Every cell with whole windows and all peers, for a machine with an hour to spare."""
    cells = tuple((kind, batch) for kind in KINDS for batch in (32 * K, 256 * K))
    return Plan(turns=5, seconds=6.0, ladder_factor=4.0, least_windows=1.0, extra_cells=cells)
