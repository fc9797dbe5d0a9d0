from hypothesis import given
from hypothesis import strategies as st

from muntin.host.memory import Arena


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 300))))
def test_ranges_never_overlap_and_all_comes_back(steps):
    arena = Arena(1024, 32)
    held: dict[int, int] = {}
    for takes, size in steps:
        if takes:
            start = arena.take(size)
            if start is None:
                continue
            assert start % 32 == 0
            assert start + arena.padded(size) <= arena.rows
            assert all(start + arena.padded(size) <= a or a + arena.padded(n) <= start for a, n in held.items())
            held[start] = size
        elif held:
            start = sorted(held)[size % len(held)]
            arena.give(start, held.pop(start))
        assert arena.free_rows == arena.rows - sum(arena.padded(n) for n in held.values())
    for start, size in held.items():
        arena.give(start, size)
    assert arena.take(arena.rows) == 0


def test_grown_room_joins_what_was_free():
    arena = Arena(64, 32)
    arena.take(32)
    arena.grow(128)
    assert arena.take(96) == 32
