"""Orders to kill a process in one phase of a micro-batch. Whoever comes to the phase carries them out.

They are files in a folder: ``N-KIND.order`` for micro-batch N, which is renamed by the first that takes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

#: Of a micro-batch in the daemon, in order. There it is two files: its rows, then its commit.
DAEMON_PHASES = (
    "before the rows are written",
    "while the rows are written",
    "before the rows have their name",
    "after the rows have their name",
    "while the commit is written",
    "before the commit has its name",
    "after the commit has its name",
    "before the acknowledgement",
    "within the result",
    "after the acknowledgement",
)
#: In the tasks of both of Spark's stages, around those of the daemon.
SEND_PHASES = (
    "before the rows are sent",
    "while the rows are sent",
    "before the barrier",
    "after the row for the barrier",
)
FETCH_PHASES = ("before the result is asked for", *DAEMON_PHASES, "within the fetched rows", "after the fetched rows")
AT_RANDOM = "at a random moment"
PHASES = (*SEND_PHASES, *FETCH_PHASES, AT_RANDOM)
KINDS = ("daemon", "task", "executor", "driver")
#: How long after its first task began a batch may meet a kill at a random moment.
RANDOM_SECONDS = 1.0

Victims = Mapping[str, Callable[[], list[int]]]


class Orders:
    """The orders in a folder. Kinds of victims are those of `KINDS`; a negative process id is a group's."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def give(self, batch: int, kind: str, phase: str) -> None:
        """Order a kill: one of each kind in a micro-batch."""
        (self.folder / f"{batch}-{kind}.order").write_text(json.dumps([kind, phase]))

    def told(self, what: str) -> list[tuple[str, str]]:
        """Kinds and phases of the orders that are "done", "missed" (there was no such process) or still an "order"."""
        return [tuple(json.loads(path.read_text())) for path in sorted(self.folder.glob(f"*.{what}"))]

    @property
    def carried_out(self) -> int:
        """How many processes were killed."""
        return sum(name.endswith(".done") for name in os.listdir(self.folder))

    def reached(self, phase: str, batch: int, victims: Victims) -> None:
        """Carry out the orders for this phase of this batch."""
        for order in self.folder.glob(f"{batch}-*.order"):
            self._carry_out(order, phase, victims)

    @staticmethod
    def _carry_out(order: Path, phase: str, victims: Victims) -> None:
        try:
            kind, due = json.loads(order.read_text())
        except FileNotFoundError:  # another one was first
            return
        if due != phase and (due != AT_RANDOM or phase != PHASES[0]):
            return
        done = order.with_suffix(".done")
        try:
            order.rename(done)
        except FileNotFoundError:
            return
        pids = victims[kind]()
        if due == AT_RANDOM:
            wait, killed = random.uniform(0, RANDOM_SECONDS), " ".join(map(str, pids))
            subprocess.Popen(["sh", "-c", f"sleep {wait}; kill -9 -- {killed}"], start_new_session=True)
            return
        try:
            for pid in pids or [0]:
                if not pid:
                    raise ProcessLookupError
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            done.rename(order.with_suffix(".missed"))

    @property
    def driver(self) -> list[int]:
        """The process group of the driver that runs."""
        return [-int((self.folder / "driver").read_text())]

    @contextlib.contextmanager
    def fetching(self, batch: int, executor: int) -> Iterator[None]:
        """This process is a task that fetches a batch."""
        entry = self.folder / f"{os.getpid()}.fetching"
        entry.write_text(json.dumps([batch, executor]))
        try:
            yield
        finally:
            entry.unlink()

    def of_daemon(self, batch: int) -> Victims:
        """Whom a daemon can kill that joins a batch: itself, or a task that fetches it."""

        def fetching(which: int) -> list[int]:
            for entry in self.folder.glob("*.fetching"):
                with contextlib.suppress(FileNotFoundError, ValueError):  # it has just ended, or just begun
                    other, executor = json.loads(entry.read_text())
                    found = (int(entry.stem), executor)
                    if other == batch and Path(f"/proc/{found[0]}").exists():
                        return [found[which]]
            return []

        return {
            "daemon": lambda: [os.getpid()],
            "task": lambda: fetching(0),
            "executor": lambda: fetching(1),
            "driver": lambda: self.driver,
        }
