"""Calls that are interrupted, forked, given up or made twice; memory that results and dropped joins hold."""

from __future__ import annotations

import functools
import gc
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from muntin import AllOf, AnyOf, AsOf, Band, Compare, Count, Min, Rows, Sum, Watermark, Where, WindowJoin, Within
from muntin.host.errors import DeviceError
from muntin.host.native import _core
from muntin.index import SpoJoin  # fmt: skip
from tests.native.nested_loop import Batch, open_engine

#: A fork of a process with the sanitizers' threads, and signals that they hold back, end in errors of their own.
no_sanitizer = pytest.mark.skipif(
    "LD_PRELOAD" in os.environ, reason="a child process runs without the sanitizer's core, and its allocator counts"
)


def alone(**environment: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """The test in a process of its own, in which no join of another test holds memory."""

    def decorate(test: Callable[[], None]) -> Callable[[], None]:
        @functools.wraps(test)
        def started() -> None:
            if "LD_PRELOAD" in os.environ:  # a child would not have the sanitizer's core
                gc.collect()
                test()
            else:
                run(f"from {test.__module__} import {test.__name__} as test\ntest.__wrapped__()", **environment)

        return started

    return decorate


def dense(rows: int, first: int = 0) -> tuple[_core.Input, _core.Input]:
    """A step in which all pairs are candidates and have to be checked, as the sides come in turns."""
    keys, numbers = np.zeros(rows, np.int32), np.arange(first, first + rows)
    return Batch(keys, numbers, numbers).input(), Batch(keys, numbers, numbers + 1).input()


def small_join(**options: object) -> WindowJoin:
    return WindowJoin(on=Band("a", "b", 0, 0), left=Rows(1000), right=Rows(1000), **options)


A, B = pa.table({"a": range(500)}), pa.table({"b": range(100, 700)})


# Memory


@alone()
def test_results_outlive_their_engine_and_give_back_their_memory() -> None:
    assert _core.memory() == (0, 0)
    engine = open_engine(key_bits=32, window=(3000, 3000), bands=[(0, 0)])
    sides = engine.step(*dense(2000))
    copies = [[array.copy() for array in side] for side in sides]
    used = _core.memory()[0]
    del engine
    assert 0 < _core.memory()[0] < used
    others = open_engine(key_bits=32, window=(3000, 3000), bands=[(0, 0)])
    others.step(*dense(2000, first=10**6))  # would take the memory, were it free
    for side, copy in zip(sides, copies, strict=True):
        for array, expected in zip(side, copy, strict=True):
            np.testing.assert_array_equal(array, expected)
    assert len(sides[0][0]) == 2000 * 1999 // 2
    last = sides[1][1][5:9]  # a view of one array holds its memory
    del sides, side, array, others
    assert _core.memory()[0] > 0
    np.testing.assert_array_equal(last, copies[1][1][5:9])
    del last
    assert _core.memory() == (0, 0)


@alone()
def test_memory_of_a_thousand_dropped_engines_is_given_back() -> None:
    for number in range(1000):
        timed = number % 2 == 1
        window = {"within": (-50, 50)} if timed else {"window": (500, 500)}
        engine = open_engine(key_bits=32 if number % 3 else 64, self_join=number % 5 == 0, bands=[(0, 0)], **window)
        keys = np.arange(300, dtype=np.int32 if number % 3 else np.int64)
        for first in (0, 300):
            both = Batch(
                keys, keys.astype(np.int64) + first, np.full(300, first), keys * np.int64(1) if timed else None
            )
            found = engine.step(both.input(), both.input())
        assert len(found[0][0])
    assert _core.memory()[0] > 0
    del engine, found
    assert _core.memory() == (0, 0)


@alone()
def test_memory_of_a_window_stays_flat() -> None:
    engine = open_engine(key_bits=64, window=(20_000, 20_000), bands=[(0, 0)])
    rng = np.random.default_rng(0)
    most = 0
    for number in range(300):
        rows = np.arange(1000 * number, 1000 * number + 1000)
        left, right = (Batch(rng.integers(0, 10**5, 1000), rows, rows).input() for _ in range(2))
        engine.step(left, right)
        if number == 100:
            most = _core.memory()[0]
    assert _core.memory()[0] < 1.5 * most
    assert engine.bytes <= _core.memory()[0]
    assert engine.rows(0) <= 40_000


@alone()
def test_memory_of_a_result_is_kept_for_the_next_one_while_there_is_a_window() -> None:
    engine = open_engine(key_bits=32, window=(3000, 3000), bands=[(0, 0)])
    for first in (0, 2000, 4000):
        sides = engine.step(*dense(2000, first))
        size = sum(array.nbytes for side in sides for array in side)
        del sides
        assert _core.memory()[1] >= size
    del engine
    assert _core.memory() == (0, 0)


_ROWS = 1 << 16  # of a side and call: arrays that the C library would ask the system for
_SPAN = 1 << 30
_NEAR = _SPAN // _ROWS // 4  # about one match a row
_COUNTED: dict = {"left": Rows(2 * _ROWS), "right": Rows(2 * _ROWS)}
_TIMED: dict = {
    "within": Within("time", "time", f"-{2 * _ROWS} ms", f"{2 * _ROWS} ms"),
    "watermark": Watermark(left="0 seconds", right="0 seconds", lag=0),
}
_BAND = Band("key", "key", -_NEAR, _NEAR)
_SUMS: dict = {"form": "aggregate", "aggregates": (Count(), Sum("value"), Min("value"))}
_AS_OF: dict = {"watermark": _TIMED["watermark"], "select": ["key", "value_right"]}
JOINS: dict[str, dict] = {
    "pairs": {"on": _BAND, "form": "pairs"},
    "many matches": {"on": Band("key", "key", -32 * _NEAR, 32 * _NEAR), "form": "pairs"},
    "64 bits": {"on": Band("wide", "wide", -_NEAR, _NEAR), "form": "pairs"},
    "floats, with NULL": {"on": Band("float", "float", -_NEAR, _NEAR), "form": "pairs"},
    "unsigned": {"on": Band("unsigned", "unsigned", -_NEAR, _NEAR), "form": "pairs"},
    "!=": {"on": AllOf(_BAND, Compare("value", "!=", "value")), "form": "pairs"},
    "union": {"on": AnyOf(_BAND, Compare("key", "=", "key")), "form": "pairs"},
    "residual": {
        "on": AllOf(Band("key", "key", -8 * _NEAR, 8 * _NEAR), Compare("float", "<", "float")),
        "form": "pairs",
    },
    "equality and band": {"on": AllOf(Compare("few", "=", "few"), Band("wide", "wide", -9 * _NEAR, 9 * _NEAR))},
    "row test": {"on": AllOf(_BAND, Where("left", "value", "<", 500))},
    "conjunction": {"on": AllOf(_BAND, Compare("float", "<", "float")), "form": "pairs", "index": SpoJoin()},
    "sequence": {"on": _BAND, "form": "pairs", "sequence": "place"},
    "order": {"on": _BAND, "form": "pairs", "order": "inner"},
    "rows": {"on": _BAND},
    "counts": {"on": _BAND, "form": "counts"},
    "ranges": {"on": _BAND, "form": "ranges"},
    "sums": {"on": _BAND, **_SUMS},
    "sums at close": {"on": _BAND, **_SUMS, "at": "close", **_TIMED},
    "time": {"on": _BAND, **_TIMED},
    "left": {"on": _BAND, "how": "left"},
    "full": {"on": _BAND, "how": "full", "form": "pairs", **_TIMED},
    "left semi": {"on": _BAND, "how": "left_semi", **_TIMED},
    "left anti": {"on": _BAND, "how": "left_anti"},
    "as of": {"on": AsOf("time", "time"), **_AS_OF},
    "as of, nearest": {"on": AsOf("time", "time", direction="nearest", tolerance="9 ms"), **_AS_OF},
    "as of, by": {"on": AsOf("time", "time", by=["few"]), **_AS_OF},
}


def _streams(calls: int) -> Iterator[list[pa.Table]]:
    """The rows of both sides, call by call."""
    rng = np.random.default_rng(0)
    for number in range(calls):
        sides = []
        for side in range(2):
            keys = rng.integers(0, _SPAN, _ROWS)
            numbers = np.arange(number * _ROWS, (number + 1) * _ROWS)
            columns = {
                "key": pa.array(keys, pa.int32()),
                "wide": pa.array(keys),
                "unsigned": pa.array(keys, pa.uint64()),
                "float": pa.array(keys.astype(np.float64), mask=keys % 8 == 0),
                "few": pa.array(rng.integers(0, 999, _ROWS), pa.int32()),
                "value": pa.array(rng.integers(0, 999, _ROWS), mask=keys % 9 == 0),
                "time": pa.array(numbers, pa.timestamp("ms")),
                "place": pa.array(2 * numbers + side),
            }
            sides.append(pa.table(columns))
        yield sides


@no_sanitizer
@alone(MIMALLOC_PURGE_DELAY="-1")  # Arrow's allocator would give pages back by the clock, and take them again
def test_no_call_touches_memory_for_the_first_time() -> None:
    streams = list(_streams(20))
    for name, options in JOINS.items():
        if not ({"within", "watermark"} & options.keys()):
            options = {**_COUNTED, **options}
        with WindowJoin(device="cpu:threads=1", **options) as join:
            faults = []
            for left, right in streams:
                before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                result = join.process(left, right)
                faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
                assert all(column.num_chunks == 1 for column in result.columns) or not len(result), name
                found = len(result)
                del result
        assert found > 1000, name
        # Arrow's pools, which its kernels take from, still grow a little in some calls.
        assert sorted(faults[-8:])[-4] <= 50, (name, faults)


@alone()
def test_memory_of_results_is_given_back_when_nothing_comes() -> None:
    engine = open_engine(key_bits=32, window=(3000, 3000), bands=[(0, 0)])
    engine.step(*dense(2000))
    used, kept = _core.memory()
    assert kept > 1 << 25
    _core.give_back(3600)
    assert _core.memory() == (used, kept)
    _core.give_back(0)
    assert _core.memory()[0] == used
    assert _core.memory()[1] < 1 << 22
    found = engine.step(*dense(2000, 2000))
    assert sum(len(probing) for probing, _ in found) == 11_000_000
    assert _core.memory()[0] >= used + 11_000_000 * 16
    for idle in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="idle"):
            _core.give_back(idle)


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
@alone()
def test_free_memory_between_runs_in_use_is_given_back() -> None:
    rows, window = 1 << 15, 1 << 19
    engine = open_engine(key_bits=32, window=(window, window), bands=[(0, 0)])
    keys = np.random.default_rng(0)

    def resident() -> int:
        with open("/proc/self/statm") as pages:
            return int(pages.read().split()[1]) * resource.getpagesize()

    def advance(first: int, last: int) -> None:
        for numbers in np.arange(first, last).reshape(-1, rows):
            engine.step(*(Batch(keys.integers(0, 1 << 30, rows, np.int32), numbers, numbers).input() for _ in "lr"))

    advance(0, 4 * window)
    (used, kept), before = _core.memory(), resident()
    assert kept > window * 16
    _core.give_back(0)
    assert _core.memory()[0] == used
    assert _core.memory()[1] < kept / 16
    assert before - resident() > 0.85 * kept
    advance(4 * window, 8 * window)
    assert _core.memory()[0] == pytest.approx(used, rel=0.1)
    assert 0 < _core.memory()[1] < 2 * kept


@no_sanitizer
@alone(MALLOC_ARENA_MAX="1")  # else each thread has 64 MiB of addresses for itself
def test_addresses_are_taken_once_and_given_back() -> None:
    """A process has a limit for them, too, where `ulimit -v` sets one."""

    def taken() -> int:
        with open("/proc/self/statm") as pages:
            return int(pages.read().split()[0]) * resource.getpagesize()

    _core.set_threads(2)  # a stack each
    before, most = taken(), []
    engine = open_engine(key_bits=32, window=(3000, 3000), bands=[(0, 0)])
    for first in range(0, 16 * 2000, 2000):
        engine.step(*dense(2000, first))
        most.append(taken() - before)
        _core.give_back(0)
    assert max(most[8:]) < 1.5 * max(most[:8])
    kept, small = engine.step(*dense(2000, 16 * 2000)), open_engine(key_bits=32, window=(300, 300), bands=[(0, 0)])
    some = []
    for first in range(0, 200 * 300, 300):
        part = small.step(*dense(300, first))  # the one before is free now, in a region of which more is in use
        some.append(taken() - before)
        _core.give_back(0)
    assert max(some[20:]) < max(some[:20]) + (1 << 25)
    del engine, small, kept, part
    assert taken() - before < max(most) / 8  # stacks of threads


@alone()
def test_a_step_that_is_refused_takes_little_memory() -> None:
    """Of 64 million pairs, all of which have to be checked."""
    for index in ("sorted_runs", "sorted_array", "bplus_tree", "rap_table", "bisort", "csb_tree", "pim_tree"):
        engine = open_engine(key_bits=32, window=(10**5, 10**5), bands=[(0, 0)], index=index)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        nothing, *counts = engine.step(*dense(8000), most=1_000_000)
        assert nothing is None
        assert [int(each.sum()) for each in counts] == [8000 * 7999 // 2, 8000 * 8001 // 2]
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10
        assert engine.rows(0) == engine.rows(1) == 0


@pytest.mark.parametrize("options", [{"engine": "shared"}, {"index": "spo_join"}, {"splitjoin": {"cores": 2}}], ids=str)
def test_engines_that_store_row_by_row_stop_at_too_many_pairs(options: dict) -> None:
    given = {"key_bits": 64 if "index" in options else 32, "window": (3000, 3000), "bands": [(0, 0)], **options}
    if options.get("engine") == "shared":
        given["index"] = "bplus_tree"
    keys, rows = np.zeros(1000, np.int64 if "index" in options else np.int32), np.arange(1000)
    inputs = Batch(keys, rows, rows).input(), Batch(keys, rows, rows + 1).input()
    expected = 1000 * 1000
    found = open_engine(**given).step(*inputs, whole=True, most=expected)
    assert len(found[0]) == expected
    with pytest.raises(_core.TooManyPairs):
        open_engine(**given).step(*inputs, whole=True, most=expected - 1)


@pytest.mark.parametrize("key_bits", [32, 64, 128])
@pytest.mark.parametrize("start", [0, 2**32 - 30_000])
def test_a_window_of_few_batches_is_one_run_with_few_expired_rows(key_bits: int, start: int) -> None:
    window, batch = 20_000, 4_500
    engine = open_engine(key_bits=key_bits, window=(window, window), bands=[(0, 0)])
    rng = np.random.default_rng(key_bits)
    arrived = np.zeros(0, np.int64)
    for number in range(12):
        rows = np.arange(start + batch * number, start + batch * (number + 1))
        stored = np.sort(rng.choice(rows, batch - 100 * (number % 3), replace=False))  # the others have no key
        arrived = np.append(arrived, stored)
        keys = rng.integers(0, 1000, len(stored)).astype(np.int32 if key_bits == 32 else np.int64)
        left, right = (Batch(keys, stored, stored, wider=key_bits == 128).input() for _ in range(2))
        engine.step(left, right)
        live = arrived[arrived > rows[-1] - window]
        assert engine.runs(0) == 1
        assert len(live) <= engine.rows(0) <= 1.3 * window
        engine.arrived(0, int(rows[-1]) + 1)
        assert engine.oldest(0, -1) <= live[0]


# One call at a time


def test_a_second_call_of_an_engine_is_refused() -> None:
    # Every key is another one, and all are in the band: each pair's arrival numbers are looked at.
    rows = 30_000
    keys, numbers = np.arange(rows, dtype=np.int32), np.arange(rows)
    engine, alone = (open_engine(key_bits=32, window=(10**6, 10**6), bands=[(-rows, rows)]) for _ in range(2))
    inputs = Batch(keys, numbers, numbers).input(), Batch(keys, numbers, numbers + 1).input()
    expected = alone.step(*inputs, counting=True)
    second_calls = [
        lambda: engine.arrived(0, 0),
        lambda: engine.purge(0, 0),
        lambda: engine.expire_times(1, 0),
        lambda: engine.step(*inputs),
    ]
    with ThreadPoolExecutor(1) as executor:
        first = executor.submit(engine.step, *inputs, counting=True)
        while not first.done():
            try:
                engine.arrived(0, 0)
            except RuntimeError:
                break
        for call in second_calls:
            with pytest.raises(RuntimeError, match="in the middle of a call"):
                call()
        for side, counts in zip(first.result(), expected, strict=True):
            np.testing.assert_array_equal(side, counts)


# Processes


def run(script: str, *arguments: str, **environment: str) -> str:
    """What a script prints; one that hangs fails."""
    command = [sys.executable, "-X", "faulthandler", "-c", PRELUDE + script, *arguments]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


PRELUDE = """
import multiprocessing, os, signal, sys, threading, time
import numpy as np
import pyarrow as pa
from muntin import Band, Compare, Rows, WindowJoin, Within
from muntin.host.errors import DeviceError
from muntin.host.native import _core

def long_join(rows, **options):
    # Keys that all match and event times of which few do: every candidate is checked, for minutes, and few pairs come.
    join = WindowJoin(on=Band("a", "b", 0, 0), within=Within("t", "u", 0, 3), **options)
    left = pa.table({"a": np.zeros(rows, np.int32), "t": np.random.default_rng(0).permutation(rows)})
    right = pa.table({"b": np.zeros(rows, np.int32), "u": np.random.default_rng(1).permutation(rows)})
    return join, left, right

def under_way(join, call=None):
    # Waits until a call of the join probes.
    def begun():
        if (pipeline := join._calls.journal.pipeline) is None:
            return False
        cores = [each._engine for each in getattr(pipeline.engine, "_engines", [pipeline.engine])]
        return any(core.seconds[0] or core.applied for core in cores)

    while not begun():
        assert call is None or call.is_alive()
        time.sleep(0.01)
    time.sleep(0.1)

def memory():
    # What is in use when merges and frees in the background have ended, for which a join that is dropped does not wait.
    for _ in range(6000):
        if not _core.memory()[0]:
            break
        time.sleep(0.01)
    return _core.memory()[0]

def check_new_join():
    _core.set_threads(2)
    assert _core.threads() == 2
    n = 200_000
    with WindowJoin(on=Band("a", "b", 0, 1), left=Rows(n), right=Rows(n)) as join:
        a, b = np.arange(n), np.arange(n)[::-1].copy()
        found = join.process(pa.table({"a": a}), pa.table({"b": b}))
        assert len(found) == 2 * n - 1, len(found)
        difference = found["b"].to_numpy() - found["a"].to_numpy()
        assert ((difference == 0) | (difference == 1)).all()
    return "right"
"""

INTERRUPTED = """
import json
raises, options = sys.argv[1] == "KeyboardInterrupt", json.loads(sys.argv[2])
join, left, right = long_join(1_000_000, **options)
handled = []
if not raises:
    signal.signal(signal.SIGINT, lambda *_: handled.append(join.stats.calls))
    join, left, right = long_join(30_000)
main = threading.get_ident()
def interrupt():
    under_way(join)
    signal.pthread_kill(main, signal.SIGINT)
def ordered(table):
    return table.sort_by([(name, "ascending") for name in table.column_names])
thread = threading.Thread(target=interrupt)
thread.start()
if raises:
    first = [table.slice(0, 2000) for table in long_join(2000)[1:]]
    try:
        join.process(left, right)
    except KeyboardInterrupt:
        print("interrupted")
    else:
        print("went on")
    print(join.usable)
    if join.usable:  # nothing has changed
        with long_join(2000, **options)[0] as new:
            for tables in (first, [table.slice(0, 100) for table in first]):
                assert ordered(join.process(*tables)).equals(ordered(new.process(*tables)))
            assert join.stats.rows_left == new.stats.rows_left
    else:
        try:
            join.process(*first)
        except DeviceError as error:
            assert "no longer usable: a call failed half-way (KeyboardInterrupt" in str(error)
    join.close()
else:
    print(len(join.process(left, right)), handled)
thread.join()
del join
sys.exc_info()
print(memory())
print(check_new_join())
"""

#: Options of a join, and whether it stays usable when it is interrupted in its first step.
ENGINES: list[tuple[dict[str, object], bool]] = [
    ({"device": "cpu"}, True),
    ({"device": "cpu:threads=1"}, True),
    ({"how": "full", "order": "inner"}, True),
    ({"index": "pim_tree"}, True),
    ({"engine": "shared"}, False),
    ({"partitions": 2}, False),
]


@no_sanitizer
@pytest.mark.parametrize(("options", "usable"), ENGINES, ids=str)
def test_ctrl_c_ends_a_call_of_minutes(options: dict[str, object], usable: bool) -> None:
    lines = run(INTERRUPTED, "KeyboardInterrupt", json.dumps(options)).splitlines()
    assert lines == ["interrupted", str(usable), "0", "right"]


@no_sanitizer
def test_a_handler_that_raises_nothing_does_not_end_a_call() -> None:
    pairs, memory, right = run(INTERRUPTED, "nothing", "{}").splitlines()
    assert pairs == f"{4 * 30_000 - 6} [0]"  # of u - t in 0 to 3
    assert (memory, right) == ("0", "right")


SIGNALLED = """
n, index = 300_000, sys.argv[1]
join = WindowJoin(on=Band("a", "b", 0, 0), left=Rows(n), right=Rows(n), engine="shared", index=index, form="counts")
join.process(pa.table({"a": np.zeros(n, np.int32)}), pa.table({"b": np.zeros(0, np.int32)}))
ended, handled = threading.Event(), []
signal.signal(signal.SIGUSR1, lambda *_: handled.append(None))
main = threading.get_ident()
def send():
    while not ended.wait(0.005):
        signal.pthread_kill(main, signal.SIGUSR1)
thread = threading.Thread(target=send)
thread.start()
join.process(None, pa.table({"b": np.zeros(256, np.int32)}))  # 32 tasks, that look at 77 million rows
count = len(handled)
ended.set()
thread.join()
print(count)
"""


@no_sanitizer
@pytest.mark.parametrize("index", ["bplus_tree", "pim_tree"])
def test_signals_are_handled_in_the_middle_of_few_long_tasks(index: str) -> None:
    assert int(run(SIGNALLED, index)) > 2  # not at the end alone


FORKED = """
join, left, right = long_join(40_000)
found = []
call = threading.Thread(target=lambda: found.append(len(join.process(left, right))))
call.start()
under_way(join, call)

def child():
    new = check_new_join()
    try:
        join.process(left, right)
    except DeviceError as error:
        assert "fork" in str(error), error
    else:
        raise AssertionError("the parent's join went on in its child")
    join.stats, join.output_schema
    join.close()
    return new

if sys.argv[1] == "fork":
    process = os.fork()
    if process == 0:
        try:
            child()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 0
else:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.starmap(child, [()] * 4) == ["right"] * 4
assert call.is_alive(), "the call ended before the fork: no test"
call.join()
assert found == [4 * 40_000 - 6], found
print("right")
"""


@no_sanitizer
@pytest.mark.parametrize("how", ["fork", "multiprocessing"])
def test_a_fork_in_the_middle_of_a_call(how: str) -> None:
    assert run(FORKED, how) == "right\n"


@no_sanitizer
def test_a_child_has_a_pool_of_its_own_and_refuses_its_parents_joins() -> None:
    join, threads = small_join(), _core.threads()
    assert len(join.process(A, B)) == 400
    _core.set_threads(threads + 1)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with small_join() as own:
                same = len(own.process(A, B)) == 400 and _core.threads() == threads + 1
            try:
                join.process(A, B)
            except DeviceError:
                status = 0 if same else 2
        finally:
            os._exit(status)
    _core.set_threads(threads)
    assert os.waitpid(child, 0)[1] == 0
    assert len(join.process(A, B)) > 0  # the parent's goes on
    join.close()
    with pytest.raises(DeviceError, match="closed"):
        join.process(A, B)


@pytest.mark.skipif(sys.platform != "linux", reason="processor time by thread is read from /proc")
@alone()
def test_threads_of_the_pool_share_the_work_of_a_step() -> None:
    _core.set_threads(2)
    engine = open_engine(key_bits=32, window=(3000, 3000), bands=[(0, 0)])

    def ticks() -> int:
        """Of the processor's clock, by all threads but this one."""
        others = set(os.listdir("/proc/self/task")) - {str(threading.get_native_id())}
        stats = [Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split() for thread in others]
        return sum(int(stat[11]) for stat in stats)

    before, first = ticks(), 0
    while ticks() - before < 10:
        assert time.process_time() < 30, "no other thread has worked"
        engine.step(*dense(3000, first), counting=True, threads=2)
        first += 3000
    time.sleep(0.3)  # they look for more for a while
    before = ticks()
    time.sleep(1)
    assert ticks() - before < 10


def with_trees() -> int:
    """Pairs of a join whose trees are merged in the background."""
    options = {"insertion_depth": 2, "merge_ratio": 0.05, "behind_rows": 1}
    engine = open_engine(key_bits=32, window=(2000, 2000), bands=[(0, 0)], engine="shared", index="pim_tree", **options)
    rng, pairs = np.random.default_rng(0), 0
    for first in range(0, 20_000, 200):
        rows = np.arange(first, first + 200)
        left, right = (Batch(rng.integers(0, 500, 200, np.int32), rows, rows).input() for _ in range(2))
        pairs += sum(len(side) for side in engine.step(left, right, counting=False, whole=True, threads=2))
    return pairs


@pytest.mark.skipif(sys.platform != "linux", reason="threads are listed in /proc")
@alone()
def test_one_thread_merges_all_trees() -> None:
    _core.set_threads(1)
    before = len(os.listdir("/proc/self/task"))
    assert with_trees() == with_trees() > 100_000
    assert len(os.listdir("/proc/self/task")) <= before + 1


@no_sanitizer
def test_trees_are_merged_in_a_child_too() -> None:
    """The thread that merges in the background is its parent's alone."""
    expected = with_trees()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends it
        os._exit(0 if with_trees() == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert expected > 100_000
