"""Places for indexes on chip."""

from hypothesis import given
from hypothesis import strategies as st

from muntin.host.fpga.bisort_lane import IndexSlots


def test_an_index_stays_until_its_room_is_needed():
    slots = IndexSlots(10)
    assert slots.place("a", 4) == (0, False)
    assert slots.place("b", 4) == (4, False)
    assert slots.place("a", 4) == (0, True)
    assert slots.place("c", 4) == (4, False)  # b was used longest ago
    assert slots.place("a", 4) == (0, True)
    assert slots.place("b", 10) == (0, False)
    assert slots.place("a", 4)[1] is False


def test_a_run_that_is_gone_gives_its_place_back():
    slots = IndexSlots(4)
    slots.place("a", 4)
    slots.forget("a")
    slots.forget("never there")
    assert slots.place("b", 2) == (0, False)
    assert slots.place("a", 2) == (2, False)


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=60))
def test_no_two_indexes_overlap(steps):
    slots, held = IndexSlots(16), {}
    for run, gone in steps:
        entries = run + 1
        if gone:
            slots.forget(run)
            held.pop(run, None)
            continue
        start, there = slots.place(run, entries)
        assert not there or held[run] == start
        assert 0 <= start <= 16 - entries
        if not there:
            held = {other: at for other, at in held.items() if at + other + 1 <= start or start + entries <= at}
            held[run] = start
