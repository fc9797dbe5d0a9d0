"""What fails in a call, as errors that say what it was: the device, the rows given, or the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from muntin.host.devices import Device
from muntin.host.errors import CapacityError, DeviceError, MuntinError, ResultTooLargeError, SchemaError
from muntin.host.join.plan import JoinPlan, SideColumns
from muntin.host.sides import Side


@contextmanager
def of_device(device: Device) -> Iterator[None]:
    """What fails in here is the device's."""
    name = device.info.name
    try:
        yield
    except MuntinError:
        raise
    except MemoryError as error:
        raise CapacityError(
            f"device {name} has no memory left for this call ({error}): give fewer rows in a call, or narrow the "
            "condition"
        ) from error
    except Exception as error:
        raise DeviceError(f"device {name} failed: {type(error).__name__}: {error}") from error


@contextmanager
def of_input(plan: Callable[[], JoinPlan]) -> Iterator[None]:
    """What fails in here is by the rows that were given, or are in the state; `plan` gives that of the join by then."""
    try:
        yield
    except MuntinError:
        raise
    except MemoryError as error:
        raise CapacityError(
            f"there is no memory left for the rows of this call ({error}): give fewer rows in a call"
        ) from error
    except pa.ArrowException as error:
        raise SchemaError(f"pyarrow cannot read the rows of this call: {error}. {_columns(plan().columns)}") from error


@contextmanager
def of_output(plan: JoinPlan) -> Iterator[None]:
    """What fails in here is by what the result is to be."""
    try:
        yield
    except MuntinError:
        raise
    except MemoryError as error:
        room = plan.device.host_memory.room
        raise ResultTooLargeError(
            f"there is no memory left for the result of this call ({error}), of {room:,} bytes for results: narrow "
            "the condition, give fewer rows in a call, select fewer columns, or take the result in blocks, by "
            "process_blocks()",
            available=room,
        ) from error
    except pa.ArrowException as error:
        raise SchemaError(f"pyarrow cannot make the result of this call: {error}. {_columns(plan.columns)}") from error


def _columns(kept: Mapping[Side, SideColumns]) -> str:
    """The columns that are kept, for an error that pyarrow gives without a name."""
    sides = (
        f"{side}: " + ", ".join(f"{field.name!r} {field.type}" for field in columns.schema)
        for side, columns in kept.items()
        if len(columns.schema)
    )
    return f"The columns that are needed are, {'; '.join(sides)}: cast the one it is about, or leave it out"
