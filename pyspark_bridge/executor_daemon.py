"""The daemon of an executor: started by the first of its tasks that needs it, ended with it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import socket
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from muntin.host.daemon import DaemonClient
from muntin.host.daemon.certificate import unnamed_file
from muntin.host.daemon.private import launch
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
    DeviceError, CapacityError, DaemonError
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
    place = Path(tempfile.gettempdir(), f"muntin-{secrets.token_hex(8)}")  # the daemon makes and removes it
    files = {"token_file": token.encode(), **(dict(zip(("tls_cert", "tls_key"), tls, strict=True)) if tls else {})}
    with ExitStack() as opened:
        handles = {name: unnamed_file(content) for name, content in files.items()}
        options: dict[str, Any] = {name: f"/proc/self/fd/{handle}" for name, handle in handles.items()}
        for handle in handles.values():
            opened.callback(os.close, handle)
        # Not the executor's standard error, a pipe that breaks when the executor is killed.
        errors = opened.enter_context(log.open("a+b"))
        try:
            process, addresses = launch(
                device,
                place / "daemon.sock",
                errors,
                START_SECONDS,
                tuple(handles.values()),
                exit_with_process=executor,
                listen=f"{own}:0",
                tracing=tracing,
                **options,
            )
        except DaemonError as error:
            raise DaemonError(
                f"the daemon of executor {executor} on {own} did not start; its log is {log} there: {error}"
            ) from error
    assert process.stdout is not None
    process.stdout.close()
    return addresses[-1]
