"""Results larger than any one buffer, joins side by side on a device, and memory that comes back."""

import threading

import numpy as np
import pytest

from muntin import Compare
from tests.conformance.small_joins import open_join, table


def test_a_result_of_millions_of_pairs(device, index):
    """Equal keys everywhere: 4 M pairs out of one call, in order."""
    size = 2000
    with open_join(device, Compare("k", "=", "k"), (size, size), index=index) as join:
        result = join.process(table(np.zeros(size, np.int64)), table(np.zeros(size, np.int64)))
    assert result.num_rows == size * size
    np.testing.assert_array_equal(result["right_row"].to_numpy(), np.repeat(np.arange(size), size))
    np.testing.assert_array_equal(result["left_row"].to_numpy(), np.tile(np.arange(size), size))


def test_counts_of_more_pairs_than_memory_holds(device_case, device):
    size = 60_000
    if device_case.max_window and size > device_case.max_window:
        pytest.skip(f"device {device_case.name}: windows of at most {device_case.max_window} rows")
    same = table(np.zeros(size, np.int32))
    with open_join(device, Compare("k", "=", "k"), (size, size), form="counts", order="none") as join:
        join.process(same, same.slice(0, 0))
        result = join.process(None, same)
        assert join.stats.matches == size * size  # 3.6 G pairs
    assert set(result["matches"].to_pylist()) == {size}


@pytest.mark.parametrize("joins", [2, 4])
def test_joins_in_threads_do_not_disturb_each_other(joins, device, seed):
    """One device serves several queries at once."""
    failures = []

    def stream(number):
        try:
            rng = np.random.default_rng([seed, number])
            batches = [rng.integers(0, 50 + number, 200) for _ in range(8)]
            window = 100 + number
            schemas = dict.fromkeys(("left_schema", "right_schema"), table(batches[0]).schema)
            with open_join(device, Compare("k", "=", "k"), (window, window), order="none", **schemas) as join:
                for call, keys in enumerate(batches):
                    result = join.process(None, table(keys)) if call % 2 else join.process(table(keys), None)
                    before = batches[call - 1][-window:] if call else keys[:0]
                    assert result.num_rows == (before[:, None] == keys[None, :]).sum()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=stream, args=(number,)) for number in range(joins)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


def test_a_closed_join_gives_its_memory_back(device_case, device):
    available = []
    size = min(50_000, device_case.max_window or 50_000)
    for _ in range(6):
        with open_join(device, Compare("k", "=", "k"), (size, size), form="counts") as join:
            join.process(table(np.arange(1000)), table(np.arange(1000)))
            available.append(join.stats.device_available_bytes)
    assert max(available[1:]) - min(available[1:]) < 1 << 20
