"""Real daemons of one query, killed while a client sends batches, with a state in a folder.

Each result is compared with an uninterrupted run, and all of them with DuckDB.
"""

from __future__ import annotations

import random
import tempfile
import threading
from collections import Counter
from contextlib import suppress
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa

from muntin import AllOf, Band, Compare, JoinSpec, Watermark, WindowJoin, Within
from muntin.host.daemon import DaemonClient, private, start_private
from muntin.host.errors import ConnectionLostError, StateError
from muntin.host.progress import Progress
from tests.fault.cases import content
from tests.fault.orders import AT_RANDOM, DAEMON_PHASES
from tests.fault.world import WrongError

SPEC = JoinSpec(
    on=AllOf(Compare("k", "=", "k"), Band("a", "a", -30, 30)),
    within=Within("t", "t", -40, 30),
    watermark=Watermark(left=200, right=200),  # no row is late
)
SQL = """
    SELECT * FROM l JOIN r ON l.k = r.k AND r.a - l.a BETWEEN -30 AND 30 AND r.t - l.t BETWEEN -40 AND 30
"""


def kill_daemons(kills: int, seed: int) -> str:
    """Kills as many daemons, in each phase of a batch in turn and at random moments; what was done, by phase.

    Raises
    ------
    WrongError
        If a batch has another result than in an uninterrupted run, or the batches together than DuckDB's join.
    """
    rng, rows = random.Random(seed), np.random.default_rng(seed)
    schema = _rows(rows, 0, "l").schema
    whole = WindowJoin.from_spec(SPEC, device="numpy", left_schema=schema, right_schema=schema)
    killed: Counter[str] = Counter()
    sent: list[list[pa.Table]] = [[], []]
    results = []
    number = 0
    with tempfile.TemporaryDirectory() as folder, Progress("kills", kills, "kills") as bar:
        while killed.total() < kills:
            phase = [*DAEMON_PHASES, AT_RANDOM, AT_RANDOM][killed.total() % (len(DAEMON_PHASES) + 2)]
            tables = [_rows(rows, number, side) for side in "lr"]
            for side, table in zip(sent, tables, strict=True):
                side.append(table)
            due = content(whole.process(*tables, batch=number))
            daemon = _start(folder, phase)
            timer = threading.Timer(rng.uniform(0, 0.1), daemon.process.kill)
            if phase == AT_RANDOM:
                timer.start()
            found = []
            with suppress(ConnectionLostError, StateError):
                found.append(_send(daemon.address, schema, number, tables))
            if phase == AT_RANDOM:
                timer.join()
            try:
                daemon.process.wait(60)
            except Exception as error:
                raise WrongError(f"seed {seed}: the daemon that is to die {phase} lives on") from error
            finally:
                daemon.close()
            killed[phase] += 1
            bar.advance()
            with _start(folder, None) as daemon:
                found += [_send(daemon.address, schema, number, tables) for _ in range(2)]
            if any(each != due for each in found):
                raise WrongError(f"seed {seed}: batch {number} has another result after a daemon died {phase}")
            results += found[-1]
            number += 1
    with duckdb.connect() as connection:
        for name, side in zip("lr", sent, strict=True):
            connection.register(name, pa.concat_tables(side))
        if sorted(results) != sorted(repr(row) for row in connection.execute(SQL).fetchall()):
            raise WrongError(f"seed {seed}: the {number} batches together are not DuckDB's join")
    lines = [f"{count:4} {phase}" for phase, count in killed.items()]
    return "\n".join([f"{killed.total()} daemons killed, {len(results):,} rows as in DuckDB:", *lines])


def _rows(rng: np.random.Generator, call: int, side: str) -> pa.Table:
    count = int(rng.integers(50, 200))
    return pa.table(
        {
            "k": pa.array(rng.integers(0, 4, count), pa.int64()),
            "a": pa.array(rng.integers(0, 99, count), pa.int32()),
            "t": call * 15 + rng.integers(-40, 40, count),
            "s": pa.array([f"{side} {call}.{at}" for at in range(count)], pa.string()),
        }
    )


def _start(folder: str, phase: str | None) -> private.PrivateDaemon:
    """A daemon that dies in a phase, or does not."""
    if phase in (None, AT_RANDOM):
        return start_private("cpu", state=folder)
    with mock.patch.object(private, "MODULE", ["tests.fault.dying_daemon", phase]):
        return start_private("cpu", state=folder)


def _send(address: str, schema: pa.Schema, number: int, tables: list[pa.Table]) -> list[str]:
    with DaemonClient(address, timeout=60) as client:
        client.open_query("query", SPEC, schema, schema)
        sides = zip(("left", "right"), tables, strict=True)
        rows = [(side, batch) for side, table in sides for batch in table.to_batches()]
        found = list(client.process("query", number, rows))
    return content(*(pa.Table.from_batches([batch]) for batch in found))
