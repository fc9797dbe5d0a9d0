"""What is asked before a join is given to Spark: daemons, state, certificates."""

from __future__ import annotations

import dataclasses
import logging
import os
import uuid
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from muntin.host.daemon import DaemonClient
from muntin.host.daemon.certificate import Certificate
from muntin.host.daemon.definition import Definition
from muntin.host.daemon.service import Service
from muntin.host.daemon.windows import Windows, begun_with, quoted
from muntin.host.errors import DaemonError, StateError
from muntin.host.spec import JoinSpec
from muntin.host.state import check_place, local_folder
from muntin.pyspark_bridge.join_task import JoinTask

log = logging.getLogger(__name__)

#: The option that a query keeps as it began.
NO_DATA = "no_data_batches"


def checked_by_daemons(task: JoinTask, device: str) -> tuple[bool, dict[str, dict[str, Any]]]:
    """Has daemons say what they would refuse in the first micro-batch; whether they keep windows by themselves, and
    what queries that have the join have fixed, as of `begun_with`, as far as that is seen from here.

    Parameters
    ----------
    task : JoinTask
    device : str
        Of the daemon that is started where none is named.

    Raises
    ------
    MuntinError
        What `Service.check` raises; a daemon cannot be reached.
    """
    windows = list(task.joins(str(uuid.UUID(int=0))).items())
    together = task.streaming and task.device is None
    # Else each task opens one, and waits for memory that others have; the number of tasks on an executor is unknown.
    alone = [dict([window]) for window in {id(spec): (name, spec) for name, spec in windows}.values()]
    left, right = (pa.ipc.read_schema(pa.py_buffer(schema)) for schema in (task.left_schema, task.right_schema))
    definition = Definition(JoinSpec.from_json(task.spec), left, right, task.streaming, task.state)
    if not task.daemons:  # there is none yet to ask
        if task.device is not None and task.state is not None:  # this machine may lack the folder
            check_place(task.state, [quoted(name) for name, _ in windows], here=False)
            definition = dataclasses.replace(definition, state=None)
        with closing(Service(device)) as service:
            for opened in [dict(windows)] if together else alone:
                service.check(definition, opened)
        return False, _begun_in({task.state}, definition.spec, task.join)
    kept, places, begun = True, {task.state}, {}
    for at, address in enumerate(task.daemons):
        with DaemonClient(address, token=task.token, tls_ca=task.tls_ca) as client:
            for opened in [dict(windows[at :: len(task.daemons)])] if together else alone:
                client.check(definition.spec, left, right, streaming=task.streaming, state=task.state, windows=opened)
            status = client.status()
        kept = kept and status["state"] is not None
        if address.startswith("unix:"):  # else it is a place of another machine
            places.add(status["state"])
        for name, query in status["queries"].items():
            spark_query, _, own = Windows.of(name).query.partition("/")
            if own == task.join:
                begun[spark_query] = query["fixed"]
    return kept, begun | _begun_in(places, definition.spec, task.join)


def _begun_in(places: set[str | None], spec: JoinSpec, join: str) -> dict[str, dict[str, Any]]:
    """As of `begun_with`, where something is fixed; nothing of a place that is not seen from here: daemons refuse by it
    too."""
    begun: dict[str, dict[str, Any]] = {}
    for place in places if spec.waits else ():
        try:
            begun |= {} if place is None else begun_with(place, join)
        except StateError as error:
            log.warning("the state is not seen from here: %s", error)
    return begun


def with_no_data(asked: bool | None, begun: dict[str, dict[str, Any]]) -> bool:
    """Whether Spark is to run micro-batches without data, as queries of the join have begun. Raises StateError."""
    known = {query: fixed[NO_DATA] for query, fixed in begun.items() if NO_DATA in fixed}
    if asked is None and len(set(known.values())) > 1:
        raise StateError(
            f"queries of this join have begun with {NO_DATA}=True and with False "
            f"({', '.join(f'{query}: {value}' for query, value in sorted(known.items()))}), and Spark restarts each "
            f"from its checkpoint as it began: say {NO_DATA}= as it is in the one that is started"
        )
    if asked is None:
        goes_on = next(iter(known.values()), True)
        if not goes_on:
            log.warning(
                "the query of this join (%s) has begun with %s=False, and goes on so: what its last rows make due is "
                "emitted with the next data. In a new query True emits it at once, and lag=0 one micro-batch earlier",
                ", ".join(sorted(known)),
                NO_DATA,
            )
        return goes_on
    if known and asked not in known.values():
        raise StateError(
            f"{NO_DATA}={asked}: the query of this join ({', '.join(sorted(known))}) has begun with {not asked}, and "
            f"Spark restarts a checkpoint with the same sources alone. Leave {NO_DATA}= out to go on so; a new query "
            "has another state= or name=, and without them lag=0 emits rows one micro-batch earlier"
        )
    return asked


def state_place(state: Any, daemons: Sequence[str]) -> str:
    """Where the state lies, the same for every process. Raises StateError."""
    folder = local_folder(state)
    if folder is None or os.path.isabs(folder):
        return str(state) if folder is None else folder
    if not all(address.startswith("unix:") for address in daemons):
        raise StateError(
            f"state={folder!r} is looked for below the folder that a process was started in, and {', '.join(daemons)} "
            "may be on other machines: give it from the root"
        )
    return os.path.abspath(folder)


def checked_certificate(daemon: Any, token: Any, tls_ca: Any, tls: Any) -> Certificate | None:
    """The caller's own one for daemons on executors; None where there is none. Raises DaemonError."""
    if daemon is None and not (token is None and tls_ca is None):
        raise DaemonError("token= and tls_ca= are for a daemon that is named with daemon=: leave them out, or name it")
    if isinstance(tls, bool) and (tls or daemon is None):
        return None
    if daemon is not None:
        raise DaemonError(
            f"tls={tls!r} is for the daemons that are started on executors where none is named; {daemon} has its own "
            "certificate (muntin serve --tls-cert), and tls_ca= trusts it: leave tls= out"
        )
    if not (isinstance(tls, tuple) and len(tls) == 2):
        raise DaemonError(f"tls must be True, False or the PEM files of a certificate and of its key, not {tls!r}")
    return Certificate.from_files(*tls)
