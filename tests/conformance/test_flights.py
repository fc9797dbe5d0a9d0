"""Self joins over real flights (`../shared/data/flights-200k.arrow`): heavy equal keys, and float keys."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from muntin import Band, Rows, WindowJoin

FLIGHTS = Path(__file__).parents[2] / ".." / "shared" / "data" / "flights-200k.arrow"


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    if not FLIGHTS.exists():
        pytest.skip("no ../shared/data/flights-200k.arrow here")
    with pa.memory_map(str(FLIGHTS)) as source:
        return pa.ipc.open_file(source).read_all().select(["delay", "time"])


BANDS = {"delay": 1, "time": 0.05}


def band(column: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The condition by broadcasting, shape (left, right)."""
    kind = np.int64 if column == "delay" else np.float64
    left, right = left.astype(kind)[:, None], right.astype(kind)[None, :]
    width = BANDS[column]
    return (left + -width <= right) & (right <= left + width)


def allowed(window: int, batch: int, count: int) -> np.ndarray:
    """Which (left, right) pairs the count windows allow in a self join, bool of shape (count, count).

    A call brings rows [first, last) first to the left, then to the right: a left row sees the `window` rows
    before its own call, a right row the `window` rows before the end of its call.
    """
    row = np.arange(count)
    first = row // batch * batch
    last = np.minimum(first + batch, count)
    left_later = (row[None, :] < first[:, None]) & (row[None, :] >= first[:, None] - window)
    right_later = (row[:, None] < last[None, :]) & (row[:, None] >= last[None, :] - window)
    return left_later | right_later


@pytest.mark.parametrize("column", ["delay", "time"])
@pytest.mark.parametrize(("window", "batch"), [(5000, 5000), (5000, 700), (300, 512)])
def test_last_5000_flights(flights, column, window, batch, device_case, device):
    if device_case.max_window and window > device_case.max_window:
        pytest.skip(f"device {device_case.name}: windows of at most {device_case.max_window} rows")
    recent = flights.slice(flights.num_rows - 5000)
    width = BANDS[column]
    found = []
    with WindowJoin(
        on=Band(column, column, -width, width),
        left=Rows(window),
        right=Rows(window),
        form="pairs",
        device=device,
    ) as join:
        for first in range(0, recent.num_rows, batch):
            rows = recent.slice(first, batch)
            result = join.process(rows, rows)
            found.append(np.stack([result["left_row"].to_numpy(), result["right_row"].to_numpy()], axis=1))
    pairs = np.concatenate(found)
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    keys = recent[column].to_numpy()
    expected = np.argwhere(band(column, keys, keys) & allowed(window, batch, len(keys)))
    assert len(expected) > 50_000
    np.testing.assert_array_equal(pairs, expected)


@pytest.mark.parametrize("column", ["delay", "time"])
@pytest.mark.parametrize("index", ["auto", "bisort"])
@pytest.mark.parametrize("count", [20_000, pytest.param(200_000, marks=pytest.mark.full)])
def test_counts_over_many_flights(flights, column, index, count, device_case, device):
    """Counts of every row over a longer stretch, against the condition counted chunk by chunk."""
    window, batch = 1500, 4096
    if index not in device_case.indexes or (device_case.max_window or window) < window:
        pytest.skip(f"device {device_case.name} has no such index or window")
    rows = flights.slice(0, count)
    keys, width = rows[column].to_numpy(), BANDS[column]
    with WindowJoin(
        on=Band(column, column, -width, width),
        left=Rows(window),
        right=Rows(window),
        form="counts",
        index=index,
        device=device,
    ) as join:
        for first in range(0, count, batch):
            last = min(first + batch, count)
            part = rows.slice(first, batch)
            result = join.process(part, part)
            left_side = np.array(result["side"].to_pylist()) == "left"
            numbers, matches = result["row"].to_numpy(), result["matches"].to_numpy()
            before, upto = slice(max(first - window, 0), first), slice(max(last - window, 0), last)
            for own, due in (
                (left_side, band(column, keys[first:last], keys[before]).sum(axis=1)),
                (~left_side, band(column, keys[upto], keys[first:last]).sum(axis=0)),
            ):
                order = np.argsort(numbers[own])
                np.testing.assert_array_equal(numbers[own][order], np.arange(first, last))
                np.testing.assert_array_equal(matches[own][order], due)
