"""`process_blocks`: the same result as `process`, in tables of bounded size, whatever becomes of the iterator."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import AllOf, AsOf, Band, Compare, Rows, Watermark, WindowJoin, Within
from muntin.host.aggregates import Count
from muntin.host.call import Call, OrderedPairs, Pairs, Punctuation
from muntin.host.devices.cpu_device import CpuDevice
from muntin.host.engine.native_engine import NativeEngine
from muntin.host.engines import Partitions
from muntin.host.errors import DeviceError, ResultTooLargeError, SchemaError, UnsupportedError, WindowError

BLOCK = 1 << 13
LEFT = pa.schema([("a", pa.int64()), ("t", pa.int64()), ("s", pa.string())])
RIGHT = pa.schema([("b", pa.int64()), ("t", pa.int64()), ("u", pa.list_(pa.int32()))])


def rows(side: str, seed: int, count: int) -> pa.Table:
    """Rows whose keys are dense, and whose text is of 0 to 200 bytes."""
    rng = np.random.default_rng([seed, side == "left"])
    key = pa.array(rng.integers(0, 40, count), mask=rng.random(count) < 0.05)
    time = pa.array(seed * 100 + np.sort(rng.integers(0, 100, count)))
    if side == "left":
        return pa.table([key, time, pa.array(["x" * int(n) for n in rng.integers(0, 200, count)])], schema=LEFT)
    return pa.table([key, time, pa.array([[int(n)] * int(n) for n in rng.integers(0, 9, count)])], schema=RIGHT)


def content(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


WINDOWS = [
    {"left": Rows(150), "right": Rows(220)},
    {"within": Within("t", "t", -30, 60), "watermark": Watermark(left=5, right=9)},
]
DEVICES = ["cpu", "numpy"]


def twin(device: str, **options: object) -> tuple[WindowJoin, WindowJoin]:
    """Two of the same join."""
    given = {"left_schema": LEFT, "right_schema": RIGHT, "device": device, **options}
    return WindowJoin(**given), WindowJoin(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("window", WINDOWS, ids=["rows", "within"])
@pytest.mark.parametrize("how", ["inner", "full", "left", "left_semi", "left_anti"])
@pytest.mark.parametrize("order", ["none", "inner"])
def test_blocks_are_the_result_cut(device: str, window: dict[str, object], how: str, order: str) -> None:
    whole, cut = twin(device, on=Band("a", "b", -3, 9), how=how, order=order, **window)
    tables = 0
    for seed, count in enumerate((400, 0, 3, 300)):
        left, right = rows("left", seed, count), rows("right", seed, count)
        expected = whole.process(left, right)
        blocks = list(cut.process_blocks(left, right, block_bytes=BLOCK))
        found = pa.concat_tables([expected.slice(0, 0), *blocks])
        if order == "none":
            assert content(found) == content(expected)
        else:
            assert found.equals(expected)
        assert all(block.nbytes <= BLOCK + 400 for block in blocks)
        tables = max(tables, sum(len(block) > 0 for block in blocks))
        assert cut.last_batch == whole.last_batch
        assert cut.stats.matches == whole.stats.matches
    assert tables > 1 or how == "left_anti"
    assert content(cut.finish()) == content(whole.finish())


@pytest.mark.parametrize(
    "options",
    [
        {"engine": "shared"},
        {"engine": "splitjoin"},
        {"index": "spo_join"},
        {"index": "bplus_tree"},
        {"index": "rap_table"},
        {"index": "csb_tree"},
        {"form": "pairs"},
        {"form": "pairs", "order": "outer"},
        {"form": "counts"},
        {"form": "ranges"},
        {"form": "aggregate", "aggregates": [Count()]},
    ],
    ids=str,
)
def test_every_engine_and_form(options: dict[str, object]) -> None:
    band = Band("a", "b", -3, 9)
    on = band if options.get("form") == "ranges" else AllOf(band, Compare("t", "<=", "t"))
    whole, cut = twin("cpu", on=on, **{**WINDOWS[0], **options})
    for seed in range(3):
        left, right = rows("left", seed, 200), rows("right", seed, 200)
        expected, blocks = whole.process(left, right), list(cut.process_blocks(left, right, block_bytes=BLOCK))
        assert content(pa.concat_tables(blocks)) == content(expected)


@pytest.mark.parametrize("order", ["none", "inner"])
@pytest.mark.parametrize("form", ["rows", "pairs"])
def test_self_joins(order: str, form: str) -> None:
    options = {"on": Band("a", "a", -3, 9), "left": Rows(90), "right": Rows(70), "self_join": True, "itself": True}
    for device in DEVICES:
        joins = [WindowJoin(**options, order=order, form=form, device=device) for _ in range(2)]  # type: ignore[arg-type]
        for seed in range(2):
            table = rows("left", seed, 300)
            expected = joins[0].process(table)
            found = pa.concat_tables(joins[1].process_blocks(table, block_bytes=BLOCK))
            assert content(found) == content(expected)
            assert order == "none" or found.equals(expected)


def test_as_of_joins_come_in_blocks_too() -> None:
    whole, cut = twin("cpu", on=AsOf("t", "t", "backward"), watermark=Watermark(left=5, right=9))
    for seed in range(3):
        left, right = rows("left", seed, 300), rows("right", seed, 300)
        expected, blocks = whole.process(left, right), list(cut.process_blocks(left, right, block_bytes=BLOCK))
        assert pa.concat_tables(blocks).equals(expected)
    assert len(blocks) > 1


@pytest.mark.parametrize("options", [{}, {"engine": "shared"}, {"engine": "splitjoin"}, {"index": "spo_join"}], ids=str)
def test_engines_find_pairs_in_parts(options: dict[str, object]) -> None:
    """From the first call on, and when rows match that did not before."""
    most, given = 3000, {"on": Compare("a", "<=", "b"), "left": Rows(4000), "right": Rows(4000), "form": "pairs"}
    join = WindowJoin(**given, **options, device="cpu", left_schema=LEFT, right_schema=RIGHT)  # type: ignore[arg-type]
    engine, sizes, borders = join._calls.journal.pipeline.engine, [], 0
    assert engine is not None
    run = engine.run

    def watched(call: Call) -> object:
        nonlocal borders
        for part in run(call):
            if isinstance(part, Punctuation):
                borders += 1
            else:
                assert isinstance(part, Pairs | OrderedPairs)
                sizes.append(len(part.left if isinstance(part, OrderedPairs) else part.probing))
            yield part

    engine.run = watched  # type: ignore[method-assign, assignment]
    left, right = rows("left", 0, 500), rows("right", 0, 500)
    expected = len(WindowJoin(**given, left_schema=LEFT, right_schema=RIGHT).process(left, right))  # type: ignore[arg-type]
    assert sum(map(len, join.process_blocks(left, right, block_bytes=16 * most))) == expected == sum(sizes)
    assert max(sizes) <= (2.5 if options else 2) * most  # these refuse no step
    assert borders >= expected // (2 * most)


@pytest.mark.parametrize("count", [150, pytest.param(300, marks=pytest.mark.full)])
def test_dropping_the_iterator_finishes_the_call(count: int) -> None:
    for drop in ("close", "del"):
        whole, cut = twin("cpu", on=Band("a", "b", -3, 9), how="full", **WINDOWS[1])
        for seed in range(4):
            left, right = rows("left", seed, count), rows("right", seed, count)
            expected = whole.process(left, right)
            blocks = cut.process_blocks(left, right, block_bytes=BLOCK)
            if seed % 2:
                assert content(pa.concat_tables(blocks)) == content(expected)
                continue
            if drop == "close":
                assert len(next(blocks)) < len(expected)
                blocks.close()
            else:
                del blocks
            assert (cut.last_batch, cut.stats.matches) == (seed, whole.stats.matches)
        assert content(cut.finish()) == content(whole.finish())


def test_no_other_call_while_a_result_is_read() -> None:
    join, _ = twin("cpu", on=Band("a", "b", -3, 9), **WINDOWS[0])
    left, right = rows("left", 0, 300), rows("right", 0, 300)
    blocks = join.process_blocks(left, right, block_bytes=BLOCK)
    next(blocks)
    for call in (join.process, join.process_blocks, join.push, join.flush, join.finish, join.repeat):
        with pytest.raises(UnsupportedError, match=r"still being read: take all of its tables, or close\(\)"):
            call()
    assert join.stats.rows_left == 0  # as of the last call
    list(blocks)
    assert join.stats.rows_left == 300
    join.process(left, right)


def test_a_join_that_is_closed_ends_its_result() -> None:
    join, _ = twin("cpu", on=Band("a", "b", -3, 9), **WINDOWS[0])
    blocks = join.process_blocks(rows("left", 0, 300), rows("right", 0, 300), block_bytes=BLOCK)
    next(blocks)
    join.close()
    with pytest.raises(DeviceError, match="closed"):
        next(blocks)


def test_what_can_be_refused_is_refused_at_once() -> None:
    join, _ = twin("cpu", on=Band("a", "b", -3, 9), **WINDOWS[0])
    with pytest.raises(SchemaError):
        join.process_blocks(rows("right", 0, 3))
    for size in (0, -1, 1.5, True):
        with pytest.raises(WindowError, match="block_bytes"):
            join.process_blocks(block_bytes=size)  # type: ignore[arg-type]
    assert len(join.process(rows("left", 0, 30), rows("right", 0, 30)))


def test_state_is_durable_at_the_end(tmp_path: Path) -> None:
    given = {"on": Band("a", "b", -3, 9), **WINDOWS[0], "left_schema": LEFT, "right_schema": RIGHT}
    whole = WindowJoin(**given)  # type: ignore[arg-type]
    for seed in range(3):
        left, right = rows("left", seed, 200), rows("right", seed, 200)
        expected = whole.process(left, right)
        with WindowJoin(**given, state=tmp_path) as join:  # type: ignore[arg-type]
            assert join.last_batch == seed - 1
            blocks = join.process_blocks(left, right, block_bytes=BLOCK)
            next(blocks)
            blocks.close()
        with WindowJoin(**given, state=tmp_path) as join:  # type: ignore[arg-type]
            assert content(pa.concat_tables(join.repeat_blocks(left, right, block_bytes=BLOCK))) == content(expected)


def test_memory_of_a_dense_call() -> None:
    """3,000 rows that match 3,000 others, in a process with 200 MiB to spare; their rows take 430 MiB."""
    script = """
import resource, sys, numpy as np, pyarrow as pa
from muntin import Compare, Rows, WindowJoin
count = 3000
left = pa.table({"a": np.zeros(count, np.int64), "x": np.arange(count), "y": np.arange(count)})
right = pa.table({"b": np.ones(count, np.int64), "u": np.arange(count), "v": np.arange(count)})
join = WindowJoin(on=Compare("a", "<", "b"), left=Rows(count), right=Rows(count))
list(join.process_blocks(left[:9], right[:9]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
total = sum(table.num_rows for table in join.process_blocks(left, right, block_bytes=8 << 20))
print(total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    pairs, kilobytes = map(int, done.stdout.split())
    assert pairs == 3000 * 3000 + 9 * 3000
    assert kilobytes < 200 * 1024


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"order": "inner"},
        {"index": "bplus_tree"},
        {"index": "rap_table"},
        {"index": "bisort"},
        {"partitions": 2},
        {"partitions": Partitions(3, by="subwindows")},
        {"on": AllOf(Compare("a", "=", "b"), Compare("t", "<=", "u"))},
        {"form": "rows", "left": None, "right": None, "within": Within("t", "u", -1000, 1000)},
    ],
    ids=str,
)
def test_rows_that_begin_to_match_all_at_once(options: dict[str, object]) -> None:
    """No step finds more than twice the pairs of a block, or those of one row."""
    most = 2000
    given = {"on": Band("a", "b", 0, 0), "left": Rows(5000), "right": Rows(5000), "form": "pairs", **options}
    schemas = [pa.schema([(key, pa.int64()), (time, pa.int64())]) for key, time in (("a", "t"), ("b", "u"))]

    def call(number: int, count: int, *, dense: bool) -> list[pa.Table]:
        keys = np.zeros(count, np.int64) if dense else np.arange(count) + count * number
        sides = (keys, keys if dense else -keys - 1)
        return [
            pa.table([side, np.arange(count) + 100 * number], schema=schema)
            for side, schema in zip(sides, schemas, strict=True)
        ]

    cut, whole = (WindowJoin(**given, left_schema=schemas[0], right_schema=schemas[1]) for _ in range(2))  # type: ignore[arg-type]
    for number in range(4):
        for join in (cut, whole):
            list(join.process_blocks(*call(number, 1500, dense=False), block_bytes=16 * most))
    engine = cut._calls.journal.pipeline.engine
    engines = getattr(engine, "_engines", [getattr(engine, "engine", engine)])
    sizes = []
    for each in engines:
        assert isinstance(each, NativeEngine)
        step = each._step

        def watched(*arguments: object, step: Callable[..., tuple] = step, **named: object) -> tuple:
            found = step(*arguments, **named)
            pairs = 0 if found[0] is None else len(found[0]) if named["whole"] else sum(len(rows) for rows, _ in found)
            sizes.append(pairs)
            return found

        each._step = watched  # type: ignore[method-assign]
    rows = call(4, 700, dense=True)
    blocks = list(cut.process_blocks(*rows, block_bytes=16 * most))
    expected = whole.process(*rows)
    assert content(pa.concat_tables(blocks)) == content(expected)
    assert len(expected) > 100 * most
    assert max(sizes) <= 2 * most
    assert sum(size > most // 4 for size in sizes) > len(expected) // most // 4


@pytest.mark.parametrize(
    ("window", "dense"),
    [
        ({"left": Rows(5000), "right": Rows(5000)}, [5000, 5000, 3300, 5000, 3300, 2200]),
        # Right rows match up to twice as often as left ones of the same call: those have come, and less has expired.
        ({"within": Within("t", "t", -5000, 5000), "watermark": Watermark(left=0, right=0)}, [5000] * 9),
    ],
    ids=["rows", "within"],
)
def test_steps_are_not_joined_again_where_rows_match_somewhat_more_than_before(
    window: dict[str, Any], dense: list[int]
) -> None:
    most = 1000
    given = {"on": Band("a", "b", -2, 2), "form": "pairs", "device": "cpu", **window}
    schemas = [pa.schema([schema[0], schema[1]]) for schema in (LEFT, RIGHT)]
    join = WindowJoin(**given, left_schema=schemas[0], right_schema=schemas[1])
    engine = join._calls.journal.pipeline.engine
    assert isinstance(engine, NativeEngine)
    refused, step = [], engine._step

    def watched(*arguments: object, **named: object) -> tuple:
        found = step(*arguments, **named)  # type: ignore[arg-type]
        refused.append(found[0] is None)
        return found

    engine._step = watched  # type: ignore[method-assign, assignment]
    keys = np.random.default_rng(7)
    for number, values in enumerate(dense):
        times = np.arange(5000) + number * 5000
        sides = [pa.table([keys.integers(0, values, 5000), times], schema=schema) for schema in schemas]
        if number == 2:
            refused.clear()
        assert sum(map(len, join.process_blocks(*sides, block_bytes=16 * most))) > 20 * most
    assert len(refused) > 80
    assert not any(refused)


def test_memory_where_rows_begin_to_match_all_at_once() -> None:
    """8,000 rows match 8,000 others, after 100,000 that match none, with 150 MiB to spare; the pairs take 1 GiB."""
    script = """
import resource, numpy as np, pyarrow as pa
from muntin import Band, Rows, WindowJoin
count = 8000
join = WindowJoin(on=Band("a", "b", 0, 0), left=Rows(100_000), right=Rows(100_000), form="pairs")
keys = np.arange(1, 100_001)
dense = [pa.table({key: np.zeros(count, np.int64)}) for key in "ab"]
list(join.process_blocks(pa.table({"a": keys}), pa.table({"b": -keys})))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
total = sum(table.num_rows for table in join.process_blocks(*dense))
print(total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    pairs, kilobytes = map(int, done.stdout.split())
    assert pairs == 8000 * 8000
    assert kilobytes < 150 * 1024


@pytest.mark.parametrize("options", [{}, {"order": "inner"}, {"engine": "shared"}, {"index": "spo_join"}], ids=str)
def test_a_result_without_room_ends_its_join_alone(options: dict[str, object]) -> None:
    device = CpuDevice(memory_bytes=1 << 22)
    given = {"on": Band("a", "b", 0, 0), "left": Rows(1000), "right": Rows(1000), "form": "pairs", "device": device}
    schemas = {"left_schema": pa.schema([("a", pa.int64())]), "right_schema": pa.schema([("b", pa.int64())])}
    large, small = WindowJoin(**given, **options, **schemas), WindowJoin(**given, **schemas)  # type: ignore[arg-type]
    rows = pa.table({"a": [0] * 900}), pa.table({"b": [0] * 900})
    with pytest.raises(
        ResultTooLargeError, match=r"this call finds \d\d\d,\d\d\d pairs or more.*process_blocks"
    ) as caught:
        large.process(*rows)
    assert caught.value.needed > caught.value.available > 1 << 20
    assert not large.usable
    with pytest.raises(DeviceError, match="ResultTooLargeError"):
        large.process(*rows)
    assert small.usable
    assert small.process(*(table[:9] for table in rows)).num_rows == 81
    assert sum(map(len, small.process_blocks(*rows, block_bytes=1 << 16))) == 909 * 909 - 81


def test_a_table_without_room_is_not_made() -> None:
    """200 x 200 pairs take 640 KB; the 2,000 bytes of each of their rows do not fit."""
    device = CpuDevice(memory_bytes=1 << 23)
    join = WindowJoin(on=Compare("a", "<", "b"), left=Rows(300), right=Rows(300), device=device)
    left = pa.table({"a": [0] * 200, "x": ["x" * 2000] * 200})
    with pytest.raises(
        ResultTooLargeError, match=r"has 40,000 rows, which take 8\d,\d\d\d,\d\d\d bytes.*process_blocks"
    ):
        join.process(left, pa.table({"b": [1] * 200}))
