"""The kernel's model: operations against plain Python, registers and errors against the table."""

import dataclasses

import numpy as np
import pytest

from muntin.contract.designs.bisort import BISORT, Parameters
from muntin.contract.registers import COMMAND_WORDS, Command, ErrorCode, Operation
from muntin.sim.models.kernel import KernelModel

OFFSETS = {register.name: register.offset for register in BISORT.registers()}
MEMORY = 1 << 20
KEYS_A, ROWS_A, KEYS_B, ROWS_B = 0x00000, 0x10000, 0x20000, 0x30000
KEYS_OUT, ROWS_OUT, INDEX = 0x40000, 0x50000, 0x60000
INPUTS = {"keys_a": KEYS_A, "rows_a": ROWS_A, "keys_b": KEYS_B, "rows_b": ROWS_B}
OUTPUTS = {"keys_out": KEYS_OUT, "rows_out": ROWS_OUT, "index_out": INDEX}


def build(key_bits=32, **changes):
    return dataclasses.replace(Parameters.preset("tiny"), key_bits=key_bits, **changes)


@pytest.fixture
def kernel():
    return KernelModel(build(), MEMORY)


def read(kernel, name):
    return kernel.read_register(OFFSETS[name])


def write(kernel, name, value):
    kernel.write_register(OFFSETS[name], value)


def push(kernel, *commands, tag=1):
    for number, command in enumerate(commands):
        kernel.push_words(OFFSETS["QUEUE_PUSH"], command.words(tag + number))


def run(kernel, *commands):
    """Runs commands; the error, after it has been cleared."""
    push(kernel, *commands)
    write(kernel, "CONTROL", 1)
    kernel.wait()
    error = ErrorCode(read(kernel, "ERROR_CODE"))
    write(kernel, "ERROR_CODE", 0)
    return error


def command(operation, **fields):
    places = {**INPUTS, **OUTPUTS}
    if operation is Operation.INDEX:
        places["index_out"] = 0  # on chip, not in memory
    return Command(operation=operation, **{**places, **fields})


def key_type(key_bits, signed):
    return np.dtype(f"{'i' if signed else 'u'}{key_bits // 8}")


def keys_of(rng, count, kind):
    """Ascending keys, many of them equal and many at the ends."""
    info = np.iinfo(kind)
    near = rng.integers(0, 40, count).astype(kind)
    chosen = np.where(rng.random(count) < 0.5, near, np.array([info.min, info.min + 1, info.max - 1, info.max], kind)[
        rng.integers(0, 4, count)
    ])  # fmt: skip
    return np.sort(chosen)


def put(kernel, address, array):
    kernel.write_memory(address, np.ascontiguousarray(array))


def get(kernel, address, count, kind):
    return kernel.read_memory(address, count * np.dtype(kind).itemsize).view(kind)


def put_run(kernel, keys, rows, keys_at=KEYS_A, rows_at=ROWS_A):
    put(kernel, keys_at, keys)
    put(kernel, rows_at, rows.astype(np.uint32))


GRID = [(bits, signed) for bits in (32, 64) for signed in (False, True)]


@pytest.mark.parametrize(("key_bits", "signed"), GRID)
def test_merge(key_bits, signed, seed):
    rng = np.random.default_rng([seed, key_bits, signed])
    kind = key_type(key_bits, signed)
    kernel = KernelModel(build(key_bits), MEMORY)
    for a, b in ((1, 1), (1, 70), (70, 1), (16, 16), (33, 500), (1000, 24)):
        kernel.memory[:] = 0xEE
        older, newer = keys_of(rng, a, kind), keys_of(rng, b, kind)
        put_run(kernel, older, np.arange(a))
        put_run(kernel, newer, np.arange(b) + a, KEYS_B, ROWS_B)
        before = dict(kernel.counters)
        assert not run(kernel, command(Operation.MERGE, signed=signed, length_a=a, length_b=b))
        keys, rows = get(kernel, KEYS_OUT, a + b, kind), get(kernel, ROWS_OUT, a + b, np.uint32)
        np.testing.assert_array_equal(keys, np.sort(np.concatenate([older, newer])))
        np.testing.assert_array_equal(np.concatenate([older, newer])[rows], keys)
        np.testing.assert_array_equal(np.sort(rows), np.arange(a + b))
        entries = -(-(a + b) // 16)
        np.testing.assert_array_equal(get(kernel, INDEX, entries, kind), keys[::16])
        sizes = ((a + b) * kind.itemsize, (a + b) * 4, entries * kind.itemsize)
        for address, length in zip(OUTPUTS.values(), sizes, strict=True):
            assert set(kernel.read_memory(address + length, 8)) == {0xEE}, "bytes behind an array stay"
        grown = {name: kernel.counters[name] - before[name] for name in before}
        beats = sum(-(-n * size // 8) for n in (a, b) for size in (kind.itemsize, 4))
        assert (grown["rows_in"], grown["rows_out"], grown["read_beats"]) == (a + b, a + b, beats)


def found(kernel):
    """The ranges that a PROBE has written: probe, place, start, stop."""
    count = int(get(kernel, ROWS_OUT, 1, np.uint64)[0])
    return [tuple(row) for row in get(kernel, KEYS_OUT, 4 * count, np.uint32).reshape(-1, 4).tolist()]


def put_index(kernel, keys, at, place, **fields):
    """Runs the command that loads the index of a run, which lies at an address."""
    put(kernel, at, keys)
    put(kernel, INDEX, keys[::16])
    return run(
        kernel,
        command(Operation.INDEX, keys_a=at, rows_a=INDEX, length_a=len(keys), length_b=place, **fields),
    )


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize(("key_bits", "signed"), GRID)
def test_probe(key_bits, signed, buffered, seed):
    rng = np.random.default_rng([seed, key_bits, signed, buffered])
    kind = key_type(key_bits, signed)
    kernel = KernelModel(build(key_bits), MEMORY)
    chunk = kernel.parameters.probe_rows
    top, lowest = 1 << key_bits, int(np.iinfo(kind).min)
    offsets = [0, 1, -1, 5, -7, top - 1, top, 1 - top, -top, 2 * top - 1, -2 * top]
    for _ in range(60):
        rows = int(rng.integers(1, 9 if buffered else 300))
        probes = int(rng.integers(1, 50))
        runs = {0: keys_of(rng, rows, kind)}
        if not buffered:
            runs = dict(zip((3, 63), (runs[0], keys_of(rng, 40, kind)), strict=True))
        lower, upper = keys_of(rng, probes, kind), keys_of(rng, probes, kind)
        low, high = (offsets[int(rng.choice(len(offsets)))] for _ in range(2))
        fields = {"signed": signed, "low_offset": low, "high_offset": high}
        if buffered:
            put_run(kernel, runs[0], np.arange(rows))
            assert not run(kernel, command(Operation.INSERT, signed=signed, length_a=rows))
            fields |= {"buffer": True, "length_a": rows, "keys_a": 1, "rows_a": 1}
        else:
            for place, at in ((3, KEYS_A), (63, ROWS_A)):
                assert not put_index(kernel, runs[place], at, place, signed=signed, index_out=place // 3)
            fields |= {"keys_a": 1 << 3 | 1 << 63}
        put(kernel, KEYS_B, lower)
        put(kernel, ROWS_B, upper)
        before = kernel.counters["partitions"]
        assert not run(kernel, command(Operation.PROBE, length_b=probes, **fields))
        bounds = [
            [min(max(int(end) - lowest + offset, 0), top) for end in ends]
            for ends, offset in ((lower, low), (upper, high))
        ]
        due, touched = [], 0
        for first in range(0, probes, chunk):
            for place, keys in runs.items():
                plain = [int(key) - lowest for key in keys]
                part = range(first, min(first + chunk, probes))
                for probe in part:
                    start, stop = (sum(key < side[probe] for key in plain) for side in bounds)
                    due += [(probe, place, start, stop)] * (start < stop)
                touched += len({sum(key < side[at] for key in plain[::16]) for side in bounds for at in part} - {0})
        assert found(kernel) == due
        assert kernel.counters["partitions"] - before == (0 if buffered else touched)
        if buffered:  # merging with one row empties it
            merge = command(Operation.MERGE, signed=signed, buffer=True, length_a=1, length_b=rows, keys_b=1, rows_b=1)
            assert not run(kernel, merge)


def test_an_index_is_used_again_and_replaced(kernel, seed):
    rng = np.random.default_rng(seed)
    keys = [np.sort(rng.permutation(400)[:100]).astype(np.uint32) for _ in range(2)]
    for bounds in (KEYS_B, ROWS_B):
        put(kernel, bounds, np.arange(0, 400, 40, dtype=np.uint32))
    probe = command(Operation.PROBE, keys_a=2, length_b=10, high_offset=9)
    assert run(kernel, probe) is ErrorCode.BAD_INDEX
    for run_keys, at, start in ((keys[0], KEYS_A, 0), (keys[1], ROWS_A, 9)):
        assert not put_index(kernel, run_keys, at, 1, index_out=start)
        for _ in range(2):
            assert not run(kernel, probe, command(Operation.COPY, length_a=8, keys_out=0x70000))
            due = [np.searchsorted(run_keys, np.arange(0, 400, 40) + offset) for offset in (0, 9)]
            assert [row[2:] for row in found(kernel)] == [(a, b) for a, b in zip(*due, strict=True) if a < b]
    entries = kernel.parameters.index_rows
    assert not put_index(kernel, keys[0], KEYS_A, 2, index_out=entries - 7)
    assert put_index(kernel, keys[0], KEYS_A, 2, index_out=entries - 6) is ErrorCode.BAD_INDEX
    assert put_index(kernel, keys[0], KEYS_A, 64) is ErrorCode.BAD_INDEX


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("buffered", [False, True])
def test_gather_and_count(kernel, buffered, limited, seed):
    rng = np.random.default_rng([seed, buffered, limited])
    rows = 8 if buffered else 200
    numbers = rng.integers(2**32 - 100, 2**32 + 100, rows).astype(np.uint32)  # low words start again on the way
    put_run(kernel, np.arange(rows, dtype=np.uint32), numbers)
    if buffered:
        assert not run(kernel, command(Operation.INSERT, length_a=rows))
    for ranges in (1, 2, 33):
        starts = rng.integers(0, rows + 1, ranges)
        stops = rng.integers(starts, rows + 1)
        limits = np.stack([rng.integers(0, 2**32, ranges), rng.integers(0, 150, ranges)], axis=1).astype(np.uint32)
        limits[:, 0] = (2**32 - rng.integers(-100, 100, ranges)) & 0xFFFFFFFF
        put(kernel, KEYS_B, starts.astype(np.uint32))
        put(kernel, ROWS_B, stops.astype(np.uint32))
        put(kernel, KEYS_A, limits)
        kernel.memory[KEYS_OUT:] = 0xEE
        fields = {"length_a": rows, "length_b": ranges, "limits": limited, "buffer": buffered}
        due = [
            (number, int(row))
            for number, (start, stop) in enumerate(zip(starts, stops, strict=True))
            for row in numbers[start:stop]
            if not limited or (int(row) - int(limits[number, 0])) % 2**32 < limits[number, 1]
        ]
        assert not run(kernel, command(Operation.GATHER, **fields))
        assert int(get(kernel, ROWS_OUT, 1, np.uint64)[0]) == len(due)
        pairs = get(kernel, KEYS_OUT, 2 * len(due), np.uint32).reshape(-1, 2)
        assert [tuple(pair) for pair in pairs.tolist()] == due
        assert set(kernel.read_memory(KEYS_OUT + 8 * len(due), 8)) == {0xEE}
        assert not run(kernel, command(Operation.COUNT, **fields))
        counts = np.bincount([number for number, _ in due], minlength=ranges)
        assert get(kernel, KEYS_OUT, ranges, np.uint32).tolist() == counts.tolist()


def test_the_insertion_buffer_keeps_older_rows_first(kernel):
    for keys, rows in (([5, 2], [0, 1]), ([2, 9], [2, 3]), ([2], [4])):
        put_run(kernel, np.array(keys, np.uint32), np.array(rows))
        assert not run(kernel, command(Operation.INSERT, length_a=len(keys)))
    put(kernel, KEYS_B, np.array([0], np.uint32))
    put(kernel, ROWS_B, np.array([5], np.uint32))
    assert not run(kernel, command(Operation.GATHER, length_a=5, length_b=1, buffer=True, rows_a=1))
    assert get(kernel, KEYS_OUT, 10, np.uint32)[1::2].tolist() == [1, 2, 4, 0, 3]


def test_copy(kernel, seed):
    content = np.random.default_rng(seed).integers(0, 256, 1001, dtype=np.uint8)
    put(kernel, KEYS_A, content)
    assert not run(kernel, command(Operation.COPY, length_a=1001), command(Operation.NOP))
    np.testing.assert_array_equal(kernel.read_memory(KEYS_OUT, 1001), content)
    assert kernel.read_memory(KEYS_OUT + 1001, 1)[0] == 0
    assert (kernel.counters["read_beats"], kernel.counters["commands"]) == (126, 2)


LAST_BEAT = (1 << 32) - 8
REFUSED = {
    "operation": (Command(operation=Operation.NOP), ErrorCode.UNKNOWN_OPERATION, 0),
    "no rows": (command(Operation.MERGE, length_b=1), ErrorCode.ZERO_LENGTH, 0),
    "no newer rows": (command(Operation.MERGE, length_a=1), ErrorCode.ZERO_LENGTH, 0),
    "no bounds": (command(Operation.PROBE, keys_a=1), ErrorCode.ZERO_LENGTH, 0),
    "no runs": (command(Operation.PROBE, keys_a=0, length_b=1), ErrorCode.ZERO_LENGTH, 0),
    "no ranges": (command(Operation.COUNT, length_a=1), ErrorCode.ZERO_LENGTH, 0),
    "nothing to copy": (command(Operation.COPY), ErrorCode.ZERO_LENGTH, 0),
    "merged run": (command(Operation.MERGE, length_a=1024, length_b=1), ErrorCode.RUN_TOO_LONG, 0),
    "probed run": (command(Operation.INDEX, length_a=1025), ErrorCode.RUN_TOO_LONG, 0),
    "gathered run": (command(Operation.GATHER, length_a=1025, length_b=1), ErrorCode.RUN_TOO_LONG, 0),
    "inserted rows": (command(Operation.INSERT, length_a=9), ErrorCode.BUFFER_ROWS, 0),
    "rows that it has not": (command(Operation.MERGE, length_a=1, length_b=1, buffer=True), ErrorCode.BUFFER_ROWS, 0),
    "misaligned": (command(Operation.MERGE, length_a=1, length_b=1, rows_b=4), ErrorCode.MISALIGNED_ADDRESS, 4),
    "first misaligned": (
        command(Operation.GATHER, length_a=1, length_b=1, rows_out=4, keys_out=2),
        ErrorCode.MISALIGNED_ADDRESS,
        2,
    ),
    "beyond the space": (
        command(Operation.INSERT, length_a=3, rows_a=LAST_BEAT),
        ErrorCode.ADDRESS_RANGE,
        LAST_BEAT,
    ),
    "far beyond the space": (command(Operation.COPY, length_a=1, keys_out=1 << 63), ErrorCode.ADDRESS_RANGE, 1 << 63),
    "no memory": (command(Operation.COPY, length_a=9, keys_a=MEMORY - 8), ErrorCode.DECODE_ERROR, MEMORY - 8),
    "limits": (
        command(Operation.COUNT, length_a=1, length_b=1, limits=True, keys_a=2),
        ErrorCode.MISALIGNED_ADDRESS,
        2,
    ),
    "range order": (command(Operation.GATHER, length_a=10, length_b=1, keys_b=0x8000), ErrorCode.BAD_RANGE, 0),
    "range end": (command(Operation.COUNT, length_a=9, length_b=1, rows_b=0x8000), ErrorCode.BAD_RANGE, 0),
    "pairs beyond memory": (
        command(Operation.GATHER, length_a=10, length_b=1, rows_b=0x8000, keys_out=MEMORY - 72),
        ErrorCode.DECODE_ERROR,
        MEMORY - 72,
    ),
    "unsorted run": (command(Operation.MERGE, length_a=2, length_b=1, keys_a=0x8000), ErrorCode.STUCK, 0),
    "no such run": (command(Operation.PROBE, keys_a=1 << 9, length_b=1), ErrorCode.BAD_INDEX, 0),
    "unsorted bounds": (command(Operation.PROBE, keys_a=1, length_b=2, keys_b=0x8000), ErrorCode.STUCK, 0),
    "ranges beyond memory": (
        command(Operation.PROBE, keys_a=1, length_b=1, rows_b=0x8000, keys_out=MEMORY - 8),
        ErrorCode.DECODE_ERROR,
        MEMORY - 8,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(kernel, case):
    refused, code, address = REFUSED[case]
    put(kernel, 0x8000, np.array([10, 5], np.uint32))
    assert not put_index(kernel, np.arange(1, 3, dtype=np.uint32), KEYS_A, 0)
    kernel.counters = dict.fromkeys(kernel.counters, 0)
    before, counters = kernel.memory.copy(), dict(kernel.counters)
    words = refused.words(77)
    if case == "operation":
        words[0] |= 0x99
    good = command(Operation.COPY, length_a=8, keys_a=0x8000)
    push(kernel, good, tag=5)
    kernel.push_words(OFFSETS["QUEUE_PUSH"], words)
    push(kernel, good, tag=78)
    write(kernel, "CONTROL", 1)
    assert read(kernel, "CONTROL") == 0b1110
    assert read(kernel, "CONTROL") == 0b0100, "done and ready are cleared by reading"
    assert (read(kernel, "ERROR_CODE"), read(kernel, "ERROR_COMMAND")) == (code, 77)
    assert read(kernel, "ERROR_ADDRESS_LOW") | read(kernel, "ERROR_ADDRESS_HIGH") << 32 == address
    assert (read(kernel, "COMPLETED_TAG"), read(kernel, "COMPLETED_COUNT")) == (5, 2)
    assert kernel.counters["commands"] == counters["commands"] + 1
    before[KEYS_OUT : KEYS_OUT + 8] = before[0x8000:0x8008]
    np.testing.assert_array_equal(kernel.memory, before)
    # What waits is not begun until the error is cleared, and clearing empties the queue.
    assert read(kernel, "QUEUE_STATUS") & 0xFFFF == 1
    write(kernel, "CONTROL", 1)
    assert read(kernel, "CONTROL") == 0b1110
    assert read(kernel, "COMPLETED_COUNT") == 2
    kernel.push_words(OFFSETS["QUEUE_PUSH"], [1, 2, 3])
    write(kernel, "ERROR_CODE", 0)
    assert read(kernel, "QUEUE_STATUS") == 4 << 16
    assert not any(read(kernel, name) for name in ("ERROR_CODE", "ERROR_COMMAND", "ERROR_ADDRESS_LOW"))
    assert not run(kernel, good)


def test_pairs_may_not_leave_the_address_space():
    kernel = KernelModel(build(address_bits=20), MEMORY)
    put(kernel, ROWS_B, np.array([10], np.uint32))
    gather = command(Operation.GATHER, length_a=10, length_b=1, keys_out=MEMORY - 72)
    assert run(kernel, gather) is ErrorCode.ADDRESS_RANGE
    assert not run(kernel, dataclasses.replace(gather, keys_out=MEMORY - 80))


def test_channels_are_chosen_by_the_top_bits():
    kernel = KernelModel(build(channels=2), MEMORY)
    second = 1 << 31
    kernel.write_memory(second + 8, b"12345678")
    assert not run(kernel, command(Operation.COPY, length_a=8, keys_a=second + 8))
    assert kernel.read_memory(KEYS_OUT, 8).tobytes() == b"12345678"
    assert kernel.memory[MEMORY // 2 + 8] == ord("1")
    for address in (MEMORY // 2 - 8, second + MEMORY // 2 - 8):
        assert run(kernel, command(Operation.COPY, length_a=9, keys_a=address)) is ErrorCode.DECODE_ERROR
        with pytest.raises(IndexError, match="no memory"):
            kernel.read_memory(address, 9)
        with pytest.raises(IndexError, match="no memory"):
            kernel.write_memory(address, bytes(9))
    assert run(kernel, command(Operation.COPY, length_a=9, keys_a=second - 8)) is ErrorCode.ADDRESS_RANGE


@pytest.mark.parametrize("size", [0, 12, (1 << 33)])
def test_memory_that_cannot_be(size):
    with pytest.raises(ValueError, match="memory_bytes"):
        KernelModel(build(channels=2), size)


def test_the_queue_overflows(kernel):
    copy = command(Operation.COPY, length_a=8)
    for waiting in range(4):
        assert read(kernel, "QUEUE_STATUS") == waiting | (4 - waiting) << 16
        words = copy.words(waiting)
        kernel.push_words(OFFSETS["QUEUE_PUSH"], words[:5])
        assert read(kernel, "QUEUE_STATUS") == waiting | (3 - waiting) << 16 | 1 << 31
        kernel.push_words(OFFSETS["QUEUE_PUSH"], words[5:])
    kernel.push_words(OFFSETS["QUEUE_PUSH"], copy.words(9)[:-1])
    assert read(kernel, "QUEUE_STATUS") == 4 | 1 << 31
    assert read(kernel, "ERROR_CODE") == ErrorCode.QUEUE_OVERFLOW
    kernel.push_words(OFFSETS["QUEUE_PUSH"], copy.words(9)[-1:])
    assert read(kernel, "QUEUE_STATUS") == 4
    assert read(kernel, "CONTROL") == 0b0100
    write(kernel, "ERROR_CODE", 0)
    assert not run(kernel, copy)
    assert read(kernel, "COMPLETED_COUNT") == 1


def test_auto_restart(kernel):
    copy = command(Operation.COPY, length_a=8)
    push(kernel, copy)
    assert read(kernel, "COMPLETED_COUNT") == 0
    write(kernel, "CONTROL", 0x80)
    assert read(kernel, "CONTROL") == 0x86
    push(kernel, copy)
    assert (read(kernel, "COMPLETED_COUNT"), read(kernel, "CONTROL")) == (2, 0x86)
    write(kernel, "CONTROL", 0)
    push(kernel, copy)
    assert (read(kernel, "COMPLETED_COUNT"), read(kernel, "CONTROL")) == (2, 0x04)
    with pytest.raises(TimeoutError):
        kernel.wait()


def test_interrupts(kernel):
    copy = command(Operation.COPY, length_a=8)
    assert not run(kernel, copy)
    assert not read(kernel, "INTERRUPT_STATUS"), "noted only where enabled"
    write(kernel, "INTERRUPT_ENABLE", 0b01)
    assert not run(kernel, copy)
    assert read(kernel, "INTERRUPT_STATUS") == 0b01
    assert not kernel.interrupt
    write(kernel, "GLOBAL_INTERRUPT_ENABLE", 1)
    assert kernel.interrupt
    write(kernel, "INTERRUPT_STATUS", 0b10)
    assert kernel.interrupt
    write(kernel, "INTERRUPT_STATUS", 0b01)
    assert not kernel.interrupt
    write(kernel, "INTERRUPT_ENABLE", 0b10)
    assert not run(kernel, copy)
    assert read(kernel, "INTERRUPT_STATUS") == 0b10


def test_registers(kernel):
    assert read(kernel, "BUILD_ID") == BISORT.build_id
    fields = next(register for register in BISORT.registers() if register.name == "BUILD_PARAMETERS").fields
    word = read(kernel, "BUILD_PARAMETERS")
    assert [(word & field.mask) >> field.lsb for field in fields] == [1, 1, 4, 6, 0, 0, 6, 8]
    write(kernel, "BUILD_ID", 1)
    assert read(kernel, "BUILD_ID") == BISORT.build_id
    write(kernel, "TIMEOUT_CYCLES", 123)
    assert read(kernel, "TIMEOUT_CYCLES") == 123
    write(kernel, "COUNTER_CLEAR", 1)
    kernel.write_register(0xF00, 1)
    assert kernel.read_register(0xF00) == read(kernel, "QUEUE_PUSH") == 0
    kernel.counters |= {"rows_in": (7 << 32) + 1, "rows_out": 9 << 32}
    assert read(kernel, "ROWS_IN_LOW") == 1
    kernel.counters["rows_in"] += 1 << 32
    assert read(kernel, "ROWS_IN_HIGH") == 7
    assert (read(kernel, "ROWS_OUT_LOW"), read(kernel, "ROWS_OUT_HIGH")) == (0, 9)
    write(kernel, "COUNTER_CLEAR", 1)
    assert (read(kernel, "ROWS_IN_LOW"), read(kernel, "ROWS_IN_HIGH")) == (0, 0)


def test_a_command_has_all_its_words():
    words = command(Operation.PROBE, length_a=3, length_b=2, buffer=True, low_offset=-1, high_offset=1).words(0x1234)
    assert len(words) == COMMAND_WORDS
    assert words[0] == 0x1234_0403
    assert words[-6:] == [0xFFFFFFFF] * 3 + [1, 0, 0]
    with pytest.raises(OverflowError):
        command(Operation.COPY, length_a=-1).words(0)
    with pytest.raises(OverflowError):
        command(Operation.COPY, keys_a=1 << 64).words(0)
