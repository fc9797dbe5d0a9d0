"""The daemon of an executor: started by the first of its tasks that needs it, ended with it."""

from __future__ import annotations

import fcntl
import os
import secrets
import select
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import muntin
from muntin.host.daemon import DaemonClient
from muntin.host.daemon.private import MODULE, READY
from muntin.host.errors import AuthError, ConnectionLostError, DaemonError

START_SECONDS = 120.0


def executor_daemon(device: str, token: str, *, tracing: bool = False) -> str:
    """The address of the daemon of the executor that runs this task; it is started if there is none.

    It listens at the machine's address on a port that the system chooses, with the query's token, and ends when the
    executor does. Its address and its log lie in the executor's working folder, which the cluster removes.

    Raises
    ------
    DaemonError
        It did not start.
    """
    executor = _executor()
    with Path(f"muntin-daemon-{executor}").open("a+") as known:
        fcntl.flock(known, fcntl.LOCK_EX)
        known.seek(0)
        address = known.read()
        if not address or not reachable(address, token):
            address = _start(device, token, executor, tracing=tracing)
            known.truncate(0)
            known.write(address)
    return address


def reachable(address: str, token: str) -> bool:
    """Whether a daemon that takes this token answers at an address."""
    try:
        with DaemonClient(address, token, timeout=20) as client:
            client.ping()
    except (ConnectionLostError, AuthError):
        return False
    return True


def _executor() -> int:
    """The process id of the executor: a task's process was forked by a server that the executor started."""
    server = os.getppid()
    return int(Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[1])


def _start(device: str, token: str, executor: int, *, tracing: bool) -> str:
    own = os.environ.get("SPARK_LOCAL_IP") or socket.gethostbyname(socket.gethostname())
    root = str(Path(muntin.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    place = Path(tempfile.gettempdir(), f"muntin-{secrets.token_hex(8)}")  # the daemon makes and removes it
    handle, token_file = tempfile.mkstemp(prefix="muntin-token-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(token)
        command = [sys.executable, "-m", *MODULE, "serve", f"--exit-with-process={executor}", f"--device={device}"]
        command += [f"--socket={place / 'daemon.sock'}", f"--listen={own}:0", f"--token-file={token_file}"]
        command += ["--tracing"] if tracing else []
        # Not the executor's standard error, a pipe that breaks when the executor is killed.
        log = Path(f"muntin-daemon-{executor}.log").absolute()
        with log.open("ab") as errors:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )
        assert process.stdout is not None
        with process.stdout:
            ready = select.select([process.stdout], [], [], START_SECONDS)[0]
            line = process.stdout.readline().decode(errors="replace").strip() if ready else ""
    finally:
        os.unlink(token_file)
    if not line.startswith(READY):
        process.kill()
        process.wait()
        raise DaemonError(
            f"the daemon of executor {executor} on {own} did not start within {START_SECONDS:g} seconds; its log is "
            f"{log} there"
        )
    return line.removeprefix(READY).split()[-1]
