"""Daemons, tasks, executors and drivers of a query on a Spark standalone cluster, killed while it runs.

The cluster is on loopback: a master, two workers. The join has two partitions, two stages, state in a folder, a
checkpoint and Spark's file sink. Each micro-batch has an order for each kind of process to kill one in one phase of it,
no two in the same one, which the processes carry out themselves. What Spark reads of the sink at the end is compared
with DuckDB.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark

from muntin.host.daemon import DaemonClient
from muntin.host.errors import ConnectionLostError
from muntin.host.progress import Progress
from muntin.pyspark_bridge.loopback_cluster import HOST, LoopbackCluster
from tests.fault.kills_driver import committed
from tests.fault.orders import PHASES, Orders
from tests.fault.world import WrongError

#: Where the daemons are: on the executors that need them, started and taken over by tasks; or one that all share, which
#: is started again where it was.
PLACES = {"executors": "left", "shared": "inner"}  # and how its rows are joined
STALL_SECONDS = 240.0
DAEMON_SECONDS = 60.0
#: Java's archive of the classes that this Spark loads, with which its processes start in two thirds of the time. A Java
#: that it does not fit leaves it alone.
CLASSES = Path(sys.prefix, f"spark-{pyspark.__version__}-classes.jsa")
FIRST = 1_700_000_000  # seconds of event time: Spark takes rows of before 1970 for late ones
STEP = 15  # seconds that a micro-batch adds
LAST = 3  # micro-batches at the end, far later: they let all rows out that wait for a match
SQL = """
    SELECT l.k, l.a, l.t, l.s, r.k AS k_right, r.a AS a_right, r.t AS t_right, r.s AS s_right FROM l {how} JOIN r
    ON l.k = r.k AND r.a - l.a BETWEEN -30 AND 30 AND epoch_us(r.t) - epoch_us(l.t) BETWEEN -40000000 AND 30000000
    WHERE epoch_us(l.t) < {last}
"""


@dataclass
class Outcome:
    """What came of some kills: how many there were by kind and phase, how many rows DuckDB finds, how many of these the
    query has lost, and how many it gave too many."""

    done: Counter[tuple[str, str]] = field(default_factory=Counter)
    missed: Counter[tuple[str, str]] = field(default_factory=Counter)
    rows: int = 0
    lost: int = 0
    doubled: int = 0
    epochs: int = 0  # changes of the routes of rows to partitions
    starts: int = 0  # of the query, from its checkpoint
    seconds: float = 0.0

    def add(self, other: Outcome) -> None:
        """Add another run's."""
        self.done += other.done
        self.missed += other.missed
        for name in ("rows", "lost", "doubled", "epochs", "starts", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        kinds = sorted({kind for kind, _ in self.done})
        counts = {phase: [self.done[kind, phase] for kind in kinds] for phase in PHASES}
        counts["in all"] = [sum(column) for column in zip(*counts.values(), strict=True)]
        lines = ["".join(f"{kind:>9}" for kind in kinds)]
        lines += ["".join(f"{count:9}" for count in row) + f"  {phase}" for phase, row in counts.items()]
        return "\n".join(
            [
                f"{self.done.total()} processes killed ({self.missed.total()} found none), {self.seconds:,.0f} s, "
                f"{self.starts} starts from the checkpoint, {self.epochs} changes of routes",
                *lines,
                f"{self.rows:,} rows in DuckDB, of which {self.lost:,} are lost, and {self.doubled:,} too many",
            ]
        )

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        kinds = sorted({kind for kind, _ in self.done})
        return {
            **{name: getattr(self, name) for name in ("rows", "lost", "doubled", "epochs", "starts", "seconds")},
            "missed": self.missed.total(),
            "kills": {kind: {phase: self.done[kind, phase] for phase in PHASES} for kind in kinds},
        }


def kill_in_spark(kinds: Sequence[str], kills: int, seed: int, places: Sequence[str] = tuple(PLACES)) -> Outcome:
    """Kill as many processes of each kind, in each phase of a micro-batch in turn; one of each in a micro-batch.

    Parameters
    ----------
    kinds, places : sequence of str
        Of `KINDS` and `PLACES`.
    kills : int
        Of each kind; the places take a round of all phases each, in turn.
    seed : int
        Of the rows, and of the order of the kills.

    Raises
    ------
    WrongError
        The query comes to a halt, or cannot be started again; the message names the folder with all logs.
    """
    rng = random.Random(seed)
    orders: dict[str, list[dict[str, str]]] = {place: [] for place in places}
    apart = len(PHASES) // len(kinds)
    for at in range(kills):
        if at % len(PHASES) == 0:  # a round: who is killed before whom
            firsts = {kind: number * apart for number, kind in enumerate(rng.sample(kinds, len(kinds)))}
        place = places[at // len(PHASES) % len(places)]
        orders[place].append({kind: PHASES[(first + at) % len(PHASES)] for kind, first in firsts.items()})
    if not CLASSES.exists():
        _Run("executors", [], seed, Progress("classes")).archive_classes()
    outcome = Outcome()
    with Progress("kills", kills * len(kinds), "kills") as bar:
        for place, given in orders.items():
            if given:
                rng.shuffle(given)
                outcome.add(_Run(place, given, seed, bar).run())
    return outcome


class _Run:
    """One query, from its first micro-batch to its last."""

    def __init__(self, place: str, orders: list[dict[str, str]], seed: int, bar: Progress):
        self._place, self._bar = place, bar
        self._folder = Path(tempfile.mkdtemp(prefix="muntin-kills-"))
        (self._folder / "orders").mkdir()
        self._orders = Orders(self._folder / "orders")
        for batch, given in enumerate(orders, 1):  # the first micro-batch finds its daemons and tasks started
            for kind, phase in given.items():
                self._orders.give(batch, kind, phase)
        self._batches = len(orders) + 1 + LAST
        self._rows(np.random.default_rng(seed))
        self._socket = self._folder / "daemon" / "sock"

    def run(self) -> Outcome:
        began = time.monotonic()
        os.environ["SPARK_MASTER_OPTS"] = (
            "-Dspark.deploy.maxExecutorRetries=-1"  # a killed executor is no fault of its own
        )
        starts = 0
        with ExitStack() as opened:
            cluster = opened.enter_context(LoopbackCluster(self._folder))
            daemon: subprocess.Popen[bytes] | None = None
            driver: subprocess.Popen[bytes] | None = None
            opened.callback(lambda: [_end(process) for process in (driver, daemon)])
            seen, since = (-1, 0), time.monotonic()
            while True:
                if self._place == "shared" and (daemon is None or daemon.poll() is not None):
                    daemon = self._start_daemon()
                if driver is None or driver.poll() == -signal.SIGKILL:
                    driver, starts = self._start_driver(cluster.master), starts + 1
                elif driver.poll() == 0:
                    break
                elif driver.poll() is not None:
                    raise WrongError(f"the driver ended with status {driver.returncode}; see {self._log}")
                now = committed(self._folder), self._orders.carried_out
                if now != seen:
                    self._bar.advance(now[1] - seen[1], place=self._place, batch=f"{now[0]} of {self._batches}")
                    seen, since = now, time.monotonic()
                elif time.monotonic() > since + STALL_SECONDS:
                    raise WrongError(f"batch {now[0] + 1} does not end in {STALL_SECONDS:g} seconds; see {self._log}")
                time.sleep(0.05)
            self._bar.advance(self._orders.carried_out - seen[1])
        outcome = self._compared()
        outcome.starts = (
            starts + len(re.findall("^after batch ", self._log.read_text(errors="replace"), re.MULTILINE)) - 1
        )
        outcome.seconds = time.monotonic() - began
        if not outcome.lost and not outcome.doubled and not self._orders.told("order"):
            shutil.rmtree(self._folder)
        else:
            self._bar.write(f"see {self._folder}; orders left: {self._orders.told('order')}")
        return outcome

    def archive_classes(self) -> None:
        """Run the query in one process, which makes `CLASSES` where Java can."""
        written = self._folder / "classes.jsa"
        driver = self._start_driver("local[2]", f"-XX:ArchiveClassesAtExit={written}")
        try:
            driver.wait(4 * STALL_SECONDS)
        finally:
            _end(driver)
        if driver.returncode != 0:
            raise WrongError(f"the driver ended with status {driver.returncode}; see {self._log}")
        if written.exists():
            shutil.move(written, CLASSES)
        shutil.rmtree(self._folder)

    @property
    def _log(self) -> Path:
        return self._folder / "driver.log"

    def _start_driver(self, master: str, archive: str = "") -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.fault.kills_driver", str(self._folder), master]
        command += [f"unix:{self._socket}" if self._place == "shared" else "", PLACES[self._place]]
        command.append(archive or (f"-XX:SharedArchiveFile={CLASSES}" if CLASSES.exists() else ""))
        environment = {**os.environ, "SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def _start_daemon(self) -> subprocess.Popen[bytes]:
        """Start the shared daemon where it was, and wait until it answers."""
        command = [sys.executable, "-m", "tests.fault.dying_daemon", str(self._orders.folder), "serve"]
        command += [f"--socket={self._socket}", f"--state={self._folder / 'state'}"]
        with (self._folder / "daemon.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        until = time.monotonic() + DAEMON_SECONDS
        while True:
            try:
                with DaemonClient(f"unix:{self._socket}") as client:
                    client.ping()
                return process
            except ConnectionLostError as error:
                if process.poll() is not None or time.monotonic() > until:
                    _end(process)
                    raise WrongError(f"the daemon does not start again; see {self._folder / 'daemon.log'}") from error
                time.sleep(0.05)

    def _rows(self, rng: np.random.Generator) -> None:
        """The files of both sides, one for each micro-batch."""
        for side in "lr":
            (self._folder / side).mkdir()
            for batch in range(self._batches):
                later = batch >= self._batches - LAST
                count = 16 if later else int(rng.integers(50, 200))
                second = FIRST + batch * STEP + (7200 if later else 0)
                times = (second + rng.integers(-40, 40, count)) * 1_000_000 + int(rng.integers(0, 999))
                # Most rows have one key, so that partitions change where its rows go.
                keys = np.where(rng.random(count) < 0.6, 3, rng.integers(0, 16, count))
                table = pa.table(
                    {
                        "k": pa.array(np.arange(16) if later else keys, pa.int64()),
                        "a": pa.array(rng.integers(0, 99, count), pa.int32()),
                        "t": pa.array(times, pa.timestamp("us", tz="UTC")),
                        "s": pa.array([f"{side} {batch}.{at}" for at in range(count)]),
                    }
                )
                path = self._folder / side / f"{batch:06d}.parquet"
                pq.write_table(table, path)
                os.utime(path, (1_600_000_000 + batch, 1_600_000_000 + batch))  # Spark takes them in this order

    def _compared(self) -> Outcome:
        """What the orders came to, and how the result compares with DuckDB's."""
        last = (FIRST + (self._batches - LAST) * STEP + 3600) * 1_000_000  # before the micro-batches at the end
        with duckdb.connect() as connection:
            for name in "lr":
                connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{self._folder / name}/*.parquet'")
            connection.execute(f"CREATE TABLE due AS {SQL.format(how=PLACES[self._place], last=last)}")
            result = self._folder / "result.parquet"
            connection.execute(f"CREATE VIEW found AS SELECT * FROM '{result}' WHERE epoch_us(t) < {last}")
            counts = [
                connection.execute(f"SELECT count(*) FROM ({sql})").fetchall()[0][0]
                for sql in (
                    "FROM due",
                    "FROM due EXCEPT ALL FROM found",
                    "FROM found EXCEPT ALL FROM due",
                )
            ]
        done, missed = (Counter(self._orders.told(name)) for name in ("done", "missed"))
        return Outcome(done, missed, *counts, epochs=self._epochs())

    def _epochs(self) -> int:
        """How often the routes of rows to partitions have changed, by the newest file of a state."""
        place, commits = self._folder / "state", {}
        for commit in place.rglob("*.commit"):
            commits[commit.parent] = max(commit, commits.get(commit.parent, commit))
        routes = [json.loads(each.read_bytes().splitlines()[0])["before"]["routes"] for each in commits.values()]
        return max(each["routes"]["epoch"] for each in routes)


def _end(process: subprocess.Popen[bytes] | None) -> None:
    """Kill a process and what it has started."""
    if process is not None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def to_json(outcome: Outcome, path: str) -> None:
    """Write an outcome to a file."""
    Path(path).write_text(json.dumps(outcome.as_dict(), indent=2) + "\n")
