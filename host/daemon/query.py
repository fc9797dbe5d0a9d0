"""What the two kinds of open query share: their requests, their stage, and how it is counted."""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.host.daemon.definition import Definition
from muntin.host.daemon.limits import Limits, check_message
from muntin.host.daemon.result import FairLock, KeptResult, Result
from muntin.host.daemon.rows import conform
from muntin.host.daemon.staging import Part, PartKey, Sender
from muntin.host.errors import LimitError, ProtocolError, UnknownQueryError
from muntin.host.join.batch_summary import PLACES_SCHEMA
from muntin.host.sides import SIDES
from muntin.host.tracing import span

if TYPE_CHECKING:
    from muntin.host.devices import Device

#: Batches of which a query knows the figures: as many as Spark's `recentProgress` has.
MAX_FIGURES = 100
#: Statistics of which a batch's figures have what it added, and what is there after it.
_ADDED = ("matches", "late_left", "late_right", "unmatchable_left", "unmatchable_right")
_THERE = (
    "waiting_left", "waiting_right", "window_left", "window_right", "fill_left", "fill_right", "watermark",
    "watermark_seconds", "watermark_side", "device_bytes", "row_bytes", "state_bytes",
)  # fmt: skip

#: Upper ends of the buckets, in seconds; one more has what is above.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Histogram:
    """Counts durations by size, in the buckets of `BOUNDS`."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._sum += seconds

    def to_wire(self) -> dict[str, Any]:
        """JSON-able: `counts` by bucket and the `sum` of all, in seconds."""
        return {"counts": list(self._counts), "sum": self._sum}


class Request:
    """The rows of one batch as they come. Nothing is applied before `commit`; leaving the block without it discards
    them.

    Used by one thread, except that several requests of one query may be open at once.

    Attributes
    ----------
    batch : int
        As the client numbers it.
    sender : Sender
    kept : KeptResult or None
        The result, where the same batch was applied already: no rows need to be sent.
    begun : float
        When, by `time.monotonic`.
    parts : bool
        It brings one part of the batch, or names all of them.
    followed : bool
        What applies it goes on where the client has left, and discards what was staged at its end.
    """

    def __init__(
        self,
        query: Query,
        batch: int,
        sender: Sender,
        kept: KeptResult | None = None,
        *,
        parts: bool = False,
    ):
        self.query = query
        self.batch = batch
        self.sender = sender
        self.kept = kept
        self.parts = parts
        self.followed = False
        self.begun = time.monotonic()
        self._rows: dict[str, list[pa.RecordBatch]] = {side: [] for side in (*SIDES, "places")}
        self._reserved = 0

    @property
    def answer(self) -> dict[str, Any]:
        """The answer to a client before it sends rows: whether they are wanted, and else what they must be."""
        answer: dict[str, Any] = {"rows_wanted": self.kept is None, "max_message": self.query.limits.max_message}
        if self.kept is not None and not self.parts:
            answer["content"] = self.query.content(self.batch)
        return answer

    def reserve(self, size: int) -> None:
        """Count `size` bytes as staged before they are read; `LimitError` where that is too much."""
        check_message(size, self.query.limits.max_message, "a message")
        self.query.reserve(size)
        self._reserved += size

    def add(self, side: str, batch: pa.RecordBatch) -> None:
        """Stage rows of one side, for which `reserve` was called.

        Raises
        ------
        ProtocolError, SchemaError
            A side that is neither "left" nor "right" (nor "places": those of a part); columns other than the query was
            opened with.
        """
        if side == "places":
            self._rows[side].append(conform(batch, PLACES_SCHEMA, side))
            return
        if side not in SIDES:
            raise ProtocolError(f"a row's side must be 'left' or 'right', not {side!r}")
        self._rows[side].append(conform(batch, self.query.definition.schema(side), side))

    def commit(self, left_rows: int, right_rows: int) -> Result:
        """Apply the rows once, or wait for the request that is applying them, and return the result.

        Parameters
        ----------
        left_rows, right_rows : int
            How many rows the sender sent: a stage that lost some is refused rather than applied.
        """
        return self.query.apply(self, *self._complete(left_rows, right_rows))

    def stage(self, left_rows: int, right_rows: int, key: PartKey, call: dict[str, Any]) -> None:
        """Keep the rows as one part of a batch, for a request that names all its parts.

        Parameters
        ----------
        left_rows, right_rows : int
            As of `commit`.
        key : PartKey
            Of the part.
        call : dict
            What it tells the partitions of the join; see `Part.call`.
        """
        left, right = self._complete(left_rows, right_rows)
        part = Part(left, right, list(self._rows["places"]), call, self.sender, self._reserved, self.begun)
        if self.query.stage(self, key, part):
            self._reserved = 0  # counted on, until the batch is applied

    def _complete(self, left_rows: int, right_rows: int) -> list[pa.Table]:
        tables = [pa.Table.from_batches(self._rows[side], schema=self.query.definition.schema(side)) for side in SIDES]
        if [table.num_rows for table in tables] != [left_rows, right_rows]:
            raise ProtocolError(
                f"the sender counts {left_rows} left and {right_rows} right rows, "
                f"but {tables[0].num_rows} and {tables[1].num_rows} arrived; nothing was applied"
            )
        return tables

    def discard(self) -> None:
        """Forget what was staged."""
        for batches in self._rows.values():
            batches.clear()
        self.query.release(self, self._reserved)
        self._reserved = 0

    def __enter__(self) -> Request:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self.followed:
            self.discard()


class Query(ABC):
    """An open query.

    Two locks: `_state` guards counters and is never held for long; `_turn` is held while rows are applied.
    Staging takes only the first, so a slow batch holds up neither the staging of the next nor any other
    query.

    Parameters
    ----------
    name : str
        The client's name for it.
    definition : Definition
        Its join.
    device : Device
        Where it runs.
    device_lock : FairLock
        Held while the device works; shared by all queries of the daemon.
    limits : Limits
        What it may stage.

    Attributes
    ----------
    title : str or None
        What people call it, for those who look: Spark's name of the streaming query.
    """

    title: str | None = None

    def __init__(self, name: str, definition: Definition, device: Device, device_lock: FairLock, limits: Limits):
        self.name = name
        self.definition = definition
        self.limits = limits
        self._device = device
        self._device_lock = device_lock
        self._state = threading.Lock()
        self._turn = threading.Lock()
        self._open_requests: set[Request] = set()
        self._closed = False
        self._staged = 0
        self._opened_at = time.time()
        self._counts = dict.fromkeys(("requests", "repeats", "discarded", "rows_left", "rows_right", "rows_out"), 0)
        self._stats: dict[str, Any] = {}
        self._figures: deque[dict[str, Any]] = deque(maxlen=MAX_FIGURES)
        self._batch_seconds = Histogram()
        self._step_seconds: dict[str, Histogram] = {}

    @abstractmethod
    def prepare(self) -> bool:
        """Take what the query needs from the device, once; False for every repeated open."""

    @abstractmethod
    def begin(self, batch: int, sender: Sender) -> Request:
        """Open a request; refused here, before any row is sent, where it can only fail."""

    def meet(self, definition: Definition) -> None:  # noqa: B027 - a query without a table has none to change
        """Have rows of a stream meet the table of this definition from the next batch on."""

    def content(self, batch: int) -> dict[str, str] | None:
        """What is known of the rows of a batch whose result is kept, as `Content.digest`."""
        return None

    def stage(self, request: Request, key: PartKey, part: Part) -> bool:
        """Keep a part of a batch; False where one of that content is here already."""
        raise self._no_parts()

    def fetch(self, batch: int, keys: Sequence[PartKey]) -> KeptResult:
        """The result of a batch that consists of these parts."""
        raise self._no_parts()

    def _no_parts(self) -> ProtocolError:
        return ProtocolError(f"query {self.name!r} is not of streams: its batches come whole")

    @abstractmethod
    def apply(self, request: Request, left: pa.Table, right: pa.Table) -> Result:
        """The result of a complete request."""

    @abstractmethod
    def close(self) -> None:
        """Free what the query holds, once the batch being applied is done."""

    def reserve(self, size: int) -> None:
        """Count `size` more staged bytes."""
        with self._state:
            if self._staged + size > self.limits.max_staged:
                raise LimitError(
                    f"query {self.name!r} would stage {self._staged + size:,} bytes, above the limit of "
                    f"{self.limits.max_staged:,}; send smaller micro-batches, or start the daemon with a "
                    "larger --max-staged"
                )
            self._staged += size

    def release(self, request: Request, size: int) -> None:
        """End a request and the staged bytes it counted."""
        with self._state:
            self._staged -= size
            if request in self._open_requests:
                self._open_requests.discard(request)
                self._counts["discarded"] += 1

    def status(self) -> dict[str, Any]:
        """Counters, and the operator's statistics as of the last batch; never waits for a batch."""
        with self._state:
            return {
                "title": self.title,
                "streaming": self.definition.streaming,
                "spec": json.loads(self.definition.spec.to_json()),
                "fixed": self.definition.fixed or {},
                "opened_at": self._opened_at,
                "staged_bytes": self._staged,
                "open_requests": len(self._open_requests),
                "lag_seconds": self._lag(),
                **self._counts,
                "stats": dict(self._stats),
                "batch_seconds": self._batch_seconds.to_wire(),
                "step_seconds": {step: histogram.to_wire() for step, histogram in self._step_seconds.items()},
            }

    def figures(self, batch: int) -> dict[str, Any] | None:
        """Of one of the newest batches, JSON-able; None of any other.

        `rows_left`, `rows_right`, `rows_out`; what it added to the statistics of the same names, and what these are
        after it; `seconds` from its last row's arrival to its result, and by step in `steps`.
        """
        with self._state:
            return next((figures for figures in reversed(self._figures) if figures["batch"] == batch), None)

    def _lag(self) -> float:
        """Seconds that the oldest rows which are not joined yet have been here; `_state` is held."""
        begun = min((request.begun for request in self._open_requests), default=None)
        return 0.0 if begun is None else time.monotonic() - begun

    @contextmanager
    def _own_turn(self) -> Iterator[None]:
        """Holds `_turn`."""
        with span("wait for the query"):
            self._turn.acquire()
        try:
            yield
        finally:
            self._turn.release()

    def _check_open(self) -> None:
        if self._closed:
            raise UnknownQueryError(f"query {self.name!r} was closed")

    def _applied(
        self,
        request: Request | None,
        batch: int,
        left: pa.Table,
        right: pa.Table,
        rows_out: int,
        stats: dict[str, Any],
        begun: float,
        before: dict[str, Any] | None = None,
    ) -> None:
        """Count a batch that was applied, and keep its figures; `_state` is held.

        Parameters
        ----------
        stats, before : dict
            The operator's statistics after it and before; without the latter it is the join's first batch.
        begun : float
            When it began, by `time.monotonic`.
        """
        if request is not None:
            self._open_requests.discard(request)
        before = before or {}
        rows = {"rows_left": left.num_rows, "rows_right": right.num_rows, "rows_out": rows_out}
        for name, count in rows.items():
            self._counts[name] += count
        past = before.get("seconds", {})
        steps = {step: seconds - past.get(step, 0.0) for step, seconds in stats["seconds"].items()}
        seconds = time.monotonic() - begun
        self._batch_seconds.observe(seconds)
        for step, part in steps.items():
            self._step_seconds.setdefault(step, Histogram()).observe(part)
        self._stats = stats
        self._figures.append(
            {
                "batch": batch,
                **rows,
                **{name: stats[name] - before.get(name, 0) for name in _ADDED},
                **{name: stats[name] for name in _THERE},
                "seconds": seconds,
                "steps": steps,
            }
        )
