"""Names a join so that its windows are found again by the next micro-batch, and by no other join."""

from __future__ import annotations

import hashlib
import re
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from host import JoinSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_lock = threading.Lock()
#: For each shape of join the plans seen, in order of appearance.
_seen: dict[str, list[str]] = {}


def join_identity(
    spec: JoinSpec, left_df: DataFrame, right_df: DataFrame, left_schema: pa.Schema, right_schema: pa.Schema
) -> str:
    """A name for one join of a streaming query, the same each time the same program runs.

    Spark names a stateful operator by its place in the plan, which a function cannot see. This name is a
    digest of the join and its columns, and, since one query may hold two joins of the same shape over
    different streams, a number: that of the inputs' plans among those that this process has joined in this
    shape. A program that makes the same joins in the same order gets the same names; making one again in a
    notebook does too. Where the numbers change, the daemon finds no window under the new name and says so; it
    never continues one with another's rows.
    """
    shape = hashlib.sha256()
    for part in (
        spec.to_json().encode(),
        left_schema.serialize().to_pybytes(),
        right_schema.serialize().to_pybytes(),
    ):
        shape.update(len(part).to_bytes(8, "little") + part)
    digest = shape.hexdigest()[:16]
    plan = f"{_plan(left_df)}\n{_plan(right_df)}"
    with _lock:
        plans = _seen.setdefault(digest, [])
        if plan not in plans:
            plans.append(plan)
        return f"{digest}-{plans.index(plan)}"


def _plan(frame: Any) -> str:
    """The analyzed plan of a DataFrame, without the numbers that Spark gives anew each time."""
    # Spark's public explain() prints, and standard output belongs to all threads of the caller's process.
    if hasattr(frame, "_jdf"):
        analyzed = frame._jdf.queryExecution().analyzed().toString()
    else:
        text = frame._explain_string(mode="extended")
        analyzed = text.split("== Analyzed Logical Plan ==")[-1].split("== Optimized Logical Plan ==")[0]
    analyzed = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "", analyzed)
    return re.sub(r"#\d+L?|@[0-9a-f]+|plan_id=\d+", "", analyzed)
