"""How long calls of few rows take, at small sizes."""

import pytest
from rich.console import Console

from bench import short_calls
from bench.aims import aims
from bench.report import print_tables


def test_cases(capsys: pytest.CaptureFixture[str]) -> None:
    plan = short_calls.ShortCallsPlan(window=64, rows=(1, 16), as_of_rows=4, calls=5, warm_up=3)
    found = short_calls.run_short_calls(plan)
    assert [(case["join"], case["rows"]) for case in found] == [
        ("band, pairs", 1), ("band, pairs", 16), ("band, rows", 1), ("band, rows", 16), ("as-of", 4)
    ]  # fmt: skip
    for case in found:
        assert 0 < case["median_us"] <= case["p99_us"]
        assert min(case["encode_us"], case["core_us"], case["output_us"]) > 0
        assert case["functions"] > 100
    print_tables(Console(width=150), {"calls": found})
    assert f"{found[0]['median_us']:,.0f}" in capsys.readouterr().out
    assert [aim for _, aim, _ in aims({"calls": found})] == ["80 us", "", "80 us", "", ""]


def test_functions_are_counted() -> None:
    def outer() -> None:
        len(str(1))  # the class `str` is no function
        inner()

    def inner() -> None:
        abs(-1)

    # With what puts the profiler back.
    assert short_calls._functions(outer) - short_calls._functions(inner) == 2
