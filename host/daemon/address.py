"""Where a daemon listens: `unix:/path`, `grpc://host:port` or `grpc+tls://host:port`."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from muntin.host.errors import DaemonError


@dataclass(frozen=True)
class Address:
    """A daemon's address, taken apart.

    Attributes
    ----------
    scheme : str
        ``unix``, ``grpc`` or ``grpc+tls``.
    path : str
        The socket file; empty unless the scheme is ``unix``.
    host, port : str, int
        Empty and 0 where the scheme is ``unix``.
    """

    scheme: str
    path: str = ""
    host: str = ""
    port: int = 0

    @classmethod
    def parse(cls, text: str) -> Address:
        """Take an address apart; `DaemonError` says which forms there are."""
        scheme, colon, rest = text.partition(":")
        if scheme == "unix" and colon:
            path = rest[2:] if rest.startswith("//") else rest
            if path:
                return cls("unix", path=path)
        elif scheme in ("grpc", "grpc+tls") and rest.startswith("//"):
            host, _, port = rest[2:].rstrip("/").rpartition(":")
            if host and port.isdigit() and int(port) < 65536:
                return cls(scheme, host=host.strip("[]"), port=int(port))
        raise DaemonError(
            f"a daemon's address must be unix:/path/to/socket, grpc://host:port or grpc+tls://host:port, not {text!r}"
        )

    def __str__(self) -> str:
        if self.scheme == "unix":
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def default_socket() -> Path:
    """The socket of a user's daemon where none is named: in the run-time directory, else in /tmp."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    if base and os.path.isdir(base):
        return Path(base) / "muntin" / "muntin.sock"
    return Path(tempfile.gettempdir()) / f"muntin-{os.getuid()}" / "muntin.sock"
