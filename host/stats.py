"""What a join tells about itself."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass
class Stats:
    """Counters of one join since it was opened.

    Attributes
    ----------
    calls : int
        Calls of `process` that were applied.
    rows_left, rows_right : int
        Rows that arrived.
    matches : int
        Pairs found.
    late_left, late_right : int
        Rows dropped as late.
    unmatchable_left, unmatchable_right : int
        Rows whose key is NULL or NaN, or whose time is NULL.
    window_left, window_right : int
        Rows in the windows now.
    fill_left, fill_right : float or None
        Share of the declared window, or capacity, that is filled; None where none is declared.
    watermark : int or None
        The watermark in force, in the unit of the time columns.
    device : str
    device_bytes : int
        Memory of the device taken by the windows.
    device_available_bytes : int
        Memory of the device that is free.
    row_bytes : int
        Bytes of the rows kept for output.
    probed_runs : int
        Runs probed, summed over probe commands; 0 with SplitJoin, which has none.
    seconds : dict of str to float
        Time per step: encode, sort, load, bounds, probe, gather, merge, output; with SplitJoin encode, bounds, pack,
        join, unpack, output.
    """

    calls: int = 0
    rows_left: int = 0
    rows_right: int = 0
    matches: int = 0
    late_left: int = 0
    late_right: int = 0
    unmatchable_left: int = 0
    unmatchable_right: int = 0
    window_left: int = 0
    window_right: int = 0
    fill_left: float | None = None
    fill_right: float | None = None
    watermark: int | None = None
    device: str = ""
    device_bytes: int = 0
    device_available_bytes: int = 0
    row_bytes: int = 0
    probed_runs: int = 0
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """A JSON-able copy."""
        return dataclasses.asdict(self)
