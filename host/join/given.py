"""What a caller of `WindowJoin` gives, as a specification, columns and a table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from muntin.host.arguments import is_name
from muntin.host.devices import Device
from muntin.host.errors import DeviceError, ReplayError, SchemaError, StateError, UnsupportedError, WindowError
from muntin.host.frames import ArrowColumns, ArrowRows, as_schema, as_table
from muntin.host.keys.constants import whole_number
from muntin.host.sides import SIDES, Sides
from muntin.host.spec import JoinSpec

_ANY_BYTES = 1 << 62

BLOCK_BYTES = 32 << 20
"""Bytes of a table of `WindowJoin.process_blocks`, by default."""


def given_join(
    options: dict[str, Any], tables: Sides[ArrowRows | None], columns: Sides[ArrowColumns | None]
) -> tuple[JoinSpec, Sides[pa.Schema], pa.Table | None]:
    """The specification, the columns of the sides that are known, and the table that stands for a side.

    Parameters
    ----------
    options : dict of str to Any
        Parameters of `JoinSpec`; `on` may be text.
    tables : dict of str to rows
        The side that is a table, by "left" or "right".
    columns : dict of str to columns
        As of `WindowJoin`.

    Raises
    ------
    MuntinError
        What `JoinSpec` raises; SchemaError, UnsupportedError.
    """
    known = {side: as_table(f"{side}_table", rows) for side, rows in tables.items() if rows is not None}
    schemas = given_columns(columns)
    if len(known) > 1:
        raise UnsupportedError(
            "left_table= and right_table= are given: a table meets a stream. Give the rows of one to process()"
        )
    schemas |= {side: table.schema for side, table in known.items()}
    if isinstance(options["on"], str):
        left = schemas.get("left")
        options |= _condition_of(options, left, left if options["self_join"] else schemas.get("right"))
    spec = JoinSpec(**options, static=next(iter(known), None))
    return spec, schemas, next(iter(known.values()), None)


def given_columns(columns: Sides[ArrowColumns | None]) -> Sides[pa.Schema]:
    """The columns of the sides for which some are given. Raises SchemaError."""
    return {side: as_schema(f"{side}_schema", given) for side, given in columns.items() if given is not None}


def given_device(device: str | Device, threads: int | None) -> str | Device:
    """A device, or its name, with this number of threads. Raises DeviceError."""
    if threads is None:
        return device
    if device != "cpu":
        raise DeviceError(f"threads={threads!r} is for device='cpu', not {device!r}")
    return f"cpu:threads={threads}"


def block_size(size: object) -> int:
    """The greatest size of a table. Raises WindowError."""
    number = whole_number(size)
    if number is None or number < 1:
        raise WindowError(f"block_bytes must be a whole number of at least 1, not {size!r}")
    return min(number, _ANY_BYTES)


def batch_number(batch: object, last: int) -> int:
    """The caller's number for a call after call `last`. Raises ReplayError."""
    number = last + 1 if batch is None else whole_number(batch)
    if number is None:
        raise ReplayError(f"batch must be a whole number above that of the last call, {last}, not {batch!r}")
    if number <= last:
        raise ReplayError(f"batch {number} comes after batch {last}: numbers ascend")
    return number


def check_tag(tag: object) -> None:
    """Raises StateError."""
    if tag is not None and not isinstance(tag, bytes):
        raise StateError(f"tag must be bytes, not {type(tag).__name__}: encode it first")


def _condition_of(spec: dict[str, Any], left: pa.Schema | None, right: pa.Schema | None) -> dict[str, Any]:
    """The condition that a text gives, and the time window that it bounds where no window is given."""
    text = spec["on"]
    if left is None or right is None:
        side = SIDES[0] if left is None else SIDES[1]
        raise SchemaError(f"on={text!r} is read with the columns of both sides: give {side}_schema=")
    if is_name(text, left, right):
        return {"on": [text]}
    from muntin.host.sql import parse_condition, parse_windowed

    if any(spec.get(window) is not None for window in ("left", "right", "within")):
        return {"on": parse_condition(text, left, right)}
    on, within = parse_windowed(text, left, right)
    if spec.get("self_join") and within is not None and within.left_time != within.right_time:
        return {"on": parse_condition(text, left, right)}  # the windows of one stream have one event time
    return {"on": on, "within": within}
