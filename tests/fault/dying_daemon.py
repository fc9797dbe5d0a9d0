"""A daemon in which phases of a batch end a process: ``python -m tests.fault.dying_daemon PHASE serve ...``.

Given a phase it ends itself there, with SIGKILL. Given a folder of `Orders` it carries them out.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import muntin.host.daemon.connection
import muntin.host.daemon.unix_server
import muntin.host.state.store
from muntin.host.cli import main
from tests.fault.orders import DAEMON_PHASES, Orders

Reached = Callable[[str, int], None]


class PhasedFiles:
    """`os`, as far as the state's folder needs it, which tells of the phases that it comes to."""

    def __init__(self, reached: Callable[[str], None]):
        self._reached = reached
        self._names: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, name: str, flags: int, mode: int = 0o777) -> int:
        """As `os.open`."""
        if flags & os.O_CREAT and ".rows" in name:
            self._reached("before the rows are written")
        handle = os.open(name, flags, mode)
        self._names[handle] = name if flags & os.O_CREAT else ""
        return handle

    def write(self, handle: int, data: memoryview) -> int:
        """As `os.write`, of one half."""
        written = os.write(handle, data[: (len(data) + 1) // 2])
        for what, end in (("rows", ".rows"), ("commit", ".commit")):
            if end in self._names[handle]:
                self._reached(f"while the {what} {'are' if what == 'rows' else 'is'} written")
        return written

    def link(self, name: str, target: str) -> None:
        """As `os.link`."""
        what = "the rows have their name" if target.endswith(".rows") else "the commit has its name"
        self._reached(f"before {what}")
        os.link(name, target)
        self._reached(f"after {what}")


class Phases:
    """Has the modules of the daemon tell of the phases of each batch that they join, once `install` was called."""

    def __init__(self, reached: Reached):
        self._reached = reached
        self._newest = -1
        self._thread = threading.local()  # whether its connection has asked for a result

    def install(self, *, flight: bool) -> None:
        """With `flight`, also in the front end for other hosts, which is loaded where it is used."""
        muntin.host.state.store.os = PhasedFiles(lambda phase: self._reached(phase, self._newest))  # type: ignore[assignment]
        self._wrap(muntin.host.daemon.connection, muntin.host.daemon.unix_server, "Connection", "_send")
        if flight:
            import muntin.host.daemon.flight_server as server

            self._wrap(server, server, "FlightServer", "do_exchange")

    def _wrap(self, module: Any, user: Any, name: str, method: str) -> None:
        begin, cut, plain = module.begin, module.cut, getattr(user, name)

        def began(service: Any, message: dict[str, Any]) -> Any:
            self._thread.asked = not message.get("part")
            if self._thread.asked:
                self._newest = message["batch"]
            return begin(service, message)

        def pieces(batches: Any, *limits: Any) -> Iterator[Any]:
            self._tell("before the acknowledgement")
            for batch in cut(batches, *limits):
                yield batch
                self._tell("within the result")

        def answered(server: Any, *given: Any) -> None:
            getattr(plain, method)(server, *given)
            self._tell("after the acknowledgement")

        module.begin, module.cut = began, pieces
        setattr(user, name, type(name, (plain,), {method: answered}))

    def _tell(self, phase: str) -> None:
        if self._thread.asked:
            self._reached(phase, self._newest)


def _ends_itself(wanted: str) -> Reached:
    def reached(phase: str, batch: int) -> None:
        if phase == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


def _carries_out(orders: Orders) -> Reached:
    return lambda phase, batch: orders.reached(phase, batch, orders.of_daemon(batch))


if __name__ == "__main__":
    given = sys.argv.pop(1)
    if given not in DAEMON_PHASES and not os.path.isdir(given):
        sys.exit(f"there is no phase {given!r}, and no folder of orders")
    told = _ends_itself(given) if given in DAEMON_PHASES else _carries_out(Orders(given))
    Phases(told).install(flight=any(argument.startswith("--listen") for argument in sys.argv))
    main()
