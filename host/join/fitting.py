"""Whether a device, an index, an engine and partitions go with a join."""

from __future__ import annotations

from muntin.host.devices import Device
from muntin.host.engines import EngineKind, Partitions
from muntin.host.errors import UnsupportedError
from muntin.host.index import Index, SortedRuns
from muntin.host.predicates import AsOf
from muntin.host.spec import JoinSpec


def fitting(
    spec: JoinSpec, device: Device, index: Index, engine: EngineKind, partitions: Partitions, *, state: bool
) -> tuple[Index, Partitions]:
    """The index and the partitions as the join has them.

    Raises
    ------
    UnsupportedError
        What does not go together, with what does.
    """
    index, partitions = _partitioned(spec, index, engine, partitions)
    if spec.form == "ranges":
        if index.name not in device.range_indexes or engine.name != "steps":
            raise UnsupportedError(
                f"form='ranges' is for device 'cpu' with index='sorted_runs' or 'bisort', not for "
                f"{index.name!r} on {device.info.name!r}: use 'pairs'"
            )
        if state:
            raise UnsupportedError("form='ranges' has no state: what a mirror knows of the runs would be lost")
    if isinstance(spec.on, AsOf) and not device.as_of:
        raise UnsupportedError(f"as-of joins run on device 'cpu', not on {device.info.name!r}: leave device= out")
    if spec.form == "aggregate" and (not device.aggregates or engine.name != "steps" or index.name != SortedRuns.name):
        raise UnsupportedError(
            f"form='aggregate' is for device 'cpu' with index='sorted_runs' and engine='steps', not for "
            f"{index.name!r} and {engine.name!r} on {device.info.name!r}: use 'rows', and group by"
        )
    return index, partitions


def _partitioned(spec: JoinSpec, index: Index, engine: EngineKind, partitions: Partitions) -> tuple[Index, Partitions]:
    count = partitions.count
    if partitions.width is not None:
        raise UnsupportedError(
            f"width={partitions.width!r} is of partitions in Spark; in one process ranges follow the data: leave it out"
        )
    if count == 1:
        return index, partitions
    if isinstance(spec.on, AsOf):
        if not spec.on.by or partitions.by not in ("auto", "equality"):
            raise UnsupportedError(
                f"partitions={count} of an as-of join go by its by= columns alone: give some, or leave partitions out"
            )
        return index, partitions
    if spec.capacity:
        raise UnsupportedError(f"capacity={spec.capacity!r} is of one window, not of partitions={count}: leave one out")
    if spec.form == "ranges" and partitions.by not in ("auto", "subwindows"):
        raise UnsupportedError(
            "form='ranges' is for partitions by subwindows, whose rows a mirror can follow: leave by= out"
        )
    if engine.name != "steps":
        raise UnsupportedError(f"engine={engine.name!r} has threads of its own and no partitions: use engine='steps'")
    return index, partitions
