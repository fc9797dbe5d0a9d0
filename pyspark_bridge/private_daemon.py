"""Daemons started for joins where none was named, and when they end."""

from __future__ import annotations

import logging
import socket
import threading
import weakref
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyspark.sql.streaming.listener import StreamingQueryListener

from muntin.host.daemon import AwaitedDaemon, DaemonClient
from muntin.host.errors import DaemonError, UnsupportedError
from muntin.pyspark_bridge.spark_versions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_lock = threading.Lock()
#: For joins that are not streams: one daemon for each device (and with spans another), until this process ends.
_of_batches: dict[tuple[str, bool], AwaitedDaemon] = {}
_watchers: weakref.WeakKeyDictionary[SparkSession, _QueryWatcher] = weakref.WeakKeyDictionary()


def private_daemon(spark: SparkSession, device: str, streaming: bool, *, tracing: bool = False) -> str:
    """Where a daemon for a join will be started by the first task that needs it; for DataFrames that are not streams
    one for all. Its address.

    A daemon for streams serves one `window_join`. When a streaming query ends, its windows are freed; when
    the last query that used the daemon has ended, so does the daemon. The one for DataFrames that are not streams ends
    with this process, however that ends. Where no task ever runs, there is no process.

    Raises
    ------
    UnsupportedError
        The session's tasks run on other machines, which could not reach the daemon.
    DaemonError
        It cannot listen.
    """
    master = master_of(spark)
    if not master.startswith("local"):
        raise UnsupportedError(
            f"the session's tasks run elsewhere ({master or 'unknown master'}) and cannot reach a daemon started here; "
            "give state=, so that streams find daemons on the executors, or start one that they can reach (muntin "
            "serve --listen host:port) and name it with daemon="
        )
    with _lock:
        if streaming:
            daemon = AwaitedDaemon(device, tracing=tracing)
            _watcher(spark).add(daemon)
        else:
            known = _of_batches.get((device, tracing))
            daemon = known if known is not None and known.usable else AwaitedDaemon(device, tracing=tracing)
            _of_batches[device, tracing] = daemon
    return daemon.address


def awaited_daemon(address: str) -> AwaitedDaemon | None:
    """The daemon of streams at an address; None where it has ended."""
    for watcher in list(_watchers.values()):
        if (daemon := watcher.daemon_at(address)) is not None:
            return daemon
    return None


def master_of(spark: SparkSession) -> str:
    """Where a session's tasks run, as `spark.master` says it, unless a Connect server on another machine runs them."""
    if is_connect(spark):
        server = urlsplit(f"//{spark.client.host}").hostname or ""
        if server not in ("localhost", "127.0.0.1", "::1", socket.gethostname().lower()):
            return f"Spark Connect server {server}"
    return spark.conf.get("spark.master", None) or ""


def _watcher(spark: SparkSession) -> _QueryWatcher:
    watcher = _watchers.get(spark)
    if watcher is None:
        watcher = _watchers[spark] = _QueryWatcher(spark)
        spark.streams.addListener(watcher)
    return watcher


class _QueryWatcher(StreamingQueryListener):
    """Ends the private daemons of a session with the queries that use them."""

    def __init__(self, spark: SparkSession):
        self._spark = weakref.ref(spark)
        self._guard = threading.Lock()
        self._daemons: list[AwaitedDaemon] = []
        self._served: set[str] = set()  # addresses of daemons that a query was seen to use
        self._ran: set[str] = set()  # run ids of active queries that completed a micro-batch

    def add(self, daemon: AwaitedDaemon) -> None:
        """Watch over a daemon."""
        with self._guard:
            self._daemons.append(daemon)

    def daemon_at(self, address: str) -> AwaitedDaemon | None:
        """The one of this address, as long as it has not ended."""
        return next((daemon for daemon in list(self._daemons) if daemon.address == address), None)

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to do: which daemon a query uses shows when its first micro-batch has run."""

    def onQueryIdle(self, event: Any) -> None:
        """Nothing to do."""

    def onQueryProgress(self, event: Any) -> None:
        """Note that a query has run, and so has opened its windows where it uses a daemon of ours."""
        run = str(event.progress.runId)
        with self._guard:
            first = run not in self._ran
            self._ran.add(run)
            if first:
                self._end_unused()

    def onQueryTerminated(self, event: Any) -> None:
        """Free the windows of the query, and end the daemons that no query uses any more."""
        with self._guard:
            for daemon in self._daemons:
                if daemon.daemon is not None:
                    self._close_windows(daemon, str(event.id))
                if daemon.address in (event.exception or ""):  # it refused the query, and holds nothing of it
                    self._served.add(daemon.address)
            self._end_unused(ended=str(event.runId))
            self._ran.discard(str(event.runId))

    def _close_windows(self, daemon: AwaitedDaemon, query: str) -> None:
        try:
            with DaemonClient(daemon.address) as client:
                for name in client.status()["queries"]:
                    if name.startswith(f"{query}/"):
                        self._served.add(daemon.address)
                        client.close_query(name)
        except DaemonError as error:
            # It died before its query, which then failed with this same reason.
            log.warning("the daemon of query %s cannot be reached: %s", query, error)
            self._served.add(daemon.address)

    def _end_unused(self, ended: str | None = None) -> None:
        spark = self._spark()
        # Spark may list a run for some time after it reported its end.
        active = {str(query.runId) for query in spark.streams.active} - {ended} if spark is not None else set()
        if not active <= self._ran:
            # A query that has not run yet may be about to use any of them; its first progress comes back
            # here.
            return
        for daemon in [daemon for daemon in self._daemons if daemon.address in self._served]:
            if not self._in_use(daemon):
                self._daemons.remove(daemon)
                self._served.discard(daemon.address)
                daemon.close()

    def _in_use(self, daemon: AwaitedDaemon) -> bool:
        try:
            with DaemonClient(daemon.address) as client:
                return bool(client.status()["queries"])
        except DaemonError as error:
            log.warning("the daemon at %s cannot be reached: %s", daemon.address, error)
            return False
