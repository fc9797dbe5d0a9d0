"""Every device against plain NumPy, command by command."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from muntin.host.engine.run_store import Limits
from muntin.host.errors import CapacityError

BEYOND = 1 << 40  # arrival numbers have 64 bits


@pytest.fixture
def device(device):
    """A device that has stores."""
    if "sorted_runs" not in device.indexes or device.info.kind == "cpu":
        pytest.skip(f"device {device.info.name} keeps no runs")
    return device


class Shadow:
    """A store beside which a list of (key, row) per run is kept."""

    def __init__(self, device, key_bits, rows, rng):
        self.store = device.open_store(key_bits=key_bits, rows=rows, what="the test's window")
        self.runs = []  # (Run, keys, rows)
        self.rng = rng
        self.first_row = self.next_row = (1 << 33) - int(rng.integers(0, 2000))  # low words start again on the way

    def load(self, keys):
        rows = ((self.next_row + np.arange(len(keys))) & 0xFFFFFFFF).astype(np.uint32)
        self.next_row += len(keys)
        order = np.argsort(keys, kind="stable")
        keys, rows = keys[order].astype(self.store.key_dtype), rows[order]
        self.runs.append((self.store.load(keys, rows), keys, rows))

    def merge(self, at):
        (a, keys_a, rows_a), (b, keys_b, rows_b) = self.runs.pop(at), self.runs.pop(at)
        self.runs.insert(
            at, (self.store.merge(a, b), np.concatenate([keys_a, keys_b]), np.concatenate([rows_a, rows_b]))
        )

    def drop(self, at):
        self.store.drop(self.runs.pop(at)[0])

    def check(self, lower, upper, limits=None):
        lower, upper = lower.astype(self.store.key_dtype), upper.astype(self.store.key_dtype)
        probe = self.store.probe([run for run, _, _ in self.runs], lower, upper)
        expected, everywhere = [], []  # and with limits on all runs
        for at, (run, keys, rows) in enumerate(self.runs):
            assert run.length == len(keys)
            which, place = np.nonzero((lower[:, None] <= keys) & (keys <= upper[:, None]))
            found = rows[place]
            inside = np.ones(len(found), bool)
            if limits is not None:
                inside = (found - limits.first[which]) < limits.span[which]
            found = self.first_row + (found - np.uint32(self.first_row & 0xFFFFFFFF)).astype(np.int64)
            pairs = list(zip((which + BEYOND).tolist(), found.tolist(), strict=True))
            kept = [pair for pair, good in zip(pairs, inside.tolist(), strict=True) if good]
            expected += kept if limits is not None and limits.runs[at] else pairs
            everywhere += kept
        numbers = np.arange(BEYOND, BEYOND + len(lower))
        got = [
            pair
            for probing, stored in self.store.gather(probe, numbers, self.first_row, limits)
            for pair in zip(probing.tolist(), stored.tolist(), strict=True)
        ]
        assert sorted(got) == sorted(expected)
        counts = (
            np.bincount([p - BEYOND for p, _ in expected], minlength=len(lower)) if expected else np.zeros(len(lower))
        )
        assert self.store.count(probe, limits).tolist() == counts.tolist()
        runs = [run for run, _, _ in self.runs]
        held = None if limits is None else replace(limits, runs=np.ones_like(limits.runs))
        got = [
            pair
            for probing, stored in self.store.probe_pairs(runs, lower, upper, numbers, self.first_row, held)
            for pair in zip(probing.tolist(), stored.tolist(), strict=True)
        ]
        assert sorted(got) == sorted(everywhere)
        assert self.store.probe_counts(runs, lower, upper, limits).tolist() == counts.tolist()
        if limits is None:
            assert probe.candidates == len(expected)


def keys_of(kind, n, bits, rng):
    info = np.iinfo(np.int32 if bits == 32 else np.int64)
    if kind == "extremes":
        return rng.choice([info.min, info.min + 1, -1, 0, 1, info.max - 1, info.max], n)
    if kind == "equal":
        return np.full(n, info.max)
    return rng.integers(-50, 50, n)


@pytest.mark.parametrize("kind", ["random", "equal", "extremes"])
@pytest.mark.parametrize("key_bits", [32, 64])
def test_commands(device, key_bits, kind, seed):
    rng = np.random.default_rng([seed, key_bits, len(kind)])
    shadow = Shadow(device, key_bits, 8192, rng)
    try:
        for _ in range(10 if device.info.name == "sim:bisort-fast" else 20):
            action = rng.integers(0, 5)
            if action == 0 and len(shadow.runs) > 1:
                shadow.merge(int(rng.integers(0, len(shadow.runs) - 1)))
            elif action == 1 and len(shadow.runs) > 4:
                shadow.drop(int(rng.integers(0, len(shadow.runs))))
            elif sum(r.length for r, _, _ in shadow.runs) < 2500:
                shadow.load(keys_of(kind, int(rng.choice([1, 2, 31, 32, 33, 64, 200])), key_bits, rng))
            if not shadow.runs:
                continue
            n = int(rng.choice([1, 63, 64, 65, 130]))
            ends = np.sort(np.stack([keys_of(kind, n, key_bits, rng) for _ in range(2)]), axis=0)
            lower, upper = np.sort(ends[0]), np.sort(ends[1])
            limits = None
            if rng.integers(0, 2):
                first = ((shadow.next_row - rng.integers(0, 400, n)) & 0xFFFFFFFF).astype(np.uint32)
                limits = Limits(
                    first, rng.integers(0, 300, n).astype(np.uint32), rng.integers(0, 2, len(shadow.runs)) == 1
                )
            shadow.check(lower, upper, limits)
    finally:
        shadow.store.close()
        shadow.store.close()


def test_merges_longer_than_one_work_item(device, seed):
    rng = np.random.default_rng(seed)
    shadow = Shadow(device, 32, 40_000, rng)
    shadow.load(rng.integers(0, 100, 5000))
    for n in (4096, 1023, 1025, 32):
        shadow.load(rng.integers(0, 100, n))
        shadow.merge(0)
    shadow.check(np.arange(40), np.arange(40) + 1)
    shadow.store.close()


def test_more_pairs_than_one_block(device):
    store = device.open_store(key_bits=32, rows=8192, what="the test's window")
    run = store.load(np.zeros(4000, np.int32), np.arange(4000, dtype=np.uint32))
    probe = store.probe([run], np.zeros(300, np.int32), np.zeros(300, np.int32))
    assert probe.candidates == 1_200_000
    blocks = list(store.gather(probe, np.arange(300), 0))
    assert len(blocks) > 1 or device.info.kind == "numpy"
    pairs = np.concatenate([probing * 4000 + stored for probing, stored in blocks])
    assert np.array_equal(np.sort(pairs), np.arange(1_200_000))
    store.close()


def test_grow_keeps_the_runs_and_fragments_are_moved_together(device, seed):
    rng = np.random.default_rng(seed)
    shadow = Shadow(device, 64, 1024, rng)
    for _ in range(8):
        shadow.load(rng.integers(0, 100, 128))
    shadow.store.grow(4096)
    for _ in range(16):
        shadow.load(rng.integers(0, 100, 128))
    for at in (22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0):
        shadow.drop(at)  # every other run: what is free now lies in small pieces
    for _ in range(3):
        shadow.load(rng.integers(0, 100, 800))
    shadow.check(np.arange(100), np.arange(100))
    shadow.store.close()


def test_what_does_not_fit_is_refused(device):
    store = device.open_store(key_bits=32, rows=100, what="the test's window")
    used = device.used_bytes
    with pytest.raises(CapacityError, match="the test's window"):
        store.load(np.zeros(1 << 20, np.int32), np.zeros(1 << 20, np.uint32))
    with pytest.raises(CapacityError) as refused:
        store.grow(1 << 45)
    assert refused.value.needed > refused.value.available
    assert device.used_bytes == used
    run = store.load(np.zeros(100, np.int32), np.zeros(100, np.uint32))
    assert run.length == 100
    store.close()
    assert device.used_bytes < used


@pytest.mark.parametrize("runs", [1, 500])
@pytest.mark.parametrize("rows", [1, 1000, 100_000])
@pytest.mark.parametrize("key_bits", [32, 64])
def test_room_is_what_a_store_takes(device, key_bits, rows, runs):
    asked = {"key_bits": key_bits, "rows": rows, "runs": runs, "what": "the test's window"}
    before = device.used_bytes
    room = device.room(**asked)
    with closing(device.trial().open_store(**asked)):
        assert device.used_bytes == before
    with closing(device.open_store(**asked)) as store:
        assert (room.nbytes, room.max_run_rows) == (device.used_bytes - before, store.max_run_rows)


def test_trial_refuses_what_an_empty_device_could_not_hold(device):
    rows = device.memory_bytes // 11  # of 12 bytes at least
    with pytest.raises(CapacityError) as refused:
        device.trial().open_store(key_bits=64, rows=rows, what="the test's window")
    assert refused.value.needed > refused.value.available
