"""Spark, daemons and their storage as one deterministic program: a seed makes a schedule of faults.

It runs the modules that the daemon runs, from `Service` down to `StateLog`, over a store in memory. What it injects:

- a daemon that dies before, in the middle of or after any operation on its storage, or while a reply is on its way;
- a machine that goes down: what was not synced is gone or torn, and files whose deletion was not synced are back;
- writes that fail, and replies of the storage that are lost, with and without its client's own repetition;
- tasks that are repeated, in two attempts, or sent again to a daemon that was given up and is still there;
- drivers that replay their last batch, and rows that come in another order;
- files that are flipped, cut or lost.

The rule: every result of a batch that anyone is given is that of an uninterrupted run; errors are of the kinds that a
caller is told of; and once no more faults come the query comes to its end.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any
from unittest import mock
from urllib.parse import quote

import numpy as np
import pyarrow as pa

import host.window_join as window_join_module
from host import AllOf, Band, Compare, JoinSpec, Rows, Watermark, WindowJoin, Within
from host.daemon.client import marks_of
from host.daemon.definition import Definition
from host.daemon.request import Sender
from host.daemon.service import Service
from host.devices.numpy_device import NumpyDevice
from host.errors import MullionError, ReplayError, StateError, StateLostError, StateTakenError
from host.state import Store
from host.windows.watermark_tracker import Mark

QUERY = "query/join"
TRIES = 40  # of one task, before the query counts as stuck
_EQUAL = AllOf(Compare("k", "=", "k"), Band("a", "a", -30, 30))
_TIME = {"within": Within("t", "t", -40, 30), "watermark": Watermark(left=20, right=30, lag=1)}
JOINS: dict[str, dict[str, Any]] = {
    "count": {"on": Band("a", "a", -9, 9), "left": Rows(30), "right": Rows(20)},
    "count full": {"on": Band("a", "a", -9, 9), "left": Rows(30), "right": Rows(20), "how": "full"},
    "semi": {"on": _EQUAL, "left": Rows(30), "right": Rows(40), "how": "left_semi"},
    "time": {"on": _EQUAL, **_TIME},
    "time full": {"on": _EQUAL, **_TIME, "how": "full"},
    "time anti": {"on": _EQUAL, **_TIME, "how": "left_anti"},
}


class Died(BaseException):
    """A daemon's process has ended."""


class WrongError(Exception):
    """The rule is broken."""


@dataclasses.dataclass(frozen=True)
class Planted:
    """Faults put into the program itself, which schedules must find.

    Attributes
    ----------
    synced : bool
        A file is durable when it was written.
    checked : bool
        Files are compared with their checksums.
    repeats : bool
        The daemon knows a batch that it has applied.
    """

    synced: bool = True
    checked: bool = True
    repeats: bool = True


class SimulatedStore(Store):
    """Storage of one query, shared by all daemons.

    Attributes
    ----------
    blobs : dict of str to bytes
        What is there.
    fault : str or None
        Of the operation after `after` more: "before", "torn", "after" (the process dies), "full", "lost", "repeated".
    """

    place = "memory"

    def __init__(self, planted: Planted, rng: random.Random):
        self.blobs: dict[str, bytes] = {}
        self.fault: str | None = None
        self.after = 0
        self._planted = planted
        self._rng = rng
        self._deleted: list[tuple[str, bytes]] = []  # since the folder was synced
        self._unsynced: list[str] = []

    def _due(self) -> str | None:
        if self.fault is None:
            return None
        self.after -= 1
        if self.after >= 0:
            return None
        fault, self.fault = self.fault, None
        return fault

    def create(self, name: str, pieces: Sequence[bytes | pa.Buffer]) -> None:
        fault = self._due()
        if fault in ("before", "torn"):  # a torn file has no name yet
            raise Died
        if fault == "full":
            raise StateError(f"cannot write the state's file {self.path(name)}: no space left on device")
        if name in self.blobs:
            raise StateTakenError(f"the state's file {self.path(name)} is there already")
        self.blobs[name] = b"".join(pieces)
        if self._planted.synced:
            self._deleted.clear()
        else:
            self._unsynced.append(name)
        if fault == "after":
            raise Died
        if fault == "lost":
            raise StateError(f"cannot write the state's file {self.path(name)}: timed out")
        if fault == "repeated":
            raise StateTakenError(f"the state's file {self.path(name)} is there already")

    def read(self, name: str) -> bytes:
        if name not in self.blobs:
            raise StateError(f"cannot read the state's file {self.path(name)}: it is not there")
        return self.blobs[name]

    def names(self) -> list[str]:
        return sorted(self.blobs)

    def delete(self, name: str) -> None:
        fault = self._due()
        if fault == "before":
            raise Died
        if name in self.blobs:
            self._deleted.append((name, self.blobs.pop(name)))
        if fault == "after":
            raise Died

    def machine_goes_down(self) -> None:
        """The newest deletions are undone, as a journal loses its end; what was not synced is torn."""
        for name, blob in self._deleted[self._rng.randint(0, len(self._deleted)) :]:
            self.blobs.setdefault(name, blob)
        for name in self._unsynced[-2:]:
            self.blobs[name] = self.blobs.get(name, b"")[: self._rng.randint(0, 40)]
        self._deleted.clear()
        self._unsynced.clear()

    def damage(self) -> None:
        """One file is flipped, cut or gone, but not the oldest commit: its call may have left."""
        names = self.names()[:]
        commits = [name for name in names if name.endswith(".commit")]
        names = [name for name in names if not commits or name != commits[0]]
        if not names:
            return
        name = self._rng.choice(names)
        data, at = self.blobs[name], self._rng.randrange(len(self.blobs[name]) or 1)
        kind = self._rng.choice(["flipped", "cut", "gone"])
        if kind == "gone":
            del self.blobs[name]
        else:
            self.blobs[name] = data[:at] + (bytes([data[at] ^ 1]) + data[at + 1 :] if kind == "flipped" else b"")


def make_rows(rng: np.random.Generator, call: int) -> pa.Table:
    """Rows of one side of a batch."""
    count = int(rng.integers(0, 25))
    return pa.table(
        {
            "k": pa.array(rng.integers(0, 4, count), pa.int64(), mask=rng.random(count) < 0.1),
            "a": pa.array(rng.integers(0, 99, count), pa.int32()),
            "t": call * 15 + rng.integers(-40, 40, count),
            "s": pa.array([f"row {value}" for value in rng.integers(0, 9, count)], pa.string()),
        }
    )


def content(*tables: pa.Table) -> list[str]:
    """Rows in any order."""
    return sorted(str(row) for table in tables for row in table.to_pylist())


class Daemon:
    """A service that may die."""

    def __init__(self, store: SimulatedStore):
        self.service = Service(NumpyDevice(), state="sim")
        self.store = store

    def mark(self, query: str) -> Mark | None:
        """As `DaemonClient.mark`."""
        return self.service.mark(query)


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
        self._rng = random.Random(seed)
        self.name = self._rng.choice(sorted(JOINS))
        self.partitions = self._rng.choice([1, 1, 2, 3]) if self.name.startswith("time") else 1
        self.story = [f"seed {seed}: {self.name}, {self.partitions} partitions"]
        rng = np.random.default_rng(seed)
        numbers = np.cumsum(rng.integers(1, 3, self._rng.randint(3, 7))) - 1  # with gaps; the first may be above 0
        numbers -= numbers[0]
        self.batches = {int(number): [make_rows(rng, int(number)) for _ in range(2)] for number in numbers}
        self._spec = JoinSpec(**JOINS[self.name])
        schema = make_rows(rng, 0).schema
        self._definition = Definition(self._spec, schema, schema, streaming=True)
        self._stores: dict[str, SimulatedStore] = {}
        self._daemons = [self._daemon() for _ in range(self.partitions)]
        self._given_up: list[Daemon] = []
        self._run = 0
        self._faults = self._rng.randint(0, 8)
        self._damaged = False

    def _daemon(self) -> Daemon:
        return Daemon(SimulatedStore(self._planted, self._rng))

    def _store(self, place: str) -> SimulatedStore:
        return self._stores.setdefault(str(place), SimulatedStore(self._planted, self._rng))

    def run(self) -> None:
        """Raises WrongError, with the story, if the rule is broken."""
        whole = WindowJoin.from_spec(
            self._spec, device="numpy", left_schema=self._definition.left_schema,
            right_schema=self._definition.right_schema,
        )  # fmt: skip
        self._due = {number: [content(whole.process(*tables, batch=number))] for number, tables in self.batches.items()}
        if self.partitions > 1:
            self._due = {number: self._parts_due(number) for number in self.batches}
        names = random.Random(self.seed)
        patches = [
            mock.patch.object(window_join_module, "open_store", self._store),
            mock.patch(
                "host.state.log.secrets.token_hex", side_effect=lambda n: f"{names.getrandbits(8 * n):0{2 * n}x}"
            ),
        ]
        if not self._planted.checked:
            patches.append(mock.patch("host.state.log._digest", return_value="0"))
        if not self._planted.repeats:
            patches.append(mock.patch("host.daemon.streaming_query.StreamingQuery._kept", return_value=None))
            patches.append(mock.patch.object(WindowJoin, "last_batch", property(lambda _: -1)))
        for patch in patches:
            patch.start()
        try:
            self._drive(whole)
        except WrongError as error:
            raise WrongError("\n".join([*self.story, str(error)])) from error
        finally:
            for patch in patches:
                patch.stop()

    def _parts_due(self, number: int) -> list[list[str]]:
        """Of each partition: an uninterrupted run of them all, whose union a test compares with one window."""
        if not hasattr(self, "_joins"):
            self._joins = [
                WindowJoin.from_spec(
                    self._spec, device="numpy", left_schema=self._definition.left_schema,
                    right_schema=self._definition.right_schema,
                )
                for _ in range(self.partitions)
            ]  # fmt: skip
        found = []
        for at, join in enumerate(self._joins):
            marks = [mark for other in self._joins if other is not join and (mark := other.mark) is not None]
            found.append(join.process(*self._rows(number, at), batch=number, marks=marks))
        if content(*found) != self._due[number][0]:
            raise WrongError(f"batch {number} of {self.partitions} partitions is not that of one window")
        return [content(table) for table in found]

    def _rows(self, number: int, partition: int, *, shuffled: bool = False) -> list[pa.Table]:
        tables = self.batches[number]
        if self.partitions > 1:
            tables = [
                table.filter(pa.array(table["k"].fill_null(0).to_numpy() % self.partitions == partition))
                for table in tables
            ]
        if shuffled and self._spec.within is not None:
            tables = [
                table.take(pa.array(self._rng.sample(range(len(table)), len(table)), pa.int64())) for table in tables
            ]
        return tables

    # The driver

    def _drive(self, whole: WindowJoin) -> None:
        numbers = list(self.batches)
        at = 0
        while at < len(numbers):
            waiting = list(range(self.partitions))
            self._rng.shuffle(waiting)
            for partition in waiting:
                self._task(numbers[at], partition)
                if self._damaged:
                    return
            if self._chance(0.15):  # the driver went down before it wrote that the batch is done
                self._run += 1
                self.story.append(f"the driver restarts and replays batch {numbers[at]}")
                continue
            at += 1
        del whole

    def _task(self, number: int, partition: int) -> None:
        """One task until one of its attempts has a result."""
        for attempt in range(TRIES):
            self._strike(partition)
            try:
                self._attempt(self._daemons[partition], number, partition, f"attempt {attempt}")
            except Died:
                self.story.append(f"batch {number}/{partition}: the daemon dies")
                self._restart(partition, machine=self._rng.random() < 0.3)
            except MullionError as error:
                self.story.append(f"batch {number}/{partition}: {type(error).__name__}: {error}")
                if not isinstance(error, StateError):
                    raise WrongError(f"batch {number} failed with {type(error).__name__}: {error}") from error
                if self._damaged:
                    return
                self._restart(partition, machine=False)
            else:
                if self._chance(0.1):
                    self.story.append(f"batch {number}/{partition}: the reply is lost")
                    continue
                if self._chance(0.15):
                    self._attempt_of_old(number, partition)
                return
        raise WrongError(f"batch {number} of partition {partition} has no result after {TRIES} tries")

    def _attempt(self, daemon: Daemon, number: int, partition: int, what: str) -> None:
        """Sends a partition's rows of a batch, and compares the result."""
        names = [f"{QUERY}/{at}" for at in range(self.partitions)]

        def open_part(client: Daemon, name: str) -> None:
            client.service.open_query(name, self._definition)

        marks = []
        if self.partitions > 1:
            others = [(self._daemons[at], names[at]) for at in range(self.partitions) if at != partition]
            marks = marks_of(others, open_part)
        open_part(daemon, names[partition])
        sender = Sender(f"run {self._run}", f"instance {self._run}")
        with daemon.service.begin(names[partition], number, sender, marks) as request:
            left, right = self._rows(number, partition, shuffled=True)
            if request.kept is not None:
                result = request.kept
            else:
                for side, table in (("left", left), ("right", right)):
                    for batch in table.to_batches(max_chunksize=7):
                        request.reserve(batch.nbytes)
                        request.add(side, batch)
                if self._chance(0.05):
                    self.story.append(f"batch {number}/{partition}, {what}: the task dies")
                    raise Died
                result = request.commit(len(left), len(right))
        if content(result) != self._due[number][partition]:
            raise WrongError(f"batch {number} of partition {partition}, {what}, has another result")

    def _attempt_of_old(self, number: int, partition: int) -> None:
        """A second attempt, which reaches whichever daemon was given up or is in charge."""
        daemon = self._rng.choice([*self._given_up, self._daemons[partition]])
        self.story.append(f"batch {number}/{partition}: a second attempt")
        try:
            self._attempt(daemon, number, partition, "second attempt")
        except Died:
            if daemon is self._daemons[partition]:
                self._restart(partition, machine=False)
            else:
                self._given_up.remove(daemon)
        except (StateError, StateLostError, ReplayError) as error:
            self.story.append(f"  {type(error).__name__}: {error}")
            if daemon is self._daemons[partition]:
                self._restart(partition, machine=False)

    # Faults

    def _chance(self, probability: float) -> bool:
        if not self._faults or self._rng.random() >= probability:
            return False
        self._faults -= 1
        return True

    def _strike(self, partition: int) -> None:
        """Arms a fault of the storage, or gives up a daemon that lives on."""
        store = self._stores.get(f"sim/{quote(f'{QUERY}/{partition}', safe='')}")
        if store is not None and self._chance(0.4):
            store.fault = self._rng.choice(["before", "torn", "after", "full", "lost", "repeated"])
            store.after = self._rng.randint(0, 6)
            self.story.append(f"partition {partition}: storage fault {store.fault!r} after {store.after} operations")
        elif store is not None and store.blobs and self._faults == 1 and self._chance(0.3):
            self._damaged = True
            store.damage()
            self.story.append(f"partition {partition}: a file is damaged")
            self._restart(partition, machine=False)
        elif self._chance(0.1):
            self.story.append(f"partition {partition}: its daemon is given up, and lives on")
            self._given_up.append(self._daemons[partition])
            self._daemons[partition] = self._daemon()

    def _restart(self, partition: int, *, machine: bool) -> None:
        self._daemons[partition] = self._daemon()
        if machine:
            self.story.append("the machine goes down")
            for store in self._stores.values():
                store.machine_goes_down()
