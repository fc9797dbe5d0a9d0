"""`select=`: the columns of the whole result, and no others are kept."""

import numpy as np
import pyarrow as pa
import pytest

from muntin import AllOf, Band, Rows, Where, WindowJoin, Within

HOWS = ["inner", "left", "full", "left_semi", "left_anti"]
MATCH_BITS = 1024  # bytes of an empty side
ROWS = 60


def stream(seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "k": random.integers(0, 12, ROWS),
            "t": np.arange(ROWS),
            "wide": pa.array([f"{n}" * 50 for n in range(ROWS)], pa.string_view()),
            "id": np.arange(ROWS),
        }
    )


def results(selected: list[str] | None, tmp_path=None, **options) -> tuple[pa.Table, int]:
    """The result of two calls and the end, and the bytes of rows kept before that."""
    left, right = stream(1), stream(2)
    found = []
    for half in (slice(0, ROWS // 2), slice(ROWS // 2, ROWS)):
        state = {} if tmp_path is None else {"state": tmp_path / "state"}
        if not found or tmp_path is not None:
            join = WindowJoin(select=selected, left_schema=left.schema, right_schema=right.schema, **options, **state)
        tables = [side.slice(half.start, half.stop - half.start) for side in (left, right)]
        found.append(join.process(*tables[: 1 if options.get("self_join") else 2]))
        kept = join.stats.row_bytes
        if half.start == 0 and tmp_path is not None:
            join.close()
    found.append(join.finish())
    join.close()
    return pa.concat_tables(found), kept


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    "window", [{"left": Rows(25), "right": Rows(30)}, {"within": Within("t", "t", -9, 4)}], ids=["rows", "time"]
)
def test_selected_columns_of_the_same_rows(how, window):
    on = AllOf(Band("k", "k", -1, 1), Where("right", "id", "!=", 7))
    whole, bytes_of_all = results(None, on=on, how=how, order="inner", **window)
    alone = how in ("left_semi", "left_anti")
    for names in (["id"], ["k", "id"]) if alone else (["id_right"], ["id_right", "t", "k"], ["wide_right", "id"]):
        some, kept = results(names, on=on, how=how, order="inner", **window)
        assert some.equals(whole.select(names))
        assert kept < bytes_of_all or bytes_of_all == MATCH_BITS
    assert len(whole) > (10 if how != "left_anti" else 0)


@pytest.mark.parametrize("names", [["id_right"], ["id", "k_right"]])
def test_of_a_self_join(names):
    options = {"on": Band("k", "k", 0, 1), "left": Rows(20), "right": Rows(20), "order": "inner", "self_join": True}
    whole, _ = results(None, **options)
    assert results(names, **options)[0].equals(whole.select(names))


def test_from_state(tmp_path):
    options = {"on": Band("k", "k", 0, 1), "left": Rows(20), "right": Rows(20), "order": "inner"}
    whole, _ = results(["id_right", "wide"], **options)
    assert results(["id_right", "wide"], tmp_path, **options)[0].equals(whole)
    assert len(whole) > 10
