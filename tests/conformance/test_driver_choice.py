"""Conjunctions without equality whose driver changes while rows come: the result stays as it is."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import AllOf, Band, Compare, Rows, Watermark, WindowJoin, Within
from muntin.host.devices.cpu_device import CpuDevice
from muntin.host.engine import driver_choice
from muntin.host.engine.driver_choice import ChoosingEngine
from tests.conformance import check
from tests.conformance.check import check_join
from tests.conformance.conjunctions import NAMES, SHAPES, random_columns, with_columns
from tests.conformance.keys import KEYS
from tests.conformance.pairwise import pairwise
from tests.conformance.streams import CUTS, SEQUENCES, make_streams
from tests.conformance.test_contract import name_of
from tests.conformance.test_how import HOWS, check_how
from tests.conformance.windows import WINDOWS
from tests.conftest import SEED
from tests.oracles.nested_loop import NestedLoop

KEY = next(key for key in KEYS if key.bits == 32)
DEVICES = {
    **{f"cpu-{index}": {"index": index} for index in CpuDevice.indexes if index != "spo_join"},
    **{device: {"device": device} for device in ("numpy", "sim:bisort-model")},
}
SAMPLE = pairwise(
    {
        "device": list(DEVICES),
        "shape": ["ranges", "crossed-columns", "sums"],
        "window": ["rows-1", "rows-unequal", "rows-wide", "within-asymmetric", "within-late", "within-late-asymmetric"],
        "how": ["inner", "counts", *HOWS],
        "form": ["rows", "pairs"],
        "order": ["none", "outer", "inner"],
        "sequence": list(SEQUENCES),
        "cut": list(CUTS),
    },
    SEED,
)


class Changing:
    """A join that lets another part drive after each call."""

    def __init__(self, join: WindowJoin, parts: int):
        self._join, self._parts = join, parts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._join, name)

    def process(self, *batches: Any, **options: Any) -> pa.Table:
        result = self._join.process(*batches, **options)
        engine = self._join._calls.journal.pipeline.engine
        assert isinstance(engine, ChoosingEngine)
        engine.change((engine.driver + 1) % self._parts)
        return result


@pytest.mark.parametrize("case", SAMPLE, ids=name_of)
def test_changes_do_not_show(case: dict, seed: int) -> None:
    window, sequenced = WINDOWS[case["window"]], case["sequence"] != "none"
    counting = case["how"] == "counts"
    how, form = ("inner", "counts") if counting else (case["how"], case["form"])
    rng = np.random.default_rng([seed, SAMPLE.index(case)])
    streams = make_streams(KEY, "random", window, case["sequence"], case["cut"], 40, rng)
    streams = with_columns(streams, rng, nan=form != "rows")
    on, parts = SHAPES[case["shape"]]
    arguments = check.host_arguments(("compare", "="), KEY, window, sequenced) | {"on": on, "how": how}
    loop = check.oracle(("compare", "="), KEY, window, sequenced, how)
    loop.predicate, loop.keys = ("all", parts), {"left": NAMES, "right": NAMES}
    with WindowJoin(
        **arguments, **DEVICES[case["device"]], form=form, order=case["order"], left_schema=streams.left.schema,
        right_schema=streams.right.schema,
    ) as join:  # fmt: skip
        check_all = check_join if how == "inner" else check_how
        check_all(Changing(join, len(parts)), loop, streams, form, case["order"])
        assert join._calls.journal.pipeline.engine.changes == len(streams.calls)


@pytest.mark.parametrize("shape", ["ranges", "crossed-columns", "sums"])
@pytest.mark.parametrize("itself", [False, True])
@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("device", ["cpu", "numpy"])
def test_self_join(shape: str, itself: bool, within: bool, device: str, seed: int) -> None:
    on, parts = SHAPES[shape]
    rng = np.random.default_rng([seed, *shape.encode()])
    stream = random_columns(150, rng, nan=True)
    stream = stream.append_column("t", pa.array(np.arange(150) // 2 + rng.integers(-6, 6, 150)))
    window: dict = {"left": Rows(20), "right": Rows(9)}
    loop = NestedLoop(("all", parts), NAMES, NAMES, rows=(20, 9), self_join=True, itself=itself)
    if within:
        window = {"within": Within("t", "t", -9, 4), "watermark": Watermark(left=8, right=8, lag=0)}
        loop = NestedLoop(
            ("all", parts), NAMES, NAMES, within=("t", "t", -9, 4), delays=(8, 8), self_join=True, itself=itself
        )
    found = 0
    with WindowJoin(
        on=on, **window, self_join=True, itself=itself, device=device, form="pairs", order="inner",
        left_schema=stream.schema,
    ) as join:  # fmt: skip
        changing = Changing(join, len(parts))
        for first, rows in ((0, 1), (1, 40), (41, 0), (41, 49), (90, 3), (93, 57)):
            batch = stream.slice(first, rows)
            due = [(pair.left, pair.right) for pair in loop.process(batch, None)]
            result = changing.process(batch)
            assert list(zip(result["left_row"].to_pylist(), result["right_row"].to_pylist(), strict=True)) == due
            found += len(due)
    assert found


ON = AllOf(Band("a", "a", -50, 50), Band("b", "b", 0, 0), Compare("c", "<=", "c"))


def skewed(rng: np.random.Generator, count: int, *, turned: bool = False) -> pa.Table:
    """Rows of which the first part of `ON` keeps each pair and the second one in 200; `turned`: the other way round."""
    names = ("b", "a") if turned else ("a", "b")
    few, many = rng.integers(0, 1 if turned else 50, count), rng.integers(0, 40_000 if turned else 200, count)
    return pa.table({names[0]: few, names[1]: many, "c": rng.integers(0, 100, count).astype(np.int32)})


@pytest.mark.parametrize(("device", "form"), [("cpu", "pairs"), ("cpu", "aggregate"), ("numpy", "pairs")])
def test_the_most_selective_part_comes_to_drive(device: str, form: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    options = {"aggregates": ["count()", "sum(c)"]} if form == "aggregate" else {"order": "inner"}
    reordered = AllOf(ON.parts[1], ON.parts[0], ON.parts[2])
    joins = [
        WindowJoin(on=on, left=Rows(900), right=Rows(700), form=form, device=device, **options)
        for on in (ON, reordered)
    ]
    calls = 60
    for _ in range(calls):
        batches = skewed(rng, 120), skewed(rng, 110)
        chosen, given = (join.process(*batches) for join in joins)
        assert chosen == given
    reports = [join.stats.engine for join in joins]
    assert [report["driver"] for report in reports] == [1, 0]
    assert [report["driver_changes"] for report in reports] == [1, 0]
    shares = reports[0]["shares"]
    assert shares[0] == 1
    assert shares[1] == pytest.approx(1 / 200, rel=0.6)
    assert shares[2] == pytest.approx(0.5, abs=0.1)
    for join in joins:
        lines = dict(line.split(": ", 1) for line in join.explain().splitlines())
        assert lines["driver"].strip() == "0 <= right.b - left.b <= 0"
        assert lines["shares"].count("%") == 3
        assert "% of the pairs that the driver found" in lines["kept"]
        join.close()


def test_parts_that_keep_alike_do_not_take_turns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    on = AllOf(Band("a", "a", -5, 5), Band("b", "b", -5, 5))
    with WindowJoin(on=on, left=Rows(500), right=Rows(500), form="counts") as join:
        for _ in range(300):
            batch = pa.table({"a": rng.integers(0, 100, 80), "b": rng.integers(0, 110, 80)})
            join.process(batch, batch)
        assert join.stats.engine["driver_changes"] == 0
        assert join.stats.engine["shares"] == pytest.approx([0.107, 0.097], rel=0.25)


def test_changes_are_few_however_often_the_rows_turn(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_choice, "_MAX_GAP", 1)  # a sample after each call
    rng, calls, changed = np.random.default_rng(seed), 300, []
    with WindowJoin(on=ON, left=Rows(150), right=Rows(150), form="counts") as join:
        for call in range(calls):
            join.process(*(skewed(rng, 150, turned=call // 7 % 2 == 1) for _ in range(2)))
            if join.stats.engine["driver_changes"] > len(changed):
                changed.append(call)
    gaps = np.diff(changed)
    assert len(gaps) >= 3
    assert (gaps >= 2 ** (np.arange(len(gaps)) + 2)).all(), changed


def test_where_two_indexes_do_not_fit_the_first_driver_stays(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batches = [(skewed(rng, 300), skewed(rng, 300)) for _ in range(12)]
    found = []
    for memory in (None, 200_000):
        device = CpuDevice(memory_bytes=memory)
        with WindowJoin(on=ON, left=Rows(2000), right=Rows(2000), form="pairs", order="inner", device=device) as join:
            found.append([join.process(*each) for each in batches])
            assert join.stats.engine["driver"] == (1 if memory is None else 0)
            used = device.used_bytes
        assert 0 < used < 200_000
        assert device.used_bytes == 0
    assert found[0] == found[1]


@pytest.mark.parametrize("window", ["rows", "within"])
def test_state_goes_on_whatever_drives(window: str, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    counter = itertools.count()

    def timed(table: pa.Table) -> pa.Table:
        times = 50 * next(counter) + rng.integers(0, 90, len(table))
        return table.append_column("t", pa.array(times))

    batches = [(timed(skewed(rng, 120)), timed(skewed(rng, 100))) for _ in range(16)]
    windows: dict = {"left": Rows(400), "right": Rows(300)}
    if window == "within":
        windows = {"within": Within("t", "t", -150, 200), "watermark": Watermark(left=60, right=80)}
    schemas = {"left_schema": batches[0][0].schema, "right_schema": batches[0][1].schema}
    arguments = {"on": ON, **windows, "form": "pairs", "order": "inner", "how": "left", **schemas}
    with WindowJoin(**arguments, device="sim:splitjoin-model") as plain:
        due = [plain.process(*each) for each in batches]
    found, drivers = [], []
    join = WindowJoin(**arguments, state=tmp_path / "state")
    for at, each in enumerate(batches):
        if at in (5, 9, 12):
            drivers.append(join._calls.journal.pipeline.engine.driver)
            join.close()
            join = WindowJoin(**arguments, state=tmp_path / "state")
            assert join.repeat(*batches[at - 1]) == found[-1]
        found.append(join.process(*each))
        if at == 8:
            join._calls.journal.pipeline.engine.change(2)
    join.close()
    assert found == due
    assert 2 in drivers
