"""Joins and join conditions as SQL text, read into the same `JoinSpec` as objects are.

sqlglot makes the tree. `condition` reads bands, comparisons and windows of it; `joins` the joins of a SELECT, `names`
what is around them; `query` runs the joins here and gives the text around them to the engine that owns the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
from sqlglot.tokens import Token

from muntin.host.predicates import AllOf, Predicate, Where
from muntin.host.sql.condition import Reader, sides_of
from muntin.host.sql.text import ConditionText
from muntin.host.windows import Within


def parse_condition(text: str, left: pa.Schema, right: pa.Schema) -> Predicate | Where | AllOf:
    """Reads a condition such as ``left.venue = right.venue AND right.price BETWEEN left.limit - 5 AND left.limit + 5``.

    Parameters
    ----------
    text : str
        Columns are ``left.name`` and ``right.name``, or the name alone where one side alone has it.
    left, right : pyarrow.Schema

    Raises
    ------
    SqlError
        What the text has and a condition here has not, with its line and column.
    """
    return _condition(text, left, right, None)[0]


def parse_windowed(
    text: str, left: pa.Schema, right: pa.Schema, event_times: Mapping[str, Iterable[str]] | None = None
) -> tuple[Predicate | Where | AllOf, Within | None]:
    """Reads a condition as `parse_condition` does, and the time window that it has: the first pair of timestamps, one
    of each side, whose difference it bounds at both ends, those in `event_times` before others. Equal times are bounded
    by 0, and so are the ends of equal windows of time.

    Parameters
    ----------
    event_times : mapping of str to iterable of str, optional
        By "left" and "right": columns that carry a watermark.

    Returns
    -------
    condition, window
        None where the text bounds no times.

    Raises
    ------
    SqlError
        What the text has and a condition here has not, with its line and column.
    """
    return _condition(text, left, right, {} if event_times is None else event_times)


def condition_tokens(text: str) -> list[Token]:
    """The words of a condition's text. Raises sqlglot's TokenError."""
    return ConditionText().tokenize(text)


def _condition(
    text: str, left: pa.Schema, right: pa.Schema, event_times: Mapping[str, Iterable[str]] | None
) -> tuple[Predicate | Where | AllOf, Within | None]:
    reader = Reader(text)
    with reader.shallow():
        tree = reader.condition()
        reader.know(sides_of(left, right), {"left": left, "right": right})
        parts = reader.conjunction((tree, True))
        within = None if event_times is None else reader.window(parts, None, event_times)
        return reader.whole(parts), within
