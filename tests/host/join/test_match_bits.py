"""Which rows wait for a partner, against a list of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import Band, Rows, WindowJoin
from muntin.host.call import Batch, distinct
from muntin.host.join import match_bits
from muntin.host.join.match_bits import MatchBits


@pytest.mark.parametrize("window", ["count", "time"])
@pytest.mark.parametrize("placed", [False, True])
@settings(max_examples=25)
@given(
    seed=st.integers(0, 1 << 32),
    first=st.sampled_from([0, 7, 1 << 40]),
    sizes=st.lists(st.sampled_from([0, 1, 2, 30, 300, 900]), min_size=1, max_size=12),
    share=st.sampled_from([0, 0.5, 0.95, 1]),
)
def test_as_a_list(window: str, placed: bool, seed: int, first: int, sizes: list[int], share: float) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 1500)) if window == "count" else None
    bits = MatchBits(first, count, placed)
    bits.followed = []
    waiting: dict[int, tuple[int, int]] = {}  # row: its time and place
    matched: set[int] = set()
    newest, meanwhile, limit, most = first, 0, -1, 0
    for size in sizes:
        rows = np.arange(newest, newest + size)
        newest += size
        times = rng.integers(limit + 1, limit + 50, size)
        other_position = np.sort(rng.integers(meanwhile, meanwhile + 10, size))
        meanwhile += 10
        keyed = rng.random(size) < 0.9  # rows without a key wait for nothing
        most = max(most, newest - bits.oldest)
        batch = Batch(rows[keyed], rows[keyed], other_position[keyed], times[keyed])
        bits.add(batch, other_position)
        places = rows + other_position if placed else rows
        waiting |= {row: (time, place) for row, time, place in zip(
            rows[keyed].tolist(), times[keyed].tolist(), places[keyed].tolist(), strict=True)}  # fmt: skip
        assert bits.waiting == len(waiting)

        meet = rng.permutation([row for row in [*waiting, *matched] if rng.random() < share]).astype(np.int64)
        meet = np.concatenate([meet, meet[: len(meet) // 3]])
        known = set(waiting) & set(meet.tolist())
        bits.followed.clear()
        if rng.random() < 0.5:
            entries = bits.match_first(meet)
            assert sorted(meet[entries].tolist()) == sorted(known)
            assert entries.tolist() == sorted(
                {row: at for at, row in reversed(list(enumerate(meet.tolist()))) if row in known}.values()
            )
        else:
            bits.match(meet)
        assert sorted(np.concatenate(bits.followed).tolist()) == sorted(known)
        waiting = {row: held for row, held in waiting.items() if row not in known}
        matched |= known

        limit = limit + int(rng.integers(0, 40)) if count is None else limit
        gone, at = bits.expire(batch, limit if limit >= 0 else None)
        expected = {
            row: held for row, held in waiting.items()
            if (row < newest - count if count is not None else held[0] <= limit)
        }  # fmt: skip
        assert dict(zip(gone.tolist(), at.tolist(), strict=True)) == {
            row: place for row, (_, place) in expected.items()
        }
        assert gone.tolist() == sorted(gone.tolist())
        waiting = {row: held for row, held in waiting.items() if row not in expected}
        assert (bits.waiting, bits.oldest) == (len(waiting), min(waiting, default=newest))
        assert len(waiting) <= bits.nbytes
        if window == "count":
            assert bits.nbytes <= (9 if placed else 1) * max(1024, 2 * most)
    rest, _ = bits.rest()
    assert rest.tolist() == sorted(waiting)


def test_rows_that_matched_are_gathered_for_a_state_alone(tmp_path, monkeypatch) -> None:
    gathered = []
    monkeypatch.setattr(match_bits, "distinct", lambda rows: gathered.append(len(rows)) or distinct(rows))
    batch = pa.table({"k": [1, 2, 3]})
    for state, times in ((None, 0), (tmp_path, 3)):
        gathered.clear()
        with WindowJoin(on=Band("k", "k", 0, 0), how="left", left=Rows(9), right=Rows(3), state=state) as join:
            for number in range(3):
                join.process(pa.concat_tables([batch, batch]), batch, **({"batch": number} if state else {}))
        assert len(gathered) == times
