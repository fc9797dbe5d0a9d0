"""What is chosen at run time, and rows and results, as the models of SplitJoin take them."""

from __future__ import annotations

import dataclasses

from muntin.contract.designs.splitjoin import Order


@dataclasses.dataclass(frozen=True, kw_only=True)
class JoinSettings:
    """As `muntin.hw.splitjoin.settings_signature` has it; the lengths of windows by side."""

    windows: tuple[int, int] = (0, 0)
    low: int = 0
    high: int = 0
    complement: bool = False
    own_bounds: bool = False
    order: Order = Order.OUTER
    every: int = 0
    timed: bool = False
    time_low: int = 0
    time_high: int = 0
    late: tuple[int, int] = (0, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class JoinRow:
    """As `muntin.hw.splitjoin.tagged_row` has it."""

    side: int
    row: int
    key: int = 0
    time: int = 0
    null: bool = False
    mark: bool = False
    again: bool = False
    more: bool = False
    lower: int = 0
    upper: int = 0


@dataclasses.dataclass(frozen=True, order=True)
class JoinResult:
    """A pair where `row` is a number; else a punctuation, which ends its probing row where `last` is set."""

    probe: int
    row: int | None = None
    last: bool = False
