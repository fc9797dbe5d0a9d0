"""The device over a board: each way a run can lie and a batch be cut, beside the plain device."""

import dataclasses
import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muntin import Band, Rows, WindowJoin, Within
from muntin.contract.designs.bisort import Parameters
from muntin.contract.registers import LANE_STRIDE, Operation
from muntin.host.devices.device import DeviceInfo
from muntin.host.devices.numpy_device import NumpyDevice
from muntin.host.engine.run_store import Limits
from muntin.host.errors import CapacityError, DeviceError, KernelError
from muntin.host.fpga.device import FpgaDevice
from muntin.sim.models.kernel import KernelModel
from muntin.sim.models.kernel_shell import LanedModel

SCRATCH = 2048  # 254 pairs, or 62 probes of 32 bits, at a time
MEMORY = 1 << 20


class Board(KernelModel):
    """A model that keeps what it was told to do."""

    def __init__(self, parameters, memory_bytes=MEMORY):
        self.commands = []
        self.closed = False
        super().__init__(parameters, memory_bytes)

    def _check(self, c):
        self.commands.append(c)
        super()._check(c)

    def close(self):
        self.closed = True

    def taken(self, operation, **flags):
        """How many such commands came, and forgets all."""
        found = [
            c for c in self.commands if c.operation == operation and all(getattr(c, n) == v for n, v in flags.items())
        ]
        self.commands.clear()
        return len(found)


class Boards(FpgaDevice):
    """A device over models, with so much memory a lane; `lanes_of` and `built` hold them, and the first lane of each,
    by width of key."""

    def __init__(self, memory_bytes=MEMORY, scratch_bytes=SCRATCH, **parameters):
        self.lanes_of = {}
        self.built = {}

        kernels = {
            str(bits): dataclasses.replace(Parameters.preset("tiny"), key_bits=bits, **parameters) for bits in (32, 64)
        }

        def link_for(builds):
            (kernel,) = builds.values()
            key_bits = kernel.key_bits
            link = LanedModel(kernel, kernel.lanes * memory_bytes, Board)
            self.lanes_of[key_bits] = link.lanes
            self.built[key_bits] = link.lanes[0]
            return link

        info = DeviceInfo("test", "sim", "boards of the test", memory_bytes - scratch_bytes)
        super().__init__(info, kernels, link_for, scratch_bytes=scratch_bytes)


def sorted_rows(rng, count, first, bits=32, spread=60):
    keys = np.sort(rng.integers(-spread, spread + 1, count)).astype(np.int32 if bits == 32 else np.int64)
    return keys, rng.permutation(np.arange(first, first + count)).astype(np.uint32)


class Pair:
    """One store on the device under test and one on the plain one, given the same commands."""

    def __init__(self, device, key_bits=32, rows=4096):
        plain = NumpyDevice()
        self.stores = [
            store.open_store(key_bits=key_bits, rows=room, what="the test's window")
            for store, room in ((device, rows), (plain, 100_000))
        ]
        self.key_bits = key_bits
        self.runs = []
        self.next_row = 0

    def load(self, rng, count, **more):
        keys, rows = sorted_rows(rng, count, self.next_row, self.key_bits, **more)
        self.next_row += count
        self.runs.append([store.load(keys, rows) for store in self.stores])

    def merge(self, at):
        older, newer = self.runs.pop(at), self.runs.pop(at)
        self.runs.insert(at, [s.merge(a, b) for s, a, b in zip(self.stores, older, newer, strict=True)])

    def drop(self, at):
        for store, run in zip(self.stores, self.runs.pop(at), strict=True):
            store.drop(run)

    def check(self, rng, probes=20, limited=None, wide=3, spread=60, direct=False):
        """Both answer alike: candidates, pairs, counts."""
        if not self.runs:
            return
        lower = np.sort(rng.integers(-spread, spread, probes)).astype(self.stores[0].key_dtype)
        upper = np.sort(lower + rng.integers(0, wide + 1, probes)).astype(lower.dtype)
        limits = None
        if limited is not None:
            first = rng.integers(0, self.next_row + 1, probes).astype(np.uint32)
            limits = Limits(first, rng.integers(0, 200, probes).astype(np.uint32), np.resize(limited, len(self.runs)))
        answers = []
        for at, store in enumerate(self.stores):
            probe = store.probe([pair[at] for pair in self.runs], lower, upper)
            pairs = [np.stack(block, axis=1) for block in store.gather(probe, np.arange(probes) + 7, 0, limits)]
            pairs = np.concatenate(pairs) if pairs else np.zeros((0, 2), np.int64)
            pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
            answers.append((probe.candidates, pairs.tolist(), store.count(probe, limits).tolist()))
            if not direct:
                continue
            # Without ranges in between; limits hold in all runs there.
            runs = [pair[at] for pair in self.runs]
            held = limits and Limits(limits.first, limits.span, np.ones_like(limits.runs))
            blocks = store.probe_pairs(runs, lower, upper, np.arange(probes), 0, held)
            pairs = np.concatenate([np.zeros((0, 2), np.int64), *(np.stack(block, axis=1) for block in blocks)])
            pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
            counts = store.probe_counts(runs, lower, upper, limits).tolist()
            assert counts == answers[-1][2]
            answers[-1] += (pairs.tolist(), counts)
        assert answers[0] == answers[1]

    def close(self):
        for store in self.stores:
            store.close()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["load", "load", "load", "merge", "merge", "drop", "check", "check"]),
        st.sampled_from([1, 2, 3, 7, 8, 9, 15, 16, 17, 64, 150]),
        st.integers(0, 5),
    ),
    max_size=25,
)


@settings(max_examples=60)
@example([("load", 3, 0), ("load", 5, 0), ("merge", 1, 0), ("load", 9, 0), ("merge", 1, 0), ("check", 64, 1)])
@given(STEPS)
@pytest.mark.parametrize(("channels", "lanes"), [(1, 1), (2, 1), (1, 2), (2, 4)])
@pytest.mark.parametrize("key_bits", [32, 64])
def test_as_the_plain_device(key_bits, channels, lanes, seed, steps):
    device = Boards(channels=channels, lanes=lanes)
    rng = np.random.default_rng(seed)
    pairs = [Pair(device, key_bits) for _ in range(2)]  # two stores on a board
    for number, (step, count, at) in enumerate(steps):
        pair = pairs[number % 5 == 0]
        if step == "load" and len(pair.runs) < 6:
            pair.load(rng, count)
        elif step == "merge" and len(pair.runs) > 1:
            pair.merge(at % (len(pair.runs) - 1))
        elif step == "drop" and pair.runs:
            pair.drop(at % len(pair.runs))
        elif step == "check":
            limited = [None, [False], [True], [True, False], [False, True], [True]][at]
            pair.check(rng, count, limited, direct=True)
    for pair in pairs:
        pair.check(rng)
        pair.close()
    assert device.used_bytes == 0
    assert all(arena.free_rows == arena.rows for lane in device.open_board(key_bits).lanes for arena in lane.arenas)


@pytest.mark.parametrize("channels", [1, 2])
def test_batches_larger_than_the_scratch_memory(channels, seed):
    rng = np.random.default_rng(seed)
    device = Boards(channels=channels)
    pair = Pair(device)
    for count in (600, 300, 40, 3):
        pair.load(rng, count, spread=5)
    board = device.built[32]
    board.commands.clear()
    pair.check(rng, 500, [True, False], wide=2, spread=5)
    probes, gathers = (
        len([c for c in board.commands if c.operation == o]) for o in (Operation.PROBE, Operation.GATHER)
    )
    assert probes >= 500 // 62
    assert gathers > 100
    assert max(c.length_b for c in board.commands if c.operation == Operation.COUNT) < 500
    pair.check(rng, 500, [True, False], wide=2, spread=5, direct=True)
    pair.close()


def test_a_range_longer_than_the_scratch_memory():
    device = Boards()
    store = device.open_store(key_bits=32, rows=1000, what="the test's window")
    run = store.load(np.zeros(1000, np.int32), np.arange(1000, dtype=np.uint32))
    probe = store.probe([run], np.zeros(2, np.int32), np.zeros(2, np.int32))
    blocks = list(store.gather(probe, np.array([10, 20]), 0))
    assert max(len(stored) for _, stored in blocks) <= SCRATCH // 8
    for number in (10, 20):
        assert np.concatenate([stored[probing == number] for probing, stored in blocks]).tolist() == list(range(1000))
    blocks = list(store.probe_pairs([run], np.zeros(2, np.int32), np.zeros(2, np.int32), np.array([10, 20]), 0))
    for number in (10, 20):
        assert np.concatenate([stored[probing == number] for probing, stored in blocks]).tolist() == list(range(1000))
    store.close()


def test_small_runs_live_in_the_insertion_buffer(seed):
    rng = np.random.default_rng(seed)
    device = Boards()
    pair = Pair(device)
    pair.load(rng, 100)
    board = device.built[32]
    lane = device.open_board(32).lanes[0]
    free = lane.arenas[0].free_rows
    pair.load(rng, 3)
    assert board.taken(Operation.INSERT) == 1
    assert lane.arenas[0].free_rows == free
    assert [lane.buffered] == pair.runs[1][0].handle.parts
    pair.check(rng)
    assert board.taken(Operation.PROBE, buffer=True) == 1
    pair.load(rng, 5)  # no room while another run is there
    assert board.taken(Operation.INSERT) == 0
    pair.merge(1)
    assert board.taken(Operation.INSERT) == 1, "a newer run is added while it fits"
    pair.check(rng, limited=[True])
    assert board.taken(Operation.GATHER, buffer=True) == 1
    pair.check(rng, limited=[True])
    assert board.taken(Operation.COUNT, buffer=True) == 1
    pair.load(rng, 1)
    pair.merge(1)
    assert board.taken(Operation.MERGE, buffer=True) == 1, "and merged when it does not"
    pair.load(rng, 4)
    pair.check(rng)
    pair.merge(1)
    assert board.taken(Operation.MERGE, buffer=True) == 1
    pair.load(rng, 8)
    pair.drop(2)
    pair.load(rng, 8)
    assert board.taken(Operation.DISCARD) == 1, "what was dropped goes when the room is needed"
    pair.check(rng)
    pair.load(rng, 2)
    pair.merge(2)
    pair.check(rng)
    pair.close()


def test_a_closed_store_leaves_the_buffer(seed):
    rng = np.random.default_rng(seed)
    device = Boards()
    first, second = Pair(device), Pair(device)
    first.load(rng, 4)
    first.close()
    first.close()
    second.load(rng, 8)
    assert [device.open_board(32).lanes[0].buffered] == second.runs[0][0].handle.parts
    second.check(rng)
    second.close()


def test_the_index_on_chip_is_used_again(seed):
    rng = np.random.default_rng(seed)
    device = Boards()
    pair = Pair(device)
    pair.load(rng, 100)
    pair.load(rng, 50)
    board = device.built[32]
    pair.check(rng)
    assert board.taken(Operation.INDEX) == 2
    pair.check(rng)
    assert [c.operation for c in board.commands].count(Operation.PROBE) == 1, "of both runs"
    assert board.taken(Operation.INDEX) == 0
    pair.drop(1)
    pair.check(rng, 200)
    assert board.taken(Operation.INDEX) == 0
    pair.close()


def test_merges_go_to_the_other_channel(seed):
    rng = np.random.default_rng(seed)
    device = Boards(channels=2, buffer_rows=2)
    pair = Pair(device, rows=2000)
    pair.load(rng, 100)
    for _ in range(4):
        before = pair.runs[0][0].handle.parts[0].channel
        pair.load(rng, 100)
        pair.merge(0)
        assert pair.runs[0][0].handle.parts[0].channel != before
    pair.check(rng)
    pair.close()


@pytest.mark.parametrize("channels", [1, 2])
def test_fragments_are_moved_together(channels, seed):
    rng = np.random.default_rng(seed)
    device = Boards(memory_bytes=24 << 10, channels=channels)
    pair = Pair(device, rows=490)
    for _ in range(52):
        pair.load(rng, int(rng.integers(33, 49)))
    assert sum(arena.free_rows for arena in device.open_board(32).lanes[0].arenas) < 10
    for at in range(len(pair.runs) - 1, 0, -1):  # the channels take turns
        if at // 2 % 2:
            pair.drop(at)
    device.built[32].commands.clear()
    pair.load(rng, 300 if channels == 1 else 150)
    assert device.built[32].taken(Operation.COPY)
    pair.check(rng)
    pair.close()


def test_what_does_not_fit_is_refused(seed):
    rng = np.random.default_rng(seed)
    device = Boards(memory_bytes=64 << 10)
    with pytest.raises(CapacityError, match="the left window needs") as refused:
        device.open_store(key_bits=32, rows=10_000, what="the left window")
    assert refused.value.needed > refused.value.available
    pair = Pair(device, rows=1500)
    pair.load(rng, 1000)
    pair.load(rng, 25)
    with pytest.raises(
        CapacityError, match="a run of 1025 rows is longer than device test takes, which is 1024"
    ) as refused:
        pair.stores[0].merge(pair.runs[0][0], pair.runs[1][0])
    assert (refused.value.needed, refused.value.available) == (1025, 1024)
    pair.check(rng)
    keys, rows = sorted_rows(rng, 1024, 0)
    for _ in range(2):
        pair.stores[0].load(keys, rows)
    with pytest.raises(CapacityError, match="the test's window has"):
        pair.stores[0].load(keys, rows)
    pair.stores[0].grow(3000)
    with pytest.raises(CapacityError, match="the test's window needs"):
        pair.stores[0].grow(30_000)
    pair.check(rng)
    pair.close()


def test_a_run_that_fits_no_channel():
    device = Boards(memory_bytes=24 << 10, channels=2)
    store = device.open_store(key_bits=32, rows=10, what="the test's window")
    for _ in range(2):  # one on each channel
        store.load(np.zeros(500, np.int32), np.arange(500, dtype=np.uint32))
    with pytest.raises(CapacityError, match="in one memory channel of device test"):
        store.load(np.zeros(1000, np.int32), np.arange(1000, dtype=np.uint32))
    run = store.load(np.zeros(100, np.int32), np.arange(100, dtype=np.uint32))
    store.drop(run)
    store.close()


def lengths(run):
    """Rows of a run on each lane."""
    return [0 if part is None else part.length for part in run.handle.parts]


def test_rows_lie_on_the_lanes_of_their_keys(seed):
    rng = np.random.default_rng(seed)
    device = Boards(lanes=4)
    pair = Pair(device)
    pair.load(rng, 400, spread=100_000)
    assert lengths(pair.runs[0][0]) == [100] * 4
    for spread in (100_000, 25_000, 100):
        pair.load(rng, 200, spread=spread)
        assert sum(lengths(pair.runs[-1][0])) == 200
    assert min(lengths(pair.runs[1][0])) > 20
    assert sum(count == 0 for count in lengths(pair.runs[3][0])) >= 2, "all keys lie near the middle"
    pair.check(rng, 200, [True, False], wide=60_000, spread=100_000)
    merged = lengths(pair.runs[0][0])
    for _ in range(3):
        merged = [a + b for a, b in zip(merged, lengths(pair.runs[1][0]), strict=True)]
        pair.merge(0)
        assert lengths(pair.runs[0][0]) == merged
        pair.check(rng, 200, [True], wide=60_000, spread=100_000)
    pair.close()


def test_an_empty_store_is_cut_anew(seed):
    rng = np.random.default_rng(seed)
    pair = Pair(Boards(lanes=2))
    for spread in (10, 100_000):
        pair.load(rng, 200, spread=spread)
        assert min(lengths(pair.runs[0][0])) > 50
        pair.check(rng)
        pair.drop(0)
    pair.close()


def test_equal_keys_all_lie_on_one_lane(seed):
    """A lane has room for all that the store was promised, and the others are not even asked."""
    rng = np.random.default_rng(seed)
    device = Boards(memory_bytes=36 << 10, lanes=2)
    pair = Pair(device, rows=1900)
    for _ in range(2):
        pair.load(rng, 475, spread=0)
        assert lengths(pair.runs[-1][0]) == [0, 475]
    pair.merge(0)
    assert lengths(pair.runs[0][0]) == [0, 950]
    pair.check(rng, 100, [True])
    assert not device.lanes_of[32][0].commands
    assert device.lanes_of[32][1].taken(Operation.MERGE)
    pair.close()


def test_probes_go_to_the_lanes_they_reach_into():
    device = Boards(lanes=2, buffer_rows=2)
    store = device.open_store(key_bits=32, rows=1000, what="the test's window")
    run = store.load(np.arange(100, dtype=np.int32), np.arange(100, dtype=np.uint32))
    bounds = {  # of two probes, and how many of them each lane, from 0 and from 50 on, is asked for
        ((-5, 49), (3, 49)): (2, 0),
        ((10, 49), (20, 50)): (2, 1),
        ((50, 60), (50, 99)): (0, 2),
        ((-9, 200), (49, 300)): (1, 1),
        ((0, 0), (99, 99)): (2, 2),
    }
    for (lower, upper), asked in bounds.items():
        lower, upper = np.array(lower, np.int32), np.array(upper, np.int32)
        probe = store.probe([run], lower, upper)
        found = [
            sum(c.length_b for c in lane.commands if c.operation == Operation.PROBE) for lane in device.lanes_of[32]
        ]
        assert tuple(found) == asked
        for lane in device.lanes_of[32]:
            lane.commands.clear()
        expected = [sum(a <= key <= b for key in range(100)) for a, b in zip(lower, upper, strict=True)]
        assert store.count(probe).tolist() == expected
        assert probe.candidates == sum(expected)
    store.close()


def test_all_lanes_are_given_their_commands_before_any_is_waited_for(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    told = []
    push_words, wait = LanedModel.push_words, LanedModel.wait
    monkeypatch.setattr(
        LanedModel,
        "push_words",
        lambda self, at, words: told.append(at // LANE_STRIDE) or push_words(self, at, words),
    )
    monkeypatch.setattr(LanedModel, "wait", lambda self: told.append("wait") or wait(self))
    pair = Pair(Boards(lanes=2))
    for _ in range(2):
        pair.load(rng, 100)
    pair.merge(0)
    assert told == [0, 1, "wait"]
    told.clear()
    pair.check(rng, 30, wide=60)
    assert told[:6] == [0, 1, "wait"] * 2
    pair.close()


def test_a_lane_without_room_leaves_the_others_as_they_were(seed):
    """One lane has its rows on both channels, so that no longer run fits it, though the store would."""
    rng = np.random.default_rng(seed)
    device = Boards(memory_bytes=24 << 10, channels=2, lanes=2)
    store = device.open_store(key_bits=32, rows=10, what="the test's window")
    store.load(np.array([0, 1000], np.int32), np.arange(2, dtype=np.uint32))  # keys from 1000 on go to lane 1
    for first in (1000, 1000):
        store.load(np.full(500, first, np.int32), np.arange(500, dtype=np.uint32))
    free = [[arena.free_rows for arena in lane.arenas] for lane in device.open_board(32).lanes]
    keys = np.concatenate([rng.integers(0, 9, 40), np.full(980, 1000)]).astype(np.int32)
    with pytest.raises(CapacityError, match="in one memory channel of device test, lane 1"):
        store.load(np.sort(keys), np.arange(1020, dtype=np.uint32))
    assert free == [[arena.free_rows for arena in lane.arenas] for lane in device.open_board(32).lanes]
    store.close()


def test_both_widths_share_the_memory():
    device = Boards()
    stores = [device.open_store(key_bits=bits, rows=1000, what="the test's window") for bits in (32, 64)]
    assert sorted(device.built) == [32, 64]
    assert device.used_bytes == sum(store.nbytes for store in stores)
    assert [store.key_dtype for store in stores] == [np.int32, np.int64]
    with pytest.raises(CapacityError):
        device.open_store(key_bits=64, rows=80_000, what="the test's window")
    device.close()
    device.close()
    assert all(board.closed for board in device.built.values())


def link_of(parameters, memory_bytes=MEMORY, **told):
    board = Board(parameters, memory_bytes)
    info = DeviceInfo("test", "sim", "", MEMORY - SCRATCH)
    builds = {"test": dataclasses.replace(parameters, **told)}
    return board, FpgaDevice(info, builds, lambda _: board, scratch_bytes=SCRATCH)


def test_boards_that_are_not_what_they_should_be():
    tiny = Parameters.preset("tiny")
    board, device = link_of(tiny)
    with pytest.raises(DeviceError, match=r"no kernel for keys of 64 bits, but for 32 \(test\)"):
        device.open_store(key_bits=64, rows=1, what="the test's window")
    board, device = link_of(tiny, key_bits=64)
    with pytest.raises(DeviceError, match=r"built with {'key_words': 1, .*}, not {'key_words': 2, "):
        device.open_store(key_bits=64, rows=1, what="the test's window")
    assert board.closed
    board, device = link_of(tiny, MEMORY // 2)
    with pytest.raises(DeviceError, match="the board has 524,288 bytes of memory a lane"):
        device.open_store(key_bits=32, rows=1, what="the test's window")
    board, device = link_of(dataclasses.replace(tiny, buffer_rows=512))
    with pytest.raises(DeviceError, match="scratch_bytes must be at least"):
        device.open_store(key_bits=32, rows=1, what="the test's window")
    with pytest.raises(DeviceError, match="leaves none beside"):
        Boards(memory_bytes=2048, scratch_bytes=2032).open_board(32)


def test_a_failed_board_says_so_from_then_on(seed):
    rng = np.random.default_rng(seed)
    device = Boards()
    store = device.open_store(key_bits=32, rows=1000, what="the test's window")
    run = store.load(*sorted_rows(rng, 100, 0))
    with pytest.raises(KernelError, match="the kernel failed in PROBE: nothing moved"):
        store.probe([run], np.array([5, 1], np.int32), np.array([5, 6], np.int32))
    with pytest.raises(KernelError, match="PROBE"):
        store.load(*sorted_rows(rng, 100, 0))
    store.close()


def test_stores_in_threads(seed):
    device = Boards()
    failures = []

    def work(number):
        try:
            rng = np.random.default_rng([seed, number])
            pair = Pair(device)
            for _ in range(15):
                pair.load(rng, int(rng.integers(1, 60)))
                pair.check(rng, 80, [True, False])
                if len(pair.runs) > 2:
                    pair.merge(0)
            pair.close()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_window_whose_runs_would_be_too_long_is_refused_at_once():
    schema = pa.schema({"key": pa.int32()})
    device = Boards(memory_bytes=1 << 20)  # runs of up to 1,024 rows
    with pytest.raises(CapacityError, match=r"the left window would have sorted runs of .* none of more than 1,024"):
        WindowJoin(
            on=Band("key", "key", 0, 0),
            left=Rows(9000),
            right=Rows(10),
            device=device,
            left_schema=schema,
            right_schema=schema,
        )
    assert device.used_bytes == 0


def test_a_time_slice_whose_run_would_be_too_long_is_refused_before_anything_changes():
    device = Boards(memory_bytes=1 << 20)
    join = WindowJoin(
        on=Band("key", "key", 0, 0), within=Within("time", "time", "-1 hour", "1 hour"), device=device, form="pairs"
    )

    def rows(count):
        return pa.table(
            {"key": pa.array(np.arange(count), pa.int32()), "time": pa.array([0] * count, pa.timestamp("ms"))}
        )

    assert len(join.process(rows(600), rows(3))) == 3
    with pytest.raises(CapacityError, match=r"the left window would have sorted runs of .* none of more than 1,024"):
        join.process(rows(600), rows(5))
    assert len(join.process(None, rows(4))) == 4
    join.close()
