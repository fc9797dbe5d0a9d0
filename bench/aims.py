"""What the project aims at, beside what a run measured. For reading: nothing passes or fails by it."""

from __future__ import annotations

from collections.abc import Iterator

from bench.ratio import ratio

K, M = 1 << 10, 1 << 20
_HEADLINE = ("uniform", 8 * M, 32 * K)


def aims(result: dict) -> list[tuple[str, str, str]]:
    """(figure, aim, measured) for every figure that the run has data for."""
    return [*_operator(result.get("operator") or []), *_spark(result.get("spark"))]


def _operator(cells: list[dict]) -> Iterator[tuple[str, str, str]]:
    by_cell = {(cell["workload"], cell["window"], cell["batch"]): cell for cell in cells}
    mine, flat = "opencl/ladder", "opencl/flat"
    if (cell := by_cell.get(_HEADLINE)) and mine in cell["contenders"]:
        rate = cell["contenders"][mine]["rate"]
        yield "8M rows a side, batches of 32K: rows/s", "8,000,000", f"{rate:,.0f}"
        for peer, aim in (("cpp", 2), ("polars", 20), ("duckdb", 200), (flat, 1.5)):
            if value := ratio(cell, mine, peer):
                yield f"the same, against {peer}", f"{aim}x", f"{value:.2f}x"
    if (cell := by_cell.get(("uniform", 8 * M, 4 * K))) and (value := ratio(cell, mine, flat)):
        yield f"batches of 4K, against {flat}", "5x", f"{value:.2f}x"
    ratios = [value for cell in cells if (value := ratio(cell, mine, flat)) is not None]
    if ratios:
        yield f"every cell of the table, against {flat}: the least", "0.9x", f"{min(ratios):.2f}x"
    memory = [cell["contenders"][mine]["memory"] for cell in cells if mine in cell["contenders"]]
    shares = [entry["used"] / entry["keys_and_rows"] for entry in memory if entry.get("keys_and_rows")]
    if shares:
        yield "device memory over keys and row numbers: the most", "2.5x", f"{max(shares):.2f}x"


def _spark(spark: dict | None) -> Iterator[tuple[str, str, str]]:
    if not spark:
        return
    # The aims are for this size; what a smaller run measured is shown without them.
    aimed = (spark["window"], spark["batch"]) == (1 * M, 256 * K)
    rate = spark["contenders"]["window_join"]["rate"]
    yield "through Spark: rows/s", "1,000,000" if aimed else "", f"{rate:,.0f}"
    if value := ratio(spark, "window_join", "bucket/explode"):
        yield "through Spark, against bucket/explode", "15x" if aimed else "", f"{value:.2f}x"
    yield "through Spark, share of its floor kept", "", f"{spark['floor_kept']:.0%}"
