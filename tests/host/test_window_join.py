import numpy as np
import pyarrow as pa
import pytest

from muntin import Band, Compare, Rows, WindowJoin, Within, set_threads
from muntin.host.aggregates import Count, Sum
from muntin.host.devices.numpy_device import NumpyDevice
from muntin.host.engine import native_engine
from muntin.host.engines import SplitJoin
from muntin.host.errors import (
    CapacityError,
    DeviceError,
    KeyTypeError,
    ReplayError,
    ResultTooLargeError,
    SchemaError,
    UnsupportedError,
)

BAND = Band("a", "b", -1, 1)


def left(*values):
    return pa.table({"a": pa.array(values, pa.int32())})


def right(*values):
    return pa.table({"b": pa.array(values, pa.int32())})


def pairs(table):
    return list(zip(table["left_row"].to_pylist(), table["right_row"].to_pylist(), strict=True))


SCHEMAS = {"left_schema": left().schema, "right_schema": right().schema}


def test_a_side_may_come_first_alone():
    join = WindowJoin(on=BAND, left=Rows(2), right=Rows(2), device="numpy", form="pairs", **SCHEMAS)
    assert pairs(join.process(left(1, 2, 3, 4), None)) == []
    assert pairs(join.process(left(5), None)) == []
    assert join.stats.rows_left == 5
    # Rows 0 to 2 have left the window of two.
    assert sorted(pairs(join.process(None, right(1, 3, 5)))) == [(3, 1), (3, 2), (4, 2)]
    assert sorted(pairs(join.process(left(4), None))) == [(5, 1), (5, 2)]


def test_counts_of_a_side_alone_are_zero():
    join = WindowJoin(on=BAND, left=Rows(2), right=Rows(2), device="numpy", form="counts", **SCHEMAS)
    table = join.process(None, right(1, 2))
    assert table.to_pydict() == {"side": ["right", "right"], "row": [0, 1], "matches": [0, 0]}


def test_a_changed_column_is_refused_and_nothing_changes():
    join = WindowJoin(on=BAND, left=Rows(4), right=Rows(4), device="numpy", form="pairs")
    join.process(left(1), right(1))
    with pytest.raises(SchemaError, match="int64"):
        join.process(pa.table({"a": pa.array([1], pa.int64())}), None)
    with pytest.raises(SchemaError, match="'c'"):
        join.process(None, right(1).append_column("c", pa.array([1])))
    assert pairs(join.process(None, right(2))) == [(0, 1)]


def test_what_does_not_fit_is_refused_at_the_start():
    device = NumpyDevice(memory_bytes=1 << 20)
    with pytest.raises(CapacityError) as refused:
        WindowJoin(on=BAND, left=Rows(1 << 20), right=Rows(10), device=device, **SCHEMAS)
    assert refused.value.needed > refused.value.available == device.memory_bytes
    assert device.used_bytes == 0
    with WindowJoin(on=BAND, left=Rows(1 << 12), right=Rows(10), device=device, **SCHEMAS):
        assert device.used_bytes > 0
    assert device.used_bytes == 0


def test_a_device_that_fails_half_way_ends_the_join(monkeypatch):
    join = WindowJoin(on=BAND, left=Rows(4), right=Rows(4), device="numpy", form="pairs")
    join.process(left(1), right(1))
    store = join._calls.journal.pipeline.engine._windows["left"]._store
    monkeypatch.setattr(store, "merge", lambda *_: (_ for _ in ()).throw(RuntimeError("the board is on fire")))
    with pytest.raises(DeviceError, match="on fire"):
        join.process(left(1), right(1))
    with pytest.raises(DeviceError, match="no longer usable"):
        join.process(left(1), right(1))


def test_a_closed_join_says_so():
    join = WindowJoin(on=BAND, left=Rows(4), right=Rows(4), device="numpy")
    join.close()
    join.close()
    with pytest.raises(DeviceError, match="closed"):
        join.process(left(1), None)


def test_state_of_a_time_window_is_bounded_by_the_watermark():
    from muntin import Watermark

    rng = np.random.default_rng(1)
    join = WindowJoin(
        on=BAND,
        within=Within("t", "u", -50, 50),
        watermark=Watermark(10, 10, lag=0),
        device="numpy",
        form="counts",
        capacity=20_000,
    )
    for call in range(200):
        t = np.sort(rng.integers(call * 20, call * 20 + 20, 500))
        keys = rng.integers(0, 1000, 500).astype(np.int32)
        join.process(pa.table({"a": keys, "t": t}), pa.table({"b": keys, "u": t}))
    stats = join.stats
    # Of 25 rows a tick, those of 10 + 50 ticks are needed, and slices are dropped whole.
    assert 1500 <= stats.window_left <= 3000
    assert stats.row_bytes == 0
    assert len(join._calls.journal.pipeline.engine._residuals[0]._times["left"]._values) <= 20_000


def test_auto_follows_the_size_of_batches_and_says_so():
    """Where batches grow, or shrink, the runs of the next subwindow are kept in another way."""
    window = 1 << 14
    rng = np.random.default_rng(3)
    ways, runs = [], []
    with WindowJoin(on=BAND, left=Rows(window), right=Rows(window), form="counts") as join:
        for rows, calls in ((100, 400), (4096, 8), (100, 400)):
            for _ in range(calls):
                keys = rng.integers(0, 1 << 30, rows).astype(np.int32)
                join.process(pa.table({"a": keys}), pa.table({"b": keys}))
            stats = join.stats
            assert stats.index_name == "sorted_runs"
            assert stats.index["left"]["batch_rows"] == pytest.approx(rows, rel=0.5)
            ways.append(stats.index["left"]["one_run"])
            runs.append(stats.index["left"]["runs"])
    assert ways == [0, 1, 0]
    assert runs[1] < min(runs[0], runs[2])


def test_join_cores_follow_the_stream_and_say_why():
    """Few matches ask for an index. Where much of a window matches, nested loops copy it as fast as they read it."""
    window, batch, cores = 1 << 15, 1 << 10, 2
    rng = np.random.default_rng(4)
    band = Band("a", "b", 0, 0)
    options = {"left": Rows(window), "right": Rows(window), "form": "counts"}
    seen = {}
    with (
        WindowJoin(on=band, engine=SplitJoin(cores=cores), index="auto", **options) as join,
        WindowJoin(on=band, **options) as other,
    ):
        for stretch, keys, calls in (
            ("few", 1 << 30, 1),
            ("spread", 1 << 30, 48),
            ("equal", 16, 16),
            ("again", 1 << 30, 64),
        ):
            for _ in range(calls):
                rows = {name: pa.table({name: rng.integers(0, keys, batch).astype(np.int32)}) for name in "ab"}
                assert join.process(rows["a"], rows["b"]) == other.process(rows["a"], rows["b"])
            seen[stretch] = join.stats
    chosen = {stretch: stats.index["left"]["structures"] for stretch, stats in seen.items()}
    assert chosen["few"] == chosen["equal"] == ["nested_loop"] * cores
    assert "nested_loop" not in [*chosen["spread"], *chosen["again"]]
    for stats in seen.values():
        assert stats.index_name == ", ".join(sorted(set(stats.index["left"]["structures"])))
    figures = seen["again"].index["left"]
    assert min(figures["changes"]) >= 3
    assert min(figures["borders"]) >= min(figures["trials"]) >= 3
    assert all(" ns a row: " in why and "matches of a row" in why for why in figures["why"])


def test_sequences_of_different_units_are_one_order():
    join = WindowJoin(on=BAND, left=Rows(1), right=Rows(1), device="numpy", form="pairs", sequence="s")
    seconds = pa.array([1, 3], pa.timestamp("s"))
    micros = pa.array([2_000_000, 3_000_001], pa.timestamp("us"))
    table = join.process(left(1, 1).append_column("s", seconds), right(1, 1).append_column("s", micros))
    assert sorted(pairs(table)) == [(0, 0), (1, 0), (1, 1)]
    other = WindowJoin(on=BAND, left=Rows(1), right=Rows(1), device="numpy", form="pairs", sequence="s")
    with pytest.raises(KeyTypeError, match="'s'"):
        other.process(left(1).append_column("s", pa.array([1])), right(1, 1).append_column("s", micros))


def test_rows_far_apart_in_time_take_no_slice_each(device):
    if "sorted_runs" not in device.indexes or device.info.kind == "cpu":
        pytest.skip("there are no slices")
    join = WindowJoin(on=BAND, within=Within("t", "u", -8, 8), device=device, form="pairs")
    rng = np.random.default_rng(2)
    found, lefts, rights = [], [], []
    for call in range(400):
        # One row a call, ten windows apart, some far back; and now and then many at once, all far apart.
        n = 300 if call % 100 == 50 else 1
        times = [(1000 * call + 160 * k) * (1 if rng.integers(0, 9) else -1) for k in range(n)]
        keys = rng.integers(0, 3, n).astype(np.int32)
        nearby = [t + int(rng.integers(-9, 10)) for t in times]
        lefts += zip(times, keys.tolist(), strict=True)
        rights += zip(nearby, keys.tolist(), strict=True)
        found += pairs(join.process(pa.table({"a": keys, "t": times}), pa.table({"b": keys, "u": nearby})))
    expected = [
        (i, j)
        for i, (t, a) in enumerate(lefts)
        for j, (u, b) in enumerate(rights)
        if abs(u - t) <= 8 and abs(a - b) <= 1
    ]
    assert sorted(found) == sorted(expected)
    assert len(join._calls.journal.pipeline.engine._windows["left"]._ring.subwindows) < 10
    join.close()


def test_stats_count_everything():
    join = WindowJoin(on=BAND, left=Rows(4), right=Rows(8), device="numpy", form="pairs")
    join.process(left(1, None, 3), right(1, 2))
    stats = join.stats.as_dict()
    assert (stats["rows_left"], stats["rows_right"], stats["matches"], stats["unmatchable_left"]) == (3, 2, 3, 1)
    assert (stats["window_left"], stats["fill_left"], stats["fill_right"]) == (3, 0.75, 0.25)
    assert stats["device_bytes"] > 0
    assert set(stats["seconds"]) == {
        "encode",
        "sort",
        "load",
        "bounds",
        "probe",
        "gather",
        "residual",
        "merge",
        "output",
    }


def test_threads_are_for_the_cpu():
    spec = {"on": Band("k", "k", 0, 0), "left": Rows(9), "right": Rows(9)}
    with WindowJoin(**spec, threads=1) as join:
        assert join.stats.device == "cpu:threads=1"
    with pytest.raises(DeviceError, match="threads"):
        WindowJoin(**spec, threads=0)
    rows = pa.table({"k": [1, 2]})
    with WindowJoin(**spec, threads=1 << 40) as join:  # as many as there are
        assert sum(map(len, join.process_blocks(rows, rows, block_bytes=1 << 70))) == 2
    for count in (0, -1, 1 << 40, 2.0, "2", True):
        with pytest.raises(DeviceError, match="threads must be a whole number from 1 to"):
            set_threads(count)
    with pytest.raises(DeviceError, match="threads=2 is for device='cpu'"):
        WindowJoin(**spec, threads=2, device="numpy")


@pytest.mark.parametrize("how", ["inner", "full"])
@pytest.mark.parametrize("form", ["rows", "pairs", "counts", "aggregate", "ranges"])
def test_a_result_is_one_chunk(form, how, monkeypatch):
    """Also where it is found in several steps, and its rows lie in several blocks: NumPy copies nothing."""
    if how != "inner" and form not in ("rows", "pairs"):
        return
    monkeypatch.setattr(native_engine.NativeEngine, "_max_step_pairs", lambda self, call: 64)
    more = {"aggregates": [Count(), Sum("b")]} if form == "aggregate" else {}
    with WindowJoin(on=BAND, left=Rows(500), right=Rows(500), form=form, how=how, device="cpu", **more) as join:
        for _ in range(3):
            result = join.process(left(*range(200)), right(*range(100, 300)))
            assert len(result) > 100
            assert {column.num_chunks for column in result.columns} == {1}
        rest = join.finish() if how == "full" else result
        assert {column.num_chunks for column in rest.columns} == {1}


def test_a_result_without_room_is_refused_with_its_bytes():
    """Of text, whose rows differ in size."""
    notes = pa.table({"a": pa.array([0, 0, 5, 5], pa.int32()), "t": [0, 1, 2, 3], "note": ["", "x" * 40_000, "y", "z"]})
    other = pa.table({"b": pa.array([0] * 60, pa.int32()), "u": [9] * 60})
    device = NumpyDevice()
    with WindowJoin(on=BAND, left=Rows(9), right=Rows(99), device=device) as join:
        device.limit_host_memory(2_000_000)
        with pytest.raises(ResultTooLargeError, match=r"120 rows, which take 2,40\d,\d{3} bytes") as caught:
            join.process(notes, other)
    assert caught.value.needed == 60 * (40_000 + 2 * 28)


def test_a_join_and_its_stats_print_themselves():
    with WindowJoin(on=Band("a", "b", 0, 5), left=1000, right=1000) as join:
        assert repr(join) == "condition: 0 <= right.b - left.a <= 5\nThe columns of the sides are not known yet."
        join.process(pa.table({"a": range(2000)}), pa.table({"b": [1, None]}))
        assert repr(join) == join.explain()
        stats = join.stats
    assert repr(join) == join.explain(), "closed"
    lines = [line.split() for line in str(stats).splitlines()]
    assert lines[:3] == [["left", "right"], ["rows", "2,000", "2"], ["late", "0", "0"]]
    for line in (
        ["unmatchable", "0", "1"],
        ["fill", "100.0%", "0.2%"],
        ["calls", "1"],
        ["matches", str(stats.matches)],
    ):
        assert line in lines
    assert {"rows", "seconds", "index"} <= {line[0] for line in lines}
    assert not any(line[0] in ("watermark", "watermark_seconds") for line in lines[1:]), "there is none"
    shown = stats._repr_html_()
    assert shown.count("<tr>") == shown.count("</tr>") == len(lines)
    assert ">2,000</td>" in shown
    stats.device = "<b>"
    assert "&lt;b&gt;" in stats._repr_html_()


def test_numbers_of_calls_are_whole_and_ascend() -> None:
    rows = pa.table({"n": [1]})
    with WindowJoin(on=Compare("n", "=", "n"), left=9, right=9) as join:
        for number in (1.5, "1", True):
            with pytest.raises(ReplayError, match="batch must be a whole number above that of the last call, -1, not"):
                join.process(rows, rows, batch=number)  # type: ignore[arg-type]
        assert join.process(rows, rows, batch=np.int32(7)).num_rows == 1  # type: ignore[arg-type]
        assert join.last_batch == 7
        with pytest.raises(ReplayError, match="batch 7 comes after batch 7: numbers ascend"):
            next(join.process_blocks(rows, batch=7))
        assert {len(table) for table in join.process_blocks(rows.slice(0, 0))} == {0}


def test_partitions_of_engines_that_have_none_name_what_there_is() -> None:
    own = {"on": Compare("n", "=", "n"), "left": 9, "right": 9, "partitions": 2}
    with pytest.raises(UnsupportedError, match="has parts of its own, and no partitions: use engine='steps'"):
        WindowJoin(**own, engine="shared")
    with pytest.raises(UnsupportedError, match=r"device 'sim:splitjoin-model' .*: leave partitions out, or choose dev"):
        WindowJoin(**own, device="sim:splitjoin-model")
