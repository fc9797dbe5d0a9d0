"""A join of two topics that goes on exactly where it was."""

from __future__ import annotations

import base64
import datetime as dt
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.host.aggregates import Aggregate
from muntin.host.devices import Device
from muntin.host.engines import EngineKind, Inner, Outer, Partitions
from muntin.host.errors import KafkaError, MuntinError, SchemaError, StateError, WindowError
from muntin.host.frames import ArrowColumns, as_schema
from muntin.host.index import Index
from muntin.host.join import Tables, WindowJoin
from muntin.host.join.collector import MAX_ROWS
from muntin.host.join.late_rows import marked, marked_schema
from muntin.host.join.stats import Stats
from muntin.host.kafka.formats import Arrow, Format, Json, cut
from muntin.host.kafka.sinks import CallbackSink, Letter, Sink, TopicSink
from muntin.host.kafka.source import LOG, Aborted, Offsets, Source
from muntin.host.keys.constants import whole_number
from muntin.host.keys.durations import nanoseconds
from muntin.host.predicates import AllOf, AsOf, Predicate, Where
from muntin.host.public import public
from muntin.host.sides import SIDES, Side
from muntin.host.windows import Rows, Watermark, Within

TRIES = 5
"""For a step that the brokers gave up."""
KEEP_SECONDS = 3600.0
"""After which offsets are committed again that have not changed."""


def _has_no_text(kind: pa.DataType) -> bool:
    others = pa.types.is_duration(kind) or pa.types.is_interval(kind) or isinstance(kind, pa.BaseExtensionType)
    return pa.types.is_nested(kind) or pa.types.is_binary(kind) or others


@public("muntin.kafka")
class KafkaJoin:
    """A sliding-window join of two topics of Kafka, of which each pair comes out exactly once.

    Rows are joined in batches. A batch and the offsets behind it are one commit of the state; then its result goes to
    a topic, in a transaction with these offsets and the batch's number. A process that goes on finds in the state which
    batch was joined last, and in the group's offsets which one was given out, and gives out again what is missing.

    Parameters
    ----------
    topics : (str, str) or (str,)
        The left and the right topic; one for a self join. All partitions are read by this process.
    on : as of `WindowJoin`
    servers : str
        ``"host:port"`` of one or several brokers, with commas between.
    state : str or Path, optional
        As of `WindowJoin`. Without it nothing goes on after this process, and `output` is a function.
    name : str, optional
        Names the join in Kafka: its group and its transactions. Needed with `state`. Of two processes of one name the
        later one goes on.
    output : str or callable
        The topic for the results; or a function that is called with each result, as a pyarrow.Table, and the number of
        its batch, from 0 on. Where a process dies after the call and before that is known, the next one calls it again
        with the same rows under the same number.
    left_schema, right_schema : as of `WindowJoin`, optional
        The columns of each side, not needed where its format has them or `state` has a batch. Others are skipped.
    left_format, right_format, output_format : Format
        What messages are: `Json`, `Avro` or `Arrow`.
    output_key : str, optional
        The column of the result whose text is the key of its messages, which has Kafka put equal ones into one
        partition; not for `Arrow`, whose messages have many rows.
    dead_letters : str or callable, optional
        The topic for messages that cannot be read, or have a row that the join refuses, written in the batch's
        transaction, their place and error in headers. Where `output` is a function, a function, called after it where
        the batch has such messages, with a pyarrow.Table of `topic`, `partition`, `offset`, `error`, `column` and
        `value`, and the batch's number. By default such a message is an error, and nothing after it is read.
    start : str
        From where a join without state reads: ``"earliest"`` or ``"latest"``.
    max_rows : int
        Messages of a batch, of both topics.
    max_delay : str or datetime.timedelta
        How long a batch waits for more, such as ``"100 ms"``; 0: for its first message alone.
    taken : int, optional
        The number of the newest batch that the receiver has, where it keeps that with the rows. By default the group's
        offsets say it, which brokers forget after a week without a commit (``offsets.retention.minutes``).
    config : dict, optional
        Settings of both clients, as librdkafka names them: ``{"security.protocol": "SASL_SSL", ...}``.
    timeout : float
        Seconds to wait for an answer of the brokers.
    how, left, right, within, watermark, late, sequence, form, aggregates, at, order, select, suffix, index, engine,
    itself
        As of `JoinSpec`.
    device, threads, partitions
        As of `WindowJoin`.

    Raises
    ------
    KafkaError
        confluent-kafka is not installed, the brokers do not answer, or a topic is not there.
    StateError
        The state belongs to another join, other topics or another name, or to another batch than the group's offsets.
    SchemaError
        The columns of a side are not known, or its format or that of the output does not have them.
    MuntinError
        What `WindowJoin` raises.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from muntin import Watermark, Within
    >>> from muntin.kafka import KafkaJoin
    >>> def run():
    ...     join = KafkaJoin(
    ...         ("orders", "quotes"), "right.price BETWEEN left.limit - 5 AND left.limit + 5",
    ...         within=Within("t", "t", "-1 s", "1 s"), watermark=Watermark(left="1 s", right="1 s"),
    ...         left_schema=pa.schema({"id": pa.int64(), "t": pa.timestamp("ms"), "limit": pa.float64()}),
    ...         right_schema=pa.schema({"t": pa.timestamp("ms"), "price": pa.float64()}),
    ...         servers="localhost:9092", name="near-quotes", state="/var/lib/near-quotes", output="near-quotes",
    ...     )
    ...     with join:
    ...         join.run()
    """

    def __init__(
        self,
        topics: Sequence[str],
        on: Predicate | AllOf | AsOf | Where | str | Sequence[str],
        *,
        servers: str,
        output: str | Callable[[pa.Table, int], object],
        state: str | Path | None = None,
        name: str | None = None,
        left_schema: ArrowColumns | None = None,
        right_schema: ArrowColumns | None = None,
        left_format: Format | None = None,
        right_format: Format | None = None,
        output_format: Format | None = None,
        output_key: str | None = None,
        dead_letters: str | Callable[[pa.Table, int], object] | None = None,
        start: str = "earliest",
        max_rows: int = MAX_ROWS,
        max_delay: str | dt.timedelta = "100 ms",
        taken: int | None = None,
        config: dict[str, Any] | None = None,
        timeout: float = 30.0,
        how: str = "inner",
        left: Rows | int | None = None,
        right: Rows | int | None = None,
        within: Within | tuple[str, str, Any, Any] | None = None,
        watermark: Watermark | None = None,
        late: str = "drop",
        sequence: str | None = None,
        form: str = "rows",
        aggregates: Aggregate | str | Sequence[Aggregate | str] = (),
        at: str = "arrival",
        order: str | Outer | Inner = "none",
        select: Sequence[str] | None = None,
        suffix: str = "_right",
        index: str | Index = "auto",
        engine: str | EngineKind = "auto",
        itself: bool = False,
        device: str | Device = "cpu",
        threads: int | None = None,
        partitions: int | Partitions = 1,
    ):
        self._topics = (topics,) if isinstance(topics, str) else tuple(topics)
        if len(set(self._topics)) != len(self._topics) or len(self._topics) not in (1, 2):
            raise KafkaError(f"topics={topics!r} must be two topics, left and right, or one for a self join")
        if start not in ("earliest", "latest"):
            raise KafkaError(f"start={start!r} must be 'earliest' or 'latest'")
        if (rows := whole_number(max_rows)) is None or not 1 <= rows <= 1_000_000:
            raise WindowError(f"max_rows must be a whole number from 1 to 1,000,000, not {max_rows!r}")
        if (delay := nanoseconds(max_delay)) < 0:
            raise WindowError(f"max_delay must not be negative, as {max_delay!r} is")
        if state is not None and name is None:
            raise KafkaError("a join with state= needs name=, under which Kafka keeps what was given out")
        if state is None and not callable(output):
            raise KafkaError(f"output={output!r} is a topic, written exactly once: give state= and name=")
        if dead_letters is not None and callable(dead_letters) != callable(output):
            raise KafkaError(
                f"output={output!r} and dead_letters={dead_letters!r} must be two topics, written in one transaction, "
                "or two functions"
            )
        self._rows, self._seconds, self._start, self._timeout = rows, delay / 1e9, start, timeout
        self._name, self._state = name or f"muntin-{secrets.token_hex(8)}", state
        self._output, self._dead_letters, self._taken = output, dead_letters, taken
        formats = dict(zip(SIDES, (left_format or Json(), right_format or Json()), strict=True))
        schemas = dict(zip(SIDES, (left_schema, right_schema), strict=True))
        self._formats = dict(zip(SIDES, [formats[side] for side, _ in self._sides], strict=False))
        self._output_format, self._output_key = output_format or Json(), output_key
        if output_key is not None and (callable(output) or isinstance(output_format, Arrow)):
            raise KafkaError("output_key= is for messages of one row: output= must be a topic, and not of Arrow")
        self._settings = {"bootstrap.servers": servers, **(config or {})}
        self._options: dict[str, Any] = {
            "on": on, "how": how, "left": left, "right": right, "within": within, "watermark": watermark, "late": late,
            "sequence": sequence, "form": form, "aggregates": aggregates, "at": at, "order": order, "select": select,
            "suffix": suffix, "index": index, "engine": engine, "self_join": len(self._topics) == 1, "itself": itself,
            "device": device, "threads": threads, "partitions": partitions, "state": state,
        }  # fmt: skip
        for side, _ in self._sides:
            given = schemas[side]
            schema = self._formats[side].schema if given is None else as_schema(f"{side}_schema", given)
            self._options[f"{side}_schema"] = schema
        self._stop = threading.Event()
        self._source: Source | None = None
        self._sink: Sink | None = None
        self._join: WindowJoin | None = None
        self._letters: list[Letter] = []  # of the newest batch
        self._owed = False  # that one is in the state, and was not given out
        self._closed = self._stepping = False
        self._tried(self._open)

    @property
    def _sides(self) -> list[tuple[Side, str]]:
        """The sides that have a topic, with it."""
        return list(zip(SIDES, self._topics, strict=False))

    # Going on

    def _open(self) -> None:
        """Goes on from the state and the group's offsets."""
        try:
            others = [topic for topic in (self._output, self._dead_letters) if isinstance(topic, str)]
            source = self._source = Source(self._settings, self._name, self._topics, others, self._start, self._timeout)
            if isinstance(self._output, str):
                self._sink = TopicSink(
                    self._settings, self._name, self._output, self._output_format, self._output_key,
                    None if callable(self._dead_letters) else self._dead_letters, self._timeout,
                )  # fmt: skip
                self._sink.begin()  # before the state is read: what an earlier process writes is complete, or ended
            join = self._join = WindowJoin(**self._options)
            if join.output_schema is None:
                raise SchemaError("the columns of the sides are not known: give left_schema= and right_schema=")
            self._schemas = join.schemas
            schema = self._schema = marked_schema(join.spec, self._schemas["left"], self._schemas["right"])
            self._check_formats(schema)
            if self._sink is None:
                assert callable(self._output)
                letters = self._dead_letters if callable(self._dead_letters) else None
                self._sink = CallbackSink(self._output, schema, letters, durable=self._state is not None)
            offsets = self._of_tag(join)
            if self._state is not None:
                given = source.given() if self._taken is None else self._taken
                self._owed = given == join.last_batch - 1
                if not self._owed and given != join.last_batch:
                    raise StateError(self._apart(given, join.last_batch))
                if self._owed and self._letters and self._dead_letters is None:
                    raise StateError(
                        f"batch {join.last_batch} of the state in {self._state} was not given out, and has messages "
                        "that could not be read or joined: give dead_letters=, and the output, of the process that has "
                        "joined it"
                    )
            self._taken = None  # from now on the group knows
            source.begin(offsets)
            self._written = time.monotonic()
        except BaseException:
            self._release()
            raise

    def _check_formats(self, schema: pa.Schema) -> None:
        for side, topic in self._sides:
            self._formats[side].check(self._schemas[side], topic)
        if isinstance(self._output, str):
            self._output_format.check(schema, self._output, writing=True)
        key = self._output_key
        if key is not None and key not in schema.names:
            raise SchemaError(f"output_key={key!r} is no column of the result: it has {', '.join(schema.names)}")
        if key is not None and _has_no_text(schema.field(key).type):
            raise SchemaError(
                f"output_key={key!r} has type {schema.field(key).type}, which has no text: choose another"
            )

    def _apart(self, given: int, last: int) -> str:
        """Why a state does not go on."""
        if last < 0:
            what = f"the state in {self._state} is empty"
        else:
            what = f"the newest batch of the state in {self._state} is {last}"
        if given < 0:
            told = "has no offsets; brokers forget them after a week without a commit, then give taken="
        else:
            told = f"has those of batch {given}"
        return f"{what}, and group {self._name!r} {told}. Restore the state, or start without it under another name="

    def _tag(self, offsets: Offsets) -> bytes:
        letters = [
            {**vars(each), "value": None if each.value is None else base64.b64encode(each.value).decode()}
            for each in self._letters
        ]
        fields = {"name": self._name, "topics": self._topics, "offsets": offsets, "letters": letters}
        return json.dumps(fields).encode()

    def _of_tag(self, join: WindowJoin) -> Offsets | None:
        """The offsets in the state; None where it has no batch. Raises StateError."""
        if join.last_batch < 0:
            return None
        try:
            fields = json.loads(join.last_tag or b"")
            name, topics, letters = fields["name"], tuple(fields["topics"]), fields["letters"]
            offsets = {
                topic: {int(partition): offset for partition, offset in partitions.items()}
                for topic, partitions in fields["offsets"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StateError(
                f"the state in {self._state} is not of a KafkaJoin: it has no offsets of topics. Give another folder"
            ) from error
        for what, then, now in (("topics", topics, self._topics), ("name", name, self._name)):
            if then != now:
                raise StateError(f"the state in {self._state} belongs to a KafkaJoin with {what}={then!r}, not {now!r}")
        self._letters = [
            Letter(**{**each, "value": None if each["value"] is None else base64.b64decode(each["value"])})
            for each in letters
        ]
        return offsets

    # Batches

    def step(self) -> int | None:
        """Reads messages of both topics, at most `max_rows` and for `max_delay`, joins them and gives out the result.

        Returns
        -------
        int or None
            The number of the batch; None where no message came.

        Raises
        ------
        RecordError
            A message cannot be read, or the join refuses a row of it, and there is no `dead_letters`. It names topic,
            partition, offset and column; its cause is the error of the join.
        StateTakenError
            Another process has gone on with the state.
        KafkaError
            Another process of this name has taken over, or the brokers refuse something.
        MuntinError
            What `WindowJoin.process` raises, and what the constructor does, as this goes on from the state where the
            step before has failed.
        """
        if self._closed:
            raise KafkaError("this join was closed: open another one")
        self._stepping = True
        try:
            return self._tried(self._step)
        finally:
            self._stepping = False

    def _tried(self, code: Callable[[], Any]) -> Any:
        """Does something, and again where the brokers gave it up."""
        for attempt in range(TRIES):
            try:
                return code()
            except Aborted as error:
                self._release()
                if attempt == TRIES - 1 or self._state is None:
                    raise KafkaError(str(error)) from error
                LOG.warning("%s; it is tried again", error)
                self._stop.wait(attempt / 2)
            except BaseException:
                self._release()
                raise

    def _step(self) -> int | None:
        if self._join is None:
            self._open()
        join, source, sink = self._join, self._source, self._sink
        assert join is not None
        assert source is not None
        assert sink is not None
        if self._owed:
            again = join.repeat_blocks(block_bytes=sink.block_bytes)
            return self._give(join.last_batch, marked(join, again, self._schema))
        messages = source.read(self._rows, self._seconds)
        if not any(messages.values()):
            if join.last_batch >= 0 and time.monotonic() - self._written > KEEP_SECONDS:
                sink.keep(join.last_batch, source)
                self._written = time.monotonic()
            return None
        self._letters = []
        given = {side: self._readable(side, messages[topic]) for side, topic in self._sides}
        while True:
            tables, tag = {side: table for side, (_, table) in given.items()}, self._tag(source.offsets)
            self._owed = True
            try:
                blocks = join.process_blocks(**tables, tag=tag, block_bytes=sink.block_bytes)
            except MuntinError as error:  # it has changed nothing
                if not error.rows or error.side is None:
                    raise
                given[error.side] = self._accepted(error.side, *given[error.side], error)
            else:
                return self._give(join.last_batch + 1, marked(join, blocks, self._schema))

    def _readable(self, side: Side, messages: list[Any]) -> tuple[list[Any], pa.Table | None]:
        """Those messages that can be read, and their rows."""
        if not messages:
            return [], None
        tables, bad = self._formats[side].decode_some([message.value() for message in messages], self._schemas[side])
        for place, error in bad:
            self._put_aside(messages[place], error, error.field)
        gone = {place for place, _ in bad}
        readable = [message for place, message in enumerate(messages) if place not in gone]
        return readable, pa.concat_tables(tables) if tables else None

    def _accepted(
        self, side: Side, messages: list[Any], table: pa.Table | None, error: MuntinError
    ) -> tuple[list[Any], pa.Table | None]:
        """Those messages none of whose rows the join has refused, and their rows."""
        assert table is not None
        counts = self._formats[side].rows_of([message.value() for message in messages])
        accepted = np.ones(len(messages), np.bool_)
        accepted[np.searchsorted(np.cumsum(counts), error.rows, side="right")] = False
        for place in np.flatnonzero(~accepted).tolist():
            self._put_aside(messages[place], error, error.field)
        readable = [message for message, kept in zip(messages, accepted.tolist(), strict=True) if kept]
        return readable, table.filter(pa.array(np.repeat(accepted, counts)))

    def _put_aside(self, message: Any, error: Exception, field: str | None = None) -> None:
        """Has a message be a dead letter. Raises RecordError where there are none."""
        rows = error.rows if isinstance(error, MuntinError) else ()
        reason = cut(
            str(error) if len(rows) < 2 else f"{len(rows):,} rows of the batch are refused, the first: {error}"
        )
        letter = Letter(message.value(), message.topic(), message.partition(), message.offset(), reason, field)
        if self._dead_letters is None:
            raise letter.error() from error
        self._letters.append(letter)

    def _give(self, number: int, tables: Tables) -> int:
        assert self._sink is not None
        assert self._source is not None
        self._sink.write(number, tables, self._source, self._letters)
        self._owed, self._written = False, time.monotonic()
        return number

    def run(self, *, to_end: bool = False) -> None:
        """Reads and joins until `stop`.

        Parameters
        ----------
        to_end : bool
            Or until all is read that is in the topics now.

        Raises
        ------
        MuntinError
            What `step` raises.
        """
        for _ in self.batches(to_end=to_end):
            pass

    def batches(self, *, to_end: bool = False) -> Iterator[int]:
        """As `run`, a step whenever it is asked for; gives the number of each batch, once its result is given out."""
        ends = None
        while not self._stop.is_set():
            if to_end and ends is None and self._source is not None:
                ends = self._source.ends()
            if (number := self.step()) is not None:
                yield number
            if ends is not None and self._source is not None and self._source.has_given(ends):
                return

    def stop(self) -> None:
        """Ends `run` and `batches` after the batch under way; from any thread, and from a signal handler."""
        self._stop.set()

    @property
    def last_batch(self) -> int:
        """The number of the newest batch that was joined; -1 before the first."""
        return -1 if self._join is None else self._join.last_batch

    @property
    def stats(self) -> Stats:
        """As of `WindowJoin`, since this process opened it. Raises KafkaError where a step has failed."""
        return self._opened.stats

    def explain(self) -> str:
        """As of `WindowJoin`. Raises KafkaError where a step has failed."""
        return self._opened.explain()

    @property
    def _opened(self) -> WindowJoin:
        if self._join is None:
            raise KafkaError("this join is closed, or its last step has failed")
        return self._join

    def _release(self) -> None:
        if self._join is not None:
            self._join.close()
        if self._source is not None:
            self._source.close()
        self._join = self._source = self._sink = None
        if self._state is None:  # nothing goes on
            self._closed = True

    def close(self) -> None:
        """Frees memory and ends the clients; what was joined stays in the state. Idempotent. Raises KafkaError while a
        step is under way, as within the function that is given its result: call `stop` there."""
        if self._stepping:
            raise KafkaError(
                "close() while a step is under way, as within the function that output= names, would take the state "
                "and the clients away from it: call stop() there, and close() once run() has returned"
            )
        self._closed = True
        self._release()

    def __enter__(self) -> KafkaJoin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
