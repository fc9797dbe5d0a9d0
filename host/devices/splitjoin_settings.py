"""What a SplitJoin kernel is told before a join."""

from __future__ import annotations

import dataclasses

from muntin.contract.designs.splitjoin import Order


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitJoinSettings:
    """Windows, predicate and order of a join, as `muntin.hw.splitjoin.settings_signature` has them.

    Attributes
    ----------
    left_rows, right_rows : int
        Count windows, where it is not `timed`.
    low, high : int
        The predicate, a band on right minus left; beyond what the build's registers hold, a bound is open.
    complement : bool
    own_bounds : bool
        Rows carry what stored keys are compared with; low and high do not matter.
    order : Order
    every : int
    timed : bool
    time_low, time_high : int
        The time window, as low and high.
    core_timeout_cycles : int
        How long a core may stand still that has something to do.
    """

    left_rows: int = 0
    right_rows: int = 0
    low: int = 0
    high: int = 0
    complement: bool = False
    own_bounds: bool = False
    order: Order = Order.NONE
    every: int = 0
    timed: bool = False
    time_low: int = 0
    time_high: int = 0
    core_timeout_cycles: int = 1 << 16
