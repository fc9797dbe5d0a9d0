import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.engine.run_policy import FlatPolicy, LadderPolicy, open_policy
from host.errors import WindowError


def play(policy, batches):
    """Lengths of the runs after each batch, and rows moved by merges."""
    runs, moved = [], 0
    for rows in batches:
        runs.append(rows)
        for _ in range(policy.merges(runs) - 1):
            newer, older = runs.pop(), runs.pop()
            runs.append(older + newer)
            moved += older + newer
    return runs, moved


def test_flat_buffers_small_batches_and_merges_large_ones():
    policy = FlatPolicy(buffer_rows=1000)
    assert play(policy, [5000])[0] == [5000]
    assert play(policy, [5000, 400])[0] == [5000, 400]
    assert play(policy, [5000, 400, 400])[0] == [5000, 800]
    assert play(policy, [5000, 400, 400, 400])[0] == [6200]
    assert play(policy, [5000, 1000])[0] == [6000]


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=200))
def test_a_ladder_has_one_run_per_size_class(batches):
    policy = LadderPolicy(growth=8, base_rows=16)
    runs, _ = play(policy, batches)
    assert sum(runs) == sum(batches)
    rungs = [policy._rung(length) for length in runs]
    assert rungs == sorted(set(rungs), reverse=True)


def test_a_ladder_moves_far_fewer_rows_than_flat():
    batches = [4096] * 1024
    ladder, flat = play(LadderPolicy(), batches)[1], play(FlatPolicy(), batches)[1]
    assert flat > 20 * ladder


def test_unknown_policy():
    with pytest.raises(WindowError, match="ladder"):
        open_policy("tree")
