"""The daemon: one process that owns a device and joins for several queries, and its clients."""

from host.daemon.client import DaemonClient
from host.daemon.limits import Limits
from host.daemon.private import AwaitedDaemon, PrivateDaemon, start_private

__all__ = ["AwaitedDaemon", "DaemonClient", "Limits", "PrivateDaemon", "start_private"]
