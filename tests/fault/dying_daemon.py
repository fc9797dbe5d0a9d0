"""A daemon that ends itself with SIGKILL in one phase: ``python -m tests.fault.dying_daemon PHASE serve ...``."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import host.daemon.connection
import host.state.store
from host.cli import main

#: Of a batch, in order. A batch is two files: its rows, then its commit.
PHASES = [
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
]


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingFiles:
    """`os`, as far as the state's folder needs it, up to a phase."""

    def __init__(self, phase: str):
        self._phase = phase
        self._names: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, name: str, flags: int, mode: int = 0o777) -> int:
        """As `os.open`."""
        if self._phase == "before the rows are written" and ".rows" in name:
            _die()
        handle = os.open(name, flags, mode)
        self._names[handle] = name if flags & os.O_CREAT else ""
        return handle

    def write(self, handle: int, data: memoryview) -> int:
        """As `os.write`."""
        what = {"while the rows are written": ".rows", "while the commit is written": ".commit"}.get(self._phase)
        if what is not None and what in self._names[handle]:
            os.write(handle, data[: len(data) // 2])
            _die()
        return os.write(handle, data)

    def link(self, name: str, target: str) -> None:
        """As `os.link`."""
        what = "the rows have their name" if target.endswith(".rows") else "the commit has its name"
        if self._phase == f"before {what}":
            _die()
        os.link(name, target)
        if self._phase == f"after {what}":
            _die()


class DyingConnection(host.daemon.connection.Connection):
    """Ends the process before, within or after a result that is sent."""

    phase = ""

    def _send(self, result: Any) -> None:
        if self.phase == "before the acknowledgement":
            _die()
        if self.phase == "within the result":
            send, sent = self._frames.send, []

            def first(message: dict[str, Any], body: Any = None) -> None:
                if sent:
                    _die()
                sent.append(message)
                send(message, body)

            self._frames.send = first  # type: ignore[method-assign]
        super()._send(result)
        if self.phase:
            _die()


if __name__ == "__main__":
    phase = sys.argv.pop(1)
    if phase not in PHASES:
        sys.exit(f"there is no phase {phase!r}")
    if PHASES.index(phase) < PHASES.index("before the acknowledgement"):
        host.state.store.os = DyingFiles(phase)  # type: ignore[assignment]
    else:
        DyingConnection.phase = phase
        import host.daemon.unix_server

        host.daemon.unix_server.Connection = DyingConnection  # type: ignore[misc]
    main()
