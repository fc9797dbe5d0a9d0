"""Daemons of one query, killed while a client sends batches: each result is compared with an uninterrupted run."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress

import numpy as np
import pyarrow as pa

from host import JoinSpec, WindowJoin
from host.daemon import DaemonClient, start_private
from host.errors import ConnectionLostError, StateError
from tests.fault.simulator import JOINS, WrongError, content, make_rows


def kill_daemons(kills: int, seed: int) -> str:
    """Kills as many daemons, with SIGKILL, at random moments of a batch; a line that says what was done.

    Raises
    ------
    WrongError
        If a batch has another result than in an uninterrupted run.
    """
    rng, rows = random.Random(seed), np.random.default_rng(seed)
    spec = JoinSpec(**JOINS["time full"])
    schema = make_rows(rows, 0).schema
    whole = WindowJoin.from_spec(spec, device="numpy", left_schema=schema, right_schema=schema)
    seen: Counter[str] = Counter()
    number, pace = 0, 0.02
    with tempfile.TemporaryDirectory() as folder:
        daemon = start_private("cpu", state=folder)
        try:
            while seen["killed"] < kills:
                tables = [make_rows(rows, number) for _ in range(2)]
                due = content(whole.process(*tables, batch=number))
                timer = None
                if rng.random() < 0.7:
                    timer = threading.Timer(rng.uniform(0, 2 * pace), daemon.process.kill)
                    timer.start()
                while True:
                    began = time.monotonic()
                    try:
                        found = _send(daemon.address, spec, schema, number, tables)
                    except (ConnectionLostError, StateError):
                        seen["killed before the result"] += 1
                        with suppress(Exception):
                            daemon.process.wait(10)
                        daemon.close()
                        daemon = start_private("cpu", state=folder)
                        continue
                    pace = 0.8 * pace + 0.2 * (time.monotonic() - began)
                    break
                if found != due:
                    raise WrongError(f"seed {seed}: batch {number} has another result")
                if timer is not None:
                    timer.join()
                    seen["killed"] += 1
                    daemon.process.wait(10)
                    daemon.close()
                    daemon = start_private("cpu", state=folder)
                    if _send(daemon.address, spec, schema, number, tables) != due:
                        raise WrongError(f"seed {seed}: batch {number} has another result when it is repeated")
                number += 1
        finally:
            daemon.close()
    before = seen["killed before the result"]
    return f"{number} batches, {seen['killed']} daemons killed, {before} before the result: all as due"


def _send(address: str, spec: JoinSpec, schema: pa.Schema, number: int, tables: list[pa.Table]) -> list[str]:
    with DaemonClient(address, timeout=60) as client:
        client.open_query("query", spec, schema, schema)
        sides = zip(("left", "right"), tables, strict=True)
        rows = [(side, batch) for side, table in sides for batch in table.to_batches()]
        found = list(client.process("query", number, rows))
    return content(pa.Table.from_batches(found)) if found else []
