"""What windows are kept in, to compare or to choose: ``WindowJoin(..., index=PimTree())``; an index over one window
without a join; a mirror of the runs of ``form="ranges"``."""

from muntin.host.index import (
    Auto,
    BChain,
    BiSort,
    BPlusTree,
    BurstTrie,
    CsbTree,
    IbChain,
    ImTree,
    Index,
    Judy,
    PimTree,
    RadixTree,
    RapTable,
    Slices,
    SortedRuns,
    SpoJoin,
    TimeKeyed,
    WibTree,
)
from muntin.host.join.range_index import RangeIndex, open_window_index
from muntin.host.join.range_mirror import (
    RangeMirror,
)

__all__ = [
    "Auto",
    "BChain",
    "BPlusTree",
    "BiSort",
    "BurstTrie",
    "CsbTree",
    "IbChain",
    "ImTree",
    "Index",
    "Judy",
    "PimTree",
    "RadixTree",
    "RangeIndex",
    "RangeMirror",
    "RapTable",
    "Slices",
    "SortedRuns",
    "SpoJoin",
    "TimeKeyed",
    "WibTree",
    "open_window_index",
]
