"""What the project aims at, beside what a run measured. For reading: nothing passes or fails by it."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Iterator

from bench.plan import ONE_THREAD
from bench.ratio import cell_name, memory, ratio, ratios, tail
from bench.spark_plan import FLOOR
from bench.workloads import size

K, M = 1 << 10, 1 << 20
CPU = "cpu"


def aims(result: dict) -> list[tuple[str, str, str]]:
    """(figure, aim, measured) for every figure that the run has data for."""
    return [
        *_operator(result.get("operator") or []),
        *_spark(result.get("spark")),
        *_floor(result.get("floor") or []),
        *_state(result.get("state")),
        *_calls(result.get("calls") or []),
        *_conditions(result.get("conditions") or []),
    ]


def _operator(cells: list[dict]) -> Iterator[tuple[str, str, str]]:
    by_cell = {(cell["workload"], cell["window"], cell["batch"]): cell for cell in cells}
    headline = by_cell.get(("uniform", 8 * M, 32 * K))
    if headline and CPU in headline["contenders"]:
        yield "8M rows a side, batches of 32K: rows/s", "10,000,000", f"{headline['contenders'][CPU]['rate']:,.0f}"
        for peer, aim in (("cpp", "6x"), ("polars", "20x"), ("duckdb", "200x")):
            if value := ratio(headline, CPU, peer):
                yield f"the same, against {peer}", aim, f"{value:.2f}x"
    yield from _all_cells(cells, CPU, "cpp", least="1.5x", mean="4x")
    yield from _all_cells(cells, ONE_THREAD, "cpp", least="0.9x", mean="2.5x")
    yield from _all_cells(cells, CPU, "opencl", least="2.5x")
    for batch, name in ((32 * K, "32K"), (4 * K, "4K")):
        tails = [
            (tail(cell, CPU), cell)
            for (_, window, rows), cell in by_cell.items()
            if (window, rows) == (8 * M, batch) and CPU in cell["contenders"]
        ]
        if tails:
            yield f"8M rows a side, batches of {name}: p99 of a call over its median, the most", "3x", _at(max, tails)
    shares = [(share, cell) for cell in cells if CPU in cell["contenders"] and (share := memory(cell, CPU))]
    if shares:
        what = "device memory over keys, row numbers and event times of time windows, the most"
        yield what, "2.2x", _at(max, shares)


def _all_cells(
    cells: list[dict], above: str, below: str, *, least: str, mean: str = ""
) -> Iterator[tuple[str, str, str]]:
    found = list(ratios(cells, above, below))
    if not found:
        return
    what = f"{above} against {below}, {len(found)} cells"
    yield f"{what}: the least", least, _at(min, found)
    if mean:
        yield f"{what}: geometric mean", mean, f"{statistics.geometric_mean(value for value, _ in found):.2f}x"


def _at(which: Callable, found: Iterable[tuple[float, dict]]) -> str:
    value, cell = which(found, key=lambda entry: entry[0])
    return f"{value:.2f}x ({cell_name(cell)})"


def _spark(spark: dict | None) -> Iterator[tuple[str, str, str]]:
    if not spark:
        return
    # The aims are for this size; what a smaller run measured is shown without them.
    aimed = (spark["window"], spark["batch"]) == (1 * M, 256 * K)
    rate = spark["contenders"]["window_join"]["rate"]
    yield "through Spark: rows/s", "1,000,000" if aimed else "", f"{rate:,.0f}"
    if value := ratio(spark, "window_join", "bucket/explode"):
        yield "through Spark, against bucket/explode", "15x" if aimed else "", f"{value:.2f}x"


def _floor(sizes: list[dict]) -> Iterator[tuple[str, str, str]]:
    kept = [
        (share["median"], f"{name}, {size(found['batch'])}")
        for found in sizes
        for name, share in found["kept"][FLOOR].items()
    ]
    if kept:
        share, where = min(kept)
        yield f"through Spark, share of its floor kept, {len(kept)} cells: the least", "95%", f"{share:.0%} ({where})"


def _state(state: dict | None) -> Iterator[tuple[str, str, str]]:
    if not state:
        return
    aimed = (state["window"], state["batch"]) == (1 * M, 256 * K)
    for where, rates in state["rates"].items():
        yield f"share of the rate kept with state, {where}", "85%" if aimed else "", f"{rates['share']:.1%}"
    window = state["recovery"]["window"]
    for where in ("in process", "daemon"):
        what = f"a window of {window:,} rows a side restored, {where}"
        yield what, "5 s" if window == 8 * M else "", f"{state['recovery'][where]:.1f} s"


#: Microseconds that a call of so many rows a side may take.
_CALLS = {
    ("band, pairs", 1): 80,
    ("band, rows", 1): 80,
    ("band, pairs", 1024): 200,
    ("band, rows", 1024): 200,
    ("as-of", 16): 120,
}


def _calls(cases: list[dict]) -> Iterator[tuple[str, str, str]]:
    for case in cases:
        aim = _CALLS.get((case["join"], case["rows"]))
        what = f"a call of {case['rows']:,} rows a side, {case['join']}"
        yield what, "" if aim is None else f"{aim} us", f"{case['median_us']:,.0f} us"


#: How many times as fast the first contender of a figure, with such a case, is to be as another.
_TIMES = (
    ("equality + band", r"100,000 keys, 1M rows .* 256K", "Spark's join, RocksDB, format 4", "10x"),
    ("equality + band", r"100,000 keys, 1M rows .* 256K", "Spark's join, in-memory store", "5x"),
    ("equality + band", r"1,000 keys, 128K rows .* 64K", "Spark's join, RocksDB, format 4", "50x"),
    ("ranges", r"1M right rows.*", "one range, then a filter", "5x"),
    ("as-of", r".* 8M rows a side, batches of 32K", "polars", "2x"),
    ("as-of", r".* 8M rows a side, batches of 32K", "duckdb", "2x"),
)


def _conditions(figures: list[dict]) -> Iterator[tuple[str, str, str]]:
    for figure in figures:
        name, case = figure["figure"], figure["case"]
        for aimed, cases, peer, aim in _TIMES:
            if aimed == name and re.fullmatch(cases, case) and figure["contenders"]:
                value = ratio(figure, next(iter(figure["contenders"])), peer)
                if value is not None:
                    yield f"{name}, {case}, against {peer}", aim, f"{value:.2f}x"
        if name == "outer" and (value := ratio(figure, "inner", "left outer")):
            yield f"left outer against inner, {case}: time", "1.3x", f"{value:.2f}x"
        for point in figure.get("points", [])[1:]:
            yield f"aggregates at {point['matches']:,} matches a row against 1: time", "1.5x", f"{point['ratio']:.2f}x"
