"""Processes, a network, disks and a clock as one deterministic program: what a daemon's modules run on in a simulation.

`World.installed` puts it where the modules of the daemon, of its client, of Spark's tasks and of the state have
`socket`, `select`, `time`, `threading`, `queue`, `secrets`, `os`, obstore, pyspark and pools of threads. Code runs as
*tasks*, which are greenlets: a task goes on until it waits for a byte, a lock, a time or a disk, and the world chooses
which goes on then. A process may die wherever one of its tasks waits.
"""

from __future__ import annotations

import errno
import heapq
import os
import queue
import random
import secrets
import select
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import greenlet

import muntin.host.daemon.connection
import muntin.host.daemon.frames
import muntin.host.daemon.query
import muntin.host.daemon.result
import muntin.host.daemon.service
import muntin.host.daemon.streaming_query
import muntin.host.daemon.unix_client
import muntin.host.join.calls
import muntin.host.join.collector
import muntin.host.join.journal
import muntin.host.join.pipeline
import muntin.host.state.log
import muntin.host.state.store
import muntin.pyspark_bridge.join_task

STEPS = 100_000  # of one world: more is one that goes on without end


class Killed(greenlet.GreenletExit):
    """The process of this task has ended."""


class WrongError(Exception):
    """The rule is broken."""


class Process:
    """What may die, with its tasks, sockets and handles.

    Attributes
    ----------
    host : str
        The machine that it runs on.
    sockets : dict of Socket to None
        Those that are open.
    clients : list of Socket
        All with which it has connected to another process.
    """

    def __init__(self, name: str, host: str):
        self.name = name
        self.host = host
        self.alive = True
        self.tasks: dict[Task, None] = {}
        self.sockets: dict[Socket, None] = {}
        self.clients: list[Socket] = []


class Task(greenlet.greenlet):
    """Code of a process."""

    process: Process
    waits = 0  # of which the last is under way, if it is asleep
    asleep = False

    def __hash__(self) -> int:
        return id(self)


class World:
    """Time, the tasks that can go on, the network and the faults to come.

    Parameters
    ----------
    rng : random.Random
        Decides everything.
    faults : int
        How many faults come.

    Attributes
    ----------
    now : float
        Seconds.
    faults : int
        How many are left.
    story : list of str
        What happened.
    on_kill : callable
        Told of each process that a fault ends.
    """

    current: World

    def __init__(self, rng: random.Random, faults: int):
        self.rng = rng
        self.now = 1000.0
        self.faults = faults
        self.story: list[str] = []
        self.listeners: dict[str, tuple[Process, Callable[[Socket], None]]] = {}
        self._ready: list[Task] = []
        self._timers: list[tuple[float, int, Callable[[], None] | None, Task | None, int]] = []
        self._cuts: dict[frozenset[str], float] = {}
        self.count = 0
        self._hub = greenlet.getcurrent()
        self._countdown = self._next_fault()

    # Tasks

    def spawn(self, process: Process, code: Callable[[], object]) -> Task:
        """Starts a task of a process."""

        def run() -> None:
            try:
                code()
            except Killed:
                pass
            finally:
                process.tasks.pop(task, None)

        task = Task(run, self._hub)
        task.process = process
        process.tasks[task] = None
        self._ready.append(task)
        return task

    @property
    def task(self) -> Task:
        """The one that runs; only tasks may wait."""
        return greenlet.getcurrent()  # type: ignore[return-value]

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Lets tasks go on until a condition holds, or nothing can happen any more."""
        steps = 0
        ready, timers, bits = self._ready, self._timers, self.rng.getrandbits
        while not until():
            steps += 1
            if steps > STEPS:
                raise WrongError("it goes on without end")
            if ready:
                at = count = len(ready)
                while at >= count:  # as `randrange`, which takes longer
                    at = bits(count.bit_length()) if count > 1 else 0
                task = ready[at]
                ready[at] = ready[-1]
                ready.pop()
                if not task.dead:
                    task.switch()
            elif timers:
                self.now, _, event, sleeper, ticket = heapq.heappop(timers)
                if event is not None:
                    event()
                elif sleeper is not None and sleeper.waits == ticket:
                    self.wake(sleeper)
            else:
                return

    def at(self, moment: float, event: Callable[[], None]) -> None:
        """Calls a function at a time."""
        self.count += 1
        heapq.heappush(self._timers, (max(moment, self.now), self.count, event, None, 0))

    def wait(self, until: float | None = None) -> None:
        """Has the running task wait to be woken, or until a time."""
        task = self.task
        self._check(task)
        task.waits += 1
        task.asleep = True
        if until is not None:
            self.count += 1
            heapq.heappush(self._timers, (max(until, self.now), self.count, None, task, task.waits))
        self._hub.switch()
        self._check(task)

    def wake(self, task: Task) -> None:
        """Lets a task go on that waits."""
        if task.asleep and not task.dead:
            task.asleep = False
            self._ready.append(task)

    def pause(self) -> None:
        """Lets other tasks go on before the running one, if the world wants so."""
        task = self.task
        self._check(task)
        if self._ready and self.rng.random() < 0.5:
            self._ready.append(task)
            self._hub.switch()
            self._check(task)

    @staticmethod
    def _check(task: Task) -> None:
        if not task.process.alive:
            raise Killed

    def kill(self, process: Process) -> None:
        """Ends a process; with `Killed` where one of its tasks calls this."""
        if not process.alive:
            return
        process.alive = False
        current = greenlet.getcurrent()
        for task in sorted(process.tasks, key=lambda each: each.waits):
            if task is not current and not task.dead:
                task.parent = current
                task.throw(Killed)
        for each in list(process.sockets):
            each.reset()
        if isinstance(current, Task) and current.process is process:
            raise Killed

    # Faults

    def _next_fault(self) -> int:
        return self.rng.randint(1, 60)

    def strike(self) -> bool:
        """Whether a fault is due, at a place where one may come."""
        if not self.faults:
            return False
        self._countdown -= 1
        if self._countdown:
            return False
        self.faults -= 1
        self._countdown = self._next_fault()
        return True

    def chance(self, probability: float) -> bool:
        """Whether something happens that counts as a fault."""
        if not self.faults or self.rng.random() >= probability:
            return False
        self.faults -= 1
        return True

    def die(self, what: str) -> None:
        """Ends the process of the running task."""
        process = self.task.process
        self.story.append(f"{self.now:.3f} {process.name} dies {what}")
        self.kill(process)

    # Network

    def cut(self, one: str, other: str, seconds: float) -> None:
        """Nothing passes between two machines for some time; what was sent comes after it."""
        self.story.append(f"{self.now:.3f} {one} and {other} are cut off for {seconds:.0f} s")
        self._cuts[frozenset((one, other))] = self.now + seconds

    def heal(self) -> None:
        """All machines reach each other again."""
        self._cuts.clear()

    def arrival(self, one: Process, other: Process) -> float:
        """When what is sent now arrives."""
        delay = self.rng.random() * 0.01
        if self.strike():
            kind = self.rng.choice(["late", "cut"])
            if kind == "late":
                delay = self.rng.expovariate(1 / 30)
                self.story.append(f"{self.now:.3f} a message from {one.name} to {other.name} takes {delay:.0f} s")
            elif one.host != other.host:
                self.cut(one.host, other.host, self.rng.expovariate(1 / 60))
        due = self.now + delay
        return max(due, self._cuts.get(frozenset((one.host, other.host)), 0.0)) if self._cuts else due

    # Where it goes

    @contextmanager
    def installed(self, disk: Disk) -> Iterator[None]:
        """Puts it where the modules have the real things."""
        World.current = self
        seconds = SimpleNamespace(
            monotonic=lambda: self.now,
            perf_counter=lambda: self.now,
            time=lambda: self.now,
            sleep=lambda wanted: self.wait(self.now + wanted),
        )
        random_hex = SimpleNamespace(token_hex=lambda n=32: f"{self.rng.getrandbits(8 * n):0{2 * n}x}")
        instead = {time: seconds, threading: _THREADING, queue: _QUEUE, socket: _SOCKET, select: _SELECT}
        instead[secrets] = random_hex
        before = []
        for module in _MODULES:
            for name, value in list(vars(module).items()):
                if type(value) is type(sys) and value in instead:
                    before.append((module, name, value))
                    setattr(module, name, instead[value])
        others = [(muntin.host.state.store, "os", disk), (muntin.host.state.log, "ThreadPoolExecutor", _AtOnce)]
        others += [(muntin.pyspark_bridge.join_task, "ThreadPoolExecutor", Pool)]
        for module, name, value in others:
            before.append((module, name, getattr(module, name)))
            setattr(module, name, value)
        packages: dict[str, Any] = {
            "obstore": disk.obstore,
            "pyspark": SimpleNamespace(TaskContext=SimpleNamespace(get=lambda: self.task.process)),
        }
        real = {name: sys.modules.get(name) for name in packages}
        sys.modules.update(packages)
        try:
            yield
        finally:
            for module, name, value in before:
                setattr(module, name, value)
            for name, package in real.items():
                if package is None:
                    del sys.modules[name]
                else:
                    sys.modules[name] = package


_MODULES = [
    muntin.host.daemon.connection,
    muntin.host.daemon.frames,
    muntin.host.daemon.query,
    muntin.host.daemon.result,
    muntin.host.daemon.service,
    muntin.host.daemon.streaming_query,
    muntin.host.daemon.unix_client,
    muntin.host.join.collector,
    muntin.host.state.log,
    muntin.host.state.store,
    muntin.host.join.calls,
    muntin.host.join.journal,
    muntin.host.join.pipeline,
    muntin.pyspark_bridge.join_task,
]


# Threads


class Lock:
    """Of tasks; one that has none (the schedule itself) finds it free."""

    def __init__(self) -> None:
        self._owner: object = None
        self._depth = 0
        self._waiting: deque[Task] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As `threading.Lock.acquire`."""
        assert timeout == -1, "not simulated"
        while not self._taken():
            if not blocking:
                return False
            world = World.current
            self._waiting.append(world.task)
            world.wait()
        return True

    def _taken(self) -> bool:
        if self._owner is not None:
            return False
        self._owner = greenlet.getcurrent()
        return True

    def release(self) -> None:
        """As `threading.Lock.release`."""
        self._owner = None
        while self._waiting:
            World.current.wake(self._waiting.popleft())

    def locked(self) -> bool:
        """As `threading.Lock.locked`."""
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock(Lock):
    """One that its task may take again."""

    def _taken(self) -> bool:
        if self._owner not in (None, greenlet.getcurrent()):
            return False
        self._owner = greenlet.getcurrent()
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if not self._depth:
            super().release()


class Thread:
    """A task of the process that starts it."""

    def __init__(self, target: Callable[..., object], args: tuple[Any, ...] = (), name: str = "", daemon: bool = False):
        self._code = lambda: target(*args)
        self._ended = False
        self._waiting: list[Task] = []

    def start(self) -> None:
        """As `threading.Thread.start`."""
        world = World.current

        def run() -> None:
            try:
                self._code()
            finally:
                self._ended = True
                for task in self._waiting:
                    world.wake(task)

        world.spawn(world.task.process, run)

    def is_alive(self) -> bool:
        """As `threading.Thread.is_alive`."""
        return not self._ended

    def join(self, timeout: float | None = None) -> None:
        """As `threading.Thread.join`."""
        world = World.current
        until = None if timeout is None else world.now + timeout
        while not self._ended and (until is None or world.now < until):
            self._waiting.append(world.task)
            world.wait(until)
            if not self._ended:
                self._waiting.remove(world.task)


class Queue:
    """As `queue.Queue`, of tasks."""

    def __init__(self, maxsize: int = 0):
        self._most = maxsize or STEPS
        self._items: deque[Any] = deque()
        self._waiting: list[Task] = []

    def put(self, item: Any, timeout: float | None = None) -> None:
        """As `queue.Queue.put`."""
        world = World.current
        until = None if timeout is None else world.now + timeout
        while len(self._items) >= self._most:
            if until is not None and world.now >= until:
                raise queue.Full
            self._wait(until)
        self._items.append(item)
        self._wake()

    def put_nowait(self, item: Any) -> None:
        """As `queue.Queue.put_nowait`."""
        self.put(item, 0)

    def get(self) -> Any:
        """As `queue.Queue.get`."""
        while not self._items:
            self._wait(None)
        item = self._items.popleft()
        self._wake()
        return item

    def get_nowait(self) -> Any:
        """As `queue.Queue.get_nowait`."""
        if not self._items:
            raise queue.Empty
        return self.get()

    def _wait(self, until: float | None) -> None:
        world = World.current
        self._waiting.append(world.task)
        world.wait(until)
        self._waiting.remove(world.task)

    def _wake(self) -> None:
        for task in self._waiting:
            World.current.wake(task)


class Pool:
    """As `concurrent.futures.ThreadPoolExecutor` with a thread for each call."""

    def __init__(self, *_: object) -> None:
        self._calls: list[_Call] = []

    def submit(self, code: Callable[..., Any], *args: Any) -> _Call:
        """As `ThreadPoolExecutor.submit`."""
        self._calls.append(_Call(code, args))
        return self._calls[-1]

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for call in self._calls:
            call.thread.join()


class _Call:
    def __init__(self, code: Callable[..., Any], args: tuple[Any, ...]):
        self._future: Future[Any] = Future()

        def run() -> None:
            try:
                self._future.set_result(code(*args))
            except BaseException as error:
                self._future.set_exception(error)

        self.thread = Thread(run)
        self.thread.start()

    def result(self) -> Any:
        self.thread.join()
        return self._future.result(0)


_THREADING = SimpleNamespace(Lock=Lock, RLock=RLock, Thread=Thread)
_QUEUE = SimpleNamespace(Queue=Queue, Full=queue.Full, Empty=queue.Empty)


class _AtOnce:
    """An executor that has done what it is given: what a daemon does meanwhile touches no disk."""

    def __init__(self, *_: object) -> None:
        pass

    def submit(self, code: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(code())
        except BaseException as error:
            future.set_exception(error)
        return future

    def shutdown(self) -> None:
        """Nothing."""


# Network


class Socket:
    """One end of a connection between two processes.

    Attributes
    ----------
    sent : bytearray
        All that this end has sent.
    path : str
        Where it has connected to.
    """

    def __init__(self, *_: object, process: Process | None = None):
        self._world = World.current
        self._process = process or self._world.task.process
        self._peer: Socket | None = None
        self._timeout: float | None = None
        self._came: deque[bytes] = deque()
        self._ended = self._reset = self._closed = False
        self._waiting: Task | None = None
        self._last = 0.0  # arrival of what was sent last
        self.sent = bytearray()
        self.path = ""
        self._process.sockets[self] = None

    def connect(self, path: str) -> None:
        """As `socket.socket.connect`."""
        world, self.path = self._world, path
        process, serve = world.listeners.get(path, (None, None))
        if process is None or serve is None or not process.alive:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        if (due := world.arrival(self._process, process)) > world.now + 1:
            world.wait(min(due, world.now + (self._timeout or 1e9)))
            if world.now < due:
                raise TimeoutError("timed out")
            if not process.alive:
                raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        other = Socket(process=process)
        self._peer, other._peer = other, self
        self._process.clients.append(self)
        answer = serve
        world.spawn(process, lambda: answer(other))

    def settimeout(self, seconds: float | None) -> None:
        """As `socket.socket.settimeout`."""
        self._timeout = seconds

    def sendall(self, data: bytes | memoryview) -> None:
        """As `socket.socket.sendall`; never waits for the other end."""
        self._world._check(self._world.task)
        if self._reset or self._closed or self._peer is None:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        data = bytes(data)
        self.sent += data
        if self._world.strike():
            half = self._world.rng.randint(0, len(data))
            self._world.story.append(f"{self._world.now:.3f} the connection of {self._process.name} breaks")
            self._put(data[:half])
            self.reset()
            self._reset = True
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
        self._put(data)

    def sendmsg(self, parts: list[bytes | memoryview]) -> int:
        """As `socket.socket.sendmsg`; takes all of it."""
        data = b"".join(parts)
        self.sendall(data)
        return len(data)

    def _put(self, data: bytes | None, *, broken: bool = False) -> None:
        peer = self._peer
        if peer is None:
            return
        self._last = max(self._last, self._world.arrival(self._process, peer._process))

        def arrive() -> None:
            if data:
                peer._came.append(data)
            elif data is None:
                peer._ended = True
                peer._reset = peer._reset or broken
            if peer._waiting is not None:
                task, peer._waiting = peer._waiting, None
                self._world.wake(task)

        self._world.at(self._last, arrive)

    def recv_into(self, view: memoryview) -> int:
        """As `socket.socket.recv_into`."""
        world = self._world
        world._check(world.task)
        until = None if self._timeout is None else world.now + self._timeout
        while not self._came:
            if self._ended or self._closed:
                if self._reset:
                    raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
                return 0
            if until is not None and world.now >= until:
                raise TimeoutError("timed out")
            self._waiting = world.task
            world.wait(until)
            self._waiting = None
        data = self._came[0]
        count = min(len(data), len(view))
        if count == len(data):
            view.cast("B")[:count] = data
            self._came.popleft()
        else:
            view.cast("B")[:count] = data[:count]
            self._came[0] = data[count:]
        return count

    def recv(self, size: int) -> bytes:
        """As `socket.socket.recv`."""
        data = bytearray(min(size, 4096))
        return bytes(data[: self.recv_into(memoryview(data))])

    @property
    def readable(self) -> bool:
        """Whether `recv` would not wait."""
        return bool(self._came) or self._ended

    def shutdown(self, _: int) -> None:
        """As `socket.socket.shutdown` of what is sent."""
        self._put(None)

    def reset(self) -> None:
        """The other end finds the connection broken, or at its end, after what has been sent."""
        self._process.sockets.pop(self, None)
        if not self._closed:
            self._put(None, broken=self._world.count % 2 == 0)
        self._closed = True

    def close(self) -> None:
        """As `socket.socket.close`."""
        self._process.sockets.pop(self, None)
        if not self._closed:
            self._put(None)
        self._closed = True


class _Poll:
    def register(self, sock: Socket, _: int) -> None:
        self._socket = sock

    def poll(self, _: int) -> list[Socket]:
        return [self._socket] if self._socket.readable else []


_SOCKET = SimpleNamespace(
    socket=Socket,
    AF_UNIX=socket.AF_UNIX,
    SOCK_STREAM=socket.SOCK_STREAM,
    SHUT_RDWR=socket.SHUT_RDWR,
    SHUT_WR=socket.SHUT_WR,
)
_SELECT = SimpleNamespace(poll=_Poll, POLLIN=select.POLLIN)


# Storage


class _File:
    def __init__(self) -> None:
        self.data = b""
        self.durable: bytes | None = None  # None: nothing was synced


class Disk:
    """The functions of `os` that a state's folder needs, over a disk that loses what was not synced; and obstore.

    Parameters
    ----------
    world : World
    lossy : bool
        `fsync` does nothing.
    fenced : bool
        A name can be taken once.

    Attributes
    ----------
    files : dict of str to _File
        By path.
    objects : dict of str to bytes
        Of the object store.
    """

    path = SimpleNamespace(abspath=str, dirname=os.path.dirname, exists=lambda _: True)
    O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_CLOEXEC = os.O_RDONLY, os.O_WRONLY, os.O_CREAT, os.O_EXCL, os.O_CLOEXEC

    def __init__(self, world: World, *, lossy: bool = False, fenced: bool = True):
        self.files: dict[str, _File] = {}
        self.objects: dict[str, bytes] = {}
        self._world = world
        self._lossy = lossy
        self._fenced = fenced
        self._journal: list[tuple[str, _File | None]] = []  # changes of names since the folder was synced
        self._named: dict[str, _File] = {}  # as a crash finds them, before the journal
        self._handles: dict[int, list[Any]] = {}
        self.obstore = SimpleNamespace(
            exceptions=SimpleNamespace(AlreadyExistsError=FileExistsError),
            store=SimpleNamespace(from_url=lambda address, **_: address),
            put=self._put,
            get=self._get,
            list=lambda store, offset=None: [[{"path": name} for name in self._below(store) if name > (offset or "")]],
            delete=self._remove,
        )

    def _fault(self, *kinds: str) -> str | None:
        """Which fault the operation has that the running task begins; it may die first."""
        self._world.pause()
        if not self._world.strike():
            return None
        kind = self._world.rng.choice(["before", "after", *kinds])
        if kind == "before":
            self._world.die("before an operation on its storage")
        if kind not in ("before", "after"):
            self._world.story.append(f"{self._world.now:.3f} {self._world.task.process.name}: storage fault {kind!r}")
        return kind

    def _end(self, fault: str | None) -> None:
        if fault == "after":
            self._world.die("after an operation on its storage")
        if fault == "error":
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    # As os

    def mkdir(self, folder: str, mode: int = 0o777) -> None:
        """Folders are always there."""

    def makedirs(self, folder: str, mode: int = 0o777, exist_ok: bool = False) -> None:
        """Folders are always there."""

    def open(self, name: str, flags: int, mode: int = 0o777) -> int:
        """As `os.open`."""
        handle = len(self._handles)
        if flags & os.O_CREAT:
            if name in self.files:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
            self._name(name, _File())
        elif "." not in os.path.basename(name):  # a folder
            self._handles[handle] = [None, 0]
            return handle
        elif name not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        self._handles[handle] = [self.files[name], 0]
        return handle

    def posix_fallocate(self, handle: int, offset: int, length: int) -> None:
        """As `os.posix_fallocate`: nothing to do, as a file is read only under its final name."""

    def write(self, handle: int, data: Any) -> int:
        """As `os.write`."""
        file, data = self._handles[handle][0], bytes(data)
        fault = self._fault("torn", "full")
        if fault == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if fault == "torn":
            file.data += data[: self._world.rng.randint(0, len(data))]
            self._world.die("in the middle of a write")
        file.data += data
        self._end(fault)
        return len(data)

    def read(self, handle: int, size: int) -> bytes:
        """As `os.read`."""
        file, at = self._handles[handle]
        self._handles[handle][1] += size
        return file.data[at : at + size]

    def fstat(self, handle: int) -> Any:
        """As `os.fstat`."""
        return SimpleNamespace(st_size=len(self._handles[handle][0].data))

    def fsync(self, handle: int) -> None:
        """As `os.fsync`, of a file or of the folder."""
        fault = self._fault("error")
        file = self._handles[handle][0]
        if fault != "error" and not self._lossy:
            if file is None:
                self._settle(len(self._journal))
            else:
                file.durable = file.data
        self._end(fault)

    def close(self, handle: int) -> None:
        """As `os.close`."""

    def link(self, name: str, target: str) -> None:
        """As `os.link`."""
        fault = self._fault("error")
        if fault != "error":
            if target in self.files and self._fenced:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
            self._name(target, self.files[name])
        self._end(fault)

    def unlink(self, name: str) -> None:
        """As `os.unlink`."""
        fault = self._fault()
        if name not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        self._name(name, None)
        self._end(fault)

    def listdir(self, folder: str) -> list[str]:
        """As `os.listdir`."""
        return self._below(folder, self.files)

    def _name(self, name: str, file: _File | None) -> None:
        self._journal.append((name, file))
        if file is None:
            del self.files[name]
        else:
            self.files[name] = file

    def _settle(self, count: int) -> None:
        for name, file in self._journal[:count]:
            if file is None:
                self._named.pop(name, None)
            else:
                self._named[name] = file
        del self._journal[:count]

    def crash(self) -> None:
        """The machine goes down: of the changes of names since the folder was synced the last are lost, and of files
        that were not synced the ends."""
        self._settle(self._world.rng.randint(0, len(self._journal)))
        self._journal.clear()
        self.files = dict(self._named)
        for file in self.files.values():
            kept = file.data if file.durable is None else file.durable
            file.data = kept[: self._world.rng.randint(0, len(kept))] if file.durable is None else kept
            file.durable = file.data

    # As obstore

    def _put(self, store: str, name: str, data: bytes, mode: str = "overwrite") -> None:
        key = f"{store}/{name}"
        fault = self._fault("error", "lost", "repeated")
        if fault == "error":
            raise OSError("503 Slow Down")
        if mode == "create" and key in self.objects and self._fenced:
            raise FileExistsError(key)
        self.objects[key] = data
        if fault == "lost":
            raise OSError("timed out")
        if fault == "repeated":  # the client sent it again after the answer was lost
            raise FileExistsError(key)
        self._end(fault)

    def _get(self, store: str, name: str) -> Any:
        self._world.pause()
        key = f"{store}/{name}"
        if key not in self.objects:
            raise FileNotFoundError(key)
        data = self.objects[key]
        return SimpleNamespace(bytes=lambda: data)

    def _remove(self, store: str, name: str) -> None:
        fault = self._fault("error")
        if fault != "error":
            self.objects.pop(f"{store}/{name}", None)
        self._end(fault)

    @property
    def durable_objects(self) -> bool:
        """Whether the state lies in the object store."""
        return bool(self.objects)

    def damage(self, folder: str) -> str | None:
        """Flips a bit of a file of a state, cuts it or removes it."""
        everything: dict[str, Any] = self.objects if self.objects else self.files
        names = [name for name in self._below(folder, everything) if not name.startswith(".")]
        if not names:
            return None
        name = f"{folder}/{self._world.rng.choice(names)}"
        data = self.objects[name] if self.objects else self.files[name].data
        kind = self._world.rng.choice(["flipped", "cut", "gone"])
        if kind == "gone":
            del everything[name]
            return f"{name} is gone"
        at = self._world.rng.randrange(len(data) or 1)
        data = data[:at] + (bytes([data[at] ^ 1]) + data[at + 1 :] if kind == "flipped" else b"")
        if self.objects:
            self.objects[name] = data
        else:
            self.files[name].data = data
        return f"{name} is {kind}"

    def _below(self, folder: str, names: dict[str, Any] | None = None) -> list[str]:
        names = self.objects if names is None else names
        return sorted(name[len(folder) + 1 :] for name in names if name.startswith(folder + "/"))
