"""Arguments that the core cannot work with raise; none of them ends the process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import Band, Rows, WindowJoin
from muntin.host.index import BiSort, Index, SortedRuns
from muntin.host.native import _core
from tests.native.nested_loop import open_engine

FEW = np.arange(3, dtype=np.int32)
ROWS = np.arange(3)


def step(engine: Any = None, left: Any = None, right: Any = None, **options: Any) -> Any:
    engine = engine or open_engine(key_bits=32, window=(5, 5), bands=[(0, 0)])
    return engine.step(left or _core.Input(FEW), right or _core.Input(FEW, same_other_position=3), **options)


def ordered(*places: int) -> _core.Input:
    return _core.Input(FEW, order=np.array(places, np.uint32))


def timed(**options: Any) -> _core.Engine:
    return open_engine(key_bits=32, within=(0, 5), bands=[(0, 0)], **options)


def joined_with_itself() -> _core.Engine:
    return open_engine(key_bits=32, window=(5, 5), bands=[(0, 0)], self_join=True)


def engine(**options: Any) -> _core.Engine:
    return open_engine(**{"key_bits": 32, "window": (5, 5), **options})


REFUSED: dict[str, tuple[Any, type[Exception]]] = {
    "key bits": (lambda: engine(key_bits=16), ValueError),
    "128 bits of a tree": (lambda: engine(key_bits=128, index="bplus_tree"), ValueError),
    "128 bits of join cores": (lambda: engine(key_bits=128, splitjoin={"cores": 2}), ValueError),
    "keys beyond 98 bits": (lambda: _core.Input(np.array([[0, 1 << 35]], np.uint64)), ValueError),
    "128 bits askew": (lambda: _core.Input(np.zeros(5, np.uint64)[1:].reshape(2, 2)), ValueError),
    "three words a key": (lambda: _core.Input(np.zeros((2, 3), np.uint64)), TypeError),
    "bounds of 64 bits for keys of 128": (
        lambda: _core.Input(np.zeros((3, 2), np.uint64), bounds=[(ROWS, ROWS)]),
        TypeError,
    ),
    "no key bits": (lambda: engine(key_bits=None), TypeError),
    "index": (lambda: engine(index="b_tree"), ValueError),
    "an option of another index": (lambda: engine(leaf_rows=4), ValueError),
    "an option of the wrong type": (lambda: engine(growth=2.5), ValueError),
    "an option that is no number": (lambda: engine(growth=None), TypeError),
    "an option of no engine": (lambda: engine(task_size=4), ValueError),
    "an option of an index within none": (lambda: engine(**{"of.growth": 4}), ValueError),
    "slices of none": (lambda: engine(index="slices"), ValueError),
    "slices of slices": (lambda: engine(index="slices/slices"), ValueError),
    "no index": (lambda: engine(index=None), TypeError),
    "instruction set": (lambda: engine(isa="v9"), ValueError),
    "instruction set by name": (lambda: _core.isa("sse"), ValueError),
    "no window": (lambda: open_engine(key_bits=32), ValueError),
    "negative window": (lambda: engine(window=(5, -1)), ValueError),
    "window of 2**64 rows": (lambda: engine(window=(2**64, 1)), TypeError),
    "negative window of time": (lambda: timed(window=(-1, -1)), ValueError),
    "windows of both kinds": (lambda: timed(window=(5, 5)), ValueError),
    "a bound beyond 128 bits": (lambda: _core.Engine(key_bits=32, index="", bands=[((2**64, 0), (0, 0))]), TypeError),
    "growth of 1": (lambda: engine(growth=1), ValueError),
    "growth of -1": (lambda: engine(growth=-1), ValueError),
    "no base rows": (lambda: engine(base_rows=0), ValueError),
    "keys of another width": (lambda: step(left=_core.Input(FEW.astype(np.int64))), TypeError),
    "float keys": (lambda: _core.Input(FEW.astype(float)), TypeError),
    "no keys": (lambda: _core.Input(None), TypeError),
    "list of keys": (lambda: _core.Input([1, 2, 3]), TypeError),
    "keys in a table": (lambda: _core.Input(np.zeros((2, 2), np.int32)), TypeError),
    "every other key": (lambda: _core.Input(np.arange(6, dtype=np.int32)[::2]), TypeError),
    "an order of too few": (lambda: _core.Input(FEW, order=np.arange(2, dtype=np.uint32)), ValueError),
    "an order of integers": (lambda: _core.Input(FEW, order=ROWS), TypeError),
    "an order that descends": (lambda: step(left=ordered(2, 1, 0)), ValueError),
    "an order with a place twice": (lambda: step(left=ordered(0, 0, 1)), ValueError),
    "an order beyond the rows": (lambda: step(left=ordered(0, 1, 7)), ValueError),
    "stored rows of one side": (lambda: step(stored_left=_core.Input(FEW)), ValueError),
    "stored rows of another width": (
        lambda: step(stored_left=_core.Input(FEW), stored_right=_core.Input(FEW.astype(np.int64))),
        TypeError,
    ),
    "stored rows where all are": (
        lambda: step(
            engine(index="bplus_tree", engine="shared"), stored_left=_core.Input(FEW), stored_right=_core.Input(FEW)
        ),
        ValueError,
    ),
    "too few rows": (lambda: _core.Input(FEW, rows=ROWS[:2]), ValueError),
    "too many rows": (lambda: _core.Input(FEW, rows=np.arange(4)), ValueError),
    "rows of 32 bits": (lambda: _core.Input(FEW, rows=ROWS.astype(np.int32)), TypeError),
    "float rows": (lambda: _core.Input(FEW, rows=ROWS.astype(float)), TypeError),
    "descending rows": (lambda: _core.Input(FEW, rows=ROWS[::-1].copy()), ValueError),
    "equal rows": (lambda: _core.Input(FEW, rows=ROWS * 0), ValueError),
    "rows far apart": (lambda: _core.Input(FEW, rows=np.array([0, 1, 2**32])), ValueError),
    "negative rows": (lambda: step(left=_core.Input(FEW, rows=ROWS - 1)), ValueError),
    "negative first row": (lambda: _core.Input(FEW, first_row=-1), ValueError),
    "rows beyond 63 bits": (lambda: _core.Input(FEW, first_row=2**63 - 2), ValueError),
    "too few other_position": (lambda: _core.Input(FEW, other_position=ROWS[:0]), ValueError),
    "negative other_position": (lambda: _core.Input(FEW, same_other_position=-1), ValueError),
    "one negative other_position": (lambda: step(left=_core.Input(FEW, other_position=ROWS - 1)), ValueError),
    "too few times": (lambda: _core.Input(FEW, times=ROWS[:1]), ValueError),
    "bounds of another width": (lambda: _core.Input(FEW, bounds=[(ROWS, ROWS)]), TypeError),
    "too few bounds": (lambda: _core.Input(FEW, bounds=[(FEW, FEW[:2])]), ValueError),
    "one bound": (lambda: _core.Input(FEW, bounds=[(FEW,)]), TypeError),
    "no input": (lambda: open_engine(key_bits=32, window=(5, 5)).step(None, _core.Input(FEW)), TypeError),
    "threads of 2**40": (lambda: step(threads=2**40), TypeError),
    "no time": (lambda: step(timed()), TypeError),
    "times of no use": (lambda: step(left=_core.Input(FEW, times=ROWS)), TypeError),
    "a self join of two streams": (
        lambda: step(joined_with_itself(), _core.Input(FEW), _core.Input(np.arange(9999, dtype=np.int32))),
        ValueError,
    ),
    "a side 2": (lambda: timed().rows(2), IndexError),
    "a side -1": (lambda: timed().oldest(-1, 0), IndexError),
    "a side's name": (lambda: timed().runs("left"), TypeError),
    "a side 2 to expire": (lambda: timed().expire_times(2, 0), IndexError),
    "a side 2 to purge": (lambda: timed().purge(2, 0), IndexError),
    "a side 2 to arrive": (lambda: timed().arrived(2, 0), IndexError),
    "a limit beyond 64 bits": (lambda: timed().purge(0, 2**63), TypeError),
    "a merge ratio of 0": (
        lambda: open_engine(key_bits=32, window=(5, 5), index="pim_tree", merge_ratio=0.0),
        ValueError,
    ),
    "a merge ratio past 1": (
        lambda: open_engine(key_bits=32, window=(5, 5), index="pim_tree", merge_ratio=1.5),
        ValueError,
    ),
    "no threads": (lambda: _core.set_threads(0), ValueError),
    "negative threads": (lambda: _core.set_threads(-2), ValueError),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    call, error = REFUSED[what]
    with pytest.raises(error):
        call()


@pytest.mark.parametrize("within", [None, (0, 5)])
def test_rows_of_earlier_steps_are_refused_and_change_nothing(within: tuple[int, int] | None) -> None:
    window = (5, 5) if within is None else (0, 0)
    engine = open_engine(key_bits=32, window=window, within=within, bands=[(0, 0)])
    times = None if within is None else ROWS
    none = _core.Input(FEW[:0])
    engine.step(_core.Input(FEW, first_row=10, times=times), none)
    for early in (0, 12):
        with pytest.raises(ValueError, match="earlier"):
            engine.step(_core.Input(FEW, first_row=early, times=times), none)
    engine.arrived(0, 20)
    with pytest.raises(ValueError, match="earlier"):
        engine.step(_core.Input(FEW, first_row=19, times=times), none)
    engine.step(_core.Input(FEW, first_row=20, times=times), none)
    probing, stored = engine.step(none, _core.Input(FEW, same_other_position=23, times=times))[1]
    assert sorted(zip(probing.tolist(), stored.tolist(), strict=True))[-1] == (2, 22)


@pytest.mark.parametrize("growth", [2**32, 2**60, 2**63 - 1])
def test_a_large_growth_does_not_overflow(growth: int) -> None:
    keys = np.arange(5000, dtype=np.int32)
    engine = open_engine(key_bits=32, window=(10**6, 1), bands=[(0, 0)], growth=growth, adaptive=False)
    for number in range(4):
        engine.step(_core.Input(keys, first_row=5000 * number), _core.Input(keys[:0]))
    assert engine.rows(0) == 20_000


@pytest.mark.parametrize("index", [SortedRuns(2**70, 2**70), SortedRuns(growth=2**60), BiSort(2**70)])
def test_an_index_of_any_parameters_opens(index: Index) -> None:
    left, right = pa.table({"a": range(5000)}), pa.table({"b": range(5000)})
    with WindowJoin(on=Band("a", "b", 0, 0), left=Rows(20_000), right=Rows(20_000), index=index) as join:
        assert len(join.process(left, right)) == 5000
        assert len(join.process(left, right)) == 15_000


def test_bounds_of_128_bits_do_not_overflow() -> None:
    ends = ((-(2**63), 0), (2**63 - 1, 2**64 - 1))
    engine = _core.Engine(key_bits=64, index="sorted_runs", within=ends, bands=[ends])
    far = np.array([-(2**63), 0, 2**63 - 1])
    found = engine.step(_core.Input(far, times=far), _core.Input(far, same_other_position=3, times=far))
    assert [len(side[0]) for side in found] == [0, 9]


def test_arguments_are_held_until_they_were_read() -> None:
    engine = open_engine(key_bits=64, within=(0, 0), bands=[(0, 0)])
    count = 100_000
    sevens = _core.Input(np.full(count, 7), times=np.zeros(count, np.int64), rows=np.arange(count))
    others = [np.full(count, 9) for _ in range(9)]  # in the place of those arrays, were they free
    none = _core.Input(np.zeros(0, np.int64))
    assert [len(side[0]) for side in engine.step(sevens, none)] == [0, 0]
    probe = _core.Input(np.array([7]), same_other_position=count, times=np.zeros(1, np.int64))
    assert len(engine.step(none, probe)[1][0]) == count
    assert len(others) == 9


@pytest.mark.parametrize(
    ("columns", "widths", "ends", "error"),
    [
        ([[np.zeros(16, np.uint8)]], [8, 8], [2], ValueError),
        ([[np.zeros(16, np.uint8)]], [8], [2, 4], ValueError),
        ([[np.zeros(15, np.uint8)]], [8], [2], ValueError),
        ([[np.zeros(16, np.uint8), np.zeros(0, np.uint8)]], [8], [2, 1], ValueError),
        ([[np.zeros(16, np.uint8)]], [8], [2], IndexError),
        ([[np.zeros(0, np.uint8)] * 2], [0], [2, 1], ValueError),
        ([], [], [], IndexError),
    ],
)
def test_rows_are_gathered_from_whole_blocks_alone(columns, widths, ends, error) -> None:
    with pytest.raises(error):
        _core.gather(columns, widths, ends, np.array([0, 2]))


def test_gathered_rows_are_those_of_their_places() -> None:
    blocks = [np.arange(24, dtype=np.uint8), np.arange(100, 103, dtype=np.uint8)]
    (found,) = _core.gather([blocks], [3], [8, 9], np.array([8, -1, 0, 7]), threads=1)
    assert found.tolist() == [100, 101, 102, 0, 0, 0, 0, 1, 2, 21, 22, 23]
    assert _core.gather([blocks], [3], [8, 9], np.zeros(0, np.int64))[0].shape == (0,)
