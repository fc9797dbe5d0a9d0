"""Rows that are pushed a few at a time are joined as if each push were a call."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import Band, WindowJoin, Within
from muntin.errors import OrderError, SchemaError, StateError, UnsupportedError, WindowError
from muntin.index import RangeMirror

BAND = Band("k", "k", -1, 1)
SCHEMA = pa.schema([("k", pa.int32()), ("t", pa.int64())])
BOTH = {"left_schema": SCHEMA, "right_schema": SCHEMA}


def rows(*keys: int) -> pa.Table:
    return pa.table([list(keys), [0] * len(keys)], schema=SCHEMA)


ORDER = [("left_row", "ascending"), ("right_row", "ascending")]


def pushed(rng: np.random.Generator, sizes: list[tuple[int, int]], kinds: list[pa.DataType]) -> list[list[pa.Table]]:
    """The rows of each push, whose sequence values begin where those of the one before end."""
    least, given = 0, []
    for counts in sizes:
        sequences = [least + rng.integers(0, 3, count) for count in counts]
        columns = [(rng.integers(0, 9, n), rng.integers(0, 30, n)) for n in counts]
        given.append(
            [
                pa.table([*own, pa.array(values, kind)], names=["k", "t", "s"])
                for own, values, kind in zip(columns, sequences, kinds, strict=True)
            ]
        )
        least = max([least, *np.concatenate(sequences).tolist()])
    return given


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=25),
    window=st.sampled_from([{"left": 5, "right": 20}, {"left": 1, "right": 1}, {"within": Within("t", "t", -3, 9)}]),
    max_rows=st.integers(1, 40), self_join=st.booleans(), how=st.sampled_from(["inner", "full"]),
    sequence=st.sampled_from([None, "s"]), state=st.booleans(), seed=st.integers(0, 99),
    kinds=st.sampled_from([[pa.int64()] * 2, [pa.uint64()] * 2, [pa.int8(), pa.uint64()]]),
)  # fmt: skip
def test_pushes_give_what_as_many_calls_give(
    sizes, window, max_rows, self_join, how, sequence, state, seed, kinds, tmp_path_factory
):
    options = {"on": BAND, "form": "pairs", "how": how, "self_join": self_join, "sequence": sequence, **window}
    given = pushed(np.random.default_rng(seed), [(6, 6), *sizes], kinds[:1] * 2 if self_join else kinds)
    schemas = {"left_schema": given[0][0].schema} | ({} if self_join else {"right_schema": given[0][1].schema})
    kept = {"state": tmp_path_factory.mktemp("state")} if state else {}
    found, expected, waiting = [], [], 0
    with WindowJoin(**options, **schemas) as other:
        join = WindowJoin(max_rows=max_rows, **options, **schemas, **kept)
        for tables in given:
            tables = tables[:1] if self_join else tables
            waiting += sum(map(len, tables))
            part = join.push(*tables)
            assert (part is not None) == (waiting >= max_rows)
            waiting = 0 if part is not None else waiting
            found += [] if part is None else [part]
            expected.append(other.process(*tables))
            if part is not None and state:  # the pushes of a call are in the state
                join.close()
                join = WindowJoin(max_rows=max_rows, **options, **schemas, **kept)
                assert join.repeat().sort_by(ORDER).equals(part.sort_by(ORDER))
        found += [join.flush(), join.finish()]
        expected.append(other.finish())
        join.close()
    assert pa.concat_tables(found).sort_by(ORDER).equals(pa.concat_tables(expected).sort_by(ORDER))


@settings(deadline=None, max_examples=20)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12),
    sequence=st.sampled_from([None, "s"]), partitions=st.sampled_from([1, 2]), seed=st.integers(0, 99),
)  # fmt: skip
def test_ranges_and_counts_of_pushes(sizes, sequence, partitions, seed):
    given = pushed(np.random.default_rng(seed), sizes, [pa.int64()] * 2)
    options = {"on": BAND, "left": 3, "right": 5, "sequence": sequence}
    schemas = {"left_schema": given[0][0].schema, "right_schema": given[0][1].schema}
    with (
        WindowJoin(form="ranges", partitions=partitions, **options, **schemas) as ranges,
        WindowJoin(form="counts", **options, **schemas) as counts,
        WindowJoin(form="pairs", **options, **schemas) as other,
    ):
        for tables in given:
            ranges.push(*tables)
            counts.push(*tables)
        expected = pa.concat_tables(other.process(*tables) for tables in given)
        mirror = RangeMirror(ranges.spec, given[0][0].schema, given[0][1].schema)
        sides = [pa.concat_tables(side) for side in zip(*given, strict=True)]
        assert mirror.pairs(ranges.flush(), *sides).sort_by(ORDER).equals(expected.sort_by(ORDER))
        assert sum(counts.flush()["matches"].to_pylist()) == len(expected)


def test_a_sequence_does_not_go_back_between_pushes():
    schema = pa.schema([("k", pa.int32()), ("s", pa.uint64())])
    top = 2**64 - 1
    with WindowJoin(
        on=BAND, left=9, right=9, sequence="s", form="pairs", left_schema=schema, right_schema=schema
    ) as join:
        for pushes, text, side, at in (
            ([(None, 7), (6, None)], "sequence value 6 in column 's' of the left side comes after 7", "left", (0,)),
            ([(top, 3), (top - 1, None)], f"{top - 1} in column 's' of the left side comes after {top}", "left", (1,)),
            ([(3, 9), (None, 9), (9, 8), (None, 9), (None, 1)], "value 8 in column 's' of the right side comes after 9",
             "right", (2, 4)),
        ):  # fmt: skip
            for values in pushes:
                join.push(*(None if v is None else pa.table([[1], [v]], schema=schema) for v in values))
            with pytest.raises(OrderError, match=f"{text}.* push") as caught:
                join.flush()
            assert (caught.value.side, caught.value.rows) == (side, at)
            join.take_back()


def test_a_timer_knows_when_to_flush():
    with WindowJoin(on=BAND, left=9, right=9, form="pairs", max_rows=100, max_delay="50 ms", **BOTH) as join:
        assert join.due is None
        assert join.push(rows(1)) is None
        assert 0 < join.due <= 0.05
        time.sleep(0.06)
        assert join.due == 0
        assert len(join.push(None, rows(1))) == 1  # the first row has waited long enough
        assert join.due is None
        assert len(join.flush()) == 0


def test_what_waits_is_neither_overtaken_nor_lost():
    with WindowJoin(on=BAND, left=9, right=9, form="pairs", **BOTH) as join:
        join.push(rows(1, 2))
        for call in (join.process, join.finish):
            with pytest.raises(UnsupportedError, match="flush"):
                call()
        with pytest.raises(SchemaError):
            join.push(None, pa.table({"k": [1]}))
        left, right, tags = join.take_back()
        assert (len(left), right, tags) == (2, None, [None])
        assert len(join.process(None, rows(1))) == 0


def test_a_call_has_the_tag_of_its_last_push(tmp_path):
    options = {"on": BAND, "left": 9, "right": 9, "form": "pairs", "state": tmp_path, **BOTH}
    with WindowJoin(**options, max_rows=4) as join:
        join.push(rows(1, 2), tag=b"a")
        join.push(tag=b"b")  # no rows: what was read was not for this join
        assert join.last_tag is None
        assert join.take_back()[2] == [b"a", b"b"]
        join.push(rows(1, 2), tag=b"c")
        join.push(rows(1, 2), tag=b"d")
        assert (join.last_tag, join.last_batch, join.take_back()) == (b"d", 0, (None, None, []))
        join.push(tag=b"e")
        with pytest.raises(StateError, match="tag must be bytes, not str"):
            join.push(rows(1), tag="f")
        assert join.last_tag == b"d"
        join.flush()
        assert join.last_tag == b"e"
        join.flush()
        assert join.last_tag == b"e"
    with WindowJoin(**options) as join:
        assert join.last_tag == b"e"
        join.process(rows(1), tag=b"")
        assert join.last_tag == b""
        list(join.process_blocks(rows(1), tag=b"g"))
        assert join.last_tag == b"g"
        with pytest.raises(StateError, match="tag must be bytes, not str"):
            join.process(rows(1), tag="h")
        join.process(rows(1))
    with WindowJoin(**options) as join:
        assert (join.last_tag, join.last_batch) == (None, 5)


def test_pushed_rows_outlast_the_repeat_of_a_call(tmp_path):
    options = {"on": BAND, "left": 9, "right": 9, "form": "counts", "state": tmp_path, **BOTH}
    with WindowJoin(**options) as join:
        join.process(rows(1, 5), rows(1))
    with WindowJoin(**options) as join:
        join.push(rows(1), tag=b"a")
        assert join.repeat()["matches"].to_pylist() == [0, 0, 1]
        assert join.flush()["matches"].to_pylist() == [1]
        assert join.last_tag == b"a"


def test_rows_that_are_refused_wait_on_until_they_are_taken_back():
    with WindowJoin(on=BAND, left=9, right=9, sequence="t", form="pairs", **BOTH) as join:
        join.process(pa.table([[1], [7]], schema=SCHEMA))
        join.push(rows(1))  # of sequence 0
        for _ in range(2):
            with pytest.raises(OrderError):
                join.flush()
        assert len(join.take_back()[0]) == 1
        assert len(join.flush()) == 0


def test_what_push_refuses():
    for wrong in ({"max_rows": 0}, {"max_rows": 1.5}, {"max_delay": "-1 s"}, {"max_delay": "soon"}):
        with pytest.raises(WindowError):
            WindowJoin(on=BAND, left=9, right=9, **wrong)
