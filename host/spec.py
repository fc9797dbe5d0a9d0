"""Everything that defines a join, apart from where it runs."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from typing import Any

import pyarrow as pa

from host.engine.boundary_generator import BoundaryGenerator
from host.engine.run_policy import POLICIES
from host.errors import KeyTypeError, PredicateError, SchemaError, UnsupportedError, WindowError
from host.key_type import key_type, key_types
from host.predicates import Predicate, from_dict
from host.time_axis import TimeAxis, check_time_type
from host.windows import Rows, Watermark, Within

FORMS = ("rows", "pairs", "counts")
ORDERS = ("none", "outer", "inner")
LATER_HOWS = ("left", "left_outer", "leftouter", "right", "right_outer", "rightouter", "full", "outer", "full_outer",
              "fullouter", "semi", "left_semi", "leftsemi", "anti", "left_anti", "leftanti", "cross")  # fmt: skip

PAIRS_SCHEMA = pa.schema([("left_row", pa.int64()), ("right_row", pa.int64())])
COUNTS_SCHEMA = pa.schema([("side", pa.string()), ("row", pa.int64()), ("matches", pa.int64())])


@dataclasses.dataclass(frozen=True)
class JoinSpec:
    """A sliding-window join.

    Parameters
    ----------
    on : Band, Compare or AnyOf
        The join condition.
    left, right : Rows or int, optional
        Count windows: how many rows of each stream are kept. Both, or neither.
    within : Within, optional
        The time window, instead of count windows.
    sequence : str, optional
        Column of both sides that gives the arrival order across them; without it all left rows of a call come
        before all its right rows.
    form : str
        ``"rows"``: all columns of both sides; ``"pairs"``: `left_row`, `right_row`, int64 numbers of arrival
        within each stream; ``"counts"``: `side`, `row`, `matches` for each row of the call.
    order : str
        ``"none"``, ``"outer"`` (by probing row) or ``"inner"`` (by probing row, then by stored row).
    policy : str
        Run policy: ``"ladder"`` or ``"flat"``. SplitJoin has no runs, and refuses ``"flat"``.
    how : str
        ``"inner"``.
    suffix : str
        Appended to the names of right columns that the left side has too.
    watermark : Watermark, optional
        For time windows: drops late rows and state that no later row can match.
    capacity : int, optional
        For time windows: most rows kept per side; by default what the device's memory allows.

    Raises
    ------
    PredicateError, WindowError, UnsupportedError
        If the parts do not make a join.
    """

    on: Predicate
    left: Any = None
    right: Any = None
    within: Within | None = None
    sequence: str | None = None
    form: str = "rows"
    order: str = "none"
    policy: str = "ladder"
    how: str = "inner"
    suffix: str = "_right"
    watermark: Watermark | None = None
    capacity: int | None = None

    def __post_init__(self) -> None:
        if self.how != "inner":
            if str(self.how).lower() in LATER_HOWS:
                raise UnsupportedError(f"how={self.how!r} is not supported yet: only inner joins are")
            raise PredicateError(f"there is no join how={self.how!r}: use 'inner'")
        if not isinstance(self.on, Predicate):
            raise PredicateError(f"on must be a Band, Compare or AnyOf, not {self.on!r}")
        for side in ("left", "right"):
            window = getattr(self, side)
            if isinstance(window, int) and not isinstance(window, bool):
                object.__setattr__(self, side, Rows(window))
            elif window is not None and not isinstance(window, Rows):
                raise WindowError(f"{side} must be Rows(n), not {window!r}: a time window goes in within=Within(...)")
        if self.within is not None and not isinstance(self.within, Within):
            raise WindowError(f"within must be Within(left_time, right_time, low, high), not {self.within!r}")
        counted = [side for side in ("left", "right") if getattr(self, side) is not None]
        if self.within is not None and counted:
            raise WindowError("give either count windows (left= and right=) or a time window (within=), not both")
        if self.within is None and len(counted) != 2:
            missing = [side for side in ("left", "right") if side not in counted]
            raise WindowError(
                f"the window is missing: give {' and '.join(f'{s}=Rows(n)' for s in missing)}, or within=Within(...)"
            )
        for name, value, choices in (("form", self.form, FORMS), ("order", self.order, ORDERS)):
            if value not in choices:
                raise PredicateError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
        if self.policy not in POLICIES:
            raise WindowError(f"there is no run policy {self.policy!r}: use one of {', '.join(POLICIES)}")
        if self.sequence is not None and not isinstance(self.sequence, str):
            raise SchemaError(f"sequence must be the name of a column, not {self.sequence!r}")
        if not isinstance(self.suffix, str) or not self.suffix:
            raise SchemaError(f"suffix must be text of at least one character, not {self.suffix!r}")
        if self.watermark is not None:
            if not isinstance(self.watermark, Watermark):
                raise WindowError(f"watermark must be a Watermark, not {self.watermark!r}")
            if self.within is None:
                raise WindowError("a watermark belongs to a time window (within=); count windows need none")
        if self.capacity is not None:
            if self.within is None:
                raise WindowError("capacity belongs to a time window (within=); a count window declares its rows")
            if isinstance(self.capacity, bool) or not isinstance(self.capacity, int) or self.capacity < 1:
                raise WindowError(f"capacity must be a positive number of rows, not {self.capacity!r}")

    def output_schema(self, left_schema: pa.Schema, right_schema: pa.Schema) -> pa.Schema:
        """The schema of the result; checks the columns the join uses.

        Raises
        ------
        SchemaError
            If a column is missing or stands twice, or the suffix does not tell names apart.
        KeyTypeError
            If a key, time or sequence column has a type that cannot be joined on exactly.
        PredicateError, WindowError
            If a bound does not fit the type of its column.
        """
        for side, schema in (("left", left_schema), ("right", right_schema)):
            self.check_side(side, schema)
        self.sequence_scales(left_schema, right_schema)
        self.boundary_generator(left_schema, right_schema)
        self.time_axis(left_schema, right_schema)
        if self.form == "pairs":
            return PAIRS_SCHEMA
        if self.form == "counts":
            return COUNTS_SCHEMA
        taken = set(left_schema.names)
        fields = list(left_schema)
        for field in right_schema:
            name = field.name + self.suffix if field.name in left_schema.names else field.name
            if name in taken:
                raise SchemaError(
                    f"the output would have two columns {name!r}: choose another suffix than {self.suffix!r}"
                )
            taken.add(name)
            fields.append(field.with_name(name))
        return pa.schema(fields)

    def check_side(self, side: str, schema: pa.Schema) -> None:
        """Checks the columns of one side for themselves. Raises as `output_schema`."""
        names = schema.names
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise SchemaError(f"the {side} side has several columns named {min(twice)!r}: rename all but one")
        for role, column in self.columns(side).items():
            if column not in names:
                raise SchemaError(
                    f"the {side} side has no {role} column {column!r}: it has {', '.join(names) or 'none'}"
                )
        columns = self.columns(side)
        key_type(schema.field(columns["key"]).type, columns["key"])
        if "time" in columns:
            check_time_type(schema.field(columns["time"]).type, columns["time"])
        if self.sequence is not None:
            kind = schema.field(self.sequence).type
            if not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
                raise KeyTypeError(
                    f"the sequence column {self.sequence!r} of the {side} side has type {kind}: "
                    "use integers, timestamps or dates"
                )

    def columns(self, side: str) -> dict[str, str]:
        """The columns a side must have, by their role."""
        columns = {"key": self.on.left if side == "left" else self.on.right}
        if self.within is not None:
            columns["time"] = self.within.left_time if side == "left" else self.within.right_time
        if self.sequence is not None:
            columns["sequence"] = self.sequence
        return columns

    def sequence_scales(self, left_schema: pa.Schema, right_schema: pa.Schema) -> dict[str, int]:
        """What each side's sequence values are multiplied by to meet the finer unit of the two.

        Raises
        ------
        KeyTypeError
            If the two sequence columns cannot be compared.
        """
        if self.sequence is None:
            return {"left": 1, "right": 1}
        left, right = (key_type(s.field(self.sequence).type, self.sequence) for s in (left_schema, right_schema))
        if left.family is not right.family:
            raise KeyTypeError(
                f"the sequence column {self.sequence!r} has type {left.arrow} on the left and {right.arrow} "
                "on the right side, which cannot be compared: cast one of them"
            )
        unit = min(left.unit, right.unit)
        return {"left": int(left.unit / unit), "right": int(right.unit / unit)}

    def boundary_generator(self, left_schema: pa.Schema, right_schema: pa.Schema) -> BoundaryGenerator:
        """The boundary generator for keys of these types. Raises KeyTypeError, PredicateError."""
        a, b = self.on.left, self.on.right
        types = key_types(left_schema.field(a).type, a, right_schema.field(b).type, b)
        return BoundaryGenerator(self.on, *types)

    def time_axis(self, left_schema: pa.Schema, right_schema: pa.Schema) -> TimeAxis | None:
        """The time axis of a time window, else None. Raises KeyTypeError, WindowError."""
        if self.within is None:
            return None
        a, b = self.within.left_time, self.within.right_time
        return TimeAxis(self.within, self.watermark, left_schema.field(a).type, right_schema.field(b).type)

    def to_json(self) -> str:
        """A text that `from_json` reads back to an equal specification."""
        data: dict[str, Any] = {"on": self.on.to_dict()}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "on" or value is None:
                continue
            if isinstance(value, Rows):
                value = value.count
            elif dataclasses.is_dataclass(value) and not isinstance(value, type):
                value = {f.name: _duration_to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
            data[field.name] = value
        return json.dumps(data, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> JoinSpec:
        """The specification whose `to_json` gave this text.

        Raises
        ------
        PredicateError
            If the text is no specification; and what the constructor raises.
        """
        try:
            data = json.loads(text)
            data["on"] = from_dict(data["on"])
            for name, kind in (("within", Within), ("watermark", Watermark)):
                if data.get(name) is not None:
                    data[name] = kind(**{k: _duration_from_json(v) for k, v in data[name].items()})
            return cls(**data)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise PredicateError(f"not a join specification: {text[:200]!r} ({error})") from error


def _duration_to_json(value: Any) -> Any:
    if isinstance(value, dt.timedelta):
        return {"microseconds": (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds}
    return value


def _duration_from_json(value: Any) -> Any:
    return dt.timedelta(microseconds=value["microseconds"]) if isinstance(value, dict) else value
