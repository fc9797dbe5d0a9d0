"""Ranges and their mirror give the pairs that form='pairs' gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import AllOf, AnyOf, Band, Compare, Rows, Watermark, WindowJoin, Within
from muntin.errors import KeyTypeError, SchemaError, UnsupportedError
from muntin.index import BiSort, RangeMirror, SortedRuns
from tests.conformance.keys import KEYS, WIDE_KEYS, KeyCase
from tests.conformance.predicates import PREDICATES, for_host, in_units
from tests.conformance.small_joins import open_join, pairs_of
from tests.oracles.nested_loop import NestedLoop

SCHEMA = pa.schema([("k", pa.int32()), ("t", pa.int64()), ("s", pa.int64())])
CONDITIONS = {
    "band": Band("k", "k", -3, 5),
    "equal": Compare("k", "=", "k"),
    "not": Compare("k", "!=", "k"),
    "union": AnyOf(Band("k", "k", -9, -7), Band("k", "k", 0, 1), Band("k", "k", 30, None)),
}
WINDOWS = {
    "rows": {"left": Rows(40), "right": Rows(900)},
    "time": {"within": Within("t", "t", -30, 60), "watermark": Watermark(left=20, right=20, lag=0)},
}


def table(rng: np.random.Generator, count: int, now: int, kind: pa.DataType, seq: int) -> pa.Table:
    times = now + rng.integers(-40, 40, count)
    keys = rng.integers(-20, 20, count)
    mask = rng.random(count) < 0.1
    sequence = np.sort(seq + rng.integers(0, 50, count))
    return pa.table({"k": pa.array(keys, kind, mask=mask), "t": times, "s": sequence})


@settings(deadline=None, max_examples=25)
@given(
    condition=st.sampled_from(sorted(CONDITIONS)), window=st.sampled_from(sorted(WINDOWS)),
    index=st.sampled_from(
        [SortedRuns(), SortedRuns(growth=2, base_rows=8), BiSort(buffer_rows=32), BiSort(32, subwindow_rows=9)]
    ),
    kind=st.sampled_from([pa.int32(), pa.int64(), pa.float64()]), sequence=st.sampled_from([None, "s"]),
    seed=st.integers(0, 999),
    sizes=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=2, max_size=9),
)  # fmt: skip
def test_a_mirror_gives_the_pairs(condition, window, index, kind, sequence, seed, sizes):
    schema = SCHEMA.set(0, pa.field("k", kind))
    options = {"on": CONDITIONS[condition], "index": index, "sequence": sequence, **WINDOWS[window]}
    schemas = {"left_schema": schema, "right_schema": schema}
    rng = np.random.default_rng(seed)
    with (
        WindowJoin(form="ranges", **options, **schemas) as join,
        WindowJoin(form="pairs", **options, **schemas) as other,
    ):
        mirror = RangeMirror(join.spec, schema, schema)
        for number, (left, right) in enumerate(sizes):
            tables = [table(rng, count, 40 * number, kind, 50 * number) for count in (left, right)]
            ranges = join.process(*tables)
            assert condition != "not" or kind == pa.float64() or all(ranges["not"].to_pylist())
            found, expected = mirror.pairs(ranges, *tables), other.process(*tables)
            order = [("left_row", "ascending"), ("right_row", "ascending")]
            assert found.sort_by(order).equals(expected.sort_by(order))


INTEGERS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
PAIRS = [*KEYS, *WIDE_KEYS, *(KeyCase(f"{a}-{b}", a, b, 1) for a in INTEGERS for b in INTEGERS)]


@settings(deadline=None, max_examples=300)
@given(
    key=st.sampled_from(PAIRS), predicate=st.sampled_from(sorted(PREDICATES)), seed=st.integers(0, 999),
    shapes=st.tuples(*[st.sampled_from(["extremes", "mixed", "random"])] * 2), partitions=st.sampled_from([1, 1, 1, 2]),
    rows=st.sampled_from([(3, 3), (20, 5), (100, 100)]),
)  # fmt: skip
def test_a_mirror_of_every_pair_of_types_and_condition(key, predicate, seed, shapes, partitions, rows):
    rng = np.random.default_rng(seed)
    exact = in_units(PREDICATES[predicate], key)
    loop = NestedLoop(exact, "k", "k", rows=rows)
    more = {} if partitions == 1 else {"partitions": partitions}
    with open_join("cpu", for_host(exact, "k", "k"), rows, form="ranges", order="none", **more) as join:
        mirror = None
        for count in (1, 4, 12):
            left, right = (
                pa.table({"k": key.keys(side, shape, count, rng)})
                for side, shape in zip(("left", "right"), shapes, strict=True)
            )
            try:
                ranges = join.process(left, right)
            except KeyTypeError:
                assert key in WIDE_KEYS
                return
            if mirror is None:
                mirror = RangeMirror(join.spec, left.schema, right.schema)
            due = sorted((pair.left, pair.right) for pair in loop.process(left, right))
            assert sorted(pairs_of(mirror.pairs(ranges, left, right))) == due


def test_ranges_are_few_where_matches_are_many():
    keys = pa.table({"k": pa.array([7] * 5000, pa.int32())})
    with WindowJoin(on=Compare("k", "=", "k"), left=10_000, right=10_000, form="ranges") as join:
        ranges = join.process(keys, keys.slice(0, 100))
        assert len(ranges) == 100
        assert ranges["end"].to_pylist() == [5000] * 100
        mirror = RangeMirror(join.spec, keys.schema, keys.schema)
        assert len(mirror.pairs(ranges, keys, keys.slice(0, 100))) == 500_000
        assert mirror.nbytes == 5100 * 12


def test_a_mirror_sorts_each_row_once(monkeypatch):
    """Runs that are merged are not sorted again, however often."""
    lengths, argsort, lexsort = [], np.argsort, np.lexsort
    monkeypatch.setattr(np, "argsort", lambda a, **options: lengths.append(len(a)) or argsort(a, **options))
    monkeypatch.setattr(np, "lexsort", lambda keys: lengths.append(len(keys[0])) or lexsort(keys))
    rng = np.random.default_rng(3)
    with WindowJoin(
        on=Band("k", "k", 0, 1), left=5000, right=5000, form="ranges", index=SortedRuns(growth=2, base_rows=8)
    ) as join:
        mirror = None
        for _ in range(30):
            tables = [pa.table({"k": pa.array(rng.integers(0, 1 << 20, 100), pa.int32())}) for _ in "lr"]
            ranges = join.process(*tables)
            mirror = mirror or RangeMirror(join.spec, tables[0].schema, tables[1].schema)
            lengths.clear()
            mirror.pairs(ranges, *tables)
            assert lengths.count(100) >= 2  # a batch of each side; of the ranges, which are few, fewer
            assert max(lengths) == 100
            most = max(len(run.rows) for runs in mirror._runs.values() for run in runs.values())
        assert most > 1000  # of many batches


def test_what_a_mirror_refuses():
    schema = SCHEMA
    with WindowJoin(
        on=CONDITIONS["band"], left=9, right=9, form="ranges", left_schema=schema, right_schema=schema
    ) as join:
        empty = schema.empty_table()
        rows = pa.table([[1], [1], [1]], schema=schema)
        mirror = RangeMirror(join.spec, schema, schema)
        with pytest.raises(SchemaError, match="metadata"):
            mirror.pairs(join.process(empty, empty).replace_schema_metadata(), empty, empty)
        join.process(rows, rows)
        with pytest.raises(SchemaError, match="every call"):
            mirror.pairs(join.process(rows, rows), rows, rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on": AllOf(Band("k", "k", 0, 1), Band("t", "t", 0, 9))}, "one pair of columns"),
        ({"order": "inner"}, "order='inner'"),
        ({"how": "left"}, "how='left'"),
        ({"self_join": True}, "self join"),
        ({"index": "rap_table"}, "'rap_table' on 'cpu'"),
        ({"device": "numpy"}, "on 'numpy'"),
    ],
)
def test_what_has_no_ranges_is_refused(options, message):
    given_schema = {"left_schema": SCHEMA} | ({} if options.get("self_join") else {"right_schema": SCHEMA})
    with pytest.raises(UnsupportedError, match=message):
        WindowJoin(**{"on": CONDITIONS["band"], "left": 9, "right": 9, "form": "ranges", **given_schema, **options})
