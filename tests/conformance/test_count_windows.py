"""Count windows and batches of all sizes, NULL keys in them, and self joins."""

import math

import numpy as np
import pyarrow as pa
import pytest

from tests.conformance.predicates import for_host
from tests.conformance.small_joins import agree, open_join, table
from tests.oracles.duckdb_oracle import arrival_positions
from tests.oracles.duckdb_oracle import join as join_in_duckdb


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 63, 64, 65, 255, 256, 257])
@pytest.mark.parametrize("over", [-1, 0, 1])
def test_window_exactly_full_and_one_over(size, over, index, device_case, device):
    """Equal keys everywhere: whoever keeps a row too many or too few shows it."""
    if device_case.max_window and size > device_case.max_window:
        pytest.skip(f"device {device_case.name}: windows of at most {device_case.max_window} rows")
    same = table([5] * (size + over), pa.int64())
    one = table([5])
    agree(device, ("compare", "="), [same, None, one, None], [None, one, one, same], (size, size), index=index)


@pytest.mark.parametrize("rows", [(1, 1), (3, 5), (64, 10)])
def test_a_batch_larger_than_the_windows(rows, index, device, seed):
    rng = np.random.default_rng([seed, *rows])
    batches = [table(rng.integers(0, 4, 200)) for _ in range(4)]
    assert agree(device, ("band", 0, 1), batches[:2], batches[2:], rows, index=index)
    ordered = [
        t.append_column("q", pa.array(rng.integers(500 * (i % 2), 500 * (i % 2 + 1), 200)))
        for i, t in enumerate(batches)
    ]
    assert agree(device, ("band", 0, 1), ordered[:2], ordered[2:], rows, index=index, sequence="q")


@pytest.mark.parametrize("rows", [(1, 1), (1, 3000), (7, 2), (255, 40)])
def test_thousands_of_rows_in_a_call_and_tiny_windows(rows, index, device, seed):
    """No more runs than the device was asked to hold, however small the windows are."""
    rng = np.random.default_rng([seed, *rows])
    count, predicate = 10_000, ("band", -1, 1)
    places = rng.permutation(2 * count)
    sequence = [np.sort(places[:count]), np.sort(places[count:])]
    keys = [rng.integers(0, 2000, count) for _ in range(2)]
    tables = [table(own, pa.int64(), q=pa.array(order)) for own, order in zip(keys, sequence, strict=True)]
    one_call = [np.zeros(count, np.int64)] * 2
    due = join_in_duckdb(predicate, *map(pa.array, keys), *arrival_positions(*one_call, *sequence), rows=rows)
    assert len(due) > 5
    with open_join(device, for_host(predicate, "k", "k"), rows, sequence="q", index=index, order="none") as join:
        for again in range(2):
            result = join.process(*tables)
            pairs = np.stack([result["left_row"].to_numpy(), result["right_row"].to_numpy()], axis=1)
            if not again:
                np.testing.assert_array_equal(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))], due)
            tables = [t.set_column(1, "q", pa.array(q + 2 * count)) for t, q in zip(tables, sequence, strict=True)]


def test_many_calls_of_every_size(index, device, seed):
    """Sizes around powers of two: sorted runs are built and dropped in runs of all lengths."""
    rng = np.random.default_rng(seed)
    sizes = [0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 1, 64, 0, 2, 130, 1]
    calls = [[table(rng.integers(-50, 50, size)) for size in rng.permuted(sizes)] for _ in range(2)]
    assert agree(device, ("band", -1, 2), *calls, (60, 100), index=index)


def test_windows_that_roll_over_many_times(index, device, seed):
    rng = np.random.default_rng(seed)
    calls = [[table(rng.integers(0, 30, 30)) for _ in range(60)] for _ in range(2)]
    assert agree(device, ("band", -1, 1), *calls, (17, 40), index=index)


def test_nothing_comes_of_nothing(index, device):
    empty, one = table([], pa.int64()), table([1])
    schemas = {"left_schema": empty.schema, "right_schema": empty.schema}
    calls = (
        [None, empty, None, empty, one, None, empty, None],
        [None, None, empty, empty, None, empty, one, one],
    )
    assert agree(device, ("compare", "="), *calls, index=index, **schemas) == 2


@pytest.mark.parametrize(
    "predicate",
    [("band", None, None), ("compare", "!="), ("any", [("compare", "<="), ("compare", ">")])],
    ids=str,
)
def test_null_keys_match_nothing(predicate, index, device):
    nulls, keys = table([None] * 9, pa.int32()), table([1, 2, None], pa.int32())
    assert agree(device, predicate, [nulls, nulls], [nulls, keys], (4, 5), index=index) == 0
    calls = [nulls, keys, nulls, keys], [keys, nulls, keys, keys]
    assert agree(device, predicate, *calls, (4, 5), index=index) > 0


def test_null_keys_take_places_in_a_count_window(index, device):
    first = table([1, None, None, None], pa.int64())
    assert agree(device, ("compare", "="), [first, None], [None, table([1])], (4, 4), index=index) == 1
    assert agree(device, ("compare", "="), [first, None], [None, table([1])], (3, 3), index=index) == 0


@pytest.mark.parametrize("value", [math.nan, None])
def test_nan_takes_a_place_in_a_count_window(value, device):
    first = table([1.0, value], pa.float64())
    assert agree(device, ("compare", "="), [first, None], [None, table([1.0])], (1, 1)) == 0
    assert agree(device, ("compare", "="), [first, None], [None, table([1.0])], (2, 2)) == 1


def test_self_join(index, device, seed):
    """One stream on both sides: each row meets itself and, both ways, every other row of the window."""
    rng = np.random.default_rng(seed)
    stream = [table(rng.integers(0, 100, 50)) for _ in range(5)]
    found = agree(device, ("band", -2, 2), stream, stream, (80, 80), index=index)
    assert found >= 250
    symmetric = agree(device, ("band", 0, 0), stream, stream, (1000, 1000), index=index)
    keys = np.concatenate([batch["k"].to_numpy() for batch in stream])
    assert symmetric == (np.unique(keys, return_counts=True)[1] ** 2).sum()
