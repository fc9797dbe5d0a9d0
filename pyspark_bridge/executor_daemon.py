"""The daemon of an executor: started by the first of its tasks that needs it, ended with it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import select
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import muntin
from muntin.host.daemon import DaemonClient
from muntin.host.daemon.certificate import unnamed_file
from muntin.host.daemon.private import MODULE, READY
from muntin.host.errors import AuthError, ConnectionLostError, DaemonError

START_SECONDS = 120.0


def executor_daemon(
    device: str, token: str, tls: tuple[bytes, bytes] | None = None, tls_ca: Any = None, *, tracing: bool = False
) -> str:
    """The address of a query's daemon on the executor that runs this task; it is started if there is none.

    It listens at the machine's address on a port that the system chooses, with the query's token and certificate (`tls`
    and `tls_ca` as of `JoinTask`), and ends when the executor does. Its address and its log lie in the executor's
    working folder, which the cluster removes.

    Raises
    ------
    DaemonError
        It did not start.
    """
    executor = _executor()
    name = f"muntin-daemon-{executor}-{hashlib.sha256(token.encode()).hexdigest()[:16]}"
    with Path(name).open("a+") as known:
        fcntl.flock(known, fcntl.LOCK_EX)
        known.seek(0)
        address = known.read()
        if not address or not reachable(address, token, tls_ca):
            address = _start(device, token, tls, executor, Path(f"{name}.log").absolute(), tracing=tracing)
            known.truncate(0)
            known.write(address)
    return address


def reachable(address: str, token: str, tls_ca: Any = None) -> bool:
    """Whether a daemon that takes this token, with a certificate that is trusted, answers at an address."""
    try:
        with DaemonClient(address, token, timeout=20, tls_ca=tls_ca) as client:
            client.ping()
    except (ConnectionLostError, AuthError):
        return False
    return True


def _executor() -> int:
    """The process id of the executor: a task's process was forked by a server that the executor started."""
    server = os.getppid()
    return int(Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[1])


def _start(device: str, token: str, tls: tuple[bytes, bytes] | None, executor: int, log: Path, *, tracing: bool) -> str:
    own = os.environ.get("SPARK_LOCAL_IP") or socket.gethostbyname(socket.gethostname())
    root = str(Path(muntin.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    place = Path(tempfile.gettempdir(), f"muntin-{secrets.token_hex(8)}")  # the daemon makes and removes it
    with ExitStack() as opened:
        files = {"token-file": token.encode(), **(dict(zip(("tls-cert", "tls-key"), tls, strict=True)) if tls else {})}
        handles = {name: unnamed_file(content) for name, content in files.items()}
        for handle in handles.values():
            opened.callback(os.close, handle)
        command = [sys.executable, "-m", *MODULE, "serve", f"--exit-with-process={executor}", f"--device={device}"]
        command += [f"--socket={place / 'daemon.sock'}", f"--listen={own}:0"]
        command += [f"--{name}=/proc/self/fd/{handle}" for name, handle in handles.items()]
        command += ["--tracing"] if tracing else []
        # Not the executor's standard error, a pipe that breaks when the executor is killed.
        with log.open("ab") as errors:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": path},
                pass_fds=tuple(handles.values()),
                start_new_session=True,
            )
        assert process.stdout is not None
        with process.stdout:
            ready = select.select([process.stdout], [], [], START_SECONDS)[0]
            line = process.stdout.readline().decode(errors="replace").strip() if ready else ""
    if not line.startswith(READY):
        process.kill()
        process.wait()
        raise DaemonError(
            f"the daemon of executor {executor} on {own} did not start within {START_SECONDS:g} seconds; its log is "
            f"{log} there"
        )
    return line.removeprefix(READY).split()[-1]
