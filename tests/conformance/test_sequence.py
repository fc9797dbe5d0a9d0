"""The sequence column decides the arrival order."""

import datetime as dt

import pyarrow as pa
import pytest

from muntin import AllOf, Compare, Rows, WindowJoin
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


@pytest.mark.parametrize("year", [1, 1969, 2020, 2040, 2200])
@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()], ids=str)
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("dates", ["left", "right"])
def test_sequences_of_dates_and_timestamps(year, kind, unit, dates, device):
    days = [dt.date(year, 1, day) for day in (1, 3, 5)]
    times = [dt.datetime(year, 1, day, hour) for day, hour in ((1, 0), (2, 7), (3, 0), (5, 1))]
    if unit == "ns" and year < 1678:
        pytest.skip("such times do not fit nanoseconds")
    sides = [pa.table({"q": pa.array(days, kind)}), pa.table({"q": pa.array(times, pa.timestamp(unit))})]
    rows = [[(when, 0, at) for at, when in enumerate(map(_midnight, days))], [(t, 1, at) for at, t in enumerate(times)]]
    if dates == "right":
        sides.reverse()
        rows = [[(when, 0, at) for when, _, at in rows[1]], [(when, 1, at) for when, _, at in rows[0]]]
    due, last = [], [None, None]
    for _, side, at in sorted([*rows[0], *rows[1]]):
        if last[1 - side] is not None:
            due.append((last[0], at) if side else (at, last[1]))
        last[side] = at
    with WindowJoin(on=AllOf(), left=Rows(1), right=Rows(1), sequence="q", form="pairs", device=device) as join:
        assert sorted(pairs_of(join.process(*sides))) == sorted(due)


def _midnight(day):
    return dt.datetime.combine(day, dt.time())


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
