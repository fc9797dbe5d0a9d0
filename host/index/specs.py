"""The indexes that a user can choose, as data."""

from __future__ import annotations

import abc
import dataclasses
import datetime as dt
import math
from typing import Any, ClassVar

from muntin.host.constants import whole_number
from muntin.host.durations import length, nanoseconds
from muntin.host.errors import WindowError
from muntin.host.public import public


@public("muntin.index")
@dataclasses.dataclass(frozen=True)
class Index:
    """What a join keeps its windows in. A device says which of them it has.

    Attributes
    ----------
    name : str
        What to pass as ``index=`` for one with the default parameters.

    Examples
    --------
    >>> from muntin.index import Index, PimTree
    >>> isinstance(PimTree(), Index)
    True
    """

    name: ClassVar[str]
    conjunctive: ClassVar[bool] = False  # it indexes every part of a conjunction, not one alone

    def to_dict(self) -> dict[str, Any]:
        """A JSON-able form, read back by `index_from_dict`; an index within another one is a form of its own."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            "name": self.name,
            **{name: value.to_dict() if isinstance(value, Index) else value for name, value in values.items()},
        }

    def room(self, rows: int) -> int:
        """Rows that a native core sets memory aside for, where a window has so many."""
        return 2 * rows

    def _check(self, **least: int) -> None:
        """Raises WindowError unless each is a whole number of at least that much, or None where that is the default."""
        optional = {field.name for field in dataclasses.fields(self) if field.default is None}
        for parameter, bound in least.items():
            value = getattr(self, parameter)
            if value is None and parameter in optional:
                continue
            number = whole_number(value)
            if number is None or number < bound:
                raise WindowError(
                    f"{parameter} of the index {self.name!r} must be a whole number of at least {bound}, not {value!r}"
                )
            object.__setattr__(self, parameter, number)


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

    A new run is merged into its elder while the elder is of the same size class or a lesser one, so that every row
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

    def __post_init__(self) -> None:
        self._check(buffer_rows=1)

    def merges(self, lengths: list[int]) -> int:
        if len(lengths) == 1:
            return 0
        buffered = sum(lengths[1:])
        return len(lengths) if buffered >= self.buffer_rows else len(lengths) - 1


@dataclasses.dataclass(frozen=True)
class SortedArray(Index):
    """One sorted array of the whole window, into which every batch is merged."""

    name = "sorted_array"


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


@dataclasses.dataclass(frozen=True)
class NestedLoop(Index):
    """None: every row is compared with all rows of the other window, as SplitJoin's cores do."""

    name = "nested_loop"


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

    Its figures: `chain_length` now, `most_chain_length` so far, rows and depths of the sub-indexes, oldest first,
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
class Judy(Index):
    """A Judy array, where Debian's libjudy-dev was installed when the native core was built.

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
        ordered, runs = ("csb_tree", "burst_trie", "judy"), ("sorted_runs", "sorted_array")
        panjoin, pim = ("bisort", "rap_table", "wib_tree"), ("bplus_tree", "b_chain", "ib_chain", "im_tree", "pim_tree")
        _set_inner(self, (*ordered, *runs, *panjoin, *pim))
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
        The ordered index: `CsbTree`, `BurstTrie` or `Judy`.

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
        _set_inner(self, ("csb_tree", "burst_trie", "judy"))


def _set_inner(index: Slices | TimeKeyed, names: tuple[str, ...]) -> None:
    """Puts the index that a name in `of` stands for in its place. Raises WindowError unless it is one of these."""
    inner = open_index(index.of)
    if inner.name not in names:
        raise WindowError(f"{index.name} are of one of {', '.join(names)}, not of {inner.name!r}")
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
        *(CsbTree, BurstTrie, Judy, Slices, TimeKeyed, SpoJoin),
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
