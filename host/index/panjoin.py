"""The indexes of PanJoin, and the choice between them at run time."""

from __future__ import annotations

import dataclasses
import math

from muntin.host.errors import WindowError
from muntin.host.index.spec import Index
from muntin.host.public import public


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class RapTable(Index):
    """RaP-Table: subwindows whose rows lie, unsorted, in partitions by key; the borders of the partitions are
    recomputed for each subwindow from the counts, least and greatest keys of the partitions of the one before.

    Source: PanJoin, sections III-A, III-B, III-E and III-G. It suits small batches and few matches, where keys change
    slowly and do not rise: rows with keys beyond those of the subwindow before all lie in its last partition.

    Parameters
    ----------
    partitions : int, optional
        Partitions of a subwindow, at least 1; not more than it has rows. By default one for each 64 rows.
    sigma : float
        Rows that an entry of the LLAT has room for, over the rows of a partition if all were even; above 1 and at most
        16. The paper suggests 1.10 to 1.25.
    subwindow_rows : int, optional
        Rows of a subwindow, at least 1. By default a quarter of the window, and less for the first ones, so that the
        borders fit soon.
    late_rows : int
        In time windows: rows of a subwindow, before the times with which it began, that lie in a buffer of their own.
        Where more come, all go to the partitions.

    Raises
    ------
    WindowError
        If a parameter is out of its range, or of another type.

    Examples
    --------
    >>> from muntin import Band, Rows, WindowJoin
    >>> from muntin.index import RapTable
    >>> windows = {"left": Rows(4096), "right": Rows(4096)}
    >>> join = WindowJoin(on=Band("a", "b", -5, 5), **windows, index=RapTable())
    """

    name = "rap_table"
    partitions: int | None = None
    sigma: float = 1.25
    subwindow_rows: int | None = None
    late_rows: int = 64

    def __post_init__(self) -> None:
        self._check(partitions=1, subwindow_rows=1, late_rows=0)
        number = isinstance(self.sigma, int | float) and not isinstance(self.sigma, bool)
        if not number or not 1 < self.sigma <= 16:
            raise WindowError(
                f"sigma of the index {self.name!r} must be a number above 1, and at most 16, not {self.sigma!r}"
            )

    def room(self, rows: int) -> int:
        """See `Index`. An LLAT has two entries a partition, and there is one subwindow more than the window fills."""
        size = self.subwindow_rows or max(rows // 4 + 1, 1024)
        partitions = min(self.partitions or max(size // 64, 1), size)
        return (rows // size + 2) * 2 * partitions * math.ceil(size / partitions * self.sigma)


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class WibTree(Index):
    """WiB+-Tree: subwindows whose rows lie, unsorted, in wide leaves below a B+-Tree; a leaf is sorted when split.

    Source: PanJoin, sections III-A, III-C, III-E and III-G. It suits small batches and few matches, whatever keys do.

    Parameters
    ----------
    leaf_rows : int
        Width of a leaf, at least 2.
    subwindow_rows : int, optional
        Rows of a subwindow, at least 1; by default a quarter of the window, and less for the first ones.
    late_rows : int
        As of `RapTable`.

    Raises
    ------
    WindowError
        If a parameter is too small, or no whole number.

    Examples
    --------
    >>> from muntin import Band, Rows, WindowJoin
    >>> from muntin.index import WibTree
    >>> windows = {"left": Rows(4096), "right": Rows(4096)}
    >>> join = WindowJoin(on=Band("a", "b", -5, 5), **windows, index=WibTree())
    """

    name = "wib_tree"
    leaf_rows: int = 128
    subwindow_rows: int | None = None
    late_rows: int = 64

    def __post_init__(self) -> None:
        self._check(leaf_rows=2, subwindow_rows=1, late_rows=0)

    def room(self, rows: int) -> int:
        """See `Index`. Leaves are two thirds full on average, some less."""
        return 3 * (rows + (self.subwindow_rows or max(rows // 4 + 1, 1024)))


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class Auto(Index):
    """What ``index="auto"`` is for join cores: each core chooses what its share of both windows is kept in.

    A core keeps its rows in the order of arrival, and compares each row with all of them while they are few. At each
    border it loads others of `NestedLoop`, `SortedRuns`, `RapTable`, `WibTree` and `BPlusTree`, those first that the
    papers advise for the matches of a row and the order of keys since the border before. The next rows probe and enter
    all of them, and the one that takes the least processor time stays. Each row's pairs are the same in all.
    Its figures, by core: `structures`, `why` (what was measured, and of which rows), `borders`, `trials`, `changes`.

    For other engines ``index="auto"`` is the first index that a device lists for them, and so is `Auto()`.

    Source: SplitJoin, section 4 (nested loops); PanJoin, section V-A.4 (when to take which structure).

    Parameters
    ----------
    border_rows : int, optional
        Rows that a core stores between two borders, at least 1; by default a quarter of those it has.

    Raises
    ------
    WindowError
        If it is too small, or no whole number.

    Examples
    --------
    >>> from muntin import Band, Rows, WindowJoin
    >>> from muntin.index import Auto
    >>> windows = {"left": Rows(4096), "right": Rows(4096)}
    >>> join = WindowJoin(on=Band("a", "b", -5, 5), **windows, index=Auto(), engine="splitjoin")
    """

    name = "auto"
    border_rows: int | None = None

    def __post_init__(self) -> None:
        self._check(border_rows=1)

    def room(self, rows: int) -> int:
        """See `Index`."""
        return max(RapTable().room(rows), WibTree().room(rows))
