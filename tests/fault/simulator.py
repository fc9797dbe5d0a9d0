"""Spark, daemons, their network and their storage as one deterministic program: a seed makes a schedule of faults.

It runs the modules that a daemon runs for clients on its host, from `Connection` down to the stores of its state, the
client's, and `JoinTask`, which is what runs in Spark's tasks, on a `World`: its clock, network and disks. Flight's
server is not in it: it calls the same `Service`. What it injects:

- a daemon that dies before, in the middle of or after any operation on its storage, or before or after any message;
- a machine that goes down: what was not synced is gone or torn, and files whose deletion was not synced are back;
- writes that fail, and requests to an object store that fail, are done without an answer, or are repeated;
- messages that are late, connections that break in the middle of one, machines that are cut off from each other, and
  requests that come a second time, whole or in part, after later ones;
- daemons that are restarted between batches;
- daemons that are taken for dead and are not: two believe that they own a partition, which goes to and fro;
- a driver that retries tasks as attempt + 1, runs two attempts at once, kills some, asks for a batch twice, also at
  once, reads part of a result alone, and dies before or after it has committed a batch, and then replays it; rows in
  another order and in other tasks;
- executors that are lost, with what their tasks of the first stage gave, and with their daemons;
- files that are flipped, cut or lost.

In a part of the schedules the routes of partitions that follow the data change as fast as they can.

The rule: every whole result of a batch that anyone is given is the nested loop's, of partitions that follow the data
all together, and each of them always has the same; errors are of the kinds that a caller
is told of; tasks that send the same rows say the same; a sink that takes a batch once has every row once; once no more
faults come the query comes to its end, and no daemon holds rows or a connection of anyone.
"""

from __future__ import annotations

import dataclasses
import gc
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache, partial
from typing import Any
from unittest import mock

import pyarrow as pa
import structlog

import muntin.pyspark_bridge.executor_daemon
import muntin.pyspark_bridge.join_task
from muntin import JoinSpec
from muntin.host.daemon import DaemonClient, Limits
from muntin.host.daemon.connection import Connection
from muntin.host.daemon.service import Service
from muntin.host.daemon.streaming_query import StreamingQuery
from muntin.host.daemon.windows import query_place
from muntin.host.devices import open_device
from muntin.host.engine.routes import RoutePlanner
from muntin.host.errors import (
    ConnectionLostError,
    LimitError,
    MuntinError,
    ReplayError,
    StateError,
    StateLostError,
    UnknownQueryError,
)
from muntin.pyspark_bridge.join_task import JoinTask
from tests.fault.cases import DATA_SETS, JOINS, PLACED, SPLITS, case, content, split_tasks
from tests.fault.planted import Planted
from tests.fault.world import Disk, Killed, Process, Socket, Thread, World, WrongError
from tests.random_routes import at_random

QUERY = "query"
FAILURES = 4  # of one task, before its query fails
RUNS = 40  # of the query, before it counts as stuck
EXECUTORS = 2


class Daemon(Process):
    """A process with a service, which takes connections at an address, in the place of the one that did so before."""

    def __init__(self, world: World, name: str, host: str, path: str, state: str | None, limits: Limits):
        super().__init__(name, host)
        self.address = f"unix:{path}"
        self.service = Service(open_device("cpu"), limits, state)
        world.listeners[path] = self, self._serve

    def _serve(self, sock: Socket) -> None:
        Connection(sock, self.service).run()  # type: ignore[arg-type]


@dataclasses.dataclass(eq=False)
class Executor:
    """A machine that runs tasks, and perhaps a daemon that they have started."""

    host: str
    daemon: Daemon | None = None
    lost: bool = False


class Attempt(Process):
    """A task of Spark's, once: what it is, what came of it, and what Spark's `TaskContext` tells it."""

    def __init__(self, kind: str, run: int, number: int, part: int, attempt: int, executor: Executor):
        super().__init__(f"{kind} {number}.{part}.{attempt} of run {run}", executor.host)
        self.kind, self.run, self.number, self.part, self.attempt = kind, run, number, part, attempt
        self.executor = executor
        self.split = 0
        self.take = False  # it is asked for a row alone
        self.result: Any = None
        self.partial = False
        self.error: BaseException | None = None
        self.done = False

    def partitionId(self) -> int:
        """As of `TaskContext`."""
        return self.part

    def getLocalProperty(self, name: str) -> str | None:
        """As of `TaskContext`."""
        assert self.kind != "fetch", "a thread's tasks have no properties"
        known = {
            "sql.streaming.queryId": QUERY,
            "streaming.sql.batchId": str(self.number),
            "spark.jobGroup.id": str(self.run),
        }
        return known.get(name)


#: What happens to tasks, daemons and machines that are well, and how often where it does.
_TROUBLES = {
    "replay": 0.1,
    "commit twice": 0.1,
    "ask again": 0.1,
    "both": 0.1,
    "take": 0.05,
    "kill": 0.05,
    "speculate": 0.1,
    "give up": 0.05,
    "slow": 0.1,
    "restart": 0.1,
    "lose": 0.05,
    "crash": 0.03,
    "damage": 0.1,
    "part": 0.05,
    "echo": 0.15,
}

#: What a task may be told where something has failed.
_TOLD = (ConnectionLostError, StateError, StateLostError, ReplayError, LimitError, UnknownQueryError)


#: Of the few joins that schedules have it need not be computed each time.
_output_schema = cache(JoinSpec.output_schema)


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
    changing : bool
        Routes change as fast as they can.
    """

    def __init__(self, seed: int, planted: Planted | None = None):
        self._planted = planted or Planted()
        rng = random.Random(seed)
        self.name = rng.choice(sorted(JOINS))
        self.stages = 1 if self.name == "count as sent" else rng.choice([1, 2, 2])
        self.partitions = 1
        if self.stages == 2:
            self.partitions = rng.choice([1, 2, 2, 3])
        placed = None
        if self.partitions > 1 and self.name in ("count band", "time band", "count full"):
            ways = [way for way in PLACED if self.name == "time band" or way.by == "ranges" or way.width is None]
            placed = dataclasses.replace(rng.choice(ways), count=self.partitions)
        self.state = rng.choice(["disk", "disk", "s3://objects", None])
        self.claims = self.stages == 2 and self.state is not None and rng.random() < 0.3  # daemons on executors
        data = rng.randrange(DATA_SETS)
        self.case = case(self.name, self.partitions, data, placed)
        self.changing = self.case.follows and rng.random() < 0.7
        if self.changing and rng.random() < 0.5:
            self.case = case(self.name, self.partitions, data, placed, many=True)
        self.partitions = self.case.task.windows
        self._faults = rng.choice([0, 3, 6, 12, 20])
        self.world = World(rng, self._faults)
        self.disk = Disk(self.world, lossy=not self._planted.synced, fenced=self._planted.fenced)
        self.story = self.world.story
        by = f" by {placed.by}" if placed is not None else ""
        where = f"state {self.state}{', daemons on executors' if self.claims else ''}"
        change = ", routes change" if self.changing else ""
        what = f"{self.name}, {self.stages} stages, {self.partitions} partitions{by}{change}"
        self.story.append(f"seed {seed}: {what}, {where}")
        self._limits = Limits(idle_timeout=rng.choice([5.0, 90.0, 900.0]))
        if not self._planted.timed_out:
            object.__setattr__(self._limits, "idle_timeout", None)
        self._timeout = rng.choice([10.0, 60.0, 600.0])
        self._mood = {kind: rng.choice([0, 1, 1, 6]) for kind in _TROUBLES}  # each schedule has troubles of its own
        self._daemons: list[Daemon] = []  # those that the query names
        self._first = 0  # how many daemons there were at first
        self._all: list[Daemon] = []
        self._executors = [Executor(f"executor {at}") for at in range(EXECUTORS)]
        self._attempts: list[Process] = []
        self._driver = Process("driver", "spark")
        self._waiting: dict[Any, None] = {}  # tasks of the driver that wait for an attempt
        self._sink: dict[tuple[int, int], list[str]] = {}
        self._had: dict[tuple[int, int], list[str]] = {}  # by batch and partition, where these follow the data
        self._looked: set[int] = set()  # batches of which the sink has asked for a row alone
        self._said: dict[tuple[int, int, int], pa.RecordBatch] = {}
        self._split = 0
        self._run = 0
        self._damaged = self._finished = self._given_up = False
        self._wrong: list[str] = []

    def run(self) -> None:
        """Raises WrongError, with the story, if the rule is broken."""
        collects = gc.isenabled()
        gc.disable()  # a socket that it closes would be closed at another time in another process
        try:
            with ExitStack() as stack:
                self._install(stack)
                try:
                    if not self.claims:
                        self._daemons = [self._daemon(at) for at in range(self.world.rng.randint(1, self.partitions))]
                    self._first = len(self._daemons)
                    self.world.spawn(self._driver, self._drive)
                    self.world.run(lambda: bool(self._wrong) or self._finished)
                    self._check(self._finished, "the query stands, and nothing is under way")
                    self._after()
                except WrongError as error:
                    raise WrongError("\n".join([*self.story, str(error)])) from error
                finally:
                    self.world.faults = 0
                    self._end()
        finally:
            if collects:
                gc.enable()

    def _install(self, stack: ExitStack) -> None:
        def client(address: str, token: object = None, timeout: float | None = None, **_: object) -> DaemonClient:
            return DaemonClient(address, timeout=timeout or self._timeout)

        stack.enter_context(self.world.installed(self.disk))
        stack.enter_context(mock.patch.object(JoinSpec, "output_schema", _output_schema))
        stack.enter_context(mock.patch.object(muntin.pyspark_bridge.join_task, "DaemonClient", client))
        if self.claims:
            stack.enter_context(mock.patch.object(muntin.pyspark_bridge.executor_daemon, "DaemonClient", client))
            started = mock.patch.object(muntin.pyspark_bridge.executor_daemon, "executor_daemon", self._executor_daemon)
            stack.enter_context(started)
            reached = partial(self._reachable, muntin.pyspark_bridge.executor_daemon.reachable)
            stack.enter_context(mock.patch.object(muntin.pyspark_bridge.executor_daemon, "reachable", reached))
        if self.changing:
            stack.enter_context(mock.patch.object(RoutePlanner, "_wanted", at_random))
        for patch in self._planted.patches():
            stack.enter_context(patch)

    def _daemon(self, at: int | None = None, executor: Executor | None = None) -> Daemon:
        """Another daemon, at one of the addresses that the query names, or of an executor."""
        name = f"daemon {len(self._all)}"
        host, path = (executor.host, f"/{name}") if executor is not None else (f"host of {name}", f"/{at}")
        daemon = Daemon(self.world, name, host, path, None if self.claims else self.state, self._limits)
        self._all.append(daemon)
        return daemon

    def _executor_daemon(self, *_: object, **__: object) -> str:
        """As `executor_daemon`: that of the executor of the running task."""
        executor = self.world.task.process.executor  # type: ignore[attr-defined]
        if executor.daemon is None or not executor.daemon.alive:
            executor.daemon = self._daemon(executor=executor)
            self.story.append(f"{self.world.now:.3f} {executor.daemon.name} starts on {executor.host}")
        self.world.pause()
        return str(executor.daemon.address)

    def _reachable(self, reachable: Callable[..., bool], address: str, *given: object) -> bool:
        """As `reachable`: a daemon that is well may answer too late."""
        if self._happens("slow"):
            self.story.append(f"{self.world.now:.3f} the daemon at {address} is slow, and taken for dead")
            return False
        return reachable(address, *given)

    def _check(self, holds: bool, message: str) -> None:
        if self._wrong or not holds:
            raise WrongError((self._wrong or [message])[0])

    def _after(self) -> None:
        """Nobody holds anything, and a new daemon goes on from the state."""
        self.world.faults = 0
        self.world.run(lambda: bool(self._wrong))
        self._check(not self._wrong, "")
        for daemon in self._all:
            if daemon.alive:
                self._check_idle(daemon)
        if self._given_up:
            return
        for number, due in self.case.due.items():
            found = [self._sink.get((number, at)) for at in range(self.partitions)]
            if number in self._looked and found == [None] * self.partitions:
                continue
            if None in found or (not self.case.follows and found != due):
                self._check(False, f"the sink has {found} of batch {number}, and {due} is due")
        if self._damaged or self.state is None:
            return
        self._stop_all()
        self.world.heal()
        if not self.claims:
            self._daemons = [self._daemon(0)]

        def ask() -> None:
            try:
                self._act(self.case.numbers[-1], {})
            except QueryFailedError as error:
                self._wrong.append(f"the last batch cannot be had from the state: {error}")

        self._run += 1
        self.world.spawn(self._driver, ask)
        self.world.run()
        self._check(not self._wrong, "")

    def _check_idle(self, daemon: Daemon) -> None:
        """A daemon holds nothing of clients that are gone, but parts of a batch that may be asked for."""
        self._check(not daemon.tasks, f"{daemon.name} holds {len(daemon.tasks)} connections that no client has")
        for name, query in daemon.service._queries.items():
            assert isinstance(query, StreamingQuery)
            parts = [(batch, part) for batch, found in query._stage._batches.items() for part in found.values()]
            held = query._staged - sum(part.size for _, part in parts), len(query._open_requests)
            self._check(held == (0, 0), f"{daemon.name} holds {held} bytes and requests of {name} that no client has")
            newest = -1 if query._newest is None else query._newest.batch
            old = sorted({batch for batch, _ in parts if batch <= newest})
            self._check(not old, f"{daemon.name} holds rows of the batches {old} of {name}, and has joined {newest}")

    def _stop_all(self) -> None:
        for daemon in self._all:
            self.world.kill(daemon)

    def _end(self) -> None:
        for process in [self._driver, *self._attempts, *self._all]:
            self.world.kill(process)

    def _happens(self, trouble: str) -> bool:
        return self.world.chance(_TROUBLES[trouble] * self._mood[trouble])

    # The driver

    def _drive(self) -> None:
        numbers = self.case.numbers
        at = 0
        while at < len(numbers):
            try:
                results = self._batch(numbers[at])
            except QueryFailedError as error:
                self.story.append(f"{self.world.now:.3f} the query fails: {error}")
                if self._stuck(error):
                    self._given_up = True
                    break
                self._restart_query()
                continue
            if self._happens("replay"):
                self.story.append(f"{self.world.now:.3f} the driver dies before it commits batch {numbers[at]}")
                self._restart_query()
                continue
            for partition, result in results.items():  # a sink takes a batch once
                self._sink.setdefault((numbers[at], partition), result)
            if not results:
                self._looked.add(numbers[at])
            if self._happens("commit twice"):
                self.story.append(f"{self.world.now:.3f} the driver dies after the sink has batch {numbers[at]}")
                self._restart_query()
                continue
            if self.state is not None and self._happens("restart"):
                self._restart_daemon()
            at += 1
        self._finished = True

    def _stuck(self, error: QueryFailedError) -> bool:
        """Whether the query cannot go on: its state was damaged, or it has none and its daemon is gone."""
        cause = error.__cause__
        if isinstance(cause, StateLostError) and self.state is None and len(self._all) > self._first:
            return True
        if self._damaged and isinstance(cause, StateError | StateLostError):
            return True
        lost = isinstance(cause, StateLostError) and (self.stages == 1 or self.world.faults == self._faults)
        if lost or isinstance(cause, ReplayError) or self._run > RUNS:
            self._wrong.append(f"the query cannot go on: {cause!r}")
            return True
        return False

    def _restart_daemon(self) -> None:
        """Between two batches."""
        own = self._daemons or [executor.daemon for executor in self._executors]
        daemons = [daemon for daemon in own if daemon is not None and daemon.alive]
        if not daemons:
            return
        daemon = self.world.rng.choice(daemons)
        self.story.append(f"{self.world.now:.3f} {daemon.name} is restarted")
        self.world.kill(daemon)
        if not self.claims:
            at = self._daemons.index(daemon)
            self._daemons[at] = self._daemon(at)

    def _restart_query(self) -> None:
        """Another run of the query: attempts of the one before may live on for a while."""
        self._run += 1
        self._split = self.world.rng.randrange(SPLITS)
        for attempt in self._attempts:
            if isinstance(attempt, Attempt) and not attempt.done and self.world.rng.random() < 0.7:
                self._kill(attempt, "its query has ended")

    def _batch(self, number: int) -> dict[int, list[str]]:
        """What a sink gets of a batch, by partition: nothing where it looks at a row alone."""
        sent: dict[int, Attempt] = {}
        if self._happens("take"):
            self.story.append(f"{self.world.now:.3f} an action asks for a row of batch {number}")
            self._act(number, sent, take=True)
            if self.world.rng.random() < 0.5:
                return {}
        failed: list[QueryFailedError] = []

        def act() -> None:
            try:
                self._act(number, {})
            except QueryFailedError as error:
                failed.append(error)

        other = Thread(act) if self._happens("both") else None
        if other is not None:
            self.story.append(f"{self.world.now:.3f} two actions at once ask for batch {number}")
            other.start()
        try:
            results = self._act(number, sent)
        finally:
            if other is not None:
                other.join()
        if failed:
            raise failed[0]
        if self._happens("ask again"):
            self.story.append(f"{self.world.now:.3f} another action asks for batch {number}")
            results = self._act(number, sent if self.world.rng.random() < 0.7 else {})
        return results

    def _act(self, number: int, sent: dict[int, Attempt], *, take: bool = False) -> dict[int, list[str]]:
        """One action on a batch: its results by partition. `sent` are the tasks of an exchange, used or made."""

        def send(part: int, attempt: int) -> Attempt:
            return self._start("send", number, part, attempt, split=split)

        def fetch(part: int, attempt: int) -> Attempt:
            gone = [at for at, of in sent.items() if of.executor.lost]
            if gone:
                self.story.append(f"{self.world.now:.3f} what tasks {gone} have sent is lost, and sent again")
                sent.update(self._stage(send, gone))
            return self._start("fetch", number, part, attempt, sent=[of.result for of in sent.values()], take=take)

        if self.stages == 1:
            done = self._stage(lambda _, attempt: self._start("run", number, 0, attempt, take=take), [0])
        else:
            split = next(iter(sent.values())).split if sent else self._new_split()
            if not sent:
                sent.update(self._stage(send, range(split_tasks(split))))
            done = self._stage(fetch, [0] if take else range(self.partitions))
        return {part: attempt.result for part, attempt in done.items()}

    def _new_split(self) -> int:
        """How the rows lie in tasks: mostly as in the stage before."""
        return self._split if self.world.rng.random() < 0.8 else self.world.rng.randrange(SPLITS)

    def _stage(self, start: Callable[[int, int], Attempt], parts: Sequence[int]) -> dict[int, Attempt]:
        """Runs tasks, each until one of its attempts has a result."""
        failures = dict.fromkeys(parts, 0)
        done: dict[int, Attempt] = {}
        running = [start(part, 0) for part in parts]
        while len(done) < len(parts):
            self._trouble(running, start)
            if not any(attempt.done for attempt in running):
                self._waiting[self.world.task] = None
                self.world.wait(self.world.now + 5)
                self._waiting.pop(self.world.task, None)
            for attempt in [each for each in running if each.done]:
                running.remove(attempt)
                part = attempt.part
                if attempt.result is not None or (attempt.partial and attempt.take):
                    done.setdefault(part, attempt)
                elif attempt.partial:
                    running.append(start(part, attempt.attempt + 1))
                elif part not in done:
                    failures[part] += 1
                    self._mend(attempt)
                    lost = isinstance(attempt.error, StateLostError)
                    if lost and self.stages == 1 and "is open here" in str(attempt.error):
                        lost = False  # the daemon has changed since the task has opened the query there
                    if failures[part] >= FAILURES or lost or isinstance(attempt.error, ReplayError):
                        raise QueryFailedError(f"{type(attempt.error).__name__}: {attempt.error}") from attempt.error
                    running.append(start(part, attempt.attempt + 1))
        return done

    def _kill(self, attempt: Attempt, why: str) -> None:
        attempt.error, attempt.done = ConnectionLostError(why), True
        self.world.kill(attempt)

    def _trouble(self, running: list[Attempt], start: Callable[[int, int], Attempt]) -> None:
        """What a driver or a machine does to tasks and daemons that are well."""
        world = self.world
        if not running or not world.faults:
            return
        attempt = world.rng.choice(running)
        if self._happens("kill") and not attempt.done:
            self.story.append(f"{world.now:.3f} {attempt.name} is killed")
            self._kill(attempt, "killed")
        if self._happens("speculate"):
            self.story.append(f"{world.now:.3f} a second attempt runs beside {attempt.name}")
            running.append(start(attempt.part, attempt.attempt + 1))
        if self._happens("give up"):
            if self.claims:
                world.cut(*(executor.host for executor in self._executors[:2]), world.rng.expovariate(1 / 60))
            else:
                at = world.rng.randrange(len(self._daemons))
                self.story.append(f"{world.now:.3f} {self._daemons[at].name} is given up, and lives on")
                self._daemons[at] = self._daemon(at)
        if self._happens("lose"):
            self._lose(world.rng.randrange(EXECUTORS))
        if self._happens("crash"):
            self.story.append(f"{world.now:.3f} the machine goes down")
            self._stop_all()
            for other in running if self.claims else ():  # tasks that may be writing one
                if not other.done:
                    self._kill(other, "its machine went down")
            self.disk.crash()
        if world.faults == 1 and self._happens("damage"):
            name = world.rng.choice(self.case.task._names(f"{QUERY}/join"))
            if (what := self.disk.damage(query_place(str(self.state), name))) is not None:
                self.story.append(f"{world.now:.3f} {what}")
                self._damaged = True
                self._stop_all()

    def _lose(self, at: int) -> None:
        """An executor is gone, with its daemon and its tasks, and what these have given to the next stage."""
        lost = self._executors[at]
        self.story.append(f"{self.world.now:.3f} {lost.host} is lost")
        lost.lost = True
        self._executors[at] = Executor(f"{lost.host}'")
        if lost.daemon is not None:
            self.world.kill(lost.daemon)
        for attempt in self._attempts:
            if isinstance(attempt, Attempt) and attempt.executor is lost and not attempt.done:
                self._kill(attempt, "its executor is lost")

    def _mend(self, attempt: Attempt) -> None:
        """Starts daemons in the place of those that are gone, or seem to be."""
        silent = isinstance(attempt.error, ConnectionLostError)
        for at, daemon in enumerate(self._daemons):
            if not daemon.alive or (silent and self.world.rng.random() < 0.5 / len(self._daemons)):
                self._daemons[at] = self._daemon(at)
                self.story.append(f"{self.world.now:.3f} {self._daemons[at].name} in the place of {daemon.name}")

    # Tasks

    def _start(
        self,
        kind: str,
        number: int,
        part: int,
        attempt: int,
        *,
        split: int = 0,
        sent: Sequence[pa.RecordBatch] = (),
        take: bool = False,
    ) -> Attempt:
        rng = self.world.rng
        executor = rng.choice(self._executors)
        made = Attempt(kind, self._run, number, part, attempt, executor)
        made.split, made.take = split, take
        if kind == "fetch":
            batches = [batch.slice(part, 1) for batch in sent]  # the row for this target
            rng.shuffle(batches)
        else:
            batches = self.case.rows(number, split, part, rng.randrange(3))
        self._attempts.append(made)
        self.world.spawn(made, partial(self._task, made, batches))
        return made

    def _task(self, attempt: Attempt, batches: list[pa.RecordBatch]) -> None:
        try:
            found = getattr(self._join_task(attempt), attempt.kind)(self._slowly(batches))
            if attempt.take or (attempt.kind != "send" and self._happens("part")):
                attempt.partial = True
                next(found, None)
                found.close()
            else:
                self._compare(attempt, list(found))
        except Killed:
            attempt.error = attempt.error or ConnectionLostError("its process has died")
            raise
        except MuntinError as error:
            attempt.error = error
            self.story.append(f"{self.world.now:.3f} {attempt.name}: {type(error).__name__}: {error}")
            if not isinstance(error, _TOLD):
                self._wrong.append(f"{attempt.name} failed with {type(error).__name__}: {error}")
        except Exception as error:
            attempt.error = error
            self._wrong.append(f"{attempt.name} failed with {type(error).__name__}: {error}")
        finally:
            attempt.done = True
            attempt.partial = attempt.partial and attempt.error is None
            for task in self._waiting:
                self.world.wake(task)
            if attempt.clients and self._happens("echo"):
                for sock in attempt.clients:
                    self._send_again(bytes(sock.sent), sock.path)

    def _compare(self, attempt: Attempt, found: list[pa.RecordBatch]) -> None:
        """Takes what an attempt gave."""
        if attempt.kind == "send":
            (attempt.result,) = found
            said = self._said.setdefault((attempt.number, attempt.split, attempt.part), found[0])
            if not said.equals(found[0]):  # Spark ends a query with such a task
                self._wrong.append(f"{attempt.name} says {found[0].to_pylist()}, and {said.to_pylist()} before")
            return
        attempt.result = content(*(pa.Table.from_batches([batch]) for batch in found))
        if self.case.follows:
            self._compare_following(attempt)
            return
        due = self.case.due[attempt.number][attempt.part]
        if attempt.result != due:
            self._wrong.append(f"{attempt.name} has {attempt.result} where {due} is due")

    def _compare_following(self, attempt: Attempt) -> None:
        """A partition that follows the data has what it had before; and all that are known have no pair too many, and
        together none too few."""
        had = self._had.setdefault((attempt.number, attempt.part), attempt.result)
        if attempt.result != had:
            self._wrong.append(f"{attempt.name} has {attempt.result}, and it was {had} before")
        known = [self._had.get((attempt.number, at)) for at in range(self.partitions)]
        found = Counter(row for part in known for row in part or ())
        (whole,) = self.case.due[attempt.number]
        missing, more = Counter(whole) - found, found - Counter(whole)
        if more or (missing and None not in known):
            self._wrong.append(f"with {attempt.name}, pairs are missing: {list(missing)}, and too many: {list(more)}")

    def _join_task(self, attempt: Attempt) -> JoinTask:
        addresses = tuple(daemon.address for daemon in self._daemons)
        task = dataclasses.replace(self.case.task, instance=f"instance {attempt.run}", daemons=addresses)
        if self.claims:
            return dataclasses.replace(task, state=self.state, token="token", device="cpu")
        return task

    def _slowly(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows as Spark makes them: it may take a while, or die meanwhile."""
        for batch in batches:
            if self.world.strike():
                if self.world.rng.random() < 0.5:
                    self.world.die("while it reads rows")
                self.world.wait(self.world.now + self.world.rng.expovariate(1 / 100))
            yield batch

    def _send_again(self, data: bytes, path: str) -> None:
        """What a task has sent comes a second time, later, whole or in part."""
        rng = self.world.rng
        data = data if rng.random() < 0.5 else data[: rng.randint(0, len(data))]
        process = Process(f"echo {len(self._attempts)}", "spark")
        self._attempts.append(process)

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
    gc.freeze()
