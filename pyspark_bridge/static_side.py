"""A table that a stream meets: read once, when the join is called, and kept where each daemon loads it."""

from __future__ import annotations

import dataclasses
import logging
import shutil
import tempfile
import weakref
from typing import TYPE_CHECKING

import pyarrow as pa

from muntin.host.daemon import DaemonClient
from muntin.host.errors import UnsupportedError
from muntin.host.spec import JoinSpec
from muntin.host.state import open_store
from muntin.host.state.tables import keep_table
from muntin.pyspark_bridge.join_task import KEPT_SCHEMA, JoinTask, task_function
from muntin.pyspark_bridge.private_daemon import awaited_daemon

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

#: Tables that joins of this process have met first, by what a query finds its windows by.
_met: dict[tuple[str, str | None, tuple[str, ...]], str] = {}
#: Below the state of a join's query, beside the windows of all queries there.
FOLDER = "tables"


def with_table(task: JoinTask, frame: DataFrame, root: str) -> JoinTask:
    """The task that meets the rows of a DataFrame, which Spark reads now: each task writes its own, and no row passes
    the driver.

    Parameters
    ----------
    task : JoinTask
    frame : DataFrame
        With the columns of its side.
    root : str
        As of `task_function`.

    Raises
    ------
    UnsupportedError
        The daemons would not find them.
    StateError
        They cannot be written.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    task = dataclasses.replace(task, tables=_place(task))
    rows = frame.mapInArrow(task_function(task, root, "keep"), from_arrow_schema(KEPT_SCHEMA)).collect()
    parts = [row["digest"] for row in sorted(rows, key=lambda row: row["task"]) if row["rows"]]
    side = JoinSpec.from_json(task.spec).static
    schema = pa.ipc.read_schema(pa.py_buffer(task.left_schema if side == "left" else task.right_schema))
    task = dataclasses.replace(task, table=keep_table(open_store(str(task.tables)), schema, parts))
    known = _met.setdefault((task.join, task.state, task.daemons), str(task.table))
    if known != task.table and not task.named and not (task.private and task.state is None):
        log.warning(
            "a join of the same condition, columns and stream was made before with another table. A query that is "
            "started again meets the new one; one query with both needs a name for each: window_join(..., name=...)"
        )
    return task


def _place(task: JoinTask) -> str:
    """Where tables are kept: beside the state, else with the private daemon."""
    state = task.state
    if state is None and task.daemons:
        local = all(address.startswith("unix:") for address in task.daemons)
        with DaemonClient(task.address, token=task.token, tls_ca=task.tls_ca) as client:
            state = client.status()["state"]
        if not local and "://" not in (state or ""):
            raise UnsupportedError(
                f"a table is loaded by the daemons from where this process has written it, and those at "
                f"{', '.join(task.daemons)} may be on other machines: give state=, a folder or the address of an "
                "object store that all of them see"
            )
    if state is not None:
        return f"{state.rstrip('/')}/{FOLDER}"
    folder = tempfile.mkdtemp(prefix="muntin-table-")
    owner = awaited_daemon(task.address) if task.private else None
    # A daemon of others' is there as long as it is; the query ends with this process.
    weakref.finalize(owner or _THIS_PROCESS, shutil.rmtree, folder, ignore_errors=True)
    return folder


class _Process:
    """Ends with this process."""


_THIS_PROCESS = _Process()
