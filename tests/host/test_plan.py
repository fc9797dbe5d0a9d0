"""What is planned opens, and what is refused is refused by the plan."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muntin import AllOf, AnyOf, AsOf, Band, Compare, JoinSpec, Partitions, Rows, WindowJoin, Within
from muntin.errors import MuntinError, SchemaError
from muntin.hardware import open_device
from muntin.host.index.specs import INDEXES
from muntin.host.join.plan import JoinPlan, plan_join

COLUMNS = pa.schema({"a": pa.int64(), "t": pa.int64(), "s": pa.string(), "x": pa.int32()})
SCHEMAS = {"left": COLUMNS, "right": COLUMNS}
CONDITIONS = [
    *(Band("a", "a", -5, 5), Compare("a", "<", "a"), Compare("a", "!=", "a"), Compare("s", "=", "s"), AllOf()),
    AllOf(Compare("s", "=", "s"), Band("a", "a", -5, 5)),
    AllOf(Compare("a", "<", "a"), Compare("x", ">", "x")),
    AnyOf(Band("a", "a", 0, 1), Band("a", "a", 3, 4)),
    *(AsOf("t", "t"), AsOf("t", "t", by="s"), Band("a", "s", 0, 1), Band("a", "b", 0, 1)),
]
WINDOWS: list[dict[str, Any]] = [
    {"left": Rows(100), "right": Rows(50)}, {"within": Within("t", "t", 0, 5)}, {"capacity": 99}, {},
]  # fmt: skip
PARTITIONS = [1, 2, Partitions(3, "equality"), Partitions(2, "ranges"), Partitions(2, width=5)]


@st.composite
def specs(draw: st.DrawFn) -> JoinSpec | None:
    """A specification; None where its own parts do not go together."""
    form = draw(st.sampled_from(["rows", "counts", "ranges", "aggregate"]))
    more = {"aggregates": ["count(*)"]} if form == "aggregate" else {}
    try:
        return JoinSpec(
            on=draw(st.sampled_from(CONDITIONS)), **draw(st.sampled_from(WINDOWS)), form=form, **more,
            index=draw(st.sampled_from(["auto", *INDEXES])),
            engine=draw(st.sampled_from(["auto", "splitjoin", "shared"])), self_join=draw(st.booleans()),
        )  # fmt: skip
    except MuntinError:
        return None


@settings(max_examples=150, deadline=None)
@given(spec=specs(), name=st.sampled_from(["cpu", "numpy"]), partitions=st.sampled_from(PARTITIONS))
def test_what_is_planned_opens(spec: JoinSpec | None, name: str, partitions: int | Partitions) -> None:
    if spec is None:
        return
    device = open_device(name)
    try:
        plan: JoinPlan | MuntinError = plan_join(spec, SCHEMAS, device, partitions=partitions)
    except MuntinError as error:
        plan = error
    options: dict[str, Any] = {"device": device, "left_schema": COLUMNS, "right_schema": COLUMNS}
    if isinstance(plan, MuntinError):
        with pytest.raises(type(plan)) as refused:
            WindowJoin.from_spec(spec, partitions=partitions, **options)
        assert str(refused.value) == str(plan)
        return
    with WindowJoin.from_spec(spec, partitions=partitions, **options) as join:
        assert set(plan.explain().splitlines()) <= set(join.explain().splitlines())
        assert join.output_schema == plan.output_schema


def test_columns_may_come_one_side_after_the_other() -> None:
    spec = JoinSpec(on=AllOf(Compare("s", "=", "s"), Band("a", "a", -5, 5)), left=9, right=9)
    plan = plan_join(spec, {"left": COLUMNS}, open_device("cpu"), partitions=2)
    assert not plan.complete
    with pytest.raises(SchemaError, match="right side are not known yet"):
        plan.explain()
    plan = plan.with_columns("right", COLUMNS)
    assert plan.complete
    assert plan == plan_join(spec, SCHEMAS, plan.device, partitions=2)
    assert "spread:    over 2 partitions, by equality" in plan.explain().splitlines()
    with pytest.raises(SchemaError, match="lacks the column 'x'"):
        plan.with_columns("right", COLUMNS.remove(3))
