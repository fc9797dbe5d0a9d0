"""Columns of both sides come through whatever their layout in Arrow, and the schema with them."""

import numpy as np
import pyarrow as pa
import pytest

from muntin import Band, Compare, JoinSpec, Rows, Watermark, Within
from tests.conformance.small_joins import open_join


@pytest.mark.parametrize("form", ["rows", "pairs", "counts"])
def test_an_empty_result_has_the_full_schema(form, device_case, device):
    left = pa.schema([("k", pa.int32()), ("name", pa.dictionary(pa.int32(), pa.string()))])
    right = pa.schema([("k", pa.int64()), ("list", pa.list_(pa.float32()))])
    spec = JoinSpec(on=Band("k", "k", 0, 0), left=Rows(3), right=Rows(3), form=form)
    schema = spec.output_schema(left, right)
    with open_join(device, Band("k", "k", 0, 0), (3, 3), form=form, left_schema=left, right_schema=right) as join:
        for arguments in ((None, None), (left.empty_table(), None), (None, right.empty_table())):
            result = join.process(*arguments)
            assert result.num_rows == 0
            assert result.schema == schema
    if form == "rows":
        assert schema.names == ["k", "name", "k_right", "list"]
        assert schema.types == [
            pa.int32(),
            pa.dictionary(pa.int32(), pa.string()),
            pa.int64(),
            pa.list_(pa.float32()),
        ]


def test_schemas_come_from_the_first_batches_where_none_are_given(device):
    one = pa.table({"k": [1, 2], "a": ["x", "y"]})
    other = pa.table({"k": [2, 3], "b": [0.5, 1.5]})
    with open_join(device, Compare("k", "=", "k"), form="rows") as join:
        result = join.process(one, other)
    assert result.to_pylist() == [{"k": 2, "a": "y", "k_right": 2, "b": 0.5}]


def test_chunked_sliced_and_dictionary_columns(device):
    base = pa.table(
        {
            "k": pa.chunked_array([[9, 1], [], [2, 3, None], [4]], pa.int16()),
            "text": pa.chunked_array([["a", None], [], ["", "d", "e"], ["f"]]),
            "tag": pa.chunked_array(
                [
                    pa.array(["p", "q"]).dictionary_encode(),
                    pa.array(["q", "r", None, "s"]).dictionary_encode(),
                ]
            ),
            "flag": [True, False, None, True, False, True],
            "deep": [
                {"x": 1, "y": [None, 2]},
                None,
                {"x": None, "y": []},
                {"x": 4, "y": None},
                None,
                {"x": 6, "y": [6]},
            ],
        }
    )
    sliced = base.slice(1, 4)
    with open_join(device, Band("k", "k", 0, 1), (10, 10), form="rows") as join:
        first = join.process(sliced, base)
        second = join.process(base, sliced.combine_chunks().to_batches()[0])

    def rows(lefts, rights):
        return [
            left | {f"{name}_right": value for name, value in right.items()}
            for right in rights
            for left in lefts
            if None not in (left["k"], right["k"]) and 0 <= right["k"] - left["k"] <= 1
        ]

    assert first.to_pylist() == rows(sliced.to_pylist(), base.to_pylist())
    by_left = [row for left in base.to_pylist() for row in rows([left], base.to_pylist())]
    assert second.to_pylist() == by_left + rows(sliced.to_pylist() + base.to_pylist(), sliced.to_pylist())
    assert first.schema == second.schema


def test_the_suffix_is_the_callers(device):
    one = pa.table({"k": [1], "a": [2], "b": [3]})
    with open_join(device, Compare("k", "=", "k"), form="rows", suffix="_ask") as join:
        result = join.process(one, one)
    assert result.to_pylist() == [{"k": 1, "a": 2, "b": 3, "k_ask": 1, "a_ask": 2, "b_ask": 3}]


@pytest.mark.parametrize("window", ["rows", "within"])
def test_rows_and_pairs_are_the_same_result(window, time_windows, device, seed):
    """Rows are kept as long as a later row may meet them, and no longer name another row once others have gone."""
    rng = np.random.default_rng([seed, len(window)])
    more = {
        "rows": {"left": Rows(700), "right": Rows(150)},
        "within": {"within": Within("t", "t", -90, 30), "watermark": Watermark(left=40, right=60, lag=0)},
    }[window]
    schema = pa.schema({"k": pa.int32(), "t": pa.int64(), "id": pa.int64(), "text": pa.string()})
    seen, found = [0, 0], 0
    with (
        open_join(
            device, Band("k", "k", -1, 1), None, form="rows", left_schema=schema, right_schema=schema, **more
        ) as rows,
        open_join(device, Band("k", "k", -1, 1), None, left_schema=schema, right_schema=schema, **more) as pairs,
    ):
        for call in range(60):
            tables = []
            for side in (0, 1):
                count = int(rng.choice([0, 1, 50, 200, 900], p=[0.1, 0.1, 0.4, 0.35, 0.05]))
                ids = np.arange(seen[side], seen[side] + count)
                seen[side] += count
                columns = [rng.integers(0, 60, count), call * 20 + rng.integers(-60, 20, count), ids, ids.astype(str)]
                tables.append(pa.table(columns, names=schema.names).cast(schema))
            whole, numbers = rows.process(*tables), pairs.process(*tables)
            assert whole["id"].equals(numbers["left_row"])
            assert whole["id_right"].equals(numbers["right_row"])
            assert whole["text"].equals(numbers["left_row"].cast(pa.string()))
            assert whole["text_right"].equals(numbers["right_row"].cast(pa.string()))
            found += whole.num_rows
        kept = rows.stats.row_bytes
    assert found > 10_000
    assert kept < 15 * sum(seen), "rows have to go with the window"
