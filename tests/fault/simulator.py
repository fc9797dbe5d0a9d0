"""Spark, daemons, their network and their storage as one deterministic program: a seed makes a schedule of faults.

It runs the modules that a daemon runs for clients on its host, from `Connection` down to the stores of its state, and
the client's, on a `World`: its clock, network and disks. Flight's server is not in it: it calls the same `Service`.
What it injects:

- a daemon that dies before, in the middle of or after any operation on its storage, or before or after any message;
- a machine that goes down: what was not synced is gone or torn, and files whose deletion was not synced are back;
- writes that fail, and requests to an object store that fail, are done without an answer, or are repeated;
- messages that are late, connections that break in the middle of one, machines that are cut off from each other, and
  requests that come a second time, whole or in part, after later ones;
- daemons that are taken for dead and are not: two believe that they own a partition;
- a driver that retries tasks as attempt + 1, runs two attempts at once, kills some, asks for a batch twice, reads part
  of a result alone, and dies before or after it has committed a batch, and then replays it; rows in another order;
- files that are flipped, cut or lost.

The rule: every whole result of a batch that anyone is given is the nested loop's; errors are of the kinds that a caller
is told of; a sink that takes a batch once has every row once; once no more faults come the query comes to its end, and
no daemon holds rows or a connection of anyone.
"""

from __future__ import annotations

import dataclasses
import gc
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import structlog

from host import AllOf, Band, Compare, JoinSpec, Rows, Watermark, WindowJoin, Within
from host.daemon import DaemonClient, Limits
from host.daemon.client import marks_of
from host.daemon.connection import Connection
from host.daemon.definition import Definition
from host.daemon.request import Request
from host.daemon.service import Service
from host.daemon.streaming_query import StreamingQuery
from host.devices import open_device
from host.errors import (
    ConnectionLostError,
    LimitError,
    MullionError,
    ReplayError,
    StateError,
    StateLostError,
    UnknownQueryError,
)
from host.state.log import StateLog
from tests.fault.world import Disk, Killed, Process, Socket, Task, World, WrongError
from tests.oracles.nested_loop import NestedLoop

QUERY = "query/join"
FAILURES = 4  # of one task, before its query fails
RUNS = 40  # of the query, before it counts as stuck
DATA_SETS = 30
BATCHES = 4

_BAND = ("band", -9, 9)
_EQUAL = AllOf(Compare("k", "=", "k"), Band("a", "a", -30, 30))
_PARTS = ("all", [("pair", 0, 0, ("compare", "=")), ("pair", 1, 1, ("band", -30, 30))])
_TIME = {"within": Within("t", "t", -40, 30), "watermark": Watermark(left=20, right=30, lag=1)}
_COUNT = {"left": Rows(8), "right": Rows(6)}
JOINS: dict[str, dict[str, Any]] = {
    "count": {"on": Band("a", "a", -9, 9), **_COUNT},
    "count full": {"on": Band("a", "a", -9, 9), **_COUNT, "how": "full"},
    "semi": {"on": _EQUAL, **_COUNT, "how": "left_semi"},
    "time": {"on": _EQUAL, **_TIME},
    "time full": {"on": _EQUAL, **_TIME, "how": "full"},
    "time anti": {"on": _EQUAL, **_TIME, "how": "left_anti"},
}


@dataclasses.dataclass(frozen=True)
class Planted:
    """Faults put into the program itself, which schedules must find. Each is the absence of what its name says.

    Attributes
    ----------
    synced : bool
        Files and folders are synced.
    checked : bool
        Files are compared with their checksums.
    repeats : bool
        The daemon knows a batch that it has applied.
    fenced : bool
        A file's name can be taken once.
    written_first : bool
        Rows are written before they are committed.
    awaited : bool
        A batch is durable before its result is given out.
    final : bool
        A kept result is given for its own batch alone.
    discarded : bool
        What was staged of a request that ended is forgotten.
    timed_out : bool
        A connection that is silent is closed.
    current : bool
        A daemon looks whether another one has gone on with the state.
    """

    synced: bool = True
    checked: bool = True
    repeats: bool = True
    fenced: bool = True
    written_first: bool = True
    awaited: bool = True
    final: bool = True
    discarded: bool = True
    timed_out: bool = True
    current: bool = True

    def patches(self) -> Iterator[Any]:
        """What puts them in."""
        if not self.checked:
            yield mock.patch("host.state.log._digest", return_value="0")
        if not self.repeats:
            yield mock.patch.object(StreamingQuery, "_kept", return_value=None)
            yield mock.patch.object(WindowJoin, "last_batch", property(lambda _: -1))
        if not self.written_first:
            yield mock.patch.object(StateLog, "_commit", _commit_first(StateLog._commit))
            yield mock.patch.object(StateLog, "_write", _write_later(StateLog._write))
        if not self.awaited:
            yield mock.patch.object(StateLog, "commit", _never_raises(StateLog.commit))
            yield mock.patch.object(StateLog, "_commit", _now_and_then(StateLog._commit))
        if not self.final:
            yield mock.patch.object(StreamingQuery, "_kept", _kept_past(StreamingQuery._kept))
        if not self.discarded:
            yield mock.patch.object(Request, "discard", return_value=None)
        if not self.current:
            yield mock.patch.object(StreamingQuery, "_catch_up", return_value=None)


def _write_later(write: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def planted(log: StateLog, number: int, batch: int, tables: dict[str, pa.Table]) -> dict[str, Any]:
        create, waiting = log.store.create, []
        log.store.create = lambda *given: waiting.append(given)  # type: ignore[assignment,method-assign,misc]
        try:
            return write(log, number, batch, tables)
        finally:
            log.store.create = create  # type: ignore[method-assign]
            log.waiting = waiting  # type: ignore[attr-defined]

    return planted


def _commit_first(commit: Callable[..., None]) -> Callable[..., None]:
    def planted(log: StateLog, record: Any) -> None:
        commit(log, record)
        for given in log.waiting:  # type: ignore[attr-defined]
            log.store.create(*given)

    return planted


def _never_raises(commit: Callable[..., None]) -> Callable[..., None]:
    def planted(log: StateLog, begun: Any, matched: Any) -> None:
        try:
            commit(log, begun, matched)
        except StateError:
            return

    return planted


def _now_and_then(commit: Callable[..., None]) -> Callable[..., None]:
    def planted(log: StateLog, record: Any) -> None:
        if World.current.rng.random() < 0.8:
            commit(log, record)
        else:
            log.records.append(record)  # it would be written later

    return planted


def _kept_past(kept: Callable[..., Any]) -> Callable[..., Any]:
    def planted(query: StreamingQuery, batch: int) -> Any:
        newest = query._newest
        if newest is not None and batch == newest.batch + 1 and World.current.rng.random() < 0.2:
            return newest.result
        return kept(query, batch)

    return planted


# What is due


def make_rows(rng: np.random.Generator, call: int, side: str) -> pa.Table:
    """Rows of one side of a batch, each with a name of its own."""
    count = int(rng.integers(0, 8))
    return pa.table(
        {
            "k": pa.array(rng.integers(0, 3, count), pa.int64(), mask=rng.random(count) < 0.1),
            "a": pa.array(rng.integers(0, 60, count), pa.int32()),
            "t": call * 15 + rng.integers(-40, 40, count),
            "s": pa.array([f"{side} {call}.{at}" for at in range(count)], pa.string()),
        }
    )


def content(*tables: pa.Table) -> list[str]:
    """Rows in any order."""
    rows = (zip(*(column.to_pylist() for column in table.columns), strict=True) for table in tables)
    return sorted(repr(row) for each in rows for row in each)


class _Loop(NestedLoop):
    """Knows that a row without one of its keys can match nothing."""

    def _alone(self, side: str, row: Any) -> bool:
        return (isinstance(row.key, tuple) and None in row.key) or super()._alone(side, row)


@dataclasses.dataclass(frozen=True)
class Case:
    """A join, its input, and what it is due to give: of each batch the result of each partition."""

    definition: Definition
    batches: dict[int, list[list[pa.Table]]]
    due: dict[int, list[list[str]]]
    orders: dict[tuple[int, int, int], list[pa.Table]] = dataclasses.field(default_factory=dict)


@cache
def case(name: str, partitions: int, data: int) -> Case:
    """One of the inputs that schedules have."""
    rng = np.random.default_rng(data)
    numbers = np.cumsum(rng.integers(1, 3, int(rng.integers(2, BATCHES + 1)))) - 1  # with gaps
    numbers -= numbers[0]
    tables = {int(number): [make_rows(rng, int(number), side) for side in ("l", "r")] for number in numbers}
    spec = JoinSpec(**JOINS[name])
    schema = make_rows(rng, 0, "l").schema
    loop = _Loop(
        _BAND if name.startswith("count") else _PARTS,
        *(("a", "a") if name.startswith("count") else (["k", "a"], ["k", "a"])),
        rows=None if name.startswith("time") else (_COUNT["left"].count, _COUNT["right"].count),
        within=("t", "t", -40, 30) if name.startswith("time") else None,
        delays=(20, 30) if name.startswith("time") else (None, None),
        lag=1,
        how=JOINS[name].get("how", "inner"),
    )
    rows: list[list[tuple[Any, ...]]] = [[], []]
    batches, due = {}, {}
    empty = (None,) * 4
    for number, sides in tables.items():
        for at, table in enumerate(sides):
            rows[at] += zip(*(column.to_pylist() for column in table.columns), strict=True)
        due[number] = [[] for _ in range(partitions)]
        for pair in loop.results(loop.process(*sides)):
            found = [None if at is None else rows[side][at] for side, at in enumerate(pair)]
            key = next(row for row in found if row is not None)[0]
            shown = found[:1] if spec.how in ("left_semi", "left_anti") else found
            flat = repr(tuple(value for row in shown for value in (row or empty)))
            due[number][(key or 0) % partitions].append(flat)
        due[number] = [sorted(part) for part in due[number]]
        batches[number] = [
            [table.filter(pa.array(table["k"].fill_null(0).to_numpy() % partitions == at)) for table in sides]
            for at in range(partitions)
        ]
    return Case(Definition(spec, schema, schema), batches, due)


# Processes


class Daemon(Process):
    """A process with a service, which takes connections at an address."""

    def __init__(self, world: World, number: int, state: str | None, limits: Limits):
        super().__init__(f"daemon {number}", f"host {number}")
        self.address = f"unix:/{number}"
        self.service = Service(open_device("cpu"), limits, state)
        world.listeners[f"/{number}"] = self, self._serve

    def _serve(self, sock: Socket) -> None:
        Connection(sock, self.service).run()  # type: ignore[arg-type]


@dataclasses.dataclass(eq=False)
class Attempt:
    """A task of Spark's, once: its process, and what came of it."""

    number: int
    partition: int
    attempt: int
    process: Process
    result: list[str] | None = None
    partial: bool = False
    error: BaseException | None = None
    done: bool = False


#: What happens to tasks, daemons and machines that are well, and how often where it does.
_TROUBLES = {
    "replay": 0.1,
    "commit twice": 0.1,
    "ask again": 0.1,
    "kill": 0.05,
    "speculate": 0.1,
    "give up": 0.05,
    "crash": 0.03,
    "damage": 0.1,
    "part": 0.05,
    "echo": 0.15,
}

#: What a task may be told where something has failed.
_TOLD = (ConnectionLostError, StateError, StateLostError, ReplayError, LimitError, UnknownQueryError)


class QueryFailedError(Exception):
    """A task has failed too often: the query ends, and is started again from its checkpoint."""


class Schedule:
    """What one seed makes: a query, its partitions and daemons, and what happens to them.

    Parameters
    ----------
    seed : int
    planted : Planted

    Attributes
    ----------
    story : list of str
        What happened, for whoever replays the seed.
    """

    def __init__(self, seed: int, planted: Planted | None = None):
        self.seed = seed
        self._planted = planted or Planted()
        self._rng = rng = random.Random(seed)
        self.name = rng.choice(sorted(JOINS))
        self.partitions = rng.choice([1, 1, 2, 3]) if self.name.startswith("time") else 1
        self.state = rng.choice(["disk", "disk", "s3://objects", None])
        self.case = case(self.name, self.partitions, rng.randrange(DATA_SETS))
        self.world = World(rng, rng.choice([0, 3, 6, 12, 20]))
        self.disk = Disk(self.world, lossy=not self._planted.synced, fenced=self._planted.fenced)
        self.story = self.world.story
        self.story.append(f"seed {seed}: {self.name}, {self.partitions} partitions, state {self.state}")
        self._limits = Limits(idle_timeout=rng.choice([5.0, 90.0, 900.0]))
        if not self._planted.timed_out:
            object.__setattr__(self._limits, "idle_timeout", None)
        self._timeout = rng.choice([10.0, 60.0, 600.0])
        self._started = 0
        self._daemons: list[Daemon] = []
        self._all: list[Daemon] = []
        self._attempts: list[Attempt] = []
        self._driver: Process = Process("driver", "spark")
        self._waiting: Task | None = None
        self._sink: dict[tuple[int, int], list[str]] = {}
        self._mood = {kind: rng.choice([0, 1, 1, 6]) for kind in _TROUBLES}  # each schedule has troubles of its own
        self._run = 0
        self._damaged = False
        self._wrong: list[str] = []
        self._finished = False

    def run(self) -> None:
        """Raises WrongError, with the story, if the rule is broken."""
        with ExitStack() as stack:
            stack.enter_context(self.world.installed(self.disk))
            for patch in self._planted.patches():
                stack.enter_context(patch)
            try:
                self._daemons = [self._daemon() for _ in range(self.world.rng.randint(1, self.partitions))]
                self.world.spawn(self._driver, self._drive)
                self.world.run(lambda: bool(self._wrong) or self._finished)
                self._check(self._finished, "the query stands, and nothing is under way")
                self._after()
            except WrongError as error:
                raise WrongError("\n".join([*self.story, str(error)])) from error
            finally:
                self.world.faults = 0
                self._end()

    def _daemon(self) -> Daemon:
        daemon = Daemon(self.world, self._started, self.state, self._limits)
        self._started += 1
        self._all.append(daemon)
        return daemon

    def _check(self, holds: bool, message: str) -> None:
        if self._wrong or not holds:
            raise WrongError((self._wrong or [message])[0])

    def _after(self) -> None:
        """Nobody holds anything, and a new daemon goes on from the state."""
        self.world.faults = 0
        self.world.run(lambda: bool(self._wrong))
        self._check(not self._wrong, "")
        for daemon in self._all:
            if not daemon.alive:
                continue
            self._check(not daemon.tasks, f"{daemon.name} holds {len(daemon.tasks)} connections that no client has")
            for query in daemon.service.status()["queries"].values():
                held = query["staged_bytes"], query["open_requests"]
                self._check(held == (0, 0), f"{daemon.name} holds {held} bytes and requests that no client has")
        if self._damaged or self.state is None:
            return
        whole = {number: [self._sink.get((number, at)) for at in range(self.partitions)] for number in self.case.due}
        self._check(whole == self.case.due, "the sink has not what is due")
        self._stop_all()
        self._daemons = [self._daemon()]
        number = max(self.case.batches)
        last = [self._start(number, at, 0) for at in range(self.partitions)]
        self.world.run()
        for attempt in last:
            self._check(attempt.result is not None, f"the last batch cannot be had from the state: {attempt.error!r}")
        self._check(not self._wrong, "")

    def _stop_all(self) -> None:
        for daemon in self._all:
            self.world.kill(daemon)

    def _end(self) -> None:
        for process in [self._driver, *(attempt.process for attempt in self._attempts), *self._all]:
            self.world.kill(process)

    def _happens(self, trouble: str) -> bool:
        return self.world.chance(_TROUBLES[trouble] * self._mood[trouble])

    # The driver

    def _drive(self) -> None:
        numbers = list(self.case.batches)
        at = 0
        while at < len(numbers):
            try:
                self._batch(numbers[at])
            except QueryFailedError as error:
                self.story.append(f"{self.world.now:.3f} the query fails: {error}")
                if self._stuck(error):
                    break
                self._restart_query()
                continue
            if self._happens("replay"):
                self.story.append(f"{self.world.now:.3f} the driver dies before it commits batch {numbers[at]}")
                self._restart_query()
                continue
            for partition in range(self.partitions):  # a sink takes a batch once
                result = self._results[partition]
                self._sink.setdefault((numbers[at], partition), result)
            if self._happens("commit twice"):
                self.story.append(f"{self.world.now:.3f} the driver dies after the sink has batch {numbers[at]}")
                self._restart_query()
                continue
            at += 1
        self._finished = True

    def _stuck(self, error: QueryFailedError) -> bool:
        """Whether the query cannot go on: its state was damaged, or it has none and its daemon is gone."""
        cause = error.__cause__
        if isinstance(cause, StateLostError) and self.state is None and self._started > len(self._daemons):
            return True
        if self._damaged and isinstance(cause, StateError | StateLostError):
            return True
        if isinstance(cause, StateLostError | ReplayError) or self._run > RUNS:
            self._wrong.append(f"the query cannot go on: {cause!r}")
            return True
        return False

    def _restart_query(self) -> None:
        """Another run of the query: attempts of the one before may live on for a while."""
        self._run += 1
        for attempt in self._attempts:
            if not attempt.done and self.world.rng.random() < 0.7:
                self.world.kill(attempt.process)

    def _batch(self, number: int) -> None:
        """The tasks of a batch, each until one of its attempts has a result."""
        failures = [0] * self.partitions
        self._results: dict[int, list[str]] = {}
        running = [self._start(number, at, 0) for at in range(self.partitions)]
        again = self._happens("ask again")
        while len(self._results) < self.partitions or again:
            if len(self._results) == self.partitions and not running:
                self.story.append(f"{self.world.now:.3f} a second action asks for batch {number}")
                again, failures = False, [0] * self.partitions
                self._results = {}
                running = [self._start(number, at, 0) for at in range(self.partitions)]
            self._trouble(running)
            if not any(attempt.done for attempt in running):
                self._waiting = self.world.task
                self.world.wait(self.world.now + 5)
                self._waiting = None
            for attempt in [each for each in running if each.done]:
                running.remove(attempt)
                partition = attempt.partition
                if attempt.result is not None:
                    self._results.setdefault(partition, attempt.result)
                elif attempt.partial:
                    running.append(self._start(number, partition, attempt.attempt + 1))
                elif partition not in self._results:
                    failures[partition] += 1
                    self._mend(attempt)
                    if failures[partition] >= FAILURES or isinstance(attempt.error, StateLostError | ReplayError):
                        raise QueryFailedError(f"{type(attempt.error).__name__}: {attempt.error}") from attempt.error
                    running.append(self._start(number, partition, attempt.attempt + 1))

    def _trouble(self, running: list[Attempt]) -> None:
        """What a driver or a machine does to tasks and daemons that are well."""
        world = self.world
        if not running:
            return
        attempt = world.rng.choice(running)
        if self._happens("kill"):
            self.story.append(f"{world.now:.3f} a task is killed")
            attempt.error, attempt.done = ConnectionLostError("killed"), True
            world.kill(attempt.process)
        if self._happens("speculate"):
            self.story.append(f"{world.now:.3f} a second attempt runs")
            running.append(self._start(attempt.number, attempt.partition, attempt.attempt + 1))
        if self._happens("give up"):
            at = world.rng.randrange(len(self._daemons))
            self.story.append(f"{world.now:.3f} {self._daemons[at].name} is given up, and lives on")
            self._daemons[at] = self._daemon()
        if self._happens("crash"):
            self.story.append(f"{world.now:.3f} the machine goes down")
            self._stop_all()
            self.disk.crash()
        if world.faults == 1 and self._happens("damage"):
            folder = f"{self.state}/query%2Fjoin{self._suffix(world.rng.randrange(self.partitions))}"
            if (what := self.disk.damage(folder)) is not None:
                self.story.append(f"{world.now:.3f} {what}")
                self._damaged = True
                self._stop_all()

    def _mend(self, attempt: Attempt) -> None:
        """Starts daemons in the place of those that are gone, or seem to be."""
        silent = isinstance(attempt.error, ConnectionLostError)
        for at, daemon in enumerate(self._daemons):
            if not daemon.alive or (silent and at == attempt.partition % len(self._daemons)):
                if daemon.alive and self.world.rng.random() < 0.5:
                    continue  # it may answer the next attempt
                self._daemons[at] = self._daemon()
                self.story.append(f"{self.world.now:.3f} {self._daemons[at].name} in the place of {daemon.name}")

    # Tasks

    def _suffix(self, partition: int) -> str:
        return f"%2F{partition}-of-{self.partitions}" if self.partitions > 1 else ""

    def _start(self, number: int, partition: int, attempt: int) -> Attempt:
        process = Process(f"task {number}.{partition}.{attempt}", "spark")
        made = Attempt(number, partition, attempt, process)
        self._attempts.append(made)
        self.world.spawn(process, partial(self._task, made))
        return made

    def _task(self, attempt: Attempt) -> None:
        what = f"{attempt.process.name} of run {self._run}"
        try:
            self._ask(attempt)
        except Killed:
            attempt.error = attempt.error or ConnectionLostError("its process has died")
            raise
        except MullionError as error:
            attempt.error = error
            self.story.append(f"{self.world.now:.3f} {what}: {type(error).__name__}: {error}")
            if not isinstance(error, _TOLD):
                self._wrong.append(f"{what} failed with {type(error).__name__}: {error}")
        except Exception as error:
            attempt.error = error
            self._wrong.append(f"{what} failed with {type(error).__name__}: {error}")
        else:
            due = self.case.due[attempt.number][attempt.partition]
            if attempt.result is not None and attempt.result != due:
                self._wrong.append(f"{what} has {attempt.result} where {due} is due")
        finally:
            attempt.done = True
            if self._waiting is not None:
                self.world.wake(self._waiting)

    def _ask(self, attempt: Attempt) -> None:
        """What a task does: as `JoinTask.run`, without Spark."""
        rng, definition, run = self.world.rng, self.case.definition, self._run
        names = [QUERY]
        if self.partitions > 1:
            names = [f"{QUERY}/{at}-of-{self.partitions}" for at in range(self.partitions)]
        at = attempt.partition
        sides = zip(("left", "right"), self._rows(attempt), strict=True)
        rows = [
            (side, batch) for side, table in sides for batch in table.to_batches(max_chunksize=rng.choice([3, 100]))
        ]
        with ExitStack() as clients:

            def client_of(partition: int) -> DaemonClient:
                address = self._daemons[partition % len(self._daemons)].address
                return clients.enter_context(DaemonClient(address, timeout=self._timeout))

            def open_part(client: DaemonClient, name: str) -> None:
                client.open_query(name, definition.spec, definition.left_schema, definition.right_schema)

            client = client_of(at)
            marks = []
            if definition.spec.watermark is not None and self.partitions > 1:
                marks = marks_of([(client_of(of), name) for of, name in enumerate(names) if of != at], open_part)
            open_part(client, names[at])
            sender = {"run": f"run {run}", "instance": f"instance {run}"}
            with self._watched():
                found = client.process(names[at], attempt.number, self._slowly(rows), **sender, marks=marks)
                if self._happens("part"):
                    attempt.partial = True
                    next(found, None)
                    return
                attempt.result = content(*(pa.Table.from_batches([batch]) for batch in found))

    def _slowly(self, rows: list[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Rows as Spark makes them: it may take a while, or die meanwhile."""
        for row in rows:
            if self.world.strike():
                if self.world.rng.random() < 0.5:
                    self.world.die("while it sends rows")
                self.world.wait(self.world.now + self.world.rng.expovariate(1 / 100))
            yield row

    def _rows(self, attempt: Attempt) -> list[pa.Table]:
        """In another order each time, where that changes nothing."""
        tables = self.case.batches[attempt.number][attempt.partition]
        if self.case.definition.spec.within is None:
            return tables
        way = self.world.rng.randrange(3)
        key = attempt.number, attempt.partition, way
        if key not in self.case.orders:
            orders = [random.Random(way).sample(range(len(table)), len(table)) for table in tables]
            self.case.orders[key] = [
                table.take(pa.array(order, pa.int64())) for table, order in zip(tables, orders, strict=True)
            ]
        return self.case.orders[key]

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """May send what a task has sent a second time, later, whole or in part."""
        process = self.world.task.process
        if not self._happens("echo"):
            yield
            return
        sockets = list(process.sockets)
        try:
            yield
        finally:
            for sock in {**dict.fromkeys(sockets), **process.sockets}:
                self._send_again(bytes(sock.sent), sock.path)

    def _send_again(self, data: bytes, path: str) -> None:
        rng = self.world.rng
        data = data if rng.random() < 0.5 else data[: rng.randint(0, len(data))]
        process = Process(f"echo {len(self._attempts)}", "spark")
        self._attempts.append(Attempt(-1, 0, 0, process))

        def send() -> None:
            self.story.append(f"{self.world.now:.3f} {len(data)} bytes come again")
            sock = Socket()
            try:
                sock.connect(path)
                sock.sendall(data)
                while sock.recv(4096):
                    pass
            except OSError:
                return

        self.world.at(self.world.now + rng.expovariate(1 / 5), lambda: self.world.spawn(process, send))


def explain(seed: int) -> str:
    """The story of a seed."""
    schedule = Schedule(seed)
    try:
        schedule.run()
    except WrongError as error:
        return str(error)
    return "\n".join(schedule.story)


def run_seeds(seeds: range) -> tuple[int, list[str]]:
    """How many schedules were run, and the stories of those that break the rule."""
    stories = []
    for seed in seeds:
        try:
            Schedule(seed).run()
        except WrongError as error:
            stories.append(str(error))
        except Exception as error:
            stories.append(f"seed {seed} ends with {type(error).__name__}: {error}")
    return len(seeds), stories


def quiet() -> None:
    """For a process of simulations alone: no log, and rare searches for garbage."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    gc.set_threshold(20_000, 20, 20)
