"""Rows that are pushed a few at a time are joined as if each push were a call."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mullion import Band, OrderError, SchemaError, UnsupportedError, WindowError, WindowJoin, Within

BAND = Band("k", "k", -1, 1)
SCHEMA = pa.schema([("k", pa.int32()), ("t", pa.int64())])
BOTH = {"left_schema": SCHEMA, "right_schema": SCHEMA}


def rows(*keys: int) -> pa.Table:
    return pa.table([list(keys), [0] * len(keys)], schema=SCHEMA)


@settings(deadline=None, max_examples=20)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=25),
    window=st.sampled_from([{"left": 5, "right": 20}, {"within": Within("t", "t", -3, 9)}]),
    max_rows=st.integers(1, 40), self_join=st.booleans(), how=st.sampled_from(["inner", "full"]),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_pushes_give_what_as_many_calls_give(sizes, window, max_rows, self_join, how, seed):
    rng = np.random.default_rng(seed)
    options = {"on": BAND, "form": "pairs", "how": how, "self_join": self_join, **window}
    schemas = {"left_schema": SCHEMA} if self_join else BOTH
    with WindowJoin(max_rows=max_rows, **options, **schemas) as join, WindowJoin(**options, **schemas) as other:
        found, expected, waiting = [], [], 0
        for left, right in sizes:
            tables = [pa.table([rng.integers(0, 9, n), rng.integers(0, 30, n)], schema=SCHEMA) for n in (left, right)]
            given = tables[:1] if self_join else tables
            waiting += sum(map(len, given))
            part = join.push(*given)
            assert (part is not None) == (waiting >= max_rows)
            waiting = 0 if part is not None else waiting
            found += [] if part is None else [part]
            expected.append(other.process(*given))
        found += [join.flush(), join.finish()]
        expected.append(other.finish())
        order = [("left_row", "ascending"), ("right_row", "ascending")]
        assert pa.concat_tables(found).sort_by(order).equals(pa.concat_tables(expected).sort_by(order))


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
        assert [None if side is None else len(side) for side in join.take_back()] == [2, None]
        assert len(join.process(None, rows(1))) == 0


def test_rows_that_are_refused_wait_on_until_they_are_taken_back():
    with WindowJoin(on=BAND, left=9, right=9, sequence="t", form="pairs", **BOTH) as join:
        join.process(pa.table([[1], [7]], schema=SCHEMA))
        join.push(rows(1))  # of sequence 0
        for _ in range(2):
            with pytest.raises(OrderError):
                join.flush()
        assert len(join.take_back()[0]) == 1
        assert len(join.flush()) == 0


def test_what_push_refuses(tmp_path):
    with (
        WindowJoin(on=BAND, left=9, right=9, form="ranges", **BOTH) as join,
        pytest.raises(UnsupportedError, match="ranges"),
    ):
        join.push(rows(1))
    with (
        WindowJoin(on=BAND, left=9, right=9, state=tmp_path, **BOTH) as join,
        pytest.raises(UnsupportedError, match="state"),
    ):
        join.push(rows(1))
    for wrong in ({"max_rows": 0}, {"max_rows": 1.5}, {"max_delay": "-1 s"}, {"max_delay": "soon"}):
        with pytest.raises(WindowError):
            WindowJoin(on=BAND, left=9, right=9, **wrong)
