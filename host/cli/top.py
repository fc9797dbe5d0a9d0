"""The table of `muntin top`: what the queries of daemons do, in 80 columns."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

from rich.table import Table

from muntin.host.daemon.windows import shown_name

#: Of each a query has several lines: of the left and the right side and of what comes out; the watermark's day and
#: time of day, UTC, and how far behind the clock it is; bytes of the windows, the rows that are kept, and the state.
_HEADINGS = ("query", "batch", "lag", "side", "rows/s", "window", "late", "watermark\nUTC", "windows\nkept\nstate")


def top_table(now: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]]) -> Table:
    """The queries in the status of each daemon by its address, those of one join side by side.

    Parameters
    ----------
    now, before : dict of str to dict
        The status of each daemon, with the time `asked`; rates are against the earlier one. A daemon whose `device` is
        None has not answered.
    """
    title = "\n".join(_title(address, status) for address, status in now.items())
    table = Table(title=title, box=None, padding=(0, 1, 0, 0))
    for heading in _HEADINGS:
        left = heading in ("query", "side")
        table.add_column(heading, justify="left" if left else "right", overflow="fold", no_wrap=heading != "query")
    found = [(query["title"] or "", name, at) for at, told in now.items() for name, query in told["queries"].items()]
    for called, name, address in sorted(found):
        query, earlier = now[address]["queries"][name], before.get(address, {"queries": {}})
        old, stats = earlier["queries"].get(name), query["stats"]
        seconds = now[address]["asked"] - earlier["asked"] if old else 0.0
        rates = [
            amount((query[field] - old[field]) / seconds) if old and seconds > 0 else ""
            for field in ("rows_left", "rows_right", "rows_out")
        ]
        shown = [part for part in shown_name(name, called) if part]
        table.add_row(
            "\n".join([*shown, *([address] if len(now) > 1 else [])]),
            "" if query.get("batch") is None else str(query["batch"]),
            span_of(query["lag_seconds"]),
            "left\nright\nout",
            "\n".join(rates),
            "\n".join(amount(stats.get(f"window_{side}", 0)) for side in ("left", "right")),
            "\n".join(amount(stats.get(f"late_{side}", 0)) for side in ("left", "right")),
            "\n".join(_watermark(stats, time.time())),
            "\n".join(size(stats.get(field, 0)) for field in ("device_bytes", "row_bytes", "state_bytes")),
        )
    return table


def _watermark(stats: dict[str, Any], now: float) -> list[str]:
    """The watermark as a day, a time of day and its distance from now; as a number where it is none."""
    seconds = stats.get("watermark_seconds")
    if seconds is None:
        value = stats.get("watermark")
        return [] if value is None else [f"{value:,}"]
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds // 1)
    behind = now - seconds
    return [
        f"{moment:%Y-%m-%d}",
        f"{moment:%H:%M:%S}",
        f"{span_of(abs(behind))} {'behind' if behind >= 0 else 'ahead'}",
    ]


def span_of(seconds: float) -> str:
    """A length of time in its greatest unit: "0.3 s", "12 s", "5 min", "3 h", "12 d"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    for unit, length, most in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < most:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86_400:,.0f} d"


def amount(count: float) -> str:
    """A count in five letters: "9999", "12.3k", "1.23M"."""
    if count < 10_000:
        return f"{count:.0f}"
    unit, value = next(
        ((unit, count / one) for unit, one in (("k", 1e3), ("M", 1e6)) if count < 999.5 * one), ("G", count / 1e9)
    )
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}{unit}"


def size(count: int) -> str:
    """A number of bytes."""
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, 4)
    return f"{count / (1 << 10 * power):,.1f} {('KiB', 'MiB', 'GiB', 'TiB')[power - 1]}"


def _title(address: str, status: dict[str, Any]) -> str:
    device = status["device"]
    if device is None:
        return f"{address} does not answer"
    used = f"{size(device['used_bytes'])} of {size(device['memory_bytes'])}"
    return f"{address}: {device['name']}, {used}, process {status['pid']}"
