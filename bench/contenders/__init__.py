"""What the operator benchmark sets side by side: the window join on its devices, and the peers."""

from bench.contenders.contender import Contender, Pairs, Unavailable
from bench.contenders.cpp_sorted_array import CppSortedArray
from bench.contenders.duckdb_ie_join import DuckDbIeJoin
from bench.contenders.numpy_searchsorted import NumpySearchsorted
from bench.contenders.operator import Operator
from bench.contenders.polars_join_where import PolarsJoinWhere
from bench.workloads import Workload

PEERS = {peer.name: peer for peer in (CppSortedArray, NumpySearchsorted, PolarsJoinWhere, DuckDbIeJoin)}

__all__ = [
    "PEERS",
    "Contender",
    "CppSortedArray",
    "DuckDbIeJoin",
    "NumpySearchsorted",
    "Operator",
    "Pairs",
    "PolarsJoinWhere",
    "Unavailable",
    "make_contender",
]


def make_contender(name: str, workload: Workload) -> Contender:
    """The contender named ``cpp``, ``numpy-searchsorted``, ``polars``, ``duckdb``, or ``<device>/<policy>``.

    Raises
    ------
    Unavailable
        This machine lacks what the contender needs.
    ValueError
        No contender has that name.
    """
    if name in PEERS:
        return PEERS[name](workload)
    device, slash, policy = name.rpartition("/")
    if not slash:
        raise ValueError(f"contender must be one of {', '.join(PEERS)} or DEVICE/POLICY, not {name!r}")
    return Operator(workload, device=device, policy=policy)
