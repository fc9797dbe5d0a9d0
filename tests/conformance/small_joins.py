"""Short joins on a key column `k`, written out by hand and compared with the nested loop."""

from collections.abc import Iterable

import pyarrow as pa

from muntin import Rows, WindowJoin
from tests.conformance.predicates import for_host
from tests.oracles.nested_loop import NestedLoop

TOP, BOTTOM = 2**63 - 1, -(2**63)
"""The ends of int64."""


def table(keys: object, kind: pa.DataType | None = None, **more: object) -> pa.Table:
    """A table with key column `k`, and more columns by name."""
    keys = keys if isinstance(keys, pa.Array | pa.ChunkedArray) else pa.array(keys, kind)
    return pa.table({"k": keys, **more})


def pairs_of(result: pa.Table) -> list[tuple[int, int]]:
    """(left row, right row) of a result in the form pairs, in emitted order."""
    return list(zip(result["left_row"].to_pylist(), result["right_row"].to_pylist(), strict=True))


def open_join(device: object, on: object, rows: tuple[int, int] | None = (100, 100), **more: object) -> WindowJoin:
    """A join that returns pairs in inner order, unless told otherwise."""
    if rows:
        more |= {"left": Rows(rows[0]), "right": Rows(rows[1])}
    return WindowJoin(on=on, device=device, **({"form": "pairs", "order": "inner"} | more))


def schema_of(batches: Iterable[pa.Table | None]) -> pa.Schema:
    """The schema of the first of a side's batches that is there."""
    return next(batch.schema for batch in batches if batch is not None)


def agree(
    device: object,
    predicate: tuple,
    left: list[pa.Table | None],
    right: list[pa.Table | None],
    rows: tuple[int, int] = (100, 100),
    **more: object,
) -> int:
    """Runs the calls `left[i], right[i]`, compares each, in inner order, with the nested loop; the number of pairs."""
    loop = NestedLoop(predicate, "k", "k", rows=rows, sequence=more.get("sequence"))
    more = {"left_schema": schema_of(left), "right_schema": schema_of(right)} | more
    found = 0
    with open_join(device, for_host(predicate, "k", "k"), rows, **more) as join:
        for one, other in zip(left, right, strict=True):
            due = [(pair.left, pair.right) for pair in loop.process(one, other)]
            assert pairs_of(join.process(one, other)) == due
            found += len(due)
    return found
