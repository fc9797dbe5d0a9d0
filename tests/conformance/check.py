"""Runs the operator and the nested loop side by side and compares all that the contract promises."""

from collections import Counter

import pyarrow as pa

from muntin import Rows, Watermark, Within
from muntin.host.engines import Outer
from tests.conformance.keys import KeyCase
from tests.conformance.predicates import for_host, in_units
from tests.conformance.streams import Streams
from tests.conformance.windows import WindowCase
from tests.oracles.nested_loop import NestedLoop, Pair


def host_arguments(predicate: tuple, key: KeyCase, window: WindowCase, sequenced: bool) -> dict:
    """Keyword arguments of `WindowJoin` for a predicate and a window in ticks."""
    arguments = {"on": for_host(in_units(predicate, key), "limit", "price")}
    if window.rows is not None:
        arguments |= {"left": Rows(window.rows[0]), "right": Rows(window.rows[1])}
    else:
        unit = window.time.unit
        arguments["within"] = Within("at", "when", window.low * unit, window.high * unit)
        if window.watermarked:
            left, right = (None if delay is None else delay * unit for delay in window.delays)
            arguments["watermark"] = Watermark(left=left, right=right, lag=window.lag)
    if sequenced:
        arguments["sequence"] = "q"
    return arguments


def oracle(predicate: tuple, key: KeyCase, window: WindowCase, sequenced: bool, how: str = "inner") -> NestedLoop:
    """The nested loop for the same query."""
    within, delays = None, (None, None)
    if window.time is not None:
        unit = window.time.unit
        within = ("at", "when", window.low * unit, window.high * unit)
        delays = tuple(None if delay is None else delay * unit for delay in window.delays)
    return NestedLoop(
        in_units(predicate, key),
        "limit",
        "price",
        rows=window.rows,
        within=within,
        sequence="q" if sequenced else None,
        delays=delays,
        lag=window.lag,
        how=how,
    )


def check_join(
    join: object, loop: NestedLoop, streams: Streams, form: str, order: str | Outer, first_row: int = 0
) -> int:
    """Runs every call through both and compares call by call; the number of pairs.

    Parameters
    ----------
    join
        A `WindowJoin` that saw nothing yet.
    loop
        The oracle for the same query.
    first_row
        Arrival number of the first row of each stream.
    """
    total = 0
    late = {"left": 0, "right": 0}
    for call, (left, right) in enumerate(streams.calls):
        before = {side: len(loop.streams[side].rows) for side in loop.streams}
        expected = loop.process(left, right)
        after = {side: len(loop.streams[side].rows) for side in loop.streams}
        result = join.process(left, right)
        assert isinstance(result, pa.Table)
        result.validate(full=True)
        if form == "counts":
            check_counts(result, expected, before, after, first_row)
        else:
            numbers = row_numbers(result, streams, form, first_row)
            check_pairs(numbers, expected, call)
            check_order(numbers, streams, order, first_row)
        total += len(expected)
    late = {side: stream.late for side, stream in loop.streams.items()}
    stats = join.stats
    assert (stats.rows_left, stats.rows_right) == (streams.left.num_rows, streams.right.num_rows)
    assert stats.matches == total
    assert (stats.late_left, stats.late_right) == (late["left"], late["right"])
    return total


def check_pairs(numbers: list[tuple[int, int]], expected: list[Pair], call: int) -> None:
    """Exactly the expected pairs, each once, in the call of the row that arrived later."""
    found, due = Counter(numbers), Counter((pair.left, pair.right) for pair in expected)
    missing, extra = due - found, found - due
    message = f"of {len(expected)} pairs in call {call}"
    assert not missing, f"missing {missing.total()} {message}: {sorted(missing)[:10]}"
    assert not extra, f"{extra.total()} too many beside {message}: {sorted(extra)[:10]}"


def check_order(numbers: list[tuple[int, int]], streams: Streams, order: str | Outer, first_row: int = 0) -> None:
    """A monitor of the emitted order: the later row of each pair probes, the earlier one is stored."""
    if order == "none":
        return
    every = order.every if isinstance(order, Outer) else 1
    left, right = streams.positions["left"], streams.positions["right"]
    previous = (-1, -1)
    for at, (a, b) in enumerate(numbers):
        probing, stored = max(left[a], right[b]), min(left[a], right[b])
        probing = (2 * first_row + probing) // every
        assert probing >= previous[0], f"pair {at} {(a, b)}: its probing row arrived before that of pair {at - 1}"
        if order == "inner" and probing == previous[0]:
            assert stored > previous[1], f"pair {at} {(a, b)}: its stored row arrived before that of pair {at - 1}"
        previous = (probing, stored)


def check_counts(result: pa.Table, expected: list[Pair], before: dict, after: dict, first_row: int) -> None:
    """One line for every row of the call, with the matches it found when it arrived."""
    due = {(side, row): 0 for side in before for row in range(before[side], after[side])}
    for pair in expected:
        due[(pair.side, pair.left if pair.side == "left" else pair.right)] += 1
    assert result.column_names == ["side", "row", "matches"]
    sides = result["side"].to_pylist()
    assert len(sides) == len(due)
    rows = (result["row"].to_numpy() - first_row).tolist()
    found = dict(zip(zip(sides, rows, strict=True), result["matches"].to_pylist(), strict=True))
    assert found == due


def row_numbers(
    result: pa.Table, streams: Streams, form: str, first_row: int, left_alone: bool = False
) -> list[tuple[int | None, int | None]]:
    """The emitted pairs as row numbers, in emitted order; checks the schema, and for rows every column.

    None stands for a row that is missing, and for all right rows where the result has the left side alone.
    """
    names = ["left_row"] if left_alone else ["left_row", "right_row"]
    if form == "pairs":
        assert result.schema == pa.schema([(name, pa.int64()) for name in names])
        columns = [[row if row is None else row - first_row for row in result[name].to_pylist()] for name in names]
        return list(zip(columns[0], columns[-1] if not left_alone else [None] * len(result), strict=True))
    lids = result["lid"].to_pylist()
    rids = [None] * len(result) if left_alone else result["rid"].to_pylist()
    columns = streams.left.take(pa.array(lids, pa.int64())).columns
    if left_alone:
        expected = expected_schema(streams.left.schema, pa.schema([]))
    else:
        expected = expected_schema(streams.left.schema, streams.right.schema)
        columns += streams.right.take(pa.array(rids, pa.int64())).columns
    assert result.schema.remove_metadata() == expected
    due = pa.Table.from_arrays(columns, schema=expected)
    for name in due.column_names:
        assert plain(result[name]) == plain(due[name]), f"column {name}"
    numbers = {side: {None: None, **of} for side, of in streams.numbers.items()}
    return [(numbers["left"][a], numbers["right"][b]) for a, b in zip(lids, rids, strict=True)]


def plain(column: pa.ChunkedArray) -> list:
    """Values that compare bit by bit: temporal values out of Python's range come as integers, floats as text."""
    if pa.types.is_floating(column.type):
        return list(map(repr, column.to_pylist()))  # NaN, too, equals itself
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return column.to_pylist()


def expected_schema(left: pa.Schema, right: pa.Schema, suffix: str = "_right") -> pa.Schema:
    """All columns of both sides with their types; right names that clash get the suffix."""
    fields = [pa.field(field.name, field.type) for field in left]
    for field in right:
        name = field.name + suffix if field.name in left.names else field.name
        fields.append(pa.field(name, field.type))
    return pa.schema(fields)
