"""What the operator benchmark sets side by side: the window join on its devices, and the peers."""

from bench.contenders.contender import Contender, Pairs, Unavailable
from bench.contenders.cpp_sorted_array import CppSortedArray
from bench.contenders.duckdb_ie_join import DuckDbIeJoin
from bench.contenders.numpy_searchsorted import NumpySearchsorted
from bench.contenders.operator import Operator
from bench.contenders.polars_join_where import PolarsJoinWhere
from bench.plan import device_kind
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
    """The contender of a name: one of `PEERS`, ``<device>/<index>``, or ``<device>`` for its default, sorted runs.

    Raises
    ------
    Unavailable
        This machine lacks what the contender needs.
    ValueError
        No contender has that name.
    """
    if name in PEERS:
        return PEERS[name](workload)
    if not device_kind(name):
        raise ValueError(f"contender must be one of {', '.join(PEERS)}, DEVICE or DEVICE/INDEX, not {name!r}")
    device, slash, index = name.rpartition("/")
    return Operator(workload, device=device, index=index) if slash else Operator(workload, device=name)
