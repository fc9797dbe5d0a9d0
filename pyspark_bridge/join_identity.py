"""Names a join so that its windows are found again by the next micro-batch and after a restart."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.host.daemon.definition import definition_digest
from muntin.host.spec import JoinSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What differs in the text of a plan from one process to the next, or with a setting that a query may change between
#: two runs, and what takes its place.
_UNSTABLE = (
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", ""),  # of watermarks
    (r"#\d+L?|@[0-9a-f]+|plan_id=\d+", ""),  # columns, Java objects, plans of Spark Connect
    (r"(\blambda \w+?)_\d+\b", r"\1"),  # a counter of the process
    (r"-?\b\d{15,}\b", ""),  # seeds of rand, uuid and sample
    # Options of a source of the second kind: its pace, its servers, its credentials.
    (r"(StreamingRelationV2 [^,]*, [^,]*, [^,]*), \[.*\], \[", r"\1, ["),
)


def join_identity(spec: JoinSpec, left_schema: pa.Schema, right_schema: pa.Schema, inputs: DataFrame) -> str:
    """A name for one join of a streaming query, the same each time the same program runs.

    Spark names a stateful operator by its place in the query's plan, which a function cannot see. This name is a
    digest of the join, the columns, and the text of the inputs' analyzed plans without what changes by itself. It
    depends on nothing else that the process did. The text holds the folder of a file source and every column and
    condition, but neither the options of a source nor the code of a Python function. So two joins may have one name:
    where they meet in one query, the daemon refuses them.

    Parameters
    ----------
    spec : JoinSpec
    left_schema, right_schema : pyarrow.Schema
        Of the sides.
    inputs : DataFrame
        Both sides, as `tagged_union` gives them.
    """
    schemas = (schema.serialize().to_pybytes() for schema in (left_schema, right_schema))
    return definition_digest(spec.to_json(), *schemas, _plan(inputs).encode())[:32]


def _plan(frame: Any) -> str:
    """The text of a DataFrame's analyzed plan, as it is each time the program runs."""
    # Spark's public explain() prints, and standard output belongs to all threads of the caller's process.
    if hasattr(frame, "_jdf"):
        text = frame._jdf.queryExecution().analyzed().toString()
    else:
        text = frame._explain_string(mode="extended")
        text = text.split("== Analyzed Logical Plan ==")[-1].split("== Optimized Logical Plan ==")[0]
    for unstable, instead in _UNSTABLE:
        text = re.sub(unstable, instead, text)
    return text
