"""The 753 joins of the peers' own suites (`../shared/peer-joins`).

Each passes, or is listed with the sentence of the contract by which it is refused or has another answer.
"""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
import re
from typing import Any

import pytest

from muntin import sql
from muntin.errors import MuntinError
from tests.peer_joins.cases import SOURCES, WAYS, cases, oracle, query, rows_of


@dataclasses.dataclass(frozen=True)
class Listed:
    """Cases of one reason.

    Attributes
    ----------
    says : str
        The sentence of the contract.
    names : str
        Names of cases, `*` for any text in them.
    errors : str
        What the typed error is, a regular expression; empty where the join is taken and its rows differ.
    """

    says: str
    names: str
    errors: str = ""
    in_sql: bool = False  # a SELECT is taken: DuckDB computes what a join does not


AS_OF = "As-of AsOf(l_time, r_time, direction, tolerance, by, exact=True), inner and left"
PARTS = "a part is a Band, Compare or AnyOf (one pair of columns, or one column and constants)"
OR = "other disjunctions are refused"
EXACT = "an order-preserving encoding that is exact for every value: a key is never rounded to fit, it is refused"
KEYS = "Keys. Signed and unsigned integers to 64 bits, float32/64, date, timestamp, decimals that fit 64 bits"
FLOATS = "Floating keys: l + low <= r <= l + high, both sums in float64"
NAN = "NULL and NaN match nothing"
TIES = (
    "Right rows of one time: looking back the last to arrive, looking ahead the first; one before and one after at the "
    "same distance: the one before"
)
TEXT = "(KeyTypeError|SqlError): .* has type string, which cannot be a key"

LISTED = [
    # Ranges
    Listed(
        PARTS,
        "duckdb-full-sums polars-ie_join_projection_pd_19005.1 clickhouse-equality-sums-*",
        "SqlError: .* no difference or sum of one column of each side",
        in_sql=True,
    ),
    Listed(PARTS, "polars-single_sided_predicate.1", "SqlError: .* both columns belong to one side", in_sql=True),
    Listed(PARTS, "polars-ie_join_with_expressions.1", "SqlError: .* MUL .* is not supported", in_sql=True),
    Listed(PARTS, "duckdb-ie-scd2-nullable-end", "SqlError: .* COALESCE .* is not supported", in_sql=True),
    Listed(PARTS, "duckdb-not-between-is-null", "SqlError: .* NOT .* is not supported"),
    Listed(PARTS, "clickhouse-lt-or-equal-text-*", "SqlError: .* LOWER .* is not supported", in_sql=True),
    Listed(PARTS, "clickhouse-equality-lt-or-even-*", "SqlError: .* MOD .* is not supported", in_sql=True),
    Listed(
        OR,
        "duckdb-not-between duckdb-not-between-null duckdb-semi-or duckdb-semi-or-and duckdb-*-sums-or duckdb-left-or",
        "SqlError: .* AnyOf over several .*columns",
        in_sql=True,
    ),
    Listed(OR, "clickhouse-equality-lt-or-equal-*", "SqlError: .* AnyOf over several pairs"),
    Listed(FLOATS, "duckdb-ie-*-wide-narrow-residual duckdb-ie-*-wide-narrow-all", "SqlError: .* its sum is rounded"),
    Listed(
        KEYS, "duckdb-ie-qp-text duckdb-left-null-text-gt-? duckdb-anti-text-half-open polars-join_on_strings.1", TEXT
    ),
    Listed(NAN, "duckdb-nan-*-ge-inf polars-ie_join_with_floats.1 polars-ie_join_with_floats.10"),
    # As-of
    Listed(
        AS_OF,
        "duckdb-asof-*[!y]-right duckdb-asof-doubles-by-right",
        "UnsupportedError: .* how='right'|SqlError: .* ASOF RIGHT JOIN",
    ),
    Listed(
        AS_OF,
        "duckdb-asof-timestamps-semi duckdb-asof-timestamps-anti",
        "UnsupportedError: .* how='left_(semi|anti)'|SqlError: .* ASOF (SEMI|ANTI) JOIN",
    ),
    Listed(
        "Further conditions are refused",
        "duckdb-asof-residual-* duckdb-asof-issue-13899 duckdb-asof-issue-17046-one-sided duckdb-asof-issue-19027-or "
        "duckdb-asof-in-list duckdb-asof-not-in-list",
        "PredicateError: AllOf takes|SqlError: .* (one pair of times|ASOF (SEMI|ANTI)|no difference or sum|AnyOf over)",
        in_sql=True,
    ),
    Listed(
        "equal in by (NULL equals nothing)",
        "duckdb-asof-null-safe-by-*",
        "PredicateError: AllOf takes|SqlError: .* one pair of times",
    ),
    Listed(KEYS, "duckdb-asof-text-inner duckdb-asof-text-left polars-asof_join_string.?", TEXT),
    Listed(
        EXACT,
        "duckdb-asof-bigint-against-double-left duckdb-asof-missing-right-bin",
        "(KeyTypeError|SqlError): .* would be rounded",
    ),
    Listed(EXACT, "clickhouse-asof-int128", "KeyTypeError: .* does not fit 64 bits"),
    Listed(NAN, "polars-join_asof_nans-backward.1 polars-join_asof_nans-nearest.1"),
    Listed(
        TIES,
        "polars-asof_join_nearest_reference-*.[345789] polars-asof_join_nearest_reference-*.10 "
        "polars-asof_join_nearest_with_tolerance.5 polars-asof_join_nearest_by_with_tolerance.1 "
        "polars-join_asof_large_int_21276-nearest-False-dtypes?.1 "
        "polars-join_asof_nearest_no_exact_matches_25468-left6-right6-expected_right6.1",
    ),
]

OURS: dict[str, dict[str, str]] = {"range": {"nan": "never"}, "asof": {}}
"""Choices of meaning, as the oracle calls them, that are ours and not its defaults."""


def listed(case: Any) -> Listed | None:
    """What is listed of a case."""
    found = [each for each in LISTED if any(fnmatch.fnmatchcase(case.name, name) for name in each.names.split())]
    assert len(found) < 2, f"{case.name} is listed twice"
    return found[0] if found else None


def wrong(case: Any, way: str, device: str) -> str | None:
    """What is wrong with a case, or None."""
    reason = listed(case)
    try:
        result = WAYS[way](case, device)
    except MuntinError as error:
        told = f"{type(error).__name__}: {error}"
        if reason is not None and reason.errors and re.match(f"({reason.errors})", told):
            return None
        return told
    if result is None:
        return None
    right = oracle().right_answer(case, result)
    if reason is None:
        return None if right else f"{len(result)} rows that are not the answer"
    if reason.in_sql and right:
        return None
    if reason.errors:
        return "is listed as refused, and is taken"
    if right:
        return "is listed as different, and has the source's answer"
    ours = case.rows(oracle().loop(case, **OURS[case.kind]))
    if collections.Counter(rows_of(case, result)) != collections.Counter(ours):
        return "differs from the source, and from what the contract says"
    return None


@pytest.mark.parametrize(
    ("source", "kind", "way"),
    # An as-of join is no condition: it has an object and a SELECT.
    [(*of, way) for of in SOURCES for way in WAYS if (of[1], way) != ("asof", "text")],
)
def test_cases(source: str, kind: str, way: str) -> None:
    ours = [case for case in cases() if case.kind == kind and case.d["source"].startswith(source)]
    if way == "text":  # a SELECT has the same condition
        ours = [case for case in ours if case.n * case.m < 10**7]
    assert len(ours) > 4
    failed = {case.name: what for case in ours if (what := wrong(case, way, "cpu")) is not None}
    assert not failed, "\n".join(f"{name}: {what}" for name, what in failed.items())


def test_a_sample_on_numpy() -> None:
    small = [case for case in cases() if case.kind == "range" and case.n * case.m < 10_000]
    failed = {case.name: what for case in small[::6] if (what := wrong(case, "objects", "numpy")) is not None}
    assert not failed, "\n".join(f"{name}: {what}" for name, what in failed.items())


def test_no_case_is_left_out() -> None:
    assert len(cases()) == len({case.name for case in cases()}) == 753
    assert {(case.d["source"].split(":")[0], case.kind) for case in cases()} == set(SOURCES)
    reasons = [listed(case) for case in cases()]
    assert sum(reason is not None for reason in reasons) <= 101
    assert {id(reason) for reason in reasons if reason} == {id(reason) for reason in LISTED}
    for each in LISTED:
        for name in each.names.split():
            assert any(fnmatch.fnmatchcase(case.name, name) for case in cases()), f"no case is called {name}"
    # Only the nearest in time has no text, and only what is no conjunction of comparisons no objects.
    for case in cases():
        assert (query(case) is None) == (case.kind == "asof" and case.condition["direction"] == "nearest")
        assert case.kind == "asof" or "predicates" in case.d or query(case) is not None


AROUND = (
    "SELECT {0} AS c, count(*) AS n FROM ({1}) AS z GROUP BY {0} HAVING count(*) > 0 ORDER BY n DESC, c LIMIT 9",
    "WITH z AS ({1}) SELECT DISTINCT z.*, CASE WHEN {0} IS NULL THEN 1 ELSE 2 END AS c FROM z WHERE NOT {0} IS NULL",
)


@pytest.mark.parametrize("kind", ["range", "asof"])
def test_cases_with_a_select_around_them(kind: str) -> None:
    """DuckDB's own, which runs the whole text."""
    peer = pytest.importorskip("duckdb").connect()
    ours = [case for case in cases() if case.kind == kind and case.d["source"].startswith("duckdb")]
    checked = 0
    for case in ours:
        text = query(case)
        if case.n * case.m > 10**4 or text is None or listed(case) is not None:
            continue
        tables = {"l": case.arrow("left"), "r": case.arrow("right")}
        for name, table in tables.items():
            peer.register(name, table)
        select, _, joined = text.partition(" FROM ")
        column = select.removeprefix("SELECT ").split(", ")[0]
        wrapped = [each.format(column.partition(".")[2], text) for each in AROUND]
        wrapped.append(f"SELECT {column} IS NULL AS c, count(*) AS n FROM {joined} GROUP BY 1 ORDER BY 1")
        for each in wrapped:
            results = sql(each, **tables), peer.sql(each).to_arrow_table()
            found = [list(zip(*map(oracle().plain_of, result.columns), strict=True)) for result in results]
            assert collections.Counter(found[0]) == collections.Counter(found[1]), (case.name, each)
        checked += 1
    assert checked > 30
