"""However the same streams are cut into calls, the same pairs come out; in inner order, in the same order."""

import itertools

import hypothesis
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from muntin import Rows, WindowJoin, Within
from tests.conformance.predicates import for_host
from tests.conftest import SEED
from tests.oracles.nested_loop import NestedLoop

WINDOWS = [(1, 1), (4, 9), (16, 3), (500, 500), None]
PREDICATES = [
    ("band", -2, 3),
    ("band", None, -1),
    ("compare", "!="),
    ("any", [("band", -3, 0), ("band", 0, 1), ("compare", ">")]),
]

keys = st.one_of(st.integers(-6, 6), st.integers(-(2**63), 2**63 - 1), st.none())
events = st.lists(st.tuples(st.booleans(), keys, st.integers(0, 25), st.integers(0, 2)), max_size=90)
cuts = st.lists(st.integers(0, 90), max_size=12)


def cut(rows: list[tuple], at: list[int]) -> list[tuple[pa.Table | None, pa.Table | None]]:
    """The streams, cut into calls at these places of the arrival order."""
    edges = [0, *sorted(min(edge, len(rows)) for edge in at), len(rows)]
    calls = []
    for first, last in itertools.pairwise(edges):
        sides = []
        for side in (False, True):
            own = [row for row in rows[first:last] if row[0] is side]
            columns = {"k": pa.int64(), "t": pa.int64(), "q": pa.int64()}
            sides.append(
                pa.table(
                    [pa.array([row[i + 1] for row in own], kind) for i, kind in enumerate(columns.values())],
                    names=list(columns),
                )
            )
        calls.append(tuple(sides))
    return calls


def sequenced(raw: list[tuple]) -> list[tuple]:
    """(is right, key, time, sequence) in arrival order, with ties: the left rows of a tie come first."""
    rows, sequence = [], 0
    for right, key, time, step in raw:
        sequence += step
        rows.append((right, key, time, sequence))
    return sorted(rows, key=lambda row: (row[3], row[0]))


@pytest.mark.parametrize("index", ["auto", "bisort"])
@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: "within" if window is None else f"rows{window}")
@hypothesis.seed(SEED)
@hypothesis.settings(
    max_examples=25,
    deadline=None,
    print_blob=True,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
@hypothesis.given(
    raw=events,
    one=cuts,
    other=cuts,
    predicate=st.sampled_from(PREDICATES),
    form=st.sampled_from(["pairs", "counts"]),
)
def test_cuts_do_not_matter(index, window, device_case, device, raw, one, other, predicate, form):
    if index not in device_case.indexes or (window is None and not device_case.time_windows):
        pytest.skip(f"device {device_case.name} has no such index or window")
    if window is None:
        kind, loop = {"within": Within("t", "t", -4, 6)}, {"within": ("t", "t", -4, 6)}
    else:
        kind, loop = {"left": Rows(window[0]), "right": Rows(window[1])}, {"rows": window}
    rows = sequenced(raw)
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("q", pa.int64())])
    expected = NestedLoop(predicate, "k", "k", sequence="q", **loop)
    due = [pair for call in cut(rows, []) for pair in expected.process(*call)]
    for at in (one, other):
        with WindowJoin(
            on=for_host(predicate, "k", "k"),
            sequence="q",
            form=form,
            order="inner",
            index=index,
            device=device,
            left_schema=schema,
            right_schema=schema,
            **kind,
        ) as join:
            results = [join.process(*call) for call in cut(rows, at)]
        whole = pa.concat_tables(results)
        if form == "pairs":
            found = list(zip(whole["left_row"].to_pylist(), whole["right_row"].to_pylist(), strict=True))
            assert found == [(pair.left, pair.right) for pair in due]
        else:
            counts = {(line["side"], line["row"]): line["matches"] for line in whole.to_pylist()}
            assert len(counts) == whole.num_rows == len(rows)
            grouped = dict.fromkeys(counts, 0)
            for pair in due:
                grouped[(pair.side, pair.left if pair.side == "left" else pair.right)] += 1
            assert counts == grouped
