"""Indexes: what a side's window is kept in, and how a user names one."""

from muntin.host.index.panjoin import Auto, RapTable, WibTree
from muntin.host.index.pim_tree import BChain, BPlusTree, Chain, IbChain, ImTree, PimTree
from muntin.host.index.run_policies import BiSort, RunPolicy, SortedRuns
from muntin.host.index.spec import Index, NestedLoop, SortedArray
from muntin.host.index.specs import (
    ORDERED,
    BurstTrie,
    CsbTree,
    Judy,
    RadixTree,
    Slices,
    SpoJoin,
    TimeKeyed,
    index_from_dict,
    open_index,
)

__all__ = [
    "ORDERED", "Auto", "BChain", "BPlusTree", "BiSort", "BurstTrie", "Chain", "CsbTree", "IbChain", "ImTree", "Index",
    "Judy", "NestedLoop", "PimTree", "RadixTree", "RapTable", "RunPolicy", "Slices", "SortedArray", "SortedRuns",
    "SpoJoin", "TimeKeyed", "WibTree", "index_from_dict", "open_index",
]  # fmt: skip
