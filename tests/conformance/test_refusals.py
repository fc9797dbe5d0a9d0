"""A refused call says why and leaves the join as it was."""

import numpy as np
import pyarrow as pa
import pytest

from muntin import Band, Compare, Within
from muntin.host import errors
from tests.conformance.predicates import for_host
from tests.conformance.small_joins import open_join, pairs_of, table
from tests.oracles.nested_loop import NestedLoop


def bad_calls():
    """(name, error, left, right) of calls that a join on k with sequence q refuses."""
    good = table([1, 2], q=[50, 51])
    back = table([1, 2], q=[52, 3])
    null = table([1, 2], q=pa.array([52, None], pa.int64()))
    return [
        ("back-left", "OrderError", back, good),
        ("back-right", "OrderError", good, back),
        ("null-sequence", "OrderError", good, null),
        ("no-sequence", "SchemaError", good, table([1])),
        ("no-key", "SchemaError", good.drop_columns("k"), good),
        ("another-type", "SchemaError", good, good.set_column(0, "k", pa.array(["a", "b"]))),
        ("another-width", "SchemaError", good.set_column(0, "k", pa.array([1, 2], pa.int8())), good),
        ("another-column", "SchemaError", good.append_column("more", pa.array([1, 2])), good),
    ]


@pytest.mark.parametrize("bad", bad_calls(), ids=lambda bad: bad[0])
def test_a_refused_call_changes_nothing(bad, index, device, seed):
    _, error, bad_left, bad_right = bad
    rng = np.random.default_rng(seed)
    predicate = ("band", -1, 1)

    def batch(first, size=15):
        return table(rng.integers(0, 9, size), q=np.sort(rng.integers(first, first + 9, size)))

    loop = NestedLoop(predicate, "k", "k", rows=(20, 9), sequence="q")
    with open_join(device, for_host(predicate, "k", "k"), (20, 9), sequence="q", index=index) as join:
        for first in range(0, 100, 20):
            calls = (batch(first), batch(first))
            assert pairs_of(join.process(*calls)) == [(p.left, p.right) for p in loop.process(*calls)]
            if first == 40:
                before = join.stats.as_dict()
                with pytest.raises(getattr(errors, error)):
                    join.process(bad_left, bad_right)
                after = join.stats.as_dict()
                for count in ("rows_left", "rows_right", "matches", "late_left", "late_right"):
                    assert before[count] == after[count], count


def test_an_order_error_names_column_and_value(device):
    with open_join(device, Compare("k", "=", "k"), sequence="q") as join:
        one = table([1], q=[70])
        join.process(one, one.slice(0, 0))
        with pytest.raises(errors.OrderError, match=r"(?s)(?=.*\bq\b)(?=.*69)(?=.*70)"):
            join.process(None, table([1], q=[69]))


def test_a_side_that_is_not_known_is_asked_for(device):
    one = table([1])
    with open_join(device, Compare("k", "=", "k")) as join:
        for call, missing in (((one, None), "right"), ((None, one), "left"), ((None, None), "left")):
            with pytest.raises(errors.SchemaError, match=f"give {missing}_schema= when the join is made, or a batch"):
                join.process(*call)
        assert join.output_schema is None
        assert pairs_of(join.process(one, one.slice(0, 0))) == []
        assert pairs_of(join.process(None, one)) == [(0, 0)]
    with open_join(device, Compare("k", "=", "k"), left_schema=one.schema) as join:
        assert pairs_of(join.process(None, one)) == []
        assert pairs_of(join.process(one)) == [(0, 0)]


def test_capacity_holds_in_the_first_call(time_windows, device):
    many, one = table([0] * 20, t=[0] * 20), table([0], t=[0])
    with open_join(device, Band("k", "k"), None, within=Within("t", "t", -9, 9), capacity=10) as join:
        with pytest.raises(errors.CapacityError):
            join.process(many, one)
        assert pairs_of(join.process(one, one.slice(0, 0))) == []
        assert pairs_of(join.process(None, one)) == [(0, 0)]


@pytest.mark.parametrize("bad", ["sequence", "key", "time"])
def test_a_refused_first_call_teaches_nothing(bad, time_windows, device):
    good = pa.table({"k": [1, 2], "t": [5, 6], "q": [0, 1]})
    wrong = {
        "sequence": good.set_column(2, "q", pa.array([0, None], pa.int64())),
        "key": good.set_column(0, "k", pa.array([[1], [2]])),
        "time": good.set_column(1, "t", pa.array(["a", "b"])),
    }[bad]
    window = Within("t", "t", 0, 0)
    with open_join(device, Compare("k", "=", "k"), None, within=window, sequence="q") as join:
        for calls in ((wrong, None), (None, wrong), (wrong, good), (good, wrong), (wrong, wrong)):
            with pytest.raises(errors.MuntinError):
                join.process(*calls)
        assert pairs_of(join.process(good, good.slice(0, 0))) == []
        with pytest.raises(errors.MuntinError):
            join.process(good, wrong)
        later = good.set_column(2, "q", pa.array([2, 3]))
        assert pairs_of(join.process(None, later)) == [(0, 0), (1, 1)]
