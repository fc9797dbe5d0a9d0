"""Places on chip for indexes."""

from hypothesis import given
from hypothesis import strategies as st

from muntin.contract.registers import RUN_PLACES
from muntin.host.fpga.lane_runs import IndexSlots


def test_an_index_stays_until_its_room_is_needed():
    slots = IndexSlots(10)
    assert slots.place("a", 4) == (0, 0, False)
    assert slots.place("b", 4) == (1, 4, False)
    assert slots.place("a", 4) == (0, 0, True)
    assert slots.place("c", 4) == (1, 4, False)  # b was used longest ago
    assert slots.place("a", 4) == (0, 0, True)
    assert slots.place("d", 4, keep=["c"]) == (0, 0, False)
    assert slots.place("e", 4, keep=["c", "d"]) is None
    assert slots.place("b", 10)[1:] == (0, False)
    assert slots.place("a", 4)[2] is False


def test_a_run_that_is_gone_gives_its_place_back():
    slots = IndexSlots(4)
    slots.place("a", 4)
    slots.forget("a")
    slots.forget("never there")
    assert slots.place("b", 2) == (0, 0, False)
    assert slots.place("a", 2) == (1, 2, False)


def test_there_are_no_more_runs_than_places():
    slots = IndexSlots(1000)
    places = {slots.place(run, 1)[0] for run in range(RUN_PLACES)}
    assert places == set(range(RUN_PLACES))
    assert slots.place("one more", 1)[0] == 0
    assert slots.place(0, 1)[2] is False


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=60))
def test_no_two_indexes_overlap(steps):
    slots, held = IndexSlots(16), {}
    for run, gone in steps:
        entries = run + 1
        if gone:
            slots.forget(run)
            held.pop(run, None)
            continue
        place, start, there = slots.place(run, entries)
        assert not there or held[run] == (place, start)
        assert 0 <= start <= 16 - entries
        if not there:
            held = {
                other: (number, at)
                for other, (number, at) in held.items()
                if number != place and (at + other + 1 <= start or start + entries <= at)
            }
            held[run] = place, start
