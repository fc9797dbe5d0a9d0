"""The mirror of what cores hold, against lists of rows, one a core."""

import numpy as np
import pytest

from muntin.host.fpga.splitjoin_engine import HeldRows


@pytest.mark.parametrize(("cores", "rows"), [(1, 9), (3, 8), (8, 400)])
def test_against_a_list_a_core(cores, rows, seed):
    rng = np.random.default_rng([seed, cores])
    held, lists, end, arrival, now, dropped = HeldRows(cores, rows), [[] for _ in range(cores)], 0, 0, 0, 0
    for _ in range(300):
        new = int(rng.integers(0, 3 * cores))
        fullest = max(len(own) + -(-(new - (core - end) % cores) // cores) for core, own in enumerate(lists))
        assert held.fullest(new) == max(fullest, max(map(len, lists)))
        if fullest <= rows:
            numbers = arrival + np.cumsum(rng.integers(1, 4, new))
            times = np.maximum(now + rng.integers(-20, 20, new), 0).astype(np.uint64)
            held.add(numbers, times)
            np.testing.assert_array_equal(held.rows(end + np.arange(new)), numbers)
            for number, time in zip(numbers.tolist(), times.tolist(), strict=True):
                lists[end % cores].append((number, time))
                end, arrival = end + 1, number
        now += int(rng.integers(0, 12))
        horizon = now - 15
        some = False
        for own in lists:
            while own and own[0][1] < horizon:
                own.pop(0)
                some, dropped = True, dropped + 1
        assert held.drop(horizon) == some
        assert len(held) == sum(map(len, lists))
        assert held.oldest_row == min((own[0][0] for own in lists if own), default=None)
        assert held.end == end
    assert dropped > 50


def test_the_ends_of_64_bits():
    held = HeldRows(2, 4)
    held.add(np.arange(3), np.array([0, 2**64 - 1, 5], np.uint64))
    assert not held.drop(-5)
    assert not held.drop(0)
    assert held.drop(2**64 - 1)
    assert (len(held), held.oldest_row) == (1, 1)
    assert held.drop(2**64)
    assert (len(held), held.oldest_row) == (0, None)
