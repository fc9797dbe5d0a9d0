"""The indexes that a user can choose, by name: those of times, of a conjunction, and all."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any, ClassVar

from muntin.host.errors import WindowError
from muntin.host.index.panjoin import Auto, RapTable, WibTree
from muntin.host.index.pim_tree import BChain, BPlusTree, IbChain, ImTree, PimTree
from muntin.host.index.run_policies import BiSort, SortedRuns
from muntin.host.index.spec import Index, NestedLoop, SortedArray
from muntin.host.keys.durations import length, nanoseconds
from muntin.host.native import INDEXES as CORE_INDEXES
from muntin.host.public import public


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class CsbTree(Index):
    """The full CSB+-Tree: nodes of one cache line, all children of a node in one group behind one pointer.

    Source: the partitioned temporal window index, section 2, after Rao and Ross.

    Examples
    --------
    >>> from muntin.index import CsbTree, open_window_index
    >>> window = open_window_index(CsbTree(), span=300)
    >>> window.insert([7, 9, 7], times=[0, 30, 90])
    3
    >>> window.map(7, 8, "count")
    2
    """

    name = "csb_tree"


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class BurstTrie(Index):
    """A trie over the bytes of the keys, with sorted containers that burst into a node when they are full.

    Source: the partitioned temporal window index, section 2, after Heinz, Zobel and Williams.

    Parameters
    ----------
    container_rows : int
        Rows of a container that can burst, at least 1.

    Raises
    ------
    WindowError
        If it is too small, or no whole number.

    Examples
    --------
    >>> from muntin.index import BurstTrie, open_window_index
    >>> window = open_window_index(BurstTrie(), span=300)
    >>> window.insert([7, 9, 7], times=[0, 30, 90])
    3
    >>> window.map(7, 8, "count")
    2
    """

    name = "burst_trie"
    container_rows: int = 64

    def __post_init__(self) -> None:
        self._check(container_rows=1)


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class RadixTree(Index):
    """The adaptive radix tree: inner nodes with room for 4, 16, 48 or 256 children, as many as they need.

    A node branches on the first byte in which the keys below it differ. Like Judy, a compact trie whose nodes take
    forms that suit what they hold; its nodes can be read, so that a mapper goes through a range in one traversal.
    Its figures: `nodes_4`, `nodes_16`, `nodes_48`, `nodes_256`, `leaves` (of keys that come more than once, and of keys
    of 64 bits with more than three bytes left), `depth`.

    Source: Leis, Kemper and Neumann, "The Adaptive Radix Tree"; the partitioned temporal window index, section 3.2, for
    its mapper.

    Examples
    --------
    >>> from muntin.index import RadixTree, open_window_index
    >>> window = open_window_index(RadixTree(), span=300)
    >>> window.insert([7, 9, 7], times=[0, 30, 90])
    3
    >>> window.map(7, 8, "count")
    2
    """

    name = "radix_tree"


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class Judy(Index):
    """A Judy array, where Debian's libjudy-dev was installed when the native core was built.

    Its nodes are the library's own: ranges are read by its iterator, which starts at the root for each key, by mappers
    too.

    Source: the partitioned temporal window index, section 2, after Silverstein and Baskins.

    Examples
    --------
    >>> from muntin.index import Judy, open_window_index
    >>> window = open_window_index(Judy(), span=300)  # doctest: +SKIP
    >>> window.insert([7, 9, 7], times=[0, 30, 90])  # doctest: +SKIP
    3
    >>> window.map(7, 8, "count")  # doctest: +SKIP
    2
    """

    name = "judy"


ORDERED = tuple(name for name, entry in CORE_INDEXES.items() if entry.ordered)
"""Indexes that search ranges in the order of keys, row by row."""


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class Slices(Index):
    """The partitioned temporal window index: slices of the window, dropped whole in the background.

    Each slice is an index of its own: of a stride of event time, or in count windows of arrival numbers. They lie in a
    circular array.

    Source: the partitioned temporal window index, section 3.3.2.

    Parameters
    ----------
    of : Index or str
        What each slice is: any index but `SpoJoin`, `NestedLoop` and `Slices`.
    stride : int, str, timedelta or None
        Length of a slice: rows of a count window, units of integer times, or a duration such as ``"1 minute"``. A
        fifth of the window by default, as in the paper.

    Raises
    ------
    WindowError
        If `of` is no index that a slice can be, or `stride` no positive length.

    Examples
    --------
    >>> from muntin.index import CsbTree, Slices, open_window_index
    >>> window = open_window_index(Slices(of=CsbTree(), stride=60), span=300)
    >>> window.insert([7, 9, 7], times=[0, 30, 90])
    3
    >>> window.map(7, 8, "count")
    2
    """

    name = "slices"
    of: Index | str = CsbTree()
    stride: Any = None

    def __post_init__(self) -> None:
        _set_inner(self, tuple(name for name, entry in CORE_INDEXES.items() if entry.slice))
        stride = length("stride of the index 'slices'", self.stride, WindowError)
        if isinstance(stride, dt.timedelta):
            stride = f"{nanoseconds(stride)} nanoseconds"
        object.__setattr__(self, "stride", stride)
        if stride is None:
            return
        if isinstance(stride, bool) or not isinstance(stride, (int, str)):
            raise WindowError(f"stride of the index 'slices' must be an integer or a duration, not {stride!r}")
        if (stride if isinstance(stride, int) else nanoseconds(stride)) < 1:
            raise WindowError(f"stride of the index 'slices' must be positive, not {stride!r}")

    def room(self, rows: int) -> int:
        """See `Index`."""
        return max(super().room(rows), open_index(self.of).room(rows))


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class TimeKeyed(Index):
    """One ordered index over the whole window, whose keys begin with the time; rows that expire are erased one by one.

    The incremental deletion that `Slices` are compared with: `open_window_index` has it, joins do not. Keys of 32 bits.

    Source: the partitioned temporal window index, section 3.3.1.

    Parameters
    ----------
    of : Index or str
        The ordered index: `BPlusTree`, `CsbTree`, `BurstTrie`, `RadixTree` or `Judy`.

    Raises
    ------
    WindowError
        If `of` is another one.

    Examples
    --------
    >>> from muntin.index import CsbTree, TimeKeyed, open_window_index
    >>> window = open_window_index(TimeKeyed(of=CsbTree()), span=300, key_type="int32")
    >>> window.insert([7, 9, 7], times=[0, 30, 90])
    3
    >>> window.map(7, 8, "count")
    2
    """

    name = "time_keyed"
    of: Index | str = CsbTree()

    def __post_init__(self) -> None:
        _set_inner(self, ORDERED)


def _set_inner(index: Slices | TimeKeyed, names: tuple[str, ...]) -> None:
    """Puts the index that a name in `of` stands for in its place. Raises WindowError unless it is one of these."""
    inner = open_index(index.of)
    if inner.name not in names:
        raise WindowError(f"{index.name} take one of {', '.join(names)}, not {inner.name!r}")
    object.__setattr__(index, "of", inner)


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class SpoJoin(Index):
    """SPO-Join: every part of a conjunction is indexed, in B+-Trees for new rows and in immutable runs for others.

    New rows go to the *mutable* part: a B+-Tree for each condition, whose results for a probe are intersected as bit
    arrays. Once it has the rows of a merge interval, its leaves are made into an immutable *PO-Join* run: the sorted
    keys of each condition, and permutation arrays from the places in one order to those in another. Runs leave whole.

    Source: SPO-Join, sections 3 and 4; the variants are those that its section 5.4 compares.

    Parameters
    ----------
    slide : int or None
        Rows of a slide, at least 1. By default a tenth of the count window, or of the rows there are in a time window,
        and at least 1,024.
    sub_intervals : int
        Parts of a slide that are merged one by one, at least 1: the merge interval is ``slide / sub_intervals``. More
        of them make each merge shorter, and probes meet more runs.
    mutable : str
        How results are intersected in the mutable part: ``"bits"``, or ``"hash"`` for hash tables.
    immutable : str
        ``"po_join"``, which compares ranks instead of setting bits where that is less work; ``"po_join_bits"``, which
        never does; ``"css_bits"`` or ``"css_hash"``: a CSS-Tree for each condition, results intersected.

    Raises
    ------
    WindowError
        If a parameter is out of range.

    Examples
    --------
    >>> from muntin import Compare, Rows, WindowJoin
    >>> from muntin.index import SpoJoin
    >>> on = Compare("cost", "<", "price") & Compare("weight", ">", "least")
    >>> join = WindowJoin(on=on, left=Rows(4096), right=Rows(4096), index=SpoJoin(slide=1024))
    """

    name = "spo_join"
    conjunctive = True
    slide: int | None = None
    sub_intervals: int = 1
    mutable: str = "bits"
    immutable: str = "po_join"

    MUTABLE: ClassVar[tuple[str, ...]] = ("bits", "hash")
    IMMUTABLE: ClassVar[tuple[str, ...]] = ("po_join", "po_join_bits", "css_bits", "css_hash")

    def __post_init__(self) -> None:
        self._check(sub_intervals=1, **({} if self.slide is None else {"slide": 1}))
        for parameter, known in (("mutable", self.MUTABLE), ("immutable", self.IMMUTABLE)):
            value = getattr(self, parameter)
            if value not in known:
                raise WindowError(f"{parameter} of the index {self.name!r} must be one of {known}, not {value!r}")


INDEXES: dict[str, type[Index]] = {
    kind.name: kind
    for kind in (
        *(Auto, SortedRuns, BiSort, SortedArray, NestedLoop, RapTable, WibTree),
        *(BPlusTree, BChain, IbChain, ImTree, PimTree),
        *(CsbTree, BurstTrie, RadixTree, Judy, Slices, TimeKeyed, SpoJoin),
    )
}


def open_index(index: str | Index) -> Index:
    """The index of that name with its default parameters, or the index itself.

    Raises
    ------
    WindowError
        If there is none of that name.
    """
    if isinstance(index, Index):
        return index
    if not isinstance(index, str) or index not in INDEXES:
        raise WindowError(f"there is no index {index!r}: use one of {', '.join(INDEXES)}")
    return INDEXES[index]()


def index_from_dict(data: dict[str, Any]) -> Index:
    """The index whose `to_dict` gave this. Raises WindowError if there is none of that name or with such parameters."""
    parameters = {name: index_from_dict(value) if isinstance(value, dict) else value for name, value in data.items()}
    kind = type(open_index(parameters.pop("name", "")))
    try:
        return kind(**parameters)
    except TypeError as error:
        raise WindowError(f"the index {kind.name!r} has no such parameters: {error}") from error
