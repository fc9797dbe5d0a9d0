"""Conjunctions on every device, against the nested loop, and DuckDB over real flights."""

import datetime as dt
import itertools
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import AllOf, AnyOf, Band, Compare, JoinSpec, Rows, Watermark, Where, WindowJoin, Within
from muntin.host.errors import UnsupportedError
from muntin.host.index import Index, SpoJoin
from tests.conformance import check
from tests.conformance.check import check_join
from tests.conformance.conjunctions import NAMES, SHAPES, random_columns, with_columns
from tests.conformance.devices import DeviceCase
from tests.conformance.keys import KEYS, WIDE_KEYS
from tests.conformance.pairwise import pairwise
from tests.conformance.predicates import PREDICATES
from tests.conformance.streams import CUTS, SEQUENCES, make_streams
from tests.conformance.test_contract import name_of
from tests.conformance.test_how import HOWS, check_how, endless
from tests.conformance.windows import WINDOWS
from tests.conftest import SEED
from tests.oracles.nested_loop import NestedLoop

KEY = next(key for key in KEYS if key.bits == 32)
SPO_JOINS = {
    "spo_join": SpoJoin(slide=12, sub_intervals=3),
    "spo_join-bits": SpoJoin(slide=7, immutable="po_join_bits"),
    "spo_join-hash": SpoJoin(slide=5, mutable="hash", immutable="css_hash"),
    "spo_join-css": SpoJoin(slide=9, immutable="css_bits"),
}
SAMPLE = pairwise(
    {
        "shape": list(SHAPES),
        "window": ["rows-1", "rows-unequal", "rows-wide", "within-asymmetric", "within-late", "within-late-left"],
        "form": ["rows", "pairs", "counts"],
        "order": ["none", "outer", "inner"],
        "sequence": list(SEQUENCES),
        "cut": list(CUTS),
        "index": ["auto", *SPO_JOINS],
    },
    SEED,
)


def index_of(case: str, device_case: DeviceCase) -> str | Index:
    """The index that a case names, small enough that a test's rows fill many runs; the default where there is none."""
    return SPO_JOINS.get(case, "auto") if SpoJoin.name in device_case.indexes else "auto"


def skip_twice(index: str, device_case: DeviceCase) -> None:
    """Skips what would be the same test again on a device."""
    if index != "auto" and SpoJoin.name not in device_case.indexes:
        pytest.skip(f"device {device_case.name}: no index {SpoJoin.name}")


@pytest.mark.parametrize("case", SAMPLE, ids=name_of)
def test_sample(case: dict, device_case: DeviceCase, device: object, seed: int) -> None:
    window = WINDOWS[case["window"]]
    if reason := device_case.may_refuse("auto", case["form"], window, next(k for k in KEYS if k.bits == 64)):
        pytest.skip(f"device {device_case.name}: {reason}")
    rng = np.random.default_rng([seed, SAMPLE.index(case)])
    sequenced = case["sequence"] != "none"
    streams = make_streams(KEY, "random", window, case["sequence"], case["cut"], 40, rng)
    streams = with_columns(streams, rng, nan=case["form"] != "rows")
    on, parts = SHAPES[case["shape"]]
    arguments = check.host_arguments(("compare", "="), KEY, window, sequenced) | {"on": on}
    loop = check.oracle(("compare", "="), KEY, window, sequenced)
    loop.predicate, loop.keys = ("all", parts), {"left": NAMES, "right": NAMES}
    with WindowJoin(
        **arguments,
        form=case["form"],
        order=case["order"],
        index=index_of(case["index"], device_case),
        device=device,
        left_schema=streams.left.schema,
        right_schema=streams.right.schema,
    ) as join:
        check_join(join, loop, streams, case["form"], case["order"])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("itself", [False, True])
@pytest.mark.parametrize("index", ["auto", "spo_join"])
def test_self_join(shape: str, itself: bool, index: str, device_case: DeviceCase, device: object, seed: int) -> None:
    skip_twice(index, device_case)
    on, parts = SHAPES[shape]
    if shape == "one-sided":
        assert isinstance(on, AllOf)
        on = AllOf(*on.parts[:2])
        parts = parts[:2]
    rng = np.random.default_rng([seed, *shape.encode()])
    stream = random_columns(90, rng, nan=True)
    loop = NestedLoop(("all", parts), NAMES, NAMES, rows=(20, 9), self_join=True, itself=itself)
    with WindowJoin(
        on=on, left=Rows(20), right=Rows(9), self_join=True, itself=itself, device=device, form="pairs", order="inner",
        left_schema=stream.schema, index=index_of(index, device_case),
    ) as join:  # fmt: skip
        found = 0
        for first, rows in ((0, 1), (1, 40), (41, 0), (41, 49)):
            batch = stream.slice(first, rows)
            due = [(pair.left, pair.right) for pair in loop.process(batch, None)]
            result = join.process(batch)
            assert list(zip(result["left_row"].to_pylist(), result["right_row"].to_pylist(), strict=True)) == due
            found += len(due)
    assert bool(found) == (AnyOf() not in on.parts if isinstance(on, AllOf) else True)


CONSTANTS = pairwise(
    {
        "shape": ["always", "never", "never+narrow", "where-alone"],
        "how": ["inner", *HOWS],
        "window": ["rows-1", "rows-unequal", "within-asymmetric", "within-late"],
        "form": ["rows", "pairs"],
        "order": ["none", "outer", "inner"],
        "sequence": list(SEQUENCES),
        "cut": list(CUTS),
        "partitions": ["1", "3"],
        "state": ["none", "kept"],
    },
    SEED,
)


@pytest.mark.parametrize("case", CONSTANTS, ids=name_of)
def test_conditions_that_compare_nothing(
    case: dict, device_case: DeviceCase, device: object, seed: int, tmp_path: Path
) -> None:
    window, how, sequenced = WINDOWS[case["window"]], case["how"], case["sequence"] != "none"
    rng = np.random.default_rng([seed, CONSTANTS.index(case)])
    streams = make_streams(KEY, "random", window, case["sequence"], case["cut"], 40, rng)
    streams = with_columns(streams, rng, nan=False)
    on, parts = SHAPES[case["shape"]]
    arguments = check.host_arguments(("compare", "="), KEY, window, sequenced) | {"on": on, "how": how}
    loop = check.oracle(("compare", "="), KEY, window, sequenced, how)
    loop.predicate, loop.keys = ("all", parts), {"left": NAMES, "right": NAMES}
    if device_case.name == "cpu":
        arguments |= {"partitions": int(case["partitions"]), "state": tmp_path if case["state"] == "kept" else None}
    arguments |= {"form": case["form"], "order": case["order"], "device": device}
    arguments |= {"left_schema": streams.left.schema, "right_schema": streams.right.schema}
    if how != "inner" and endless(how, window):
        with pytest.raises(UnsupportedError, match=how):
            WindowJoin(**arguments)
        return
    with WindowJoin(**arguments) as join:
        check_all = check_join if how == "inner" else check_how
        check_all(join, loop, streams, case["form"], case["order"])


#: Equalities that a value of 64 bits stands beside, and their parts of the nested loop.
BESIDE = {
    "text": ([Compare("name", "=", "name")], [("pair", "name", "name", ("compare", "="))]),
    "integer": ([Compare("wide", "=", "wide")], [("pair", "wide", "wide", ("compare", "="))]),
    "null-safe": ([Compare("flag", "<=>", "flag")], [("same", "flag", "flag")]),
    "two": (
        [Compare("raw", "=", "raw"), Compare("span", "=", "span")],
        [("pair", "raw", "raw", ("compare", "=")), ("pair", "span", "span", ("compare", "="))],
    ),
}
WIDE_VALUES = [
    "int64", "uint64", "int32-int64", "uint64-int64", "float64", "float64-float32", "timestamp-us", "timestamp-ms-us",
    "decimal-18-6", "decimal-scales",
]  # fmt: skip
LONG_SAMPLE = pairwise(
    {
        "key": WIDE_VALUES,
        "shape": ["random", "nulls", "extremes"],
        "beside": list(BESIDE),
        "predicate": [
            "band-asymmetric",
            "band-open-low",
            "compare-less",
            "compare-not-equal",
            "any-disjoint",
            "band-wide",
        ],
        "window": ["rows-unequal", "rows-wide", "within-symmetric", "within-late", "within-late-asymmetric"],
        "how": ["inner", *HOWS],
        "form": ["rows", "pairs"],
        "order": ["none", "inner"],
        "sequence": list(SEQUENCES),
        "cut": list(CUTS),
        "index": ["sorted_runs", "sorted_array"],
    },
    SEED,
)


@pytest.mark.parametrize("case", LONG_SAMPLE, ids=name_of)
def test_composite_keys_of_128_bits(case: dict, seed: int) -> None:
    key = next(key for key in [*KEYS, *WIDE_KEYS] if key.name == case["key"])
    window, how, sequenced = WINDOWS[case["window"]], case["how"], case["sequence"] != "none"
    rng = np.random.default_rng([seed, LONG_SAMPLE.index(case)])
    streams = make_streams(key, case["shape"], window, case["sequence"], case["cut"], 40, rng)
    streams = with_columns(streams, rng, nan=False)
    predicate, (equal, parts) = PREDICATES[case["predicate"]], BESIDE[case["beside"]]
    arguments = check.host_arguments(predicate, key, window, sequenced) | {"how": how}
    arguments["on"] = AllOf(*equal, arguments["on"])
    loop = check.oracle(predicate, key, window, sequenced, how)
    left, right = ["limit", *NAMES], ["price", *NAMES]
    parts = [(kind, left.index(a), left.index(b), *rest) for kind, a, b, *rest in parts]
    loop.predicate = ("all", [*parts, ("pair", 0, 0, loop.predicate)])
    loop.keys = {"left": left, "right": right}
    with WindowJoin(
        **arguments, form=case["form"], order=case["order"], index=case["index"], left_schema=streams.left.schema,
        right_schema=streams.right.schema,
    ) as join:  # fmt: skip
        assert "as one composite key of 128 bits" in join.explain()
        check_all = check_join if how == "inner" else check_how
        check_all(join, loop, streams, case["form"], case["order"])


@settings(max_examples=60)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=5),
    rows=st.tuples(st.integers(1, 50), st.integers(1, 50)),
    bounds=st.tuples(*[st.sampled_from([-(2**64), -(2**63), -1, 0, 1, 2**63 - 1, 2**64])] * 2).map(sorted),
    itself=st.booleans(),
    index=st.sampled_from(["sorted_runs", "sorted_array"]),
    number=st.integers(0, 1000),
    total=st.booleans(),
)
def test_ends_of_int64_beside_a_text(
    sizes: list, rows: tuple, bounds: list, itself: bool, index: str, number: int, total: bool
) -> None:
    """Bands as wide as the type, on values at its ends or on their sums, reach into no other text's keys."""
    rng = np.random.default_rng(number)
    ends = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1, None]
    schema = pa.schema([("s", pa.string()), ("v", pa.int64())])
    parts = [("pair", 0, 0, ("compare", "=")), ("pair", 1, 1, ("sum" if total else "band", *bounds))]
    on = AllOf(Compare("s", "=", "s"), Band("v", "v", *bounds, sum=total))

    def batch(count: int) -> pa.Table:
        values = [
            [ends[at] for at in rng.integers(0, len(ends), count)],
            ["abc"[at] for at in rng.integers(0, 3, count)],
        ]
        return pa.table({"s": values[1], "v": pa.array(values[0], pa.int64())}, schema)

    loop = NestedLoop(("all", parts), ["s", "v"], ["s", "v"], rows=rows, self_join=itself, itself=itself)
    right = {} if itself else {"right_schema": schema}
    with WindowJoin(
        on=on, left=Rows(rows[0]), right=Rows(rows[1]), form="pairs", order="inner", index=index, left_schema=schema,
        self_join=itself, itself=itself, **right,
    ) as join:  # fmt: skip
        for left_rows, right_rows in sizes:
            batches = [batch(left_rows), None if itself else batch(right_rows)]
            due = [(pair.left, pair.right) for pair in loop.process(*batches)]
            result = join.process(*batches)
            assert list(zip(result["left_row"].to_pylist(), result["right_row"].to_pylist(), strict=True)) == due


@pytest.mark.parametrize(
    ("options", "fits"),
    [
        ({}, True),
        ({"index": "sorted_array"}, True),
        ({"index": "bisort"}, False),
        ({"engine": "splitjoin"}, False),
        ({"device": "numpy"}, False),
        ({"form": "aggregate", "aggregates": "count()"}, True),
    ],
    ids=str,
)
def test_explain_says_where_a_value_fits_no_composite_key(options: dict, fits: bool) -> None:
    schema = pa.schema([("s", pa.string()), ("v", pa.int64())])
    on = AllOf(Compare("s", "=", "s"), Compare("v", "<", "v"))
    with WindowJoin(
        on=on, left=Rows(5), right=Rows(5), left_schema=schema, right_schema=schema, **options
    ) as join:  # fmt: skip
        text = join.explain()
    assert ("as one composite key of 128 bits" in text) == fits
    assert ("left.v < right.v, whose values fit no composite key" in text) == (not fits)


def _parts() -> st.SearchStrategy[tuple]:
    """A part as the operator and as the nested loop take it."""
    number = st.sampled_from(["narrow", "wide", "single", "double"])
    whole = st.sampled_from(["narrow", "wide"])
    ends = st.tuples(st.none() | st.integers(-6, 0), st.none() | st.integers(0, 6))

    def at(name: str) -> int:
        return NAMES.index(name)

    alike = st.sampled_from(["single", "double", "day"]).map(lambda c: (c, c))
    pairs_of_numbers = st.tuples(whole, whole) | alike | st.sampled_from([("day", "stamp"), ("stamp", "day")])
    pairs_of_any = pairs_of_numbers | st.sampled_from(["name", "raw", "flag", "span"]).map(lambda c: (c, c))
    return st.one_of(
        st.tuples(
            st.tuples(whole, whole) | st.tuples(st.just("double"), st.sampled_from(["single", "narrow"])), ends
        ).map(lambda p: (Band(*p[0], *p[1]), ("pair", at(p[0][0]), at(p[0][1]), ("band", *p[1])))),
        st.tuples(pairs_of_numbers, st.sampled_from(["<", "<=", ">", ">=", "!="])).map(
            lambda p: (Compare(p[0][0], p[1], p[0][1]), ("pair", at(p[0][0]), at(p[0][1]), ("compare", p[1])))
        ),
        pairs_of_any.map(lambda p: (Compare(p[0], "=", p[1]), ("pair", at(p[0]), at(p[1]), ("compare", "=")))),
        pairs_of_any.map(lambda p: (Compare(p[0], "<=>", p[1]), ("same", at(p[0]), at(p[1])))),
        pairs_of_any.map(lambda p: (Compare(p[0], "is distinct from", p[1]), ("distinct", at(p[0]), at(p[1])))),
        st.tuples(pairs_of_numbers, st.sampled_from(["<", ">", "!=", "="])).map(
            lambda p: (
                AnyOf(Compare(p[0][0], p[1], p[0][1]), Compare(p[0][0], "<=>", p[0][1])),
                ("same-or", at(p[0][0]), at(p[0][1]), ("compare", p[1])),
            )
        ),
        st.tuples(st.sampled_from(["left", "right"]), number, st.integers(-3, 3)).map(
            lambda p: (Where(p[0], p[1], "<=", p[2]), ("where", p[0], at(p[1]), lambda value: value <= p[2]))
        ),
    )


CONJUNCTIONS = st.lists(_parts(), min_size=1, max_size=5).filter(
    lambda parts: not all(isinstance(part, Where) for part, _ in parts)
)


@pytest.mark.parametrize(
    ("device", "index"),
    [
        *(("cpu", "auto"), ("numpy", "auto"), ("sim:splitjoin-model", "auto"), ("cpu", "partitions")),
        ("sim:splitjoin-model:columns=2", "auto"),
        *(("cpu", name) for name in SPO_JOINS),
    ],
)
@settings(max_examples=40)
@given(
    parts=CONJUNCTIONS,
    sizes=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=5),
    rows=st.tuples(st.integers(1, 50), st.integers(1, 50)),
    number=st.integers(0, 1000),
)
def test_random_conjunctions(device: str, index: str, parts: list, sizes: list, rows: tuple, number: int) -> None:
    rng = np.random.default_rng(number)
    loop = NestedLoop(("all", [part for _, part in parts]), NAMES, NAMES, rows=rows)
    schema = random_columns(0, rng, nan=True).schema
    with WindowJoin(
        on=AllOf(*(part for part, _ in parts)), left=Rows(rows[0]), right=Rows(rows[1]), form="pairs", order="inner",
        device=device, left_schema=schema, right_schema=schema, index=SPO_JOINS.get(index, "auto"),
        partitions=3 if index == "partitions" else 1,
    ) as join:  # fmt: skip
        for left, right in sizes:
            batches = [random_columns(count, rng, nan=True) for count in (left, right)]
            due = [(pair.left, pair.right) for pair in loop.process(*batches)]
            result = join.process(*batches)
            assert list(zip(result["left_row"].to_pylist(), result["right_row"].to_pylist(), strict=True)) == due


@pytest.mark.parametrize("device_name", ["cpu", "numpy"])
@pytest.mark.parametrize("within", [False, True])
def test_what_has_left_the_windows_is_forgotten(device_name: str, within: bool) -> None:
    """Texts that never come again, over two hundred windows: neither codes nor residual keys add up."""
    window: dict = {"left": Rows(500), "right": Rows(500)}
    if within:
        window = {"within": Within("t", "t", -500, 500), "watermark": Watermark(left=0, right=0, lag=0)}
    on = AllOf(Compare("s", "=", "s"), Band("k", "k", -1, 1))
    found = 0
    with WindowJoin(on=on, device=device_name, form="pairs", **window) as join:
        for first in range(0, 100_000, 1000):
            t = np.arange(first, first + 1000)
            batch = pa.table({"s": pa.array([f"s{n // 2}" for n in t.tolist()]), "k": t, "t": t})
            found += join.process(batch, batch).num_rows
        codes = join._calls.journal.pipeline.sequencer.condition.codes
        # On cpu the band is in the composite key.
        status = join._calls.journal.pipeline.engine.status()
        residual = status.report["residual_bytes"] if device_name == "numpy" else status.device_bytes
        assert len(codes) <= 5000
        assert len(codes._values) <= 10_000
        assert residual <= 500_000
    # Each text is in two rows of a side; a left row of a call meets none of its own call before the right rows come,
    # which see the last 500 left rows alone.
    assert found == (100_000 * 2 if within else 100_000)


@pytest.mark.parametrize("device_name", ["cpu", "numpy"])
def test_fields_of_structs_as_times(device_name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = pa.struct({"start": pa.timestamp("us"), "end": pa.timestamp("us")})
    calls = []
    for first in range(0, 300, 50):
        ends = [None if rng.random() < 0.1 else int(first + v) for v in rng.integers(0, 60, 50)]
        spans = [None if rng.random() < 0.1 else {"start": 0, "end": end} for end in ends]
        flat = [None if span is None else span["end"] for span in spans]
        keys = rng.integers(0, 5, 50)
        calls.append(pa.table({"k": keys, "w": pa.array(spans, kind), "end": pa.array(flat, pa.timestamp("us"))}))
    found = []
    for column in ("w.end", "end"):
        within = Within(column, column, dt.timedelta(microseconds=-9), dt.timedelta(microseconds=4))
        delay = dt.timedelta(microseconds=30)
        with WindowJoin(
            on=Compare("k", "=", "k"), within=within, watermark=Watermark(left=delay, right=delay, lag=0),
            device=device_name, order="inner", form="pairs",
        ) as join:  # fmt: skip
            found.append([join.process(table, table) for table in calls])
    assert found[0] == found[1]
    assert sum(map(len, found[0])) > 100


FLIGHTS = Path(__file__).parents[2] / ".." / "shared" / "data" / "flights-200k.arrow"


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    if not FLIGHTS.exists():
        pytest.skip("no ../shared/data/flights-200k.arrow here")
    with pa.memory_map(str(FLIGHTS)) as source:
        return pa.ipc.open_file(source).read_all()


CONDITIONS = {
    "delay and distance": (
        AllOf(Band("delay", "delay", -1, 1), Band("distance", "distance", -20, 20)),
        "r.delay BETWEEN l.delay - 1 AND l.delay + 1 AND r.distance BETWEEN l.distance - 20 AND l.distance + 20",
    ),
    "distance and time": (
        AllOf(Compare("distance", "=", "distance"), Band("time", "time", -0.05, 0.05)),
        "r.distance = l.distance AND r.time::DOUBLE BETWEEN l.time::DOUBLE - 0.05::DOUBLE "
        "AND l.time::DOUBLE + 0.05::DOUBLE",
    ),
}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("window", [5000, 300])
@pytest.mark.parametrize("index", ["auto", "spo_join"])
def test_flights(
    condition: str, window: int, index: str, flights: pa.Table, device_case: DeviceCase, device: object
) -> None:
    """A call brings the same rows first to the left, then to the right."""
    rows, batch = flights.slice(flights.num_rows - 5000), 700
    on, sql = CONDITIONS[condition]
    skip_twice(index, device_case)
    chosen = "auto" if index == "auto" else SpoJoin(slide=window // 10, sub_intervals=2)
    found = []
    with WindowJoin(on=on, left=Rows(window), right=Rows(window), form="pairs", device=device, index=chosen) as join:
        for first in range(0, rows.num_rows, batch):
            part = rows.slice(first, batch)
            result = join.process(part, part)
            found.append(np.stack([result["left_row"].to_numpy(), result["right_row"].to_numpy()], axis=1))
    pairs = np.concatenate(found)
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    number = np.arange(rows.num_rows)
    first = number // batch * batch
    flight = rows.append_column("n", pa.array(number)).append_column("first", pa.array(first))
    flight = flight.append_column("last", pa.array(np.minimum(first + batch, rows.num_rows)))
    with duckdb.connect() as connection:
        connection.register("flight", flight)
        due = connection.execute(
            f"SELECT l.n, r.n FROM flight l, flight r WHERE {sql} AND ((r.n < l.first AND r.n >= l.first - {window}) "
            f"OR (l.n < r.last AND l.n >= r.last - {window})) ORDER BY ALL"
        ).fetchnumpy()
    expected = np.stack([np.asarray(column) for column in due.values()], axis=1)
    assert len(expected) > 1000
    np.testing.assert_array_equal(pairs, expected)


def test_spo_join_indexes_every_part() -> None:
    schema = random_columns(0, np.random.default_rng(0), nan=False).schema
    on, _ = SHAPES["crossed-columns"]
    schemas = {"left_schema": schema, "right_schema": schema}
    with WindowJoin(on=on, left=Rows(5), right=Rows(5), index="spo_join", **schemas) as join:
        text = join.explain()
        assert "index:     spo_join\n" in text
        assert "residual" not in text
        assert [line for line in text.splitlines() if line.startswith("indexed")] == [
            "indexed:   left.narrow <= right.wide", "indexed:   left.wide >= right.narrow",
            "indexed:   left.day != right.day",
        ]  # fmt: skip
        assert text.endswith(join.spec.explain(schema, schema))
        again = JoinSpec.from_json(join.spec.to_json())
        assert again == join.spec
    for device in ("numpy", "sim:bisort-model", "sim:splitjoin-model"):
        with pytest.raises(UnsupportedError, match=f"{device}.* has no index 'spo_join'"):
            WindowJoin(on=on, left=Rows(5), right=Rows(5), index=SpoJoin(), device=device, **schemas)


@pytest.mark.parametrize("immutable", SpoJoin.IMMUTABLE)
def test_spo_join_gives_up_single_rows_where_the_capacity_asks_for_it(immutable: str) -> None:
    """Late rows keep whole runs from leaving; at the declared capacity, rows that have expired leave one by one."""
    on = AllOf(Band("k", "k", -9, 9), Compare("v", "<", "v"))
    rng, found, thinned = np.random.default_rng(5), 0, 0
    loop = NestedLoop(
        ("all", [("pair", 0, 0, ("band", -9, 9)), ("pair", 1, 1, ("compare", "<"))]), ["k", "v"], ["k", "v"],
        within=("t", "t", -50, 50), delays=(60, 60),
    )  # fmt: skip
    with WindowJoin(
        on=on, within=Within("t", "t", -50, 50), watermark=Watermark(left=60, right=60, lag=0), capacity=230,
        form="pairs", order="inner", index=SpoJoin(slide=90, sub_intervals=1, immutable=immutable),
    ) as join:  # fmt: skip
        for first in range(0, 1500, 75):
            batches = [
                pa.table({"k": rng.integers(0, 40, 75), "v": rng.integers(0, 40, 75),
                          "t": np.arange(first, first + 75) - rng.integers(0, 60, 75)})
                for _ in range(2)
            ]  # fmt: skip
            due = [(pair.left, pair.right) for pair in loop.process(*batches)]
            result = join.process(*batches)
            assert list(zip(result["left_row"].to_pylist(), result["right_row"].to_pylist(), strict=True)) == due
            assert join.stats.window_left <= 230
            found += len(due)
            thinned += any(rows < 90 for rows in join.stats.index["left"]["run_rows"])
    assert found > 1000
    assert thinned > 2


def test_explain() -> None:
    schema = random_columns(0, np.random.default_rng(0), nan=False).schema
    drivers = {}
    for shape, (on, _) in SHAPES.items():
        with WindowJoin(
            on=on, left=Rows(5), right=Rows(5), device="numpy", left_schema=schema, right_schema=schema
        ) as join:
            text = join.explain()
            assert text.startswith("device:    numpy\nengine:    steps\nindex:     sorted_runs\nmemory:    ")
            assert text.endswith(join.spec.explain(schema, schema))
            drivers[shape] = text.splitlines()[6:]
    assert drivers["text+narrow"] == [
        "driver:    left.name = right.name and -3 <= right.narrow - left.narrow <= 5, as one composite key of 64 bits: "
        "a code, then the value"
    ]
    assert drivers["wide=+double"] == [
        "driver:    left.wide = right.wide",
        "residual:  -0.5 <= right.double - left.double <= 0.25, whose values fit no composite key of this device, "
        "index and form",
    ]
    assert drivers["ranges"] == [
        "driver:    -0.5 <= right.double - left.double <= 0.75",
        "residual:  right.wide - left.wide <= 2",
    ]
    assert drivers["many-equal"] == [
        "driver:    left.raw = right.raw and left.flag <=> right.flag and left.double = right.single, "
        "by a code for each distinct value"
    ]
    assert drivers["one-sided"][1:] == [
        "row test:  left.double > 0.25",
        "row test:  (right.name = 'b' or right.name > 'c')",
        "row test:  right.span.end < datetime.datetime(1970, 1, 1, 0, 0, 0, 3)",
    ]
    assert len(set(itertools.chain(*drivers.values()))) > len(SHAPES)


@pytest.mark.parametrize(("on", "meets"), [(AllOf(), True), (AnyOf(), False)])
@pytest.mark.parametrize("partitions", [1, 3])
def test_aggregates_of_every_pair_and_of_none(on: AllOf | AnyOf, meets: bool, partitions: int) -> None:
    rng = np.random.default_rng(3)
    left, right = (pa.table({"k": pa.array([None, *range(49)]), "t": rng.integers(0, 40, 50)}) for _ in range(2))
    window = {"within": Within("t", "t", -3, 5)}
    with WindowJoin(
        on=on, form="aggregate", aggregates=["count()", "max(k)"], at="close", partitions=partitions, **window
    ) as join:
        found = pa.concat_tables([join.process(left, right), join.finish()]).sort_by("k")
    due = []
    for time in left.sort_by("k")["t"].to_pylist():
        near = [k for k, t in zip(*right.to_pydict().values(), strict=True) if meets and -3 <= t - time <= 5]
        due.append([len(near), max((k for k in near if k is not None), default=None)])
    assert [list(row.values())[2:] for row in found.to_pylist()] == due
    with pytest.raises(UnsupportedError, match="ranges"):
        WindowJoin(on=on, form="ranges", left_schema=left.schema, right_schema=right.schema, **window)
