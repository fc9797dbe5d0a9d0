"""The daemon: one process that owns a device and joins for several queries, and its clients."""

from muntin.host.daemon.client import DaemonClient
from muntin.host.daemon.limits import Limits
from muntin.host.daemon.private import AwaitedDaemon, PrivateDaemon, start_private

__all__ = ["AwaitedDaemon", "DaemonClient", "Limits", "PrivateDaemon", "start_private"]
