"""Columns of both sides come through whatever their layout in Arrow, and the schema with them."""

import pyarrow as pa
import pytest

from host import Band, Compare, JoinSpec, Rows
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
