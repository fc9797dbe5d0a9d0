"""How long calls of few rows take: what a join costs beside the rows.

Each case is a join on one thread, of bands with full windows, which gets the same number of rows a side in every call.
Beside the times stand the functions that a call calls, Python's and built in, counted in calls that are not timed.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from muntin import AsOf, Band, Rows, Watermark, WindowJoin

Call = tuple[pa.Table, pa.Table]
_KEYS = 1 << 30
_REACH = 1000  # of the band on either side
_SPAN = 1000  # units of time in a call of an as-of join


@dataclass(frozen=True, kw_only=True)
class ShortCallsPlan:
    """One run.

    Parameters
    ----------
    window : int
        Rows a side in the windows of band joins.
    rows : tuple of int
        Rows a side in a call of those.
    as_of_rows : int
        Rows a side in a call of an as-of join.
    calls, warm_up : int
        Calls timed, and before those.
    seed : int
        Every value follows from it.
    """

    window: int = 1 << 17
    rows: tuple[int, ...] = (1, 1024)
    as_of_rows: int = 16
    calls: int = 1000
    warm_up: int = 100
    seed: int = 20


def run_short_calls(plan: ShortCallsPlan, *, on_stage: Callable[[str], None] = lambda stage: None) -> list[dict]:
    """Measure all cases.

    Returns
    -------
    list of dict
        Ready for JSON: ``join``, ``rows`` a side in a call, and of a call ``median_us`` and ``p99_us`` of its time, the
        means ``cpu_us`` of processor time, and ``encode_us``, ``core_us`` and ``output_us`` of the time in these parts,
        and the ``functions`` called (mean).
    """
    found = []
    for form in ("pairs", "rows"):
        for rows in plan.rows:
            on_stage(f"short calls: {form}, {rows:,} rows")
            band = Band("a", "b", -_REACH, _REACH)
            window = Rows(plan.window)
            with WindowJoin(on=band, left=window, right=window, form=form, device="cpu:threads=1") as join:
                join.process(*_call(plan, plan.window, 0))
                found.append({"join": f"band, {form}", "rows": rows} | _timed(plan, join, rows, _call))
    on_stage(f"short calls: as-of, {plan.as_of_rows:,} rows")
    newest = Watermark(left=0, right=0)
    with WindowJoin(on=AsOf("a", "b", "backward"), watermark=newest, device="cpu:threads=1") as join:
        found.append({"join": "as-of", "rows": plan.as_of_rows} | _timed(plan, join, plan.as_of_rows, _ascending))
    return found


def _timed(
    plan: ShortCallsPlan, join: WindowJoin, rows: int, make: Callable[[ShortCallsPlan, int, int], Call]
) -> dict[str, float]:
    counted = max(plan.warm_up, 1)
    calls = [make(plan, rows, 1 + number) for number in range(plan.warm_up + plan.calls + counted)]
    for call in calls[: plan.warm_up]:
        join.process(*call)
    seconds, cpu, before = [], time.process_time(), join.stats.seconds
    for call in calls[plan.warm_up : -counted]:
        start = time.perf_counter()
        join.process(*call)
        seconds.append(time.perf_counter() - start)
    cpu = time.process_time() - cpu
    parts = {"encode": 0.0, "core": 0.0, "output": 0.0}
    for name, value in join.stats.seconds.items():
        parts[name if name in parts else "core"] += value - before[name]
    functions = _functions(lambda: [join.process(*call) for call in calls[-counted:]])
    return {
        "median_us": statistics.median(seconds) * 1e6,
        "p99_us": float(np.quantile(seconds, 0.99)) * 1e6,
        "cpu_us": cpu / len(seconds) * 1e6,
        **{f"{name}_us": value / len(seconds) * 1e6 for name, value in parts.items()},
        "functions": functions / counted,
    }


def _functions(run: Callable[[], object]) -> int:
    """How many functions are called, of Python's and built in."""
    count = 0

    def called(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


def _call(plan: ShortCallsPlan, rows: int, number: int) -> Call:
    values = np.random.default_rng((plan.seed, number)).integers(0, _KEYS, (2, rows))
    return _tables(values, rows)


def _ascending(plan: ShortCallsPlan, rows: int, number: int) -> Call:
    """Later than those of the call before."""
    times = np.random.default_rng((plan.seed, number)).integers(0, _SPAN, (2, rows)) + number * _SPAN
    return _tables(np.sort(times), rows)


def _tables(values: np.ndarray, rows: int) -> Call:
    left, right = (
        pa.table({name: of, f"{name}_value": np.arange(rows)}) for name, of in zip("ab", values, strict=True)
    )
    return left, right
