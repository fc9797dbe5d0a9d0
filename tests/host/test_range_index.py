"""Range search in an index over one window, against NumPy over all rows."""

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from muntin.host.errors import KeyTypeError, UnsupportedError, WindowError
from muntin.host.index import BPlusTree, BurstTrie, CsbTree, Judy, RadixTree, Slices, SortedRuns, TimeKeyed
from muntin.host.join.range_index import open_window_index
from muntin.host.native import INDEXES

needs_judy = pytest.mark.skipif(
    not INDEXES["judy"].built, reason="this build of the core has no Judy arrays (Debian: apt install libjudy-dev)"
)
TREES = [
    BPlusTree(),
    CsbTree(),
    BurstTrie(),
    BurstTrie(container_rows=2),
    RadixTree(),
    pytest.param(Judy(), marks=needs_judy),
]
INDEXES = [
    *TREES,
    Slices(of=CsbTree(), stride=7),
    Slices(of=BurstTrie(container_rows=3)),
    pytest.param(Slices(of=Judy(), stride=3), marks=needs_judy),
    Slices(of=BPlusTree(), stride=11),
    Slices(of=RadixTree(), stride=5),
    TimeKeyed(),
    TimeKeyed(of="bplus_tree"),
    TimeKeyed(of="radix_tree"),
    TimeKeyed(of="burst_trie"),
    pytest.param(TimeKeyed(of="judy"), marks=needs_judy),
]
KEYS = ("int32", "uint32", "float32", "int64", "uint64", "float64")
WAYS = ("mapper", "iterator", "thread")


def ways_of(index) -> tuple[str, ...]:
    rooted = isinstance(index, RadixTree) or (isinstance(index, Slices) and isinstance(index.of, RadixTree))
    return (*WAYS, "root") if rooted else WAYS


steps = st.tuples(
    st.integers(0, 2**32 - 1),  # seed
    st.sampled_from([0, 1, 5, 40, 300]),  # rows
    st.sampled_from([1, 30, 100_000, 2**31]),  # keys
    st.integers(0, 40),  # of time, that pass
    st.booleans(),  # what is past goes
)


@pytest.mark.parametrize("index", INDEXES, ids=repr)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], max_examples=4)
@given(key_type=st.sampled_from(KEYS), real=st.booleans(), calls=st.lists(steps, min_size=1, max_size=8))
def test_every_way_finds_the_rows_of_a_range(index, key_type, real, calls) -> None:
    if isinstance(index, TimeKeyed):
        key_type = key_type[:-2] + "32"
    window = open_window_index(index, span=50, key_type=key_type, values="float64" if real else "int64")
    keys, times, values = np.empty(0, key_type), np.empty(0, np.int64), np.empty(0, np.float64 if real else np.int64)
    now, limit = 0, -(10**9)
    for seed, count, most, passed, expire in calls:
        rng = np.random.default_rng(seed)
        own = rng.integers(0 if key_type[0] == "u" else -most, most, count).astype(key_type)
        when = now + rng.integers(-10, 30, count)
        what = rng.integers(-100, 100, count).astype(values.dtype)
        on_time = when > limit
        assert window.insert(own, when, what) == on_time.sum()
        keys, times, values = (
            np.append(keys, own[on_time]),
            np.append(times, when[on_time]),
            np.append(values, what[on_time]),
        )
        now += passed
        if expire:
            limit = max(limit, now - 50)
            window.expire(limit)
        live = times > limit
        assert window.rows >= live.sum()
        a, b = rng.integers(-most, most, 2).tolist()
        exact = keys.astype(object)
        for low, high in ((a, b), (min(a, b), max(a, b) + 0.5), (None, None)):
            met = live.copy()
            if low is not None:
                met &= (exact >= low) & (exact <= high)
            expected = sorted(zip(keys[met].tolist(), values[met].tolist(), strict=True))
            assert window.map(low, high, "count") == len(expected)
            for way in ways_of(index):
                assert window.map(low, high, "sum", way=way) == values[met].sum()
            if expected:
                assert window.map(low, high, "min") == values[met].min()
                assert window.map(low, high, "max") == values[met].max()
                assert window.map(low, high, "mean") == pytest.approx(values[met].mean())
            else:
                assert [window.map(low, high, f) for f in ("min", "max", "mean")] == [None] * 3
            found: list = []
            window.map(low, high, lambda key, value, found=found: found.append((key, value)))
            assert sorted(found) == expected
            if not isinstance(index, (Slices, TimeKeyed)):
                assert [key for key, _ in found] == [key for key, _ in expected]
            for way in ways_of(index)[1:]:
                assert list(window.iterate(low, high, way=way)) == found
            recent = met & (times > now - 20)
            assert window.map(low, high, "sum", after=now - 20) == values[recent].sum()
        # Of keys whose last row has not expired: rows come in any order of time here.
        last = {key: row for row, key in enumerate(keys.tolist())}
        asked = [key for key, row in last.items() if live[row]][:8]
        assert window.find(np.array(asked, key_type)).tolist() == [last[key] for key in asked]
        # Of one time, the newest row; rows of one key may have come at several.
        newest = {(key, time): row for row, (key, time) in enumerate(zip(keys.tolist(), times.tolist(), strict=True))}
        asked_at = [pair for pair, row in newest.items() if live[row]][:8]
        if asked_at:
            wanted, at = zip(*asked_at, strict=True)
            assert window.find(np.array(wanted, key_type), at).tolist() == [newest[pair] for pair in asked_at]
            assert window.find(np.array(wanted[:1], key_type), 10**6).tolist() == [-1]


@pytest.mark.parametrize("index", TREES, ids=repr)
@pytest.mark.parametrize("order", ["rising", "falling", "random", "equal"])
@pytest.mark.parametrize("bits", [32, 64])
def test_a_structure_fills_and_empties(index, order, bits, seed) -> None:
    """Rows leave one by one, and what held them with them."""
    window = open_window_index(index, span=10, key_type=f"int{bits}")
    rng, rows = np.random.default_rng(seed), 6000
    ends = np.iinfo(f"int{bits}")
    keys = {
        "rising": np.arange(rows) * 1000,
        "falling": -np.arange(rows) * 1000,
        "random": rng.integers(ends.min, ends.max, rows, endpoint=True),
        "equal": np.full(rows, ends.max),
    }[order].astype(f"int{bits}")
    peak = 0
    for start in range(0, rows, 500):
        window.insert(keys[start : start + 500], np.full(500, start // 500))
        window.expire(start // 500 - 3)
        live = np.sort(keys[max(0, start - 1000) : start + 500])
        assert window.rows == len(live)
        assert [key for key, _ in window.iterate()] == live.tolist()
        if start == 2000:
            peak = window.bytes
    assert window.bytes < 2 * peak  # what has gone leaves room for what comes
    window.expire(100)
    assert (window.rows, list(window.iterate())) == (0, [])
    figures = window.figures()
    assert figures["erased"] == rows
    assert not any(
        figures.get(name, 0) for name in ("node_groups", "leaves", "trie_nodes", "trie_containers", "keys", "nodes")
    )
    assert not any(figures.get(f"nodes_{size}", 0) for size in (4, 16, 48, 256))


def test_a_csb_tree_has_the_depth_of_its_fan_out(seed) -> None:
    window = open_window_index("csb_tree", span=1, key_type="int32")
    window.insert(np.random.default_rng(seed).integers(-(2**31), 2**31, 20_000).astype(np.int32), np.zeros(20_000))
    figures = window.figures()
    assert 0.5 <= figures["leaf_fill"] <= 1
    assert figures["leaves"] >= 20_000 / 7
    # 15 children of a node at most, 8 at least; 7 entries of a leaf at most.
    assert np.log(20_000 / 7) / np.log(15) <= figures["depth"] - 1 <= np.log(20_000 / 3.5) / np.log(7) + 1
    assert window.bytes >= figures["node_groups"] * 1024


def test_a_trie_bursts_where_a_container_is_full() -> None:
    window = open_window_index(BurstTrie(container_rows=8), span=1, key_type="int32")
    window.insert(np.arange(8), np.zeros(8))
    assert window.figures() | {"trie_nodes": 0, "trie_containers": 1, "bursts": 0, "depth": 1} == window.figures()
    window.insert([8], [0])  # it differs from the others in the last byte alone: four nodes
    assert window.figures() | {"trie_nodes": 4, "trie_containers": 9, "depth": 5} == window.figures()
    window.insert(np.full(1000, 8), np.zeros(1000))  # rows of one key do not burst
    assert window.figures()["bursts"] == 4
    assert window.map(8, 8, "count") == 1001


@given(
    count=st.integers(1, 3000),
    most=st.sampled_from([1, 2, 8, 64]),
    span=st.sampled_from([1, 300, 1 << 20, 1 << 31]),
    seed=st.integers(0, 99),
)
def test_a_trie_and_a_csb_tree_have_full_nodes_and_no_empty_ones(count, most, span, seed) -> None:
    rng = np.random.default_rng(seed)
    keys = rng.integers(-span, span, count).astype(np.int32)
    equal = np.unique(keys, return_counts=True)[1].max()
    full = max(most, 4)  # no container is smaller
    for index in (BurstTrie(container_rows=most), CsbTree()):
        window = open_window_index(index, span=9, key_type="int32")
        for part in np.array_split(keys, 5):
            window.insert(part, np.zeros(len(part)))
        figures = window.figures()
        if isinstance(index, BurstTrie):
            assert 1 <= figures["depth"] <= 5  # a byte of the key for each level but the last
            assert figures["trie_nodes"] == figures["bursts"]
            assert count / max(full, equal) <= figures["trie_containers"] <= count
            assert (figures["bursts"] == 0) == (count <= full)
        else:
            assert count / 7 <= figures["leaves"] <= max(1, count)
            assert figures["leaf_fill"] == pytest.approx(count / (7 * figures["leaves"]))
            assert figures["leaves"] <= 15 ** (figures["depth"] - 1)


def test_a_radix_tree_has_nodes_of_the_size_of_their_children(seed) -> None:
    """Forks, growth, and shrinking back as rows leave in the order in which they came."""
    rng = np.random.default_rng(seed)
    for count, kind in (
        (4, "nodes_4"),
        (5, "nodes_16"),
        (16, "nodes_16"),
        (17, "nodes_48"),
        (48, "nodes_48"),
        (49, "nodes_256"),
    ):
        window = open_window_index(RadixTree(), span=1000, key_type="int32")
        window.insert(rng.permutation(count), np.arange(count))  # keys that differ in the last byte alone: one node
        kinds = {name: value for name, value in window.figures().items() if name.startswith("nodes_")}
        assert kinds == {"nodes_4": 0, "nodes_16": 0, "nodes_48": 0, "nodes_256": 0} | {kind: 1}
        window.insert([1 << 30], [count])  # bytes that all keys of a node share take no node: two, not five
        assert (sum(window.figures()[name] for name in kinds), window.figures()["depth"]) == (2, 3)
    window = open_window_index(RadixTree(), span=10**6, key_type="int64")
    keys = rng.permutation(256) << 40
    window.insert(keys, np.arange(256))
    assert window.figures() | {"nodes_256": 1, "leaves": 256, "depth": 2} == window.figures()
    for left, kind in ((40, "nodes_48"), (12, "nodes_16"), (3, "nodes_4")):
        window.expire(255 - left)
        assert window.figures() | {kind: 1, "leaves": left} == window.figures()
        assert [key for key, _ in window.iterate()] == np.sort(keys[-left:]).tolist()
    window.expire(254)  # an only child takes its node's place
    assert window.figures() | {"nodes_4": 0, "leaves": 1, "depth": 1} == window.figures()


def test_a_search_at_a_time_asks_one_slice() -> None:
    window = open_window_index(Slices(of=RadixTree(), stride=60), span=300)
    window.insert(np.arange(300) % 50, np.arange(300))
    assert window.find([7, 8]).tolist() == [257, 258]
    assert window.figures()["searches"] == 10  # two keys in five slices
    assert window.find([7, 8, 7, 7], at=[207, 208, 257, 256]).tolist() == [207, 208, 257, -1]
    assert window.figures()["searches"] == 14
    assert window.find([7, 8], at=10**9).tolist() == [-1, -1]  # no slice has such a time
    assert window.figures()["searches"] == 14
    window.expire(208)
    assert window.find([7, 9], at=[207, 209]).tolist() == [-1, 209]
    with pytest.raises(WindowError, match="one time"):
        window.find([7, 8], at=[1, 2, 3])


@given(
    stride=st.integers(1, 20),
    steps=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 25)), min_size=1, max_size=20),
)
def test_slices_are_those_of_the_strides_that_have_rows(stride, steps) -> None:
    """Whole slices go, and strides without rows have none."""
    window = open_window_index(Slices(of=CsbTree(), stride=stride), span=50)
    held: dict[int, list[int]] = {}  # times of a stride's rows
    dropped = now = 0
    start = None  # strides are counted from the first row's time on
    for rows, passed in steps:
        times = now + np.arange(rows) % 30
        window.insert(np.arange(rows), times)
        for time in times.tolist():
            start = time if start is None else start
            held.setdefault((time - start) // stride, []).append(time)
        now += passed
        window.expire(now - 50)
        gone = [number for number, own in held.items() if max(own) <= now - 50]
        dropped += len(gone)
        for number in gone:
            del held[number]
        figures = window.figures()
        assert figures["rows_of_slices"] == [len(held[number]) for number in sorted(held)]
        assert (figures["slices"], figures["slices_dropped"]) == (len(held), dropped)
        assert figures["gaps"] == (max(held) - min(held) + 1 - len(held) if held else 0)


def test_the_figure_of_the_paper() -> None:
    """Figure 3: contents of the array in the first ten minutes, five minutes of window and one of stride."""
    window = open_window_index(Slices(of=CsbTree(), stride=60), span=300)
    for minute in range(1, 11):
        window.insert([minute], [60 * minute])
        window.expire(60 * (minute - 5) + 59)  # of minute - 5 the last second
        figures = window.figures()
        assert [key for key, _ in window.iterate()] == list(range(max(1, minute - 4), minute + 1))
        assert figures["slices"] == min(minute, 5)
        assert figures["slices_dropped"] == max(0, minute - 5)
        assert figures["slices_chained"] == 0


def test_strides_without_rows_clear_their_slots() -> None:
    window = open_window_index(Slices(of=CsbTree(), stride=10), span=50)
    window.insert([1, 2, 3], [0, 20, 49])
    assert window.figures() | {"slices": 3, "gaps": 2, "rows_of_slices": [1, 1, 1]} == window.figures()
    window.expire(1000)  # no row has come since
    assert window.figures() | {"slices": 0, "gaps": 0, "slices_dropped": 3} == window.figures()
    window.insert([4], [10**15])  # far ahead
    window.insert([5], [1001])
    assert window.figures()["gaps"] > 10**12
    assert sorted(window.iterate()) == [(4, 3), (5, 4)]


def test_a_slice_shows_no_row_that_has_expired() -> None:
    window = open_window_index(Slices(of=CsbTree(), stride=100), span=300)
    window.insert([1, 2, 3], [0, 50, 250])
    window.expire(49)
    assert (window.rows, window.map(None, None, "count"), window.find([1]).tolist()) == (3, 2, [-1])
    assert window.insert([9], [49]) == 0  # late
    window.expire(50)
    assert list(window.iterate()) == [(3, 2)]


def test_a_mapping_function_ends_the_search() -> None:
    window = open_window_index("csb_tree", span=1)
    window.insert(np.arange(100), np.zeros(100))
    seen = []

    def until_ten(key: int, value: int) -> bool:
        seen.append(key)
        return key < 10

    window.map(5, 90, until_ten)
    assert seen == [5, 6, 7, 8, 9, 10]
    with pytest.raises(ZeroDivisionError):
        window.map(5, 90, lambda key, value: key // 0)
    assert window.map(5, 6, "count") == 2  # it goes on


@pytest.mark.parametrize("way", WAYS[1:])
def test_an_iterator_that_is_dropped_lets_the_index_go(way) -> None:
    window = open_window_index("slices", span=5)
    window.insert(np.arange(100_000), np.arange(100_000) % 5)
    rows = window.iterate(way=way)
    assert next(rows) == (0, 0)
    with pytest.raises(RuntimeError, match="in the middle"):
        window.insert([1], [1])
    rows.close()
    assert window.insert([1], [1]) == 1


def test_sums_are_exact() -> None:
    window = open_window_index("csb_tree", span=1, values="int64")
    window.insert([1, 2, 3], [0, 0, 0], [2**63 - 1, 2**63 - 1, 2**63 - 1])
    assert window.map(None, None, "sum") == 3 * (2**63 - 1)
    window.insert([1, 2, 3, 4], [0] * 4, [-(2**63)] * 4)
    assert window.map(None, None, "sum") == 3 * (2**63 - 1) - 4 * 2**63


def test_what_is_refused() -> None:
    for parameters, error, match in [
        ({"span": 0}, WindowError, "span"),
        ({"span": 1, "key_type": "int16"}, KeyTypeError, "int16"),
        ({"span": 1, "values": "text"}, WindowError, "values"),
        ({"span": 1, "index": SortedRuns()}, UnsupportedError, "range search"),
        ({"span": 1, "index": Slices(of=SortedRuns())}, UnsupportedError, "range search"),
        ({"span": 1, "index": TimeKeyed()}, UnsupportedError, "32 bits"),
        ({"span": 1, "index": Slices(of="pim_tree")}, UnsupportedError, "bplus_tree"),
        ({"span": 1, "index": "tree"}, WindowError, "tree"),
        ({"span": 1, "index": Slices(stride="1 minute")}, WindowError, "integer"),
    ]:
        with pytest.raises(error, match=match):
            open_window_index(**parameters)
    window = open_window_index(span=5, key_type="int32")
    for keys, error in [([2**31], KeyTypeError), ([0.5], KeyTypeError), (["a"], KeyTypeError)]:
        with pytest.raises(error):
            window.insert(keys, [0])
    with pytest.raises(WindowError, match="values"):
        window.insert([1], [0], [5])
    with pytest.raises(WindowError, match="each row"):
        window.insert([1, 2], [0])
    with pytest.raises(WindowError, match="median"):
        window.map(0, 1, "median")
    with pytest.raises(WindowError, match="way"):
        window.map(0, 1, "sum", way="magic")
    with pytest.raises(WindowError, match="way"):
        window.iterate(0, 1, way="mapper")
    with pytest.raises(UnsupportedError, match="root"):
        window.iterate(0, 1, way="root")
    with pytest.raises(UnsupportedError, match="root"):
        open_window_index(TimeKeyed(of=RadixTree()), span=5, key_type="int32").map(0, 1, "sum", way="root")
    with pytest.raises(KeyTypeError, match="NaN"):
        open_window_index(span=5, key_type="float64").map(float("nan"), None, "count")
    with pytest.raises(KeyTypeError, match="exactly"):
        open_window_index(span=5, key_type="float64").insert([float("nan")], [0])


@settings(max_examples=60)
@given(
    key_type=st.sampled_from(KEYS),
    keys=st.lists(
        st.integers(-(2**65), 2**65)
        | st.sampled_from([0, 1, 2**53 + 1, 2**63, 2**64 - 1, 2**64, 0.5, 2.0**63, -(2.0**63), 0.1, 16_777_217])
        | st.floats(allow_nan=False),
        min_size=1,
        max_size=4,
    ),
    wrap=st.sampled_from([list, np.array]),
)
@example(key_type="uint64", keys=[0, 2**64 - 1], wrap=list)
@example(key_type="float64", keys=[2**53 + 1], wrap=list)
def test_keys_of_a_list_are_taken_exactly_or_refused(key_type, keys, wrap):
    window = open_window_index("csb_tree", span=300, key_type=key_type)
    given = wrap(keys)
    taken = given.tolist() if wrap is np.array else keys  # an array may have rounded them already
    dtype = np.dtype(key_type)
    finite = [key for key in taken if abs(key) != np.inf]
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            fits = all(float(dtype.type(key)) == key for key in finite)
    else:
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        fits = finite == taken and all(key == int(key) and least <= key <= most for key in finite)
    times = [0] * len(keys)
    if not fits:
        with pytest.raises(KeyTypeError):
            window.insert(given, times)
        return
    assert window.insert(given, times) == len(keys)
    assert sorted(key for key, _ in window.iterate()) == sorted(taken)
    for key in taken:
        assert window.map(key, key, "count") == taken.count(key)
        assert (window.find([key]) >= 0).all()


@pytest.mark.parametrize(
    ("times", "values"), [([0.5], [1]), ([2**63], [1]), ([0], [0.5]), ([0], [2**63]), ([None], [1])]
)
def test_times_and_values_are_taken_exactly_or_refused(times, values):
    window = open_window_index(span=300, values="int64")
    with pytest.raises(KeyTypeError, match="does not fit"):
        window.insert([1], times, values)
    assert window.insert([1], [2.0], [np.uint64(3)]) == 1
