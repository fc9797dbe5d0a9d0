"""What a join tells about itself."""

from __future__ import annotations

import dataclasses
import html
from typing import Any

from muntin.host.public import public
from muntin.host.sides import SIDES, Sides


@public("muntin")
@dataclasses.dataclass(repr=False)
class Stats:
    """Counters of one join since it was opened. In a self join both sides tell of the one stream. Printed, and shown in
    a notebook, as a table.

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
        Rows whose key is NULL or NaN, or whose time is NULL, or that fail a part of the condition about their side
        alone.
    waiting_left, waiting_right : int
        Rows that have matched nothing so far and still may, where the join asks for that: `how` other than "inner".
    window_left, window_right : int
        Rows in the windows now.
    fill_left, fill_right : float or None
        Share of the declared window, or capacity, that is filled; None where none is declared.
    watermark : int or None
        The watermark in force, in the unit of the time columns.
    watermark_seconds : float or None
        The same as seconds since 1970, UTC; None where the times are plain integers.
    watermark_side : str or None
        ``"left"`` or ``"right"``: the side whose newest time makes the watermark, by the policy ``"min"`` the one that
        holds it back; None where both do, or there is no watermark.
    device : str
    device_bytes : int
        Memory of the device taken by the windows.
    device_available_bytes : int
        Memory of the device that is free.
    row_bytes : int
        Bytes of the rows kept for output, and of what is known of their matches.
    state_calls : int
        Calls in the state, that another process would load.
    state_bytes : int
        Bytes of their rows.
    state_files : int
        Files of the state.
    state_seconds : float
        Time that calls have waited for their state to be durable.
    sync_seconds : float
        Time that files of the state took to become durable: calls are joined meanwhile, and wait for the rest of it.
    restore_seconds : float
        Time that it took to read and load the state.
    probed_runs : int
        Runs probed, summed over probe commands; 0 with SplitJoin, which has none.
    index_name : str
        The index in use, by name: what ``index="auto"`` stands for; several where join cores chose different ones.
    index : dict of str to dict
        For each side what its index tells of its inside, as the index's own docstring says.
    engine : dict
        What the engine tells of itself; with ``partitions=``: `partitions`, what each stores and receives, and
        `placement`, what rows go by; with ``engine="shared"``: `tasks`, `task_size`, `merges`, `merging` (in the
        background now), `waits` (of threads for a merge to begin or end), `max_threads`, `max_scanned` (rows between
        the edge and a row that probed), `pending` (rows that came during merges), `timed_rows`, and the time from a
        row's arrival in the work queue to its results: `latency_p50_us`, `latency_p90_us`, `latency_p99_us`,
        `latency_p999_us`, `latency_max_us`. Where any
        part of a conjunction may drive: `driver`, the place of the one that does (0: the one that did at first),
        `shares` of the pairs in the windows that each keeps (None before there were enough rows), `driver_changes`.
    seconds : dict of str to float
        Time per step: encode, sort, load, bounds, probe, gather, residual, merge, output, and choice of what
        drives; with SplitJoin encode, bounds, pack, join, unpack, output.

    Examples
    --------
    >>> import pyarrow as pa
    >>> bids, asks = pa.table({"limit": [10, 20]}), pa.table({"price": [11, 12, 40]})
    >>> from muntin import Band, Rows, WindowJoin
    >>> with WindowJoin(on=Band("limit", "price", -5, 5), left=Rows(1000), right=Rows(1000)) as join:
    ...     pairs = join.process(bids, asks)
    >>> join.stats.matches, join.stats.rows_right
    (2, 3)
    """

    calls: int = 0
    rows_left: int = 0
    rows_right: int = 0
    matches: int = 0
    late_left: int = 0
    late_right: int = 0
    unmatchable_left: int = 0
    unmatchable_right: int = 0
    waiting_left: int = 0
    waiting_right: int = 0
    window_left: int = 0
    window_right: int = 0
    fill_left: float | None = None
    fill_right: float | None = None
    watermark: int | None = None
    watermark_seconds: float | None = None
    watermark_side: str | None = None
    device: str = ""
    device_bytes: int = 0
    device_available_bytes: int = 0
    row_bytes: int = 0
    state_calls: int = 0
    state_bytes: int = 0
    state_files: int = 0
    state_seconds: float = 0.0
    sync_seconds: float = 0.0
    restore_seconds: float = 0.0
    probed_runs: int = 0
    index_name: str = ""
    index: Sides[dict[str, Any]] = dataclasses.field(default_factory=dict)
    engine: dict[str, Any] = dataclasses.field(default_factory=dict)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)

    def copy(self) -> Stats:
        """The counters as they are now."""
        return dataclasses.replace(self)

    def add(self, name: str, count: int) -> None:
        """Adds to a counter."""
        setattr(self, name, getattr(self, name) + count)

    def as_dict(self) -> dict[str, Any]:
        """A JSON-able copy."""
        return _copied(vars(self))

    def __repr__(self) -> str:
        rows = [("", *SIDES), *self._of_sides()]
        widths = [max(len(row[at]) for row in rows) for at in range(3)]
        widths[0] = max(widths[0], *(len(name) for name, _ in self._of_both()))
        lines = [f"{name:{widths[0]}}  {left:>{widths[1]}}  {right:>{widths[2]}}" for name, left, right in rows]
        lines += [f"{name:{widths[0]}}  {value}" for name, value in self._of_both()]
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        rows = [("", *SIDES), *self._of_sides()]
        cells = ["".join(f"<td style='text-align:right'>{html.escape(each)}</td>" for each in row[1:]) for row in rows]
        cells += [f"<td colspan='2'>{html.escape(value)}</td>" for _, value in self._of_both()]
        names = [row[0] for row in (*rows, *self._of_both())]
        body = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>{cell}</tr>"
            for name, cell in zip(names, cells, strict=True)
        )
        return f"<table>{body}</table>"

    def _of_sides(self) -> list[tuple[str, str, str]]:
        """The name and both values of each counter that both sides have."""
        names = [field.name.removesuffix("_left") for field in dataclasses.fields(self)]
        return [
            (name, *(_told(name, getattr(self, f"{name}_{side}")) for side in SIDES))  # type: ignore[misc]
            for name in names
            if hasattr(self, f"{name}_left")
        ]

    def _of_both(self) -> list[tuple[str, str]]:
        """The name and the value of each other counter, those without one aside."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "index"}
        found |= {f"index {side}": figures for side, figures in self.index.items()}
        return [
            (name, _told(name, value))
            for name, value in found.items()
            if not name.endswith(("_left", "_right")) and value not in (None, "", {})
        ]


def _told(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_told(name, part)}" for key, part in value.items())
    if name == "fill":
        return f"{value:.1%}"
    if isinstance(value, float):
        return f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _copied(value: Any) -> Any:
    return {name: _copied(part) for name, part in value.items()} if isinstance(value, dict) else value
