"""The aims are read off the cells they are about."""

import math
import statistics

from hypothesis import given
from hypothesis import strategies as st

from bench.aims import aims
from bench.ratio import median_interval
from bench.spark_plan import FLOOR

K, M = 1 << 10, 1 << 20


def entry(*rates: float, used: int = 0, p99: float = 1.0) -> dict:
    memory = {"used": used, "content": 100}
    return {"rate": rates[0], "rates": list(rates), "memory": memory, "call_ms": {"median": 1.0, "p99": p99}}


def cell(workload: str, window: int, batch: int, **contenders: dict) -> dict:
    one_thread = {"cpu:threads=1": contenders.pop("one")}
    return {"workload": workload, "window": window, "batch": batch, "contenders": {**contenders, **one_thread}}


def test_operator() -> None:
    cells = [
        cell(
            *("uniform", 8 * M, 32 * K),
            cpu=entry(8e6, used=210, p99=2.5),
            one=entry(3e6),
            cpp=entry(2e6),
            opencl=entry(4e6),
            duckdb=entry(2e4),
        ),
        cell(
            *("time", 8 * M, 4 * K),
            cpu=entry(3e6, 4e6, 5e6, used=230, p99=3.5),
            one=entry(1e6, 1e6, 1e6),
            cpp=entry(1e6, 1e6, 1e6),
            opencl=entry(1e6, 1e6, 1e6),
        ),
        # Tails of small windows have no aim.
        cell(
            "uniform", 1 * M, 4 * K, cpu=entry(1e6, p99=9.0, used=150), one=entry(1e6), cpp=entry(1e6), numpy=entry(1)
        ),
    ]
    assert aims({"operator": cells}) == [
        ("8M rows a side, batches of 32K: rows/s", "10,000,000", "8,000,000"),
        ("the same, against cpp", "6x", "4.00x"),
        ("the same, against duckdb", "200x", "400.00x"),
        ("cpu against cpp, 3 cells: the least", "1.5x", "1.00x (uniform, 1M, 4K)"),
        ("cpu against cpp, 3 cells: geometric mean", "4x", "2.52x"),
        ("cpu:threads=1 against cpp, 3 cells: the least", "0.9x", "1.00x (time, 8M, 4K)"),
        ("cpu:threads=1 against cpp, 3 cells: geometric mean", "2.5x", "1.14x"),
        ("cpu against opencl, 2 cells: the least", "2.5x", "2.00x (uniform, 8M, 32K)"),
        ("8M rows a side, batches of 32K: p99 of a call over its median, the most", "3x", "2.50x (uniform, 8M, 32K)"),
        ("8M rows a side, batches of 4K: p99 of a call over its median, the most", "3x", "3.50x (time, 8M, 4K)"),
        (
            "device memory over keys, row numbers and event times of time windows, the most",
            *("2.2x", "2.30x (time, 8M, 4K)"),
        ),
    ]


def test_spark_at_another_size_has_no_aim() -> None:
    spark = {
        "window": 1 * M,
        "batch": 256 * K,
        "contenders": {"window_join": entry(9e5), "bucket/explode": entry(4.5e4)},
    }
    assert aims({"spark": spark})[1] == ("through Spark, against bucket/explode", "15x", "20.00x")
    assert aims({"spark": {**spark, "window": 128 * K}})[1][1] == ""


def test_the_share_of_the_floor_is_the_least() -> None:
    kept = {"window_join": {"median": 0.975, "interval": (0.9, 1.1)}, "window_join, count window": {"median": 1.2}}
    sizes = [
        {"batch": 256 * K, "kept": {FLOOR: kept}},
        {"batch": M, "kept": {FLOOR: {**kept, "more": {"median": 0.5}}}},
    ]
    ((figure, aim, measured),) = aims({"floor": sizes})
    assert ("5 cells" in figure, aim, measured) == (True, "95%", "50% (more, 1M)")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_the_interval_of_a_median_holds_it_and_is_the_narrowest_by_ranks(values: list[float]) -> None:
    low, high = median_interval(values)
    assert low <= statistics.median(values) <= high
    ordered, count = sorted(values), len(values)
    for outside in range(count // 2):
        sure = 1 - 2 * sum(math.comb(count, heads) for heads in range(outside + 1)) / 2**count
        if sure < 0.95:
            break
        assert ordered[outside] <= low
        assert high <= ordered[-1 - outside]
