"""The columns kept beside the device: event times, rows for output."""

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muntin.host.engine import row_log
from muntin.host.engine.residual import RowColumn
from muntin.host.engine.row_log import RowLog, picked
from muntin.host.errors import SchemaError
from muntin.host.keys import kept_types

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
    log, first, oldest = RowLog("left", schema, max_block_rows=4096), 0, 0
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


PLAIN = (pa.string(), pa.large_string(), pa.binary(), pa.string_view(), pa.int32(), pa.bool_(), pa.null(), pa.float64())
CODED = (pa.string(), pa.large_binary(), pa.large_string(), pa.int64(), pa.float32())
LEAVES = st.sampled_from(PLAIN) | st.builds(
    pa.dictionary,
    st.sampled_from((pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32(), pa.int64())),
    st.sampled_from(CODED),
    st.booleans(),
)
TYPES = st.recursive(
    LEAVES,
    lambda kinds: st.one_of(
        *(kinds.map(of) for of in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)),
        kinds.map(lambda kind: pa.list_(kind, 2)),
        kinds.map(lambda kind: pa.struct({"x": kind, "y": pa.int16()})),
        kinds.map(lambda kind: pa.map_(pa.string(), kind)),
    ),
    max_leaves=3,
)


def value(kind, random, first):
    """A value of a type, of one of 30 from `first` on where it is no number of fewer."""
    types = pa.types
    if random.random() < 0.1:
        return None
    if types.is_dictionary(kind):
        return value(kind.value_type, random, first)
    if types.is_struct(kind):
        return {field.name: value(field.type, random, first) for field in kind}
    if types.is_map(kind):
        return [(f"{n}", value(kind.item_type, random, first)) for n in range(random.integers(3))]
    if types.is_fixed_size_list(kind):
        return [value(kind.value_type, random, first) for _ in range(kind.list_size)]
    if types.is_nested(kind):
        return [value(kind.value_type, random, first) for _ in range(random.integers(4))]
    number = first + int(random.integers(30))
    if types.is_null(kind):
        return None
    if types.is_boolean(kind):
        return number % 2 == 0
    if types.is_integer(kind) or types.is_floating(kind):
        return number
    text = f"{number}" * int(random.integers(4))
    return text.encode() if types.is_binary(kind) or types.is_large_binary(kind) else text


@example(pa.dictionary(pa.int8(), pa.string()), 400, 0)
@example(pa.list_(pa.struct({"x": pa.dictionary(pa.int8(), pa.string())})), 400, 0)
@given(TYPES, st.sampled_from((1, 50, 400, 1 << 31)), st.integers(0, 1000))
def test_rows_of_every_type_in_chunks_of_few_bytes(kind, most, seed):
    """As if offsets numbered few bytes; the dictionaries of all batches together have more values than int8 numbers."""
    random = np.random.default_rng(seed)
    schema = pa.schema({"n": pa.int64(), "p": kind})
    with mock.patch.object(kept_types, "MAX_CHUNK_BYTES", most), mock.patch.object(row_log, "_MAX_PICKED_BYTES", 99):
        log, held, last = RowLog("left", schema, max_block_rows=100), [], pa.table({})
        for batch in range(6):
            values = [value(kind, random, 30 * batch) for _ in range(random.integers(1, 60))]
            table = pa.table([range(len(held), len(held) + len(values)), pa.array(values, kind)], schema=schema)
            last = kept_types.kept(table.slice(1))
            log.append(len(held), kept_types.kept(table))
            held += table["p"].to_pylist()
        for rows in (
            random.integers(0, len(held), 5),
            random.integers(-1, len(held), 3 * len(held)),
            np.arange(len(held) // 2, len(held)),
            np.array([len(held) - 1, -1, 0]),
        ):
            numbers, found = log.take(rows, ["n", "p"])
            found.validate(full=True)
            assert found.type == kind
            assert numbers.num_chunks == 1
            assert numbers.to_pylist() == [None if row < 0 else row for row in rows.tolist()]
            assert found.to_pylist() == [None if row < 0 else held[row] for row in rows.tolist()]
            for chunk in found.chunks if kept_types.fixed_bytes(kept_types.kept_type(kind)) is None else ():
                assert len(chunk) == 1 or np.sum(kept_types.value_bytes(kept_of(chunk).drop_null())) <= most
            coded = "dictionary" in str(kind)
            assert found.num_chunks == 1 or coded or most < 1 << 31
        order = random.permutation(len(last))
        again = picked(last, order)
        assert again.schema == last.schema
        assert again["p"].to_pylist() == [last["p"][at].as_py() for at in order.tolist()]


def kept_of(chunk):
    return kept_types.kept(pa.table({"p": chunk}))["p"].chunk(0)


def test_dictionaries_of_one_order_stay_as_they_are():
    """Ordered categories keep their order, and those that no row has."""
    kind = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    dictionary = pa.array(["low", "middle", "high", "never"])
    log = RowLog("left", pa.schema({"p": kind}))
    for first in (0, 3):
        column = pa.DictionaryArray.from_arrays(pa.array([2, 0, 1], pa.int8()), dictionary, ordered=True)
        log.append(first, kept_types.kept(pa.table({"p": column})))
    (found,) = log.take(np.array([5, 0, 1, 4]), ["p"])
    assert found.type == kind
    assert found.chunk(0).dictionary.equals(dictionary)
    assert found.to_pylist() == ["middle", "high", "low", "low"]


def test_dictionaries_with_null_and_equal_values():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, None], pa.int8()), pa.array(["a", None, "a", "b"]))
    log = RowLog("left", pa.schema({"p": column.type}))
    for first in (0, 5):
        log.append(first, kept_types.kept(pa.table({"p": column})))
    (found,) = log.take(np.array([8, 0, 1, 7, 9]), ["p"])
    found.validate(full=True)
    assert found.to_pylist() == ["b", "a", None, "a", None]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int8()), pa.struct({"x": pa.int8()}), pa.dictionary(pa.int8(), pa.int8())]
)
def test_dictionaries_that_cannot_be_made_one_are_refused(kind):
    for outer in (pa.dictionary(pa.int8(), kind), pa.list_(pa.dictionary(pa.int8(), kind))):
        with pytest.raises(SchemaError, match=r"column 'p' of the left side has type .*cannot pick"):
            RowLog("left", pa.schema({"p": outer}))


def test_a_log_that_is_thinned_keeps_a_few_old_rows(monkeypatch):
    monkeypatch.setattr(row_log, "_FEW_ROWS", 4)
    kind, sizes = pa.string_view() if hasattr(pa, "string_view") else pa.string(), [5, 1, 20, 7, 30]
    log, end = RowLog("right", pa.schema({"p": kind})), 0
    for size in sizes:
        log.append(end, kept_types.kept(pa.table({"p": pa.array([f"row {end + at}" for at in range(size)], kind)})))
        end += size
        first = max(end - 10, 0)
        few = np.array([row for row in (2, 5, 30) if row < first], np.int64)
        log.thin(few, first)
        rows = np.concatenate([few, np.arange(first, end), [-1]])[::-1]
        assert log.take(rows, ["p"])[0].to_pylist() == [None if row < 0 else f"row {row}" for row in rows]
        assert log.rows <= 2 * (len(few) + end - first) + 4
        log.trim(int(min(few, default=first)))
