"""The engine of a join, composed of stages as its plan says: partitions, residual conditions, aggregates, or as-of."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from muntin.host.aggregates.plan import AggregatePlan
from muntin.host.engine.aggregate_engine import PairAggregateEngine
from muntin.host.engine.as_of_engine import AsOfEngine, SlotLog
from muntin.host.engine.closing_engine import ClosingEngine
from muntin.host.engine.driver_choice import ChoosingEngine
from muntin.host.engine.engine import Engine
from muntin.host.engine.partitioned_engine import open_partitions
from muntin.host.engine.residual_engine import ResidualEngine
from muntin.host.engines import Steps
from muntin.host.join.plan import FIRST_ROW, JoinPlan
from muntin.host.join.sequencer import Sequencer
from muntin.host.keys.as_of_condition import AsOfAxis, AsOfCondition
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.predicates import AsOf
from muntin.host.sides import Side


def open_engine(plan: JoinPlan, sequencer: Sequencer, aggregates: AggregatePlan | None) -> Engine:
    """The engine that a plan's device has for the batches of a sequencer. Raises as `Device.open_engine`."""
    spec, device, partitions, condition = plan.spec, plan.device, plan.partitions, sequencer.condition
    beside = device.beside(plan.index, condition.residuals)  # what drives
    residuals = len(condition.residuals) > len(beside)
    engine_spec = dataclasses.replace(
        sequencer.engine_spec,
        others=tuple(condition.residuals[at] for at in beside),
        engine=plan.engine_kind,
        partitions=partitions.count,
    )
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
        if not residuals:
            return engine
        left = [part for at, part in enumerate(sequencer.residuals()) if at not in beside]
        return ResidualEngine(engine, left, beside)

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
