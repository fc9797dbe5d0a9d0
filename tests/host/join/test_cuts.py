"""Calls cut along the total order of arrival."""

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from muntin import Band, Rows, WindowJoin
from muntin.host.call import Batch, Call
from muntin.host.engine.native_engine import NativeEngine
from muntin.host.engine.pacer import cut_pairs, cut_steps
from muntin.host.sides import SIDES


def call(rng: np.random.Generator, counts: dict[str, int], *, alike: bool) -> Call:
    """Rows of both sides, interleaved at random, or left before right, of which some can match nothing."""
    order = np.repeat([0, 1], list(counts.values()))
    if not alike:
        rng.shuffle(order)
    batches, positions = {}, {}
    for number, side in enumerate(SIDES):
        own = np.flatnonzero(order == number)
        rows = np.arange(len(own), dtype=np.int64) + 1000
        positions[side] = own - np.arange(len(own)) + 500
        kept = np.flatnonzero(rng.random(len(own)) < 0.8)
        batches[side] = Batch(rows[kept].astype(np.int32), rows[kept], positions[side][kept])
    arrived = {side: 1000 + len(of) for side, of in positions.items()}
    return Call(batches=batches, other_position=positions, arrived=arrived)


def in_order(call: Call) -> list[tuple[int, str, int]]:
    found = [
        (int(p), side, int(r))
        for side, b in call.batches.items()
        for p, r in zip(b.rows + b.other_position, b.rows, strict=True)
    ]
    return sorted(found)


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("counts", [(300, 200), (0, 120), (120, 0), (0, 0)])
def test_parts_are_as_long_as_they_may_be(seed: int, alike: bool, counts: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    whole = call(rng, dict(zip(SIDES, counts, strict=True)), alike=alike)
    batches = whole.batches
    pairs = {side: rng.integers(0, 9, len(batch)) for side, batch in batches.items()}
    pairs["left"][:1] = 100  # more than a part may have
    of = {(side, int(row)): int(n) for side in SIDES for row, n in zip(batches[side].rows, pairs[side], strict=True)}
    for most, parts, weight in (
        (70, list(cut_steps(whole, 70)), lambda row: 1),
        (40, list(cut_pairs(whole, pairs, 40)), lambda row: of[row[1:]]),
    ):
        rows = [in_order(part) for part in parts]
        for side in SIDES:  # the parts have all rows, each those around its own
            assert [part.first[side] for part in parts[1:]] == [part.arrived[side] for part in parts[:-1]]
            assert np.array_equal(np.concatenate([p.other_position[side] for p in parts]), whole.other_position[side])
            assert all(part.first[side] <= r < part.arrived[side] for part in parts for r in part.batches[side].rows)
        assert [row for part in rows for row in part] == in_order(whole)
        for part, following in zip(rows, [*rows[1:], []], strict=True):
            amount = sum(map(weight, part))
            assert amount <= most or len(part) == 1
            assert not following or amount + weight(following[0]) > most


def test_parts_of_a_call_are_seldom_joined_again(seed: int) -> None:
    """Where keys are uniform, what matched before tells how many pairs a part finds."""
    rng, again = np.random.default_rng(seed), []
    step = NativeEngine._step

    def counted(engine: NativeEngine, part: Call, most: int | None, **options: bool) -> tuple:
        again.append(most is None)
        return step(engine, part, most, **options)

    with WindowJoin(on=Band("a", "b", -8, 8), left=Rows(20_000), right=Rows(20_000), device="cpu") as join:
        for _ in range(3):
            sides = [pa.table({name: rng.integers(0, 20_000, 20_000).astype(np.int32)}) for name in "ab"]
            again.clear()
            with mock.patch.object(NativeEngine, "_step", counted):
                tables = list(join.process_blocks(*sides, block_bytes=1 << 19))
    assert sum(map(len, tables)) > 500_000
    assert len(again) > 10
    assert not any(again)
    full = [len(each) for each in tables if len(each)]
    assert len(set(full[:-1])) == 1  # all but the last are full
