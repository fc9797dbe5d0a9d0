"""The columns kept beside the device: event times, rows for output."""

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from host.join.residual import RowColumn
from host.join.row_log import RowLog

CALLS = st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 3000)), max_size=30)


@example([(0, 0), (1025, 0)])
@given(CALLS)
def test_row_column(calls):
    times, first, oldest = RowColumn(), 7, 7
    for rows, trimmed in calls:
        if rows:
            numbers = np.arange(first, first + rows)
            times.put(numbers[:: 2 if rows > 1 else 1], numbers[:: 2 if rows > 1 else 1] * 10)
            first = times.end
        oldest = min(oldest + trimmed, first)
        times.trim(oldest)
        kept = np.arange(max(oldest, first - rows), first)[::-1][::2]
        assert (times.get(kept) == kept * 10).all()


@given(CALLS)
def test_row_log(calls):
    schema = pa.schema([("n", pa.int64()), ("s", pa.string())])
    log, first, oldest = RowLog("left", schema, most_block_rows=4096), 0, 0
    for rows, trimmed in calls:
        numbers = np.arange(first, first + rows)
        log.append(first, pa.table([pa.array(numbers), pa.array([f"{n}!" for n in numbers])], schema=schema))
        first += rows
        oldest = min(oldest + trimmed, first)
        log.trim(oldest)
        wanted = np.random.default_rng(rows).integers(oldest, first, 20) if oldest < first else np.zeros(0, np.int64)
        numbers, texts = log.take(wanted, ["n", "s"])
        assert numbers.to_pylist() == wanted.tolist()
        assert texts.to_pylist() == [f"{n}!" for n in wanted]
        assert log.rows <= (first - oldest) + 5 * 4096
