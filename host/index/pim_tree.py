"""The indexes of PIM-Tree."""

from __future__ import annotations

import abc
import dataclasses

from muntin.host.errors import WindowError
from muntin.host.index.spec import Index
from muntin.host.public import public


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class BPlusTree(Index):
    """One B+-Tree, from which rows are removed one by one as they expire.

    Its figures: `depth`, `fan_out`, `leaf_items`, `nodes`, `removed` (rows taken out), `rows`.

    Source: PIM-Tree, section 2.2.1.

    Examples
    --------
    >>> from muntin import Band, Rows, WindowJoin
    >>> from muntin.index import BPlusTree
    >>> windows = {"left": Rows(4096), "right": Rows(4096)}
    >>> join = WindowJoin(on=Band("a", "b", -5, 5), **windows, index=BPlusTree(), engine="shared")
    """

    name = "bplus_tree"


@dataclasses.dataclass(frozen=True)
class Chain(Index, abc.ABC):
    """A chained index: sub-indexes over slices of the window, the youngest one filled, whole ones dropped.

    Its figures: `chain_length` now, `max_chain_length` so far, rows and depths of the sub-indexes, oldest first,
    `dropped` and `archived` sub-indexes, `rows`.

    Source: PIM-Tree, section 2.2.2.

    Parameters
    ----------
    length : int
        Sub-indexes that hold a full window, the youngest one included; at least 2. A slice is a
        ``length - 1``-th of the window.

    Raises
    ------
    WindowError
        If it is too small, or no whole number.

    Examples
    --------
    >>> from muntin import Band, Rows, WindowJoin
    >>> from muntin.index import BChain
    >>> windows = {"left": Rows(4096), "right": Rows(4096)}
    >>> join = WindowJoin(on=Band("a", "b", -5, 5), **windows, index=BChain(length=4), engine="shared")
    """

    length: int = 2

    def __post_init__(self) -> None:
        self._check(length=2)


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class BChain(Chain):
    __doc__ = (Chain.__doc__ or "").replace("A chained index", "A chained index of B+-Trees")
    name = "b_chain"


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class IbChain(Chain):
    __doc__ = (
        (Chain.__doc__ or "")
        .replace("A chained index", "A chained index of immutable trees, and a B+-Tree for the youngest slice")
        .replace("BChain", "IbChain")
    )
    name = "ib_chain"


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class ImTree(Index):
    """An immutable tree, and one B+-Tree for new rows that is merged into it once it has `merge_ratio` of a window.

    The immutable tree lies in one array, breadth first, the keys of a node in one cache line. Rows that have expired
    leave with the merge. Its figures: `depth`, `fan_out` and `leaf_items` of the immutable tree, `immutable_rows`,
    `mutable_rows`, `merges`, `removed` (rows), `partitions`, `partition_rows`, `insertion_depth`.

    Source: PIM-Tree, section 3.2.

    Parameters
    ----------
    merge_ratio : float
        More than 0, at most 1.

    Raises
    ------
    WindowError
        If it is not.

    Examples
    --------
    >>> from muntin import Band, Rows, WindowJoin
    >>> from muntin.index import ImTree
    >>> windows = {"left": Rows(4096), "right": Rows(4096)}
    >>> join = WindowJoin(on=Band("a", "b", -5, 5), **windows, index=ImTree(), engine="shared")
    """

    name = "im_tree"
    merge_ratio: float = 1 / 8

    def __post_init__(self) -> None:
        ratio = self.merge_ratio
        if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio <= 1:
            raise WindowError(
                f"merge_ratio of the index {self.name!r} must be more than 0 and at most 1, not {ratio!r}"
            )


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class PimTree(ImTree):
    """The same with a B+-Tree, and a lock, for each node of the immutable tree at a depth: the PIM-Tree.

    Figures as those of `ImTree`.

    Source: PIM-Tree, section 3.3.

    Parameters
    ----------
    merge_ratio : float
        More than 0, at most 1.
    insertion_depth : int
        At least 1; the root is at depth 0. A tree with fewer levels has its B+-Trees at its last one.

    Raises
    ------
    WindowError
        If one is not.

    Examples
    --------
    >>> from muntin import Band, Rows, WindowJoin
    >>> from muntin.index import PimTree
    >>> windows = {"left": Rows(4096), "right": Rows(4096)}
    >>> join = WindowJoin(on=Band("a", "b", -5, 5), **windows, index=PimTree(), engine="shared")
    """

    name = "pim_tree"
    insertion_depth: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(insertion_depth=1)
