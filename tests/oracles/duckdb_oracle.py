"""The join as SQL in DuckDB: a second oracle, for streams too large for the nested loop.

The window is a condition on row numbers and arrival positions, the band a BETWEEN. Integer keys are HUGEINT
there, so nothing wraps.
"""

import duckdb
import numpy as np
import pyarrow as pa

from tests.oracles.exact import exact_bound

SQL_OPERATORS = {"==": "=", "!=": "<>"}


def arrival_positions(
    left_calls: np.ndarray, right_calls: np.ndarray, left_sequence: np.ndarray, right_sequence: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Positions in the total arrival order over both streams, int64; each stream is in arrival order.

    Parameters
    ----------
    left_calls, right_calls
        The call that brings each row.
    left_sequence, right_sequence
        The sequence of each row; all zeros where no sequence column is named.
    """
    calls = np.concatenate([left_calls, right_calls])
    sequence = np.concatenate([left_sequence, right_sequence])
    side = np.concatenate([np.zeros(len(left_calls), np.int8), np.ones(len(right_calls), np.int8)])
    order = np.lexsort((side, sequence, calls))
    positions = np.empty(len(order), np.int64)
    positions[order] = np.arange(len(order))
    return positions[: len(left_calls)], positions[len(left_calls) :]


def predicate_sql(predicate: tuple, floating: bool) -> str:
    """The SQL condition of a predicate (as ``nested_loop`` writes them) on l.k and r.k."""
    if predicate[0] == "any":
        return "(" + " OR ".join(predicate_sql(each, floating) for each in predicate[1]) + ")"
    if predicate[0] == "compare":
        return f"l.k {SQL_OPERATORS.get(predicate[1], predicate[1])} r.k"
    _, low, high, *closed = predicate
    ends = {"both": (">=", "<="), "left": (">=", "<"), "right": (">", "<="), "neither": (">", "<")}
    above, below = ends[closed[0] if closed else "both"]
    terms = []
    for bound, compare in ((low, above), (high, below)):
        if bound is None:
            continue
        if floating:
            # The shortest decimal that reads back as the same double.
            terms.append(f"r.k {compare} l.k + CAST('{float(bound)!r}' AS DOUBLE)")
        else:
            bound = exact_bound(bound)
            if bound.denominator != 1:
                raise ValueError("whole bounds only on integer keys here")
            terms.append(f"r.k {compare} l.k + CAST('{bound}' AS HUGEINT)")
    return " AND ".join(terms) or "TRUE"


def join(
    predicate: tuple,
    left_keys: pa.Array,
    right_keys: pa.Array,
    left_positions: np.ndarray,
    right_positions: np.ndarray,
    *,
    rows: tuple[int, int] | None = None,
    within: tuple[np.ndarray, np.ndarray, int, int] | None = None,
) -> np.ndarray:
    """All pairs of the join, shape (pairs, 2), int64 row numbers, in ascending order.

    Parameters
    ----------
    left_keys, right_keys
        Integer or floating keys in arrival order; temporal keys as integers of one unit.
    left_positions, right_positions
        Positions in the total arrival order, see `arrival_positions`.
    rows
        Sizes of the left and right count windows.
    within
        ``(left times, right times, low, high)``, integers of one unit.
    """
    floating = pa.types.is_floating(left_keys.type) or pa.types.is_floating(right_keys.type)
    key_type = "DOUBLE" if floating else "HUGEINT"
    tables = {}
    for name, keys, own, other, times in (
        ("l", left_keys, left_positions, right_positions, within and within[0]),
        ("r", right_keys, right_positions, left_positions, within and within[1]),
    ):
        tables[name] = pa.table(
            {
                "k": keys,
                "no": np.arange(len(own), dtype=np.int64),
                "pos": own,
                # How many rows of the other stream had arrived before this one.
                "seen": np.searchsorted(other, own).astype(np.int64),
                "t": np.zeros(len(own), np.int64) if times is None else times,
            }
        )
    condition = predicate_sql(predicate, floating)
    if rows is not None:
        windows = [
            f"l.no < r.seen AND l.no >= r.seen - {rows[0]}",
            f"r.no < l.seen AND r.no >= l.seen - {rows[1]}",
        ]
    else:
        # CAST, not ::, which would bind to the number alone and leave its sign to be applied to HUGEINT.
        low, high = (f"CAST({bound} AS HUGEINT)" for bound in within[2:])
        windows = [f"r.t >= l.t + {low} AND r.t <= l.t + {high}"]
    not_nan = "AND NOT isnan(k)" if floating else ""
    time_type = "HUGEINT" if within is not None else "BIGINT"
    sources = ", ".join(
        f"{name} AS (SELECT CAST(k AS {key_type}) k, no, pos, seen, CAST(t AS {time_type}) t "
        f"FROM {name}_arrow WHERE k IS NOT NULL {not_nan})"
        for name in tables
    )
    with duckdb.connect() as connection:
        connection.execute("SET threads = 2")
        for name, table in tables.items():
            connection.register(f"{name}_arrow", table)
        found = [
            connection.execute(
                f"WITH {sources} SELECT l.no a, r.no b FROM l, r WHERE {window} AND {condition}"
            ).fetchnumpy()
            for window in windows
        ]
    pairs = np.concatenate([np.stack([part["a"], part["b"]], axis=1) for part in found]).astype(np.int64)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
