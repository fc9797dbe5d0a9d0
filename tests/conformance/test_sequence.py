"""The sequence column decides the arrival order."""

import pyarrow as pa
import pytest

from muntin import Compare
from muntin.host import errors
from tests.conformance.small_joins import BOTTOM, TOP, agree, open_join, pairs_of, table
from tests.oracles.nested_loop import NestedLoop


def test_sequence_ties_and_unsorted_batches(index, device):
    left = table([1, 1, 1, 1], q=[7, 3, 5, 5])
    right = table([1, 1, 1, 1], q=[5, 3, 9, 5])
    assert agree(
        device,
        ("compare", "="),
        [left, left.slice(4)],
        [right, right.slice(4)],
        (2, 3),
        index=index,
        sequence="q",
    )


def test_a_later_call_may_repeat_the_last_sequence_value(device):
    calls = [table([1, 1], q=[1, 4]), table([1], q=[4])], [table([1], q=[4]), table([1], q=[4])]
    assert agree(device, ("compare", "="), *calls, sequence="q") == 6


@pytest.mark.parametrize("kind", [pa.int32(), pa.uint64(), pa.timestamp("us"), pa.timestamp("ns", "UTC")], ids=str)
def test_sequence_types(kind, device):
    def at(*values):
        return pa.array(values, pa.int64()).cast(kind)

    calls = [table([1, 1], q=at(30, 10)), table([1], q=at(40))], [table([1], q=at(20)), table([1], q=at(40))]
    if pa.types.is_timestamp(kind):
        calls = [[t.set_column(1, "q", t["q"].cast(pa.int64()).cast(kind)) for t in side] for side in calls]
        loop = NestedLoop(("compare", "="), "k", "k", rows=(100, 100), sequence="q")
        due = [[(p.left, p.right) for p in loop.process(*call)] for call in zip(*calls, strict=True)]
        with open_join(device, Compare("k", "=", "k"), sequence="q") as join:
            assert [pairs_of(join.process(*call)) for call in zip(*calls, strict=True)] == due
    else:
        assert agree(device, ("compare", "="), *calls, sequence="q")


def test_sequence_far_beyond_32_bits(device):
    calls = [table([1], q=[2**40]), table([1], q=[TOP])], [table([1], q=[BOTTOM]), table([1], q=[TOP])]
    assert agree(device, ("compare", "="), *calls, sequence="q") == 4


def test_sequences_of_two_units_compare_exactly(device):
    """Milliseconds on one side and microseconds on the other: ties are ties, and nothing is rounded into one."""

    def at(unit, *values):
        return pa.array(values, pa.int64()).cast(pa.timestamp(unit))

    calls = [table([1, 1], q=at("ms", 1, 3)), None], [table([1, 1, 1], q=at("us", 999, 1000, 2001)), None]
    try:
        assert agree(device, ("compare", "="), *calls, sequence="q") == 6
    except errors.KeyTypeError as error:
        assert "q" in str(error)  # noqa: PT017


def test_unsigned_sequences_beyond_int64(device):
    top = 2**64
    calls = (
        [table([1], q=pa.array([top - 1], pa.uint64())), table([1], q=pa.array([top - 1], pa.uint64()))],
        [table([1, 1], q=pa.array([2**63, 5], pa.uint64())), None],
    )
    try:
        assert agree(device, ("compare", "="), *calls, sequence="q") == 4
    except errors.MuntinError as error:
        assert "q" in str(error)  # noqa: PT017
