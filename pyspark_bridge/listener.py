"""`listen`: the daemon's figures of each micro-batch beside Spark's progress of it."""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from muntin.host.daemon import DaemonClient
from muntin.host.errors import MuntinError, UnsupportedError
from muntin.host.spec import JoinSpec
from muntin.pyspark_bridge.private_daemon import awaited_daemon
from muntin.pyspark_bridge.spark_versions import batch_of, listens_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress

    from muntin.pyspark_bridge.join_task import JoinTask

#: Where the lines go, at level INFO.
log = logging.getLogger("muntin.spark")
#: Micro-batches that a listener keeps, as Spark's `recentProgress` does.
MAX_RECENT = 100
#: For a daemon that does not answer: Spark tells all listeners in turn.
ASK_SECONDS = 5.0

_guard = threading.Lock()
#: The joins of streams that this process has made, whatever query they are in.
_joins: dict[Any, JoinTask] = {}


def note_join(task: JoinTask) -> None:
    """Have listeners ask for a join of streams; no more for those whose own daemons have ended."""
    with _guard:
        for key in [key for key, known in _joins.items() if known.private and awaited_daemon(known.address) is None]:
            del _joins[key]
        _joins[task.join, task.address, task.daemons, task.state] = task


@dataclass(frozen=True)
class JoinProgress:
    """The figures of one join in one micro-batch, of all its partitions together.

    Attributes
    ----------
    join : str
        Its name.
    rows_left, rows_right : int
        Rows that came. A row that goes to several partitions counts in each.
    rows_out : int
        Rows of the result.
    matches : int
        Pairs found.
    late_left, late_right : int
        Rows dropped as late, counted as those that came.
    waiting_left, waiting_right : int
        Rows that may still come out unmatched, after it.
    window_left, window_right : int
        Rows in the windows, after it.
    fill_left, fill_right : float or None
        Share of the declared window or capacity that is filled, of the fullest partition; None where none is declared.
    watermark : datetime, int or None
        That of the next micro-batch's late rows, in UTC; an integer where the times are integers.
    watermark_side : str or None
        The side that holds it back, as of `Stats`.
    seconds : float
        From the arrival of the last row to the result, of the slowest partition.
    steps : dict of str to float
        Seconds by step, of all partitions.
    """

    join: str
    rows_left: int
    rows_right: int
    rows_out: int
    matches: int
    late_left: int
    late_right: int
    waiting_left: int
    waiting_right: int
    window_left: int
    window_right: int
    fill_left: float | None
    fill_right: float | None
    watermark: dt.datetime | int | None
    watermark_side: str | None
    seconds: float
    steps: dict[str, float]

    @classmethod
    def of(
        cls, join: str, counted: bool, windows: Sequence[dict[str, Any]], more: Sequence[dict[str, Any]]
    ) -> JoinProgress:
        """From the figures of a daemon for each window, `Query.figures`.

        Parameters
        ----------
        counted : bool
            The windows are count windows, each of which tells of all rows.
        windows, more : sequence of dict
            Of the partitions, and of those that look after unmatched right rows of the same partitions.
        """
        every = [*windows, *more]
        first = windows[0]
        summed = {name: sum(figures[name] for figures in windows) for name in _SUMMED}
        for side in ("left", "right"):
            in_windows = [figures[f"window_{side}"] for figures in windows]
            summed[f"window_{side}"] = max(in_windows) if counted else sum(in_windows)
            summed[f"waiting_{side}"] = sum(figures[f"waiting_{side}"] for figures in every)
            fills = [figures[f"fill_{side}"] for figures in windows if figures[f"fill_{side}"] is not None]
            summed[f"fill_{side}"] = max(fills, default=None)
        moment = first["watermark_seconds"]
        since = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        steps: dict[str, float] = {}
        for figures in every:
            for step, seconds in figures["steps"].items():
                steps[step] = steps.get(step, 0.0) + seconds
        return cls(
            join=join,
            rows_out=sum(figures["rows_out"] for figures in every),
            watermark=first["watermark"] if moment is None else since + dt.timedelta(seconds=moment),
            watermark_side=first["watermark_side"],
            seconds=max(figures["seconds"] for figures in every),
            steps=steps,
            **summed,
        )

    def __str__(self) -> str:
        parts = [
            f"{self.rows_left:,} left and {self.rows_right:,} right rows in",
            f"{self.rows_out:,} out",
            f"{self.matches:,} matches",
        ]
        for name in ("late", "waiting"):
            left, right = getattr(self, f"{name}_left"), getattr(self, f"{name}_right")
            if left or right:
                parts.append(f"{left:,} and {right:,} {name}")
        windows = [
            f"{getattr(self, f'window_{side}'):,}" + ("" if fill is None else f" ({fill:.0%})")
            for side, fill in (("left", self.fill_left), ("right", self.fill_right))
        ]
        parts.append(f"{' and '.join(windows)} rows in windows")
        if self.watermark is not None:
            parts.append(f"watermark {self.watermark}")
        steps = ", ".join(f"{step} {seconds:.3f}" for step, seconds in self.steps.items() if seconds >= 0.0005)
        return f"{self.join}: {', '.join(parts)}, {self.seconds:.3f} s" + (f" ({steps})" if steps else "")


_SUMMED = ("rows_left", "rows_right", "matches", "late_left", "late_right")


@dataclass(frozen=True)
class BatchProgress:
    """One of Spark's progress events, and the figures of the joins in it.

    Attributes
    ----------
    progress : pyspark.sql.streaming.listener.StreamingQueryProgress
        What Spark tells.
    joins : tuple of JoinProgress
        Of each `window_join` of the query; empty where the micro-batch has none.
    errors : tuple of MuntinError
        Of daemons that could not be asked: figures are missing then.
    """

    progress: StreamingQueryProgress
    joins: tuple[JoinProgress, ...] = ()
    errors: tuple[MuntinError, ...] = field(default=(), compare=False)


def listen(spark: SparkSession, callback: Callable[[BatchProgress], None] | None = None) -> JoinListener:
    """Hear of each micro-batch of a session's streaming queries what Spark and what the daemons of its joins tell.

    Parameters
    ----------
    spark : SparkSession
        Classic, or of Spark Connect from 4.0 on.
    callback : callable, optional
        Called with each `BatchProgress`, in the thread in which Spark tells its listeners.

    Returns
    -------
    JoinListener
        It listens until `JoinListener.stop`. Each join's figures are a line at level INFO of the logger
        ``muntin.spark``, too.

    Raises
    ------
    UnsupportedError
        Spark Connect before 4.0: listeners run in the server there.
    """
    if not listens_here(spark):
        raise UnsupportedError(
            "listen() needs listeners that run in this process, and Spark Connect before 4.0 runs them in its server: "
            "use a classic session or Spark 4, or window_join(..., observe=NAME)"
        )
    listener = JoinListener(spark, callback)
    spark.streams.addListener(listener)
    return listener


class JoinListener(StreamingQueryListener):
    """What `listen` gives. Iterated, it waits for each `BatchProgress` from then on, until it is stopped.

    Attributes
    ----------
    recent : tuple of BatchProgress
        The newest hundred, in the order in which Spark reported them.
    """

    def __init__(self, spark: SparkSession, callback: Callable[[BatchProgress], None] | None = None):
        self._session = spark
        self._callback = callback
        self._changed = threading.Condition()
        self._recent: deque[BatchProgress] = deque(maxlen=MAX_RECENT)
        self._heard = 0
        self._stopped = False
        self._of_queries: dict[str, list[Any]] = {}  # their joins, by the id of the run
        self._warned: set[tuple[str, str]] = set()

    @property
    def recent(self) -> tuple[BatchProgress, ...]:
        with self._changed:
            return tuple(self._recent)

    def of(self, progress: Any, timeout: float = 30.0) -> BatchProgress:
        """Beside a progress that Spark has reported elsewhere, such as a query's `lastProgress`: Spark calls listeners
        a little later. Raises TimeoutError after `timeout` seconds."""
        found: list[BatchProgress] = []

        def heard() -> bool:
            found[:] = [each for each in self._recent if batch_of(each.progress) == batch_of(progress)]
            return bool(found)

        with self._changed:
            if not self._changed.wait_for(heard, timeout):
                query, batch = batch_of(progress)
                raise TimeoutError(
                    f"Spark has not reported micro-batch {batch} of query {query} in {timeout:g} seconds"
                )
        return found[-1]

    def __iter__(self) -> Iterator[BatchProgress]:
        with self._changed:
            at = self._heard
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._heard > at or self._stopped)  # noqa: B023
                fresh = list(self._recent)[-(self._heard - at) :] if self._heard > at else []
                at = self._heard
            yield from fresh
            if not fresh:
                return

    def stop(self) -> None:
        """Listen no more; may be called again."""
        with self._changed:
            stopped, self._stopped = self._stopped, True
            self._changed.notify_all()
        if not stopped:
            self._session.streams.removeListener(self)

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to do."""

    def onQueryIdle(self, event: Any) -> None:
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:
        """Forget which joins the query has."""
        run = str(event.runId)
        self._of_queries.pop(run, None)
        self._warned = {warned for warned in self._warned if warned[0] != run}

    def onQueryProgress(self, event: Any) -> None:
        """Ask the daemons for their figures."""
        heard = self._ask(event.progress)
        for join in heard.joins:
            log.info("query %s, batch %d, %s", heard.progress.name or heard.progress.id, heard.progress.batchId, join)
        for error in heard.errors:
            log.warning(
                "figures of query %s, batch %d are missing: %s", heard.progress.id, heard.progress.batchId, error
            )
        with self._changed:
            self._recent.append(heard)
            self._heard += 1
            self._changed.notify_all()
        if self._callback is not None:
            self._callback(heard)

    def _ask(self, progress: Any) -> BatchProgress:
        query, run = str(progress.id), str(progress.runId)
        known = self._of_queries.get(run)
        with _guard:
            keys = list(_joins) if known is None else known
            tasks = {key: _joins[key] for key in keys if key in _joins}
        told: dict[tuple[Any, ...], dict[str, Any]] = {}  # by daemon: each is asked once
        joins: dict[Any, JoinProgress] = {}
        errors: dict[Any, MuntinError] = {}
        for key, task in tasks.items():
            names = task.names(query)
            found = {}
            for number, name in enumerate(names):
                try:
                    daemon = _daemon_of(task, number, name)
                    if daemon is None:
                        continue
                    if daemon not in told:
                        told[daemon] = {}
                        address, token, tls_ca = daemon
                        with DaemonClient(address, token, ASK_SECONDS, tls_ca=tls_ca) as client:
                            told[daemon] = client.figures(query, progress.batchId)
                    if name in told[daemon]:
                        found[name] = told[daemon][name]
                except MuntinError as error:
                    errors[key] = error
            windows, more = ([found[name] for name in part if name in found] for part in task.halves(names))
            if windows:
                counted = JoinSpec.from_json(task.spec).counted
                joins[key] = JoinProgress.of(task.join, counted, windows, more)
        if joins and known is None:
            # A query's joins all run in its first micro-batch: the others, such as those of a daemon that has ended,
            # are none of it.
            known = self._of_queries[run] = list(joins)
        if known is not None:
            errors = {key: error for key, error in errors.items() if key in known}
        return BatchProgress(progress, tuple(joins.values()), tuple(errors.values()))


def _daemon_of(task: JoinTask, number: int, name: str) -> tuple[str, str | None, Any] | None:
    """Address, token and certificates of the daemon that has a window; None where none has it.

    Raises
    ------
    MuntinError
        The state that says which one has it cannot be read.
    """
    if task.private:
        daemon = awaited_daemon(task.address)
        if daemon is None or daemon.daemon is None:  # to ask would start it
            return None
    address = task.address_of(number, name)
    return None if address is None else (address, task.token, task.tls_ca)
