"""Rows that come again are told from others, whatever their order and batches."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from muntin import Band, Rows, WindowJoin
from muntin.host.daemon import DaemonClient
from muntin.host.errors import ReplayError
from muntin.host.keys import content
from muntin.host.keys.content import Content, row_hashes
from tests.host.daemon.conftest import batch, client, daemon, directory, either, expected, open_query, process, start  # noqa: F401  # noqa: F401
from tests.random_joins.values import plain


def rows(seed: int = 1, count: int = 200) -> pa.Table:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 50, count)

    def nulls(found: list[object], kind: pa.DataType) -> pa.Array:
        return pa.array([None if value % 7 == 0 else each for value, each in zip(values, found, strict=True)], kind)

    return pa.table(
        {
            "i": nulls(values.tolist(), pa.int32()),
            "f": nulls((values / 3).tolist(), pa.float64()),
            "b": nulls((values % 2 == 0).tolist(), pa.bool_()),
            "s": nulls(["x" * (value % 5) + str(value) for value in values], pa.string()),
            "y": nulls([bytes([value]) for value in values], pa.large_binary()),
            "t": nulls([dt.datetime(2024, 1, 1, 0, 0, int(v)) for v in values], pa.timestamp("us", "UTC")),
            "d": nulls([Decimal(int(v)) / 4 for v in values], pa.decimal128(9, 2)),
            "l": nulls([{"p": int(v)} for v in values], pa.struct([("p", pa.int64())])),
        }
    )


def digest(table: pa.Table) -> str:
    return Content.of(table, None).digest["left"]


def test_order_and_batches_do_not_count() -> None:
    table = rows()
    shuffled = table.take(np.random.default_rng(2).permutation(len(table)))
    cut = pa.Table.from_batches(shuffled.to_batches(max_chunksize=37))
    assert digest(table) == digest(shuffled) == digest(cut) == digest(pa.concat_tables([table[100:], table[:100]]))
    assert Content.of(None, None).digest == {"left": "0 rows, 0000000000000000", "right": "0 rows, 0000000000000000"}


def test_every_value_counts() -> None:
    table = rows(count=40)
    seen = {digest(table), digest(table[1:]), digest(pa.concat_tables([table, table[:1]]))}
    for at, name in enumerate(table.column_names):
        column = table[name]
        others = [column.combine_chunks().take(np.roll(np.arange(40), 1)), pa.nulls(40, column.type)]
        seen |= {digest(table.set_column(at, name, other)) for other in others}
    assert len(seen) == 3 + 2 * table.num_columns
    assert digest(pa.table({"a": ["ab", "c"]})) != digest(pa.table({"a": ["a", "bc"]}))
    assert digest(pa.table({"a": ["", None]})) != digest(pa.table({"a": ["", ""]}))
    assert digest(pa.table({"a": [1, 2], "b": [2, 1]})) != digest(pa.table({"a": [2, 1], "b": [2, 1]}))


@pytest.mark.parametrize(
    "of", [pa.timestamp("us"), pa.duration("ms"), pa.date32(), pa.uint64(), pa.string_view()], ids=str
)
def test_nested_values_count_also_beyond_those_of_python(of: pa.DataType) -> None:
    if of == pa.string_view():
        low, high = pa.array(["a"], of), pa.array(["b"], of)
    else:
        whole = {32: pa.int32(), 64: pa.int64()}[of.bit_width]
        low, high = (pa.array([2 ** (whole.bit_width - 1) - at], whole).view(of) for at in (2, 1))
    both, offsets = pa.concat_arrays([low, high, low]), pa.array([0, 1, 1, 3], pa.int32())
    columns = [
        pa.StructArray.from_arrays([both], ["x"]),
        pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 0], pa.int8()), pa.concat_arrays([low, high])),
        pa.ListArray.from_arrays(offsets, both),
        pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), both),
        pa.MapArray.from_arrays(offsets, pa.array(["p", "q", "r"]), both),
        pa.FixedSizeListArray.from_arrays(both, 1),
        pa.StructArray.from_arrays([pa.ListArray.from_arrays(offsets, both)], ["y"]),
    ]
    for column in columns:
        one, other = digest(pa.table({"c": column})), digest(pa.table({"c": column.slice(1)}))
        assert one == digest(pa.Table.from_batches(pa.table({"c": column}).to_batches(max_chunksize=1)))
        hashes = row_hashes(pa.record_batch({"c": column}))
        known = [repr(value) for value in plain(column)]
        assert one != other
        for a, left in enumerate(known):
            for b, right in enumerate(known):
                assert (hashes[a] == hashes[b]) == (left == right), (column.type, a, b)


def test_a_daemon_refuses_other_rows(either: DaemonClient) -> None:  # noqa: F811
    open_query(either)
    process(either, 0)
    result = process(either, 1)
    other = [(side, part.slice(1) if side == "right" else part) for side, part in batch(1)]
    with pytest.raises(ReplayError, match=r"batch 1 comes again with other right rows: 39 rows.*joined with 40 rows"):
        list(either.process("q", 1, other))
    swapped = [(side, part.take(pa.array(range(part.num_rows)[::-1]))) for side, part in batch(1)]
    assert pa.Table.from_batches(either.process("q", 1, swapped)) == result
    assert process(either, 2) == expected([0, 1, 2])


def test_a_restored_join_refuses_other_rows(tmp_path: Path) -> None:
    options = {"on": Band("limit", "price", -2, 2), "left": Rows(50), "right": Rows(30), "form": "pairs"}
    sides = [pa.Table.from_batches([p for s, p in batch(0) if s == side]) for side in ("left", "right")]
    due = WindowJoin(**options, state=tmp_path).process(*sides)
    again = WindowJoin(**options, state=tmp_path)
    with pytest.raises(ReplayError, match="batch 0 comes again with other left rows"):
        again.repeat(sides[0][1:], sides[1])
    with pytest.raises(ReplayError, match="batch 0 comes again with other right rows: 0 rows"):
        again.repeat(sides[0], None)
    assert again.repeat(*sides) == due


def test_large_rows_are_hashed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.record_batch({"s": ["x" * n + "y" for n in (0, 1, 50, 7)], "b": [b"z" * n for n in (9, 30, 0, 11)]})
    known = row_hashes(rows)
    for most in (1, 7, 16, 64):
        monkeypatch.setattr(content, "_MAX_BYTES", most)
        assert (row_hashes(rows) == known).all()
