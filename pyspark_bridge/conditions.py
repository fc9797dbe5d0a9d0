"""What `window_join` takes as its condition: names, texts, Columns of Spark, our own objects."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import zoneinfo
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot.errors import TokenError
from sqlglot.tokens import TokenType

from muntin.host.errors import MuntinError, PredicateError, SchemaError, SqlError, UnsupportedError
from muntin.host.join.late_rows import LATE
from muntin.host.keys.durations import nanoseconds
from muntin.host.keys.key_type import NANOS_PER_DAY
from muntin.host.predicates import AllOf, Compare
from muntin.host.spec import JoinSpec
from muntin.host.sql import condition_tokens, parse_condition, parse_windowed
from muntin.host.windows import Within
from muntin.pyspark_bridge.result_schema import arrow_schema_of
from muntin.pyspark_bridge.spark_versions import is_column, is_connect
from muntin.pyspark_bridge.watermarks import delayed_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from muntin.pyspark_bridge.column_condition import ColumnCondition

log = logging.getLogger(__name__)

#: Aliases of both sides where Spark reads a text; `left` and `right` are words of its own.
SIDES = {"left": "left side", "right": "right side"}


@dataclasses.dataclass
class Sides:
    """Two DataFrames and the condition that joins them.

    Attributes
    ----------
    left, right : DataFrame
        With the columns that Spark computes for the condition; one object where they are one frame.
    on : Predicate, AllOf, Where or AsOf
    within : Within or None
    keys : tuple of str
        Columns that are equal by name, of which the result has one each.
    computed : tuple of str
        Columns that are there for the condition alone.
    """

    left: DataFrame
    right: DataFrame
    on: Any
    within: Any
    keys: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()

    def shown(self, spec: JoinSpec, left: pa.Schema, right: pa.Schema) -> JoinSpec:
        """The join without the columns that its result does not show."""
        if spec.form != "rows":
            if self.keys and spec.select is not None:
                raise UnsupportedError(f"select= needs form='rows', not {spec.form!r}")
            return spec
        plain = dataclasses.replace(spec, select=None)
        made = plain.output_columns(left, right)
        if spec.select is None:
            if not self.computed:
                return spec
            return dataclasses.replace(spec, select=[name for _, column, name in made if column not in self.computed])
        if not self.keys:
            return spec
        names = {name: (column, name) for _, column, name in made}
        wanted: list[str] = []
        for name in spec.select:
            # Of a key both sides' values may be needed.
            both = [each for _, column, each in made if column == name] if name in self.keys else [name]
            wanted += both if name in names or name in self.keys else [name]
        return dataclasses.replace(spec, select=list(dict.fromkeys(wanted)))

    def one_key_each(self, result: DataFrame, spec: JoinSpec, select: Sequence[str] | None, made: Any) -> DataFrame:
        """The result with one column for each key, as Spark has it: keys, then the left side's, then the right's."""
        from pyspark.sql import functions as F

        if not self.keys or spec.form != "rows":
            return result
        names: dict[tuple[str, str], Any] = {(side, column): F.col(quoted(name)) for side, column, name in made}
        columns: dict[str, Any] = {}
        mark = [LATE] if spec.late == "keep" else []
        for key in self.keys:
            if select is not None and key not in select:
                continue
            left, right = names.get(("left", key)), names.get(("right", key))
            found = right if left is None or (spec.how.startswith("right") and right is not None) else left
            both = spec.how == "full" or (spec.late == "keep" and not spec.left_alone)  # late rows have one side's
            columns[key] = F.coalesce(names["left", key], names["right", key]) if both else found
        if select is None:
            rest = [name for _, column, name in made if column not in self.keys] + mark
            return result.select(*(columns[key].alias(key) for key in self.keys), *(F.col(quoted(n)) for n in rest))
        return result.select(*(columns[n].alias(n) if n in columns else F.col(quoted(n)) for n in [*select, *mark]))


def quoted(name: str) -> str:
    """A name as Spark's `col` takes it, whatever is in it."""
    return f"`{name.replace('`', '``')}`"


def read_sides(left: DataFrame, right: DataFrame, on: Any, within: Any, *, counted: bool) -> Sides:
    """The sides of a join with the condition that `on` says, and the time window, where the condition has it and
    neither `within` nor count windows (`counted`) are given.

    Raises
    ------
    SchemaError
        A name that not both sides have.
    PredicateError, SqlError
        What a condition here cannot be, with the part that is not.
    """
    if isinstance(within, tuple):
        within = Within(*within)
    one = same_rows(left, right)
    if one and not is_column(on):
        right = left  # one of two aliases
    sides = Sides(left, right, on, within)
    if isinstance(on, (str, list, tuple)):
        spelled = _names(left, right, [on] if isinstance(on, str) else list(on), text=isinstance(on, str))
        if spelled is not None:
            names = [name for name, _ in spelled]
            for name, other in spelled:  # the result has the left side's spelling, as Spark's
                sides.right = right = right if other == name else right.withColumnRenamed(other, name)
            if not counted and within is None:
                sides.within = _time_of(left, right, names)
            apart = sides.within.left_time if within is None and sides.within is not None and len(names) > 1 else None
            equal = [Compare(name, "=", name) for name in names if name != apart]
            return dataclasses.replace(sides, on=equal[0] if len(equal) == 1 else AllOf(*equal), keys=tuple(names))
    text, condition = on, None
    if is_column(on):
        condition = _computed(left, right, on, one)
    elif isinstance(on, str):
        condition = _computed_text(left, right, on, one)
    else:
        return sides
    if condition is not None:
        text = condition.text
        sides.left, sides.right = condition.frames()
        sides.computed = tuple(condition.names)
    schemas = arrow_schema_of(sides.left, "left"), arrow_schema_of(sides.right, "right")
    if counted or within is not None:
        sides.on = parse_condition(text, *schemas)
        return sides
    sides.on, found = parse_windowed(text, *schemas, {"left": delayed_columns(left), "right": delayed_columns(right)})
    if found is not None:
        sides.within = found
        _warn_of_days(left, found)
    return sides


def _computed(left: DataFrame, right: DataFrame, on: Column, one: bool) -> ColumnCondition:
    """A condition as a Column, with what Spark computes of it."""
    if is_connect(left):
        from muntin.pyspark_bridge.connect_column import ConnectColumn

        return ConnectColumn(left, right, on, one)
    from muntin.pyspark_bridge.analysed_column import AnalysedColumn

    return AnalysedColumn(left, right, on, one)


def _computed_text(left: DataFrame, right: DataFrame, on: str, one: bool) -> ColumnCondition | None:
    """A text that needs Spark to compute a part of it; None for others. Raises SqlError where Spark cannot either."""
    try:
        parse_condition(on, arrow_schema_of(left, "left"), arrow_schema_of(right, "right"))
        return None
    except SqlError as error:
        try:
            return computed_condition(left, right, _spark_text(on), one)
        except (MuntinError, TokenError) as other:
            raise error from other


def computed_condition(left: DataFrame, right: DataFrame, text: str, one: bool) -> ColumnCondition:
    """A condition as a text of Spark, in which the sides are called as in `SIDES`, with what Spark computes of it.

    Raises
    ------
    PredicateError
        What Spark does not take, and what cannot be a condition here.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    try:
        return _computed(left.alias(SIDES["left"]), right.alias(SIDES["right"]), F.expr(text), one)
    except PySparkException as error:
        raise PredicateError(f"Spark does not take the condition: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """What an error of Spark says, without the text and the plan."""
    return str(error).strip().split("\n")[0]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Spark's log of what it refuses says nothing: our own error has the column."""
    spark_log = logging.getLogger("SQLQueryContextLogger")
    was, spark_log.disabled = spark_log.disabled, True
    try:
        yield
    finally:
        spark_log.disabled = was


def _spark_text(text: str) -> str:
    """A condition's text as Spark reads it: names in its quotes, texts with its escapes, aliases for both sides."""
    tokens = condition_tokens(text)
    made, done = [], 0
    for at, token in enumerate(tokens):
        new, name = None, token.text.lower()
        around = [tokens[each].token_type if 0 <= each < len(tokens) else None for each in (at - 1, at + 1)]
        if name in SIDES and around[1] is TokenType.DOT and around[0] is not TokenType.DOT:
            new = quoted(SIDES[name])
        elif token.token_type is TokenType.IDENTIFIER:
            new = quoted(token.text)
        elif token.token_type is TokenType.STRING:
            new = "'" + token.text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        if new is not None:
            made += [text[done : token.start], new]
            done = token.end + 1
    return "".join([*made, text[done:]])


def same_rows(left: DataFrame, right: DataFrame) -> bool:
    """Whether two DataFrames are one, perhaps under two aliases."""
    if left is right:
        return True
    if is_connect(left):
        plans: list[Any] = [frame._plan for frame in (left, right)]
        for at, plan in enumerate(plans):
            while type(plan).__name__ == "SubqueryAlias":
                plan = plan._child
            plans[at] = plan
        return plans[0] is plans[1]
    found = []
    for frame in (left, right):
        plan = frame._jdf.queryExecution().analyzed()
        while plan.getClass().getSimpleName() == "SubqueryAlias":
            plan = plan.child()
        found.append(plan)
    return bool(found[0].equals(found[1]))


def _names(left: DataFrame, right: DataFrame, names: list[Any], *, text: bool) -> list[tuple[str, str]] | None:
    """The columns of these names, as each side spells them; None for a text that is no such name."""
    found: list[tuple[str, str]] = []
    for name in names:
        if not isinstance(name, str):
            raise PredicateError(f"on= as a list has names of columns, not {name!r}: join Columns with &")
        own, other = (_spelled(frame, name) for frame in (left, right))
        if own is not None and other is not None:
            found.append((own, other))
        elif text:
            return None
        else:
            missing = [side for side, column in (("left", own), ("right", other)) if column is None]
            raise SchemaError(f"on= names {name!r}, which the {' and the '.join(missing)} side does not have")
    if not found or len(set(found)) < len(found):
        raise PredicateError(f"on= as a list has at least one name, and none twice, not {names!r}")
    return found


def _spelled(frame: DataFrame, name: str) -> str | None:
    """The column of that name as the frame spells it: in any case, unless Spark's session tells cases apart."""
    if name in frame.columns:
        return name
    alike = [column for column in frame.columns if column.lower() == name.lower()]
    # Two that differ in case alone are ambiguous, as in Spark.
    if len(alike) == 1 and str(frame.sparkSession.conf.get("spark.sql.caseSensitive")).lower() == "false":
        return alike[0]
    return None


def _time_of(left: DataFrame, right: DataFrame, names: list[str]) -> Within | None:
    """The time window of columns that are equal by name, as the text that says so has it."""
    numbers = {name: f"c{at}" for at, name in enumerate(names)}
    schemas, marks = [], {}
    for side, frame in (("left", left), ("right", right)):
        schema = arrow_schema_of(frame, side)
        schemas.append(pa.schema([pa.field(number, schema.field(name).type) for name, number in numbers.items()]))
        paths = {f"{name}{end}": f"{number}{end}" for name, number in numbers.items() for end in ("", ".end")}
        marks[side] = [paths[column] for column in delayed_columns(frame) if column in paths]
    text = " AND ".join(f"left.{number} = right.{number}" for number in numbers.values())
    found = parse_windowed(text, schemas[0], schemas[1], marks)[1]
    if found is None:
        return None
    number, *end = found.left_time.split(".")
    path = ".".join([names[int(number[1:])], *end])
    return Within(path, path, 0, 0)


def _warn_of_days(frame: DataFrame, within: Within) -> None:
    """A day is 24 hours here, and one of the calendar in Spark."""
    bounds = [bound for bound in (within.low, within.high) if bound]
    if all(abs(nanoseconds(bound)) < NANOS_PER_DAY for bound in bounds):
        return
    zone = str(frame.sparkSession.conf.get("spark.sql.session.timeZone"))
    try:
        offsets = {datetime(2024, month, 1, tzinfo=zoneinfo.ZoneInfo(zone)).utcoffset() for month in range(1, 13)}
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return  # such as "+02:00", which has no summer time
    if len(offsets) > 1:
        log.warning(
            "a day in the time window of %s and %s is 24 hours; in Spark it is a day of %s, which has 23 or 25 hours "
            "where the clocks change: write hours to mean the same in both",
            within.left_time,
            within.right_time,
            zone,
        )
