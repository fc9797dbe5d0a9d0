"""Self joins: one stream in both roles, each row stored once."""

import numpy as np
import pyarrow as pa
import pytest

from muntin import Rows, Watermark, WindowJoin, Within
from muntin.host import errors
from tests.conformance.predicates import for_host
from tests.conformance.small_joins import table
from tests.oracles.nested_loop import NestedLoop

PREDICATES = [
    ("band", -2, 1),
    ("band", 0, 0),
    ("band", None, -1),
    ("compare", "!="),
    ("any", [("band", -3, -2), ("band", 1, 2)]),
]
WINDOWS = {
    "rows-1": {"rows": (1, 1)},
    "rows": {"rows": (9, 20)},
    "rows-back": {"rows": (300, 4)},
    "within": {"within": (-4, 9)},
    "within-ahead": {"within": (2, 9)},
    "within-late": {"within": (-4, 9), "delay": 3},
}


def both(predicate, window, right_key="k", **more):
    """The arguments of the join and of the nested loop for the same self join."""
    window = dict(window)
    host = {"on": for_host(predicate, "k", right_key), "self_join": True, **more}
    loop = {"sequence": more.get("sequence"), "self_join": True, "itself": more.get("itself", False)}
    if "rows" in window:
        host |= {"left": Rows(window["rows"][0]), "right": Rows(window["rows"][1])}
        loop["rows"] = window["rows"]
    else:
        host["within"] = Within("t", "t", *window["within"])
        loop["within"] = ("t", "t", *window["within"])
    if "delay" in window:
        host["watermark"] = Watermark(left=window["delay"], lag=0)
        loop["delays"] = (window["delay"], window["delay"])
    return host, NestedLoop(predicate, "k", right_key, **loop)


def stream(rng, right_key="k"):
    """Calls of one stream: of all sizes, with NULL keys and times, unsorted within a call."""
    calls, first = [], 0
    for size in rng.permuted([0, 1, 2, 17, 40, 1, 90, 5, 33]):
        columns = {"k": pa.array(rng.integers(0, 7, size), pa.int32(), mask=rng.random(size) < 0.1)}
        columns["t"] = pa.array(first // 4 + rng.integers(-5, 6, size), pa.int64(), mask=rng.random(size) < 0.1)
        columns["q"] = pa.array(rng.permuted(np.arange(first, first + size) // 2))
        if right_key != "k":
            columns[right_key] = pa.array(rng.integers(0, 7, size), pa.int64(), mask=rng.random(size) < 0.1)
        calls.append(pa.table(columns))
        first += size
    return calls


def check(device, calls, host, loop, order, form):
    with WindowJoin(**host, device=device, order=order, form=form, left_schema=calls[0].schema) as join:
        found = 0
        for call in calls:
            first = len(loop.streams["left"].rows)
            due = loop.process(call, None)
            result = join.process(call)
            found += len(due)
            if form == "counts":
                counts = {(row["side"], row["row"]): row["matches"] for row in result.to_pylist()}
                expected = {(side, first + at): 0 for at in range(len(call)) for side in ("left", "right")}
                for pair in due:
                    expected[pair.side, max(pair.left, pair.right)] += 1
                assert counts == expected
                continue
            pairs = list(zip(result["left_row"].to_pylist(), result["right_row"].to_pylist(), strict=True))
            expected = [(pair.left, pair.right) for pair in due]
            if order != "inner":
                assert order == "none" or [max(pair) for pair in pairs] == sorted(max(pair) for pair in pairs)
                pairs, expected = sorted(pairs), sorted(expected)
            assert pairs == expected
        stats = join.stats
    assert stats.rows_left == stats.rows_right == sum(map(len, calls))
    assert stats.matches == found
    assert stats.late_left == stats.late_right == loop.streams["left"].late
    return found


@pytest.mark.parametrize("itself", [False, True])
@pytest.mark.parametrize("window", list(WINDOWS))
@pytest.mark.parametrize("predicate", PREDICATES, ids=str)
def test_one_key(predicate, window, itself, index, device, seed):
    rng = np.random.default_rng([seed, len(window), itself])
    host, loop = both(predicate, WINDOWS[window], itself=itself, index=index, sequence="q")
    assert check(device, stream(rng), host, loop, "inner", "pairs") > 0


@pytest.mark.parametrize("itself", [False, True])
@pytest.mark.parametrize("window", ["rows", "within-late"])
@pytest.mark.parametrize("predicate", [("band", -1, 2), ("compare", "<")], ids=str)
def test_two_keys(predicate, window, itself, index, device, seed):
    """Columns of two widths: two indexes over one stream."""
    rng = np.random.default_rng([seed, len(window), itself])
    host, loop = both(predicate, WINDOWS[window], "other", itself=itself, index=index)
    assert check(device, stream(rng, "other"), host, loop, "inner", "pairs") > 0


@pytest.mark.parametrize(("order", "form"), [("none", "pairs"), ("outer", "pairs"), ("none", "counts")])
@pytest.mark.parametrize("window", ["rows", "within"])
def test_orders_and_forms(window, order, form, device, seed):
    rng = np.random.default_rng([seed, len(order)])
    host, loop = both(("any", [("band", -2, 0), ("band", 2, 3)]), WINDOWS[window], itself=True)
    assert check(device, stream(rng), host, loop, order, form) > 100


def test_rows(device):
    """The left names, then the right names with the suffix."""
    rows = pa.table({"k": [1, 2, 2], "name": ["a", "b", "c"]})
    with WindowJoin(
        on=for_host(("band", 0, 1), "k", "k"), left=2, right=2, self_join=True, device=device, order="inner"
    ) as join:
        result = join.process(rows)
        assert result.schema.names == ["k", "name", "k_right", "name_right"]
        names = list(zip(result["name"].to_pylist(), result["name_right"].to_pylist(), strict=True))
        assert names == [("a", "b"), ("a", "c"), ("c", "b"), ("b", "c")]
        assert join.process(rows.slice(0, 0)).schema == result.schema


def test_many_rows_equal_the_two_sided_join(device_case, device, seed):
    """Steps and merges of all sizes: the pairs of different rows are those of the stream joined with itself, each row
    of which sees the rows before it."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 20_000, 30_000 if device_case.max_window is None else 3000)
    rows = pa.table({"k": keys, "q": np.arange(len(keys))})
    results = []
    for self_join in (True, False):
        more = {"self_join": True} if self_join else {}
        with WindowJoin(
            on=for_host(("band", -3, 5), "k", "k"), left=2000, right=1500, sequence="q", form="pairs", order="none",
            device=device, left_schema=rows.schema, **({} if self_join else {"right_schema": rows.schema}), **more
        ) as join:  # fmt: skip
            parts = []
            for start in range(0, len(keys), 7001):
                part = rows.slice(start, 7001)
                parts.append(join.process(part, None if self_join else part))
        pairs = np.stack([pa.concat_tables(parts)[name].to_numpy() for name in ("left_row", "right_row")], axis=1)
        # Where both sides come at once, a right row takes one of the left window's places with its own twin.
        apart = pairs[:, 1] - pairs[:, 0]
        pairs = pairs[(apart != 0) & (apart != 2000)]
        results.append(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))])
    assert len(results[0]) > 1000
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("name", ["numpy", "opencl"])
@pytest.mark.parametrize("window", ["rows", "within"])
def test_each_row_is_stored_once(name, window, seed):
    """At most 0.6 of the bytes of the two-sided join of the same stream with itself."""
    rng = np.random.default_rng(seed)
    count = 60_000
    rows = pa.table(
        {"k": rng.integers(0, 10**9, count), "t": np.arange(count), "payload": rng.integers(0, 99, count).astype(str)}
    )
    kind = {"rows": {"left": 20_000, "right": 20_000}, "within": {"within": Within("t", "t", -20_000, 20_000)}}[window]
    if window == "within":
        kind["watermark"] = Watermark(left=0, right=0, lag=0)
    sizes = []
    for more in ({"self_join": True}, {}):
        try:
            join = WindowJoin(on=for_host(("band", 0, 0), "k", "k"), device=name, **kind, **more)
        except errors.DeviceError as error:
            pytest.skip(str(error))
        with join:
            for start in range(0, count, 4000):
                part = rows.slice(start, 4000)
                join.process(part, None if more else part)
            sizes.append((join.stats.device_bytes, join.stats.row_bytes))
    assert sum(sizes[0]) <= 0.6 * sum(sizes[1]), sizes


def test_what_makes_no_self_join():
    arguments = {"on": for_host(("band", 0, 0), "k", "k"), "left": 2, "right": 2, "device": "numpy"}
    one = table([1])
    with WindowJoin(**arguments, self_join=True) as join:
        with pytest.raises(errors.SchemaError, match="give its rows as left, and no right"):
            join.process(one, one)
        assert join.process(one).num_rows == 0
    with pytest.raises(errors.SchemaError, match="one stream"):
        WindowJoin(**arguments, self_join=True, left_schema=one.schema, right_schema=table([1], q=[1]).schema)
    with pytest.raises(errors.PredicateError, match="self_join=True"):
        WindowJoin(**arguments, itself=True)
    timed = {"on": arguments["on"], "device": "numpy", "self_join": True}
    with pytest.raises(errors.WindowError, match="one event time, not 't' and 'u'"):
        WindowJoin(**timed, within=Within("t", "u", 0, 0))
    with pytest.raises(errors.WindowError, match="one watermark"):
        WindowJoin(**timed, within=Within("t", "t", 0, 0), watermark=Watermark(left=1, right=2))
