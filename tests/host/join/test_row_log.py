"""The columns kept beside the device: event times, rows for output."""

import numpy as np
import pyarrow as pa
import pytest
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


def column(kind, numbers):
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([f"{n:03}".encode() for n in numbers], kind)
    if pa.types.is_boolean(kind) or pa.types.is_float16(kind):
        return pa.array(numbers % 2, pa.int8()).cast(kind)
    values = pa.array(numbers, pa.int32())
    return values.cast(kind) if pa.types.is_date32(kind) else values.cast(pa.int64()).cast(kind)


@pytest.mark.parametrize("threads", [1, 2])
def test_row_log_takes_columns_of_every_width_from_several_blocks(threads):
    random = np.random.default_rng(threads)
    kinds = [
        *(pa.int8(), pa.uint16(), pa.float32(), pa.int64(), pa.decimal128(30, 2), pa.decimal256(50, 1), pa.date32()),
        *(pa.timestamp("us"), pa.duration("ns"), pa.bool_(), pa.float16(), pa.string(), pa.binary(3)),
    ]
    schema = pa.schema([*((str(kind), kind) for kind in kinds), ("some", pa.int32())])
    log, parts, first = RowLog("left", schema, threads=threads), [], 0
    for rows in (300, 9000, 5, 70_000, 1):
        numbers = random.integers(0, 100, rows + 1, dtype=np.int32)
        columns = [column(kind, numbers) for kind in kinds]
        columns.append(pa.array(numbers, mask=numbers % 7 == 0))
        table = pa.table(columns, schema=schema).slice(1)  # so that values begin within their buffers
        log.append(first, table)
        parts.append(table)
        first += rows
    whole = pa.concat_tables(parts).combine_chunks()
    log.trim(300)
    for rows in (
        random.integers(300, first, 20_000),
        np.sort(random.integers(300, first, 9_000)),
        np.arange(9305, first - 1),  # one stretch
        np.arange(300, first)[::-1],
        np.where(random.random(5_000) < 0.3, -1, random.integers(300, first, 5_000)),
        np.array([-1]),
        np.array([first - 1]),
    ):
        found = pa.table(log.take(rows, schema.names), schema=schema)
        found.validate(full=True)
        assert found.combine_chunks().equals(whole.take(pa.array(rows, mask=rows < 0)).combine_chunks())
    with pytest.raises(IndexError):
        log.take(np.array([first]), ["int64"])


def test_rows_that_came_in_chunks_are_copied_out_by_the_core(monkeypatch):
    table = pa.table({"a": np.arange(1000), "b": np.arange(1000, dtype=np.int32)})
    log = RowLog("left", table.schema)
    log.append(0, pa.Table.from_batches(table.to_batches(max_chunksize=64)))
    monkeypatch.setattr(log, "_taken", None)  # by Arrow, for columns of other kinds
    rows = np.array([5, 999, 64, 63])
    assert pa.table(dict(zip("ab", log.take(rows, ["a", "b"]), strict=True))) == table.take(rows)
