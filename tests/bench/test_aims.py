"""The aims are read off the cells they are about."""

from bench.aims import aims

K, M = 1 << 10, 1 << 20


def entry(*rates: float, used: int = 0) -> dict:
    return {"rate": rates[0], "rates": list(rates), "memory": {"used": used, "keys_and_rows": 100}}


def cell(batch: int, contenders: dict) -> dict:
    return {"workload": "uniform", "window": 8 * M, "batch": batch, "contenders": contenders}


def test_operator() -> None:
    cells = [
        cell(32 * K, {"opencl/ladder": entry(8e6, used=210), "opencl/flat": entry(4e6), "cpp": entry(2e6)}),
        cell(4 * K, {"opencl/ladder": entry(3e6, 4e6, 5e6, used=230), "opencl/flat": entry(1e6, 1e6, 1e6)}),
        cell(256 * K, {"opencl/ladder": entry(9e6, used=220), "opencl/flat": entry(10e6)}),
    ]
    assert aims({"operator": cells}) == [
        ("8M rows a side, batches of 32K: rows/s", "8,000,000", "8,000,000"),
        ("the same, against cpp", "2x", "4.00x"),
        ("the same, against opencl/flat", "1.5x", "2.00x"),
        ("batches of 4K, against opencl/flat", "5x", "4.00x"),
        ("every cell of the table, against opencl/flat: the least", "0.9x", "0.90x"),
        ("device memory over keys and row numbers: the most", "2.5x", "2.30x"),
    ]


def test_spark_at_another_size_has_no_aim() -> None:
    spark = {
        "window": 1 * M,
        "batch": 256 * K,
        "floor_kept": 0.5,
        "contenders": {"window_join": entry(9e5), "bucket/explode": entry(4.5e4)},
    }
    assert aims({"spark": spark})[1] == ("through Spark, against bucket/explode", "15x", "20.00x")
    assert aims({"spark": {**spark, "window": 128 * K}})[1][1] == ""
