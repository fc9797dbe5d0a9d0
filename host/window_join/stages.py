"""The engine of a join, composed of stages as its plan says: partitions, residual conditions, aggregates, or as-of."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from muntin.host.sides import Side
from muntin.host.engines import Steps
from muntin.host.join.aggregate_engine import PairAggregateEngine
from muntin.host.join.aggregate_plan import AggregatePlan
from muntin.host.join.as_of_condition import AsOfAxis, AsOfCondition
from muntin.host.join.as_of_engine import AsOfEngine, SlotLog
from muntin.host.join.boundary_generator import BoundaryGenerator
from muntin.host.join.closing_engine import ClosingEngine
from muntin.host.join.driver_choice import ChoosingEngine
from muntin.host.join.engine import Engine
from muntin.host.join.partitioned_engine import open_partitions
from muntin.host.join.residual_engine import ResidualEngine
from muntin.host.join.sequencer import Sequencer
from muntin.host.predicates import AsOf
from muntin.host.window_join.plan import FIRST_ROW, JoinPlan


def open_engine(plan: JoinPlan, sequencer: Sequencer, aggregates: AggregatePlan | None) -> Engine:
    """The engine that a plan's device has for the batches of a sequencer. Raises as `Device.open_engine`."""
    spec, device, partitions, condition = plan.spec, plan.device, plan.partitions, sequencer.condition
    engine_spec, residuals = sequencer.engine_spec, sequencer.residuals()
    if plan.index.conjunctive:
        engine_spec, residuals = dataclasses.replace(engine_spec, others=tuple(condition.residuals)), []
    engine_spec = dataclasses.replace(engine_spec, engine=plan.engine_kind, partitions=partitions.count)
    folded = None if residuals else aggregates  # by the index itself

    def open_driven(generator: BoundaryGenerator) -> Engine:
        key_bits = {side: kind.bits for side, kind in generator.key_types.items()}
        return device.open_engine(engine_spec, generator, key_bits, plan.index)

    def open_one() -> Engine:
        if folded is not None:
            return device.open_aggregates(
                engine_spec, sequencer.generator, folded, itself=spec.itself, close=spec.closing
            )
        exchangeable = condition.exchangeable and partitions.count == 1
        if residuals and exchangeable and plan.engine_kind.name == Steps.name:
            return ChoosingEngine(open_driven, sequencer.choices())
        engine = open_driven(sequencer.generator)
        return ResidualEngine(engine, sequencer.residuals()) if residuals else engine

    if partitions.count == 1:
        engine = open_one()
    else:
        engine = open_partitions(
            partitions, open_one, condition, self_join=spec.self_join, plan=folded, closing=spec.closing
        )
    if spec.closing:
        engine = ClosingEngine(engine, sequencer.generator)
    if aggregates is not None and residuals:
        engine = PairAggregateEngine(engine, aggregates, sequencer.itself if spec.itself else None)
    return engine


def open_as_of(plan: JoinPlan, on: AsOf, sequencer: Sequencer, logs: Mapping[Side, SlotLog]) -> AsOfEngine:
    """The engine of an as-of join, which keeps its logs in step with what it holds."""
    spec, condition = plan.spec, sequencer.condition
    axis = spec.time_axis(plan.schemas["left"], plan.schemas["right"])
    assert isinstance(axis, AsOfAxis)
    assert isinstance(condition, AsOfCondition)
    watermark = spec.watermark
    both = watermark is None or None not in (watermark.left, watermark.right)
    return AsOfEngine(
        sequencer.engine_spec, on, axis, condition, dict(logs), FIRST_ROW, unmatched=spec.how == "left",
        scan=on.direction == "backward" and both and spec.static is None,
        at_once=spec.static is not None, threads=plan.device.threads, partitions=plan.partitions.count,
    )  # fmt: skip
