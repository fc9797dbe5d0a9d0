"""The index engine with a residual condition beside the time window."""

import numpy as np
import pyarrow as pa
import pytest

from muntin.host.call import Batch, Call, Counts, Want
from muntin.host.devices.numpy_device import NumpyDevice
from muntin.host.engine.engine import EngineSpec
from muntin.host.engine.index_engine import IndexEngine
from muntin.host.engine.residual import Residual
from muntin.host.engine.sorted_runs import RunWindow
from muntin.host.index import SortedRuns
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.keys.key_type import key_type
from muntin.host.predicates import Band


class NotFarApart(Residual):
    """The numbers of the two rows differ by less than 100, and by an even number."""

    def __init__(self):
        self.asked = self.pruned = 0
        self.known = {"left": [], "right": []}
        self.trimmed = {}

    def put(self, side, batch):
        self.known[side] += batch.rows.tolist()

    def holds(self, side, probing, stored):
        if stored.last_row <= probing.first_row - 100 or stored.first_row >= probing.last_row + 100:
            self.pruned += 1
            return False
        return None

    def keep(self, side, probing, stored):
        assert set(probing.tolist()) <= set(self.known[side])
        self.asked += len(probing)
        apart = np.abs(probing - stored)
        return (apart < 100) & (apart % 2 == 0)

    def trim(self, side, oldest):
        self.trimmed[side] = oldest


@pytest.mark.parametrize("counting", [False, True])
@pytest.mark.parametrize("within", [None, (-40, 60)])
def test_a_residual_condition(within, counting, seed):
    rng = np.random.default_rng(seed)
    kind = key_type(pa.int64(), "k")
    generator = BoundaryGenerator(Band("k", "k", -3, 5), kind, kind)
    spec = EngineSpec(None if within else {"left": 400, "right": 250}, within)
    device, residual = NumpyDevice(), NotFarApart()
    engine = IndexEngine(
        spec,
        generator,
        lambda side, count, step: RunWindow(device.open_store, SortedRuns(), spec, side, count, 64, step),
        [residual],
    )
    keys = {side: rng.integers(0, 30, 900) for side in ("left", "right")}
    times = {side: np.arange(900) // 3 for side in keys}
    found = []
    for first in range(0, 900, 45):
        rows = np.arange(first, first + 45)
        other_position = {"left": np.full(45, first), "right": np.full(45, first + 45)}
        batches = {
            side: Batch(keys[side][rows], rows, other_position[side], times[side][rows] if within else None)
            for side in keys
        }
        arrived, want = dict.fromkeys(keys, first + 45), Want.COUNTS if counting else Want.PAIRS
        call = Call(batches=batches, other_position=other_position, arrived=arrived, want=want)
        for part in engine.run(engine.admit(call)):
            if counting:
                assert isinstance(part, Counts)
                found += [(part.side, row) for row, n in zip(part.probing, part.counts, strict=True) for _ in range(n)]
            else:
                found += [(part.side, *pair) for pair in zip(part.probing.tolist(), part.stored.tolist(), strict=True)]
        if within:
            engine.expire({"left": first // 3 - 80, "right": None})
    due = []
    for a in range(900):
        for b in range(900):
            apart = times["right"][b] - times["left"][a]
            if not -3 <= keys["right"][b] - keys["left"][a] <= 5 or abs(a - b) >= 100 or (a - b) % 2:
                continue
            side, probing, stored = ("right", b, a) if a // 45 <= b // 45 else ("left", a, b)
            if within:
                inside = within[0] <= apart <= within[1]
            else:
                before = b // 45 * 45 + 45 if side == "right" else a // 45 * 45
                inside = stored >= before - spec.counts["left" if side == "right" else "right"]
            if inside:
                due.append((side, probing) if counting else (side, probing, stored))
    assert len(due) > 1000
    assert sorted(found) == sorted(due)
    assert residual.asked > 0
    assert residual.pruned > 0
    if within:
        assert residual.trimmed["left"] > 0
    engine.close()
    assert device.used_bytes == 0
