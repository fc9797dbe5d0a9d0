"""Where one join overtakes the other."""

import pytest

from bench.joins_by_window import overtaking


def test_between_what_was_measured():
    falling = [(1 << 10, 0.1), (1 << 16, 0.1 / 64)]
    steady = [(1 << 14, 0.01), (1 << 20, 0.005)]
    # The nested loop has 0.1 * 1024 / window rows a cycle; the other one 0.01 up to 16 Ki.
    assert overtaking(falling, steady) == pytest.approx(0.1 * 1024 / 0.01, rel=0.01)


def test_behind_what_was_measured():
    assert overtaking([(64, 1.0)], [(64, 1 / 1000)]) == pytest.approx(64_000, rel=0.01)


@pytest.mark.parametrize("steady", [2.0, 1e-9])
def test_neither_overtakes(steady):
    assert overtaking([(64, 1.0)], [(64, steady)]) is None
