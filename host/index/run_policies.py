"""Sorted runs, and when to merge them."""

from __future__ import annotations

import abc
import dataclasses

from muntin.host.index.spec import Index
from muntin.host.public import public


class RunPolicy(Index, abc.ABC):
    """An index of sorted runs: decides which runs of a subwindow to merge."""

    @abc.abstractmethod
    def merges(self, lengths: list[int]) -> int:
        """How many of the newest runs to merge into one after a run was added.

        Parameters
        ----------
        lengths : list of int
            Rows of each run, oldest first; the last one is new.

        Returns
        -------
        int
            0 or 1: none. The newest two are merged first, the result with the next older one, and so on.
        """


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class SortedRuns(RunPolicy):
    """Sorted runs that grow geometrically: one run at most for each power of the growth factor.

    A new run is merged into its elder while the elder has the same size class or a lesser one, so that every row
    is moved about ``growth / 2`` times per class, and a probe meets one run per class.

    On `cpu`, with the default parameters, a subwindow, or the whole of a count window, is one run where that costs
    less: each step writes all of it out, but a probe looks at one run. The figures there: `runs`, `lengths` (rows of
    each run, oldest first), `batch_rows` and `probes` (rows that a step stores, and that probe them, running means),
    `matches` (pairs of a probe), and `one_run` (1 where it is chosen) with the costs of a step that it goes by,
    `one_run_cost` and `ladder_cost`, in rows that a merge moves in the time. It is chosen again where the other is
    cheaper by a fifth.

    Parameters
    ----------
    growth : int
        Ratio of the sizes of neighbouring classes, at least 2.
    base_rows : int
        Upper end of the lowest class, at least 1.

    Raises
    ------
    WindowError
        If a parameter is too small, or no whole number.

    Examples
    --------
    >>> from muntin import Band, Rows, WindowJoin
    >>> from muntin.index import SortedRuns
    >>> windows = {"left": Rows(4096), "right": Rows(4096)}
    >>> join = WindowJoin(on=Band("a", "b", -5, 5), **windows, index=SortedRuns(growth=4))
    """

    name = "sorted_runs"
    growth: int = 8
    base_rows: int = 1024

    def __post_init__(self) -> None:
        self._check(growth=2, base_rows=1)

    def size_class(self, length: int) -> int:
        """The size class of a run of so many rows."""
        size_class, top = 0, self.base_rows
        while length > top:
            size_class, top = size_class + 1, top * self.growth
        return size_class

    def merges(self, lengths: list[int]) -> int:
        count, total = 1, lengths[-1]
        for elder in reversed(lengths[:-1]):
            if self.size_class(elder) > self.size_class(total):
                break
            count, total = count + 1, total + elder
        return count if count > 1 else 0


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class BiSort(RunPolicy):
    """BI-Sort as published: a main array, and an insertion buffer that is merged into it when full.

    A batch of at least the buffer's size goes straight into the main array.

    Source: PanJoin, section III-D (BI-Sort) and III-E (batch mode).

    Parameters
    ----------
    buffer_rows : int
        Size of the insertion buffer, at least 1; the paper uses 1 K (section V-A).
    partitions : int, optional
        Entries of the index array over a subwindow's main array, the paper's P, at least 1; by default one for each 64
        rows. On `cpu` alone, not with ``form="ranges"``, whose arrays are searched by every eighth row.
    subwindow_rows : int, optional
        Rows of a subwindow, at least 1; by default a quarter of the window, and less for the first ones. On `cpu`
        alone; with ``form="ranges"`` a subwindow ends with the step that fills it.

    Raises
    ------
    WindowError
        If it is too small, or no whole number.

    Examples
    --------
    >>> from muntin import Band, Rows, WindowJoin
    >>> from muntin.index import BiSort
    >>> windows = {"left": Rows(4096), "right": Rows(4096)}
    >>> join = WindowJoin(on=Band("a", "b", -5, 5), **windows, index=BiSort())
    """

    name = "bisort"
    buffer_rows: int = 1024
    partitions: int | None = None
    subwindow_rows: int | None = None

    def __post_init__(self) -> None:
        self._check(buffer_rows=1, partitions=1, subwindow_rows=1)

    @property
    def own_subwindows(self) -> bool:
        """Whether its subwindows are set: what no store of plain runs has."""
        return self.partitions is not None or self.subwindow_rows is not None

    def room(self, rows: int) -> int:
        """See `Index`. The newest subwindow may be one that the window does not fill."""
        return 2 * (rows + (self.subwindow_rows or 0))

    def merges(self, lengths: list[int]) -> int:
        if len(lengths) == 1:
            return 0
        buffered = sum(lengths[1:])
        return len(lengths) if buffered >= self.buffer_rows else len(lengths) - 1
