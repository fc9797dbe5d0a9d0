"""The clients of Kafka: what reads both topics, and what the results go to."""

from __future__ import annotations

import abc
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from muntin.host.errors import KafkaError, RecordError, StateError
from muntin.host.kafka.formats import BLOCK_BYTES, Format

HEADER = "muntin.batch"
"""Of each message of a result: the number of its batch."""
LOOK_SECONDS = 60.0
"""After which a topic is looked at for partitions that are new."""
LOG = logging.getLogger("muntin.kafka")

Offsets = dict[str, dict[int, int]]
"""The next offset to be read, by topic and partition."""


def confluent_kafka() -> Any:
    """The package. Raises KafkaError where it is not installed."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise KafkaError("Kafka needs the package confluent-kafka: pip install 'muntin[kafka]'") from error
    return confluent_kafka


class Aborted(Exception):
    """A transaction that did not come about, and may be tried again."""


@contextmanager
def named(what: str) -> Iterator[None]:
    """Has an error of the client say what was tried."""
    kafka = confluent_kafka()
    try:
        yield
    except kafka.KafkaException as error:
        reason = error.args[0]
        if getattr(reason, "txn_requires_abort", bool)() or getattr(reason, "retriable", bool)():
            raise Aborted(f"{what}: {reason.str()}") from error
        said = reason.str() if hasattr(reason, "str") else str(reason)
        if hasattr(reason, "code") and reason.code() == kafka.KafkaError._FENCED:
            said = f"another process of this name has taken over ({said})"
        raise KafkaError(f"cannot {what}: {said}") from error


class Source:
    """Reads all partitions of some topics, from given offsets on.

    Partitions are assigned, not shared within a consumer group, so no rebalance takes any away.

    Parameters
    ----------
    settings : dict
        Of the client.
    name : str
        The group whose offsets say which batch was given out.
    topics : sequence of str
    start : str
        "earliest" or "latest": from where on, where no offsets are known.
    timeout : float
        Seconds for an answer.

    Attributes
    ----------
    offsets : dict
        Up to where was read.

    Raises
    ------
    KafkaError
        A topic is not there, or the brokers do not answer.
    """

    def __init__(self, settings: dict[str, Any], name: str, topics: Iterable[str], start: str, timeout: float):
        self._kafka = confluent_kafka()
        self._name, self._start, self._timeout = name, start, timeout
        self._topics = list(topics)
        self.offsets: Offsets = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._settings = {
            "isolation.level": "read_committed",
            **settings,
            "group.id": name,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }
        self._consumer = self._open()
        try:
            self._partitions = self._look()
        except BaseException:
            self.close()
            raise

    def _open(self) -> Any:
        with named("open a consumer"):
            return self._kafka.Consumer(self._settings, logger=LOG)

    def _look(self) -> list[tuple[str, int]]:
        """The partitions there are. Not asked for a topic alone, which would make it."""
        self._looked = time.monotonic()
        try:
            with named("ask for the topics"):
                there = self._consumer.list_topics(timeout=self._timeout).topics
        except Aborted as error:
            raise KafkaError(f"the brokers do not answer within {self._timeout:g} s: {error}") from error
        missing = [topic for topic in self._topics if topic not in there]
        if missing:
            names = sorted(topic for topic in there if not topic.startswith("_"))
            raise KafkaError(f"there is no topic {missing[0]!r}: make it first. There are {', '.join(names) or 'none'}")
        return [(topic, number) for topic in self._topics for number in sorted(there[topic].partitions)]

    def begin(self, offsets: Offsets | None) -> None:
        """Reads on from these offsets; a partition that has none there from its beginning. None: from `start` on."""
        self.offsets = {topic: dict((offsets or {}).get(topic, {})) for topic in self._topics}
        for topic, number in self._partitions:
            if number not in self.offsets[topic]:
                low, high = self._reach(self._consumer, topic, number)
                self.offsets[topic][number] = high if offsets is None and self._start == "latest" else low
        with named("read the topics"):
            self._consumer.assign(self._positions(None))

    def _reach(self, consumer: Any, topic: str, partition: int) -> tuple[int, int]:
        """The first offset that a partition still has, and one past the last. A consumer that reads answers late."""
        with named(f"ask for the offsets of topic {topic!r}, partition {partition},"):
            place = self._kafka.TopicPartition(topic, partition)
            low, high = consumer.get_watermark_offsets(place, timeout=self._timeout, cached=False)
        return low, high

    def _positions(self, number: int | None) -> list[Any]:
        """The offsets as the client takes them, with a batch's number."""
        more = {} if number is None else {"metadata": str(number)}
        return [
            self._kafka.TopicPartition(topic, partition, offset, **more)
            for topic, partitions in self.offsets.items()
            for partition, offset in partitions.items()
        ]

    def read(self, rows: int, seconds: float) -> dict[str, list[Any]]:
        """The next messages by topic: so many, or what comes in so many seconds.

        Raises
        ------
        KafkaError
            A topic is gone, may not be read, or what was to be read next is not there any more.
        """
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._add_partitions()
        found: dict[str, list[Any]] = {topic: [] for topic in self._topics}
        with named("read the topics"):
            for message in self._consumer.consume(rows, seconds):
                if message.error() is None:
                    found[message.topic()].append(message)
                else:
                    self._tell(message)
            for place in self._consumer.position(self._positions(None)):
                if place.offset >= 0:
                    self.offsets[place.topic][place.partition] = place.offset
        return found

    def _add_partitions(self) -> None:
        known, self._partitions = self._partitions, self._look()
        for topic, number in self._partitions:
            if (topic, number) not in known:
                self.offsets[topic][number] = self._reach(self._consumer, topic, number)[0]
                with named("read the topics"):
                    place = self._kafka.TopicPartition(topic, number, self.offsets[topic][number])
                    self._consumer.incremental_assign([place])

    def _tell(self, message: Any) -> None:
        """Raises what came in the place of a message, or takes note of it."""
        error, place = message.error(), f"topic {message.topic()!r}, partition {message.partition()}"
        if error.code() == self._kafka.KafkaError._PARTITION_EOF:
            self._ends[message.topic(), message.partition()] = message.offset()
        elif error.code() == self._kafka.KafkaError._AUTO_OFFSET_RESET:
            next_offset = self.offsets[message.topic()][message.partition()]
            raise KafkaError(
                f"{place}: offset {next_offset:,} is not there any more ({error.str()}). Rows are lost that the join "
                "has not read: start with empty state and another name, and give the topic a longer retention"
            )
        elif not error.retriable() and (message.topic() is not None or error.fatal()):
            raise KafkaError(f"{place}: {error.str()}")
        else:
            LOG.warning("%s", error.str())

    def ends(self) -> dict[tuple[str, int], int]:
        """One past the last offset of each partition, as of now."""
        consumer = self._open()
        try:
            return {place: self._reach(consumer, *place)[1] for place in self._partitions}
        finally:
            consumer.close()

    def has_read(self, ends: dict[tuple[str, int], int]) -> bool:
        """Whether all before these offsets was read."""
        return all(
            max(self.offsets[topic][number], self._ends.get((topic, number), -1)) >= end
            for (topic, number), end in ends.items()
        )

    def given(self) -> int:
        """The number of the newest batch that the group's offsets are of; -1 where it has none.

        Raises
        ------
        StateError
            Others have committed offsets of this group.
        """
        places = [self._kafka.TopicPartition(*place) for place in self._partitions]
        with named(f"ask for the offsets of group {self._name!r}"):
            committed = self._consumer.committed(places, timeout=self._timeout)
        numbers = [-1]
        for place in committed:
            if place.offset < 0:
                continue
            if not (place.metadata or "").isdecimal():
                raise StateError(
                    f"group {self._name!r} has an offset of topic {place.topic!r} that no KafkaJoin has committed: "
                    "give this one a name of its own"
                )
            numbers.append(int(place.metadata))
        return max(numbers)

    def commit(self, number: int) -> None:
        """Has the group's offsets say that a batch was given out."""
        with named(f"commit the offsets of group {self._name!r}"):
            self._consumer.commit(offsets=self._positions(number), asynchronous=False)

    def commit_in(self, producer: Any, number: int) -> None:
        """The same, as a part of a producer's transaction."""
        group = self._consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(self._positions(number), group, self._timeout)

    def close(self) -> None:
        """Ends the client."""
        self._consumer.close()


class Sink(abc.ABC):
    """What the results go to."""

    #: Bytes of a table of a result.
    block_bytes: int = BLOCK_BYTES

    def begin(self) -> None:  # noqa: B027 - a callback has nothing to begin
        """Ends what another process of this name has begun, and lets it begin no more."""

    @abc.abstractmethod
    def write(self, number: int, tables: Iterable[pa.Table], source: Source, letters: Iterable[Letter]) -> None:
        """Gives out the result of a batch, which is in the state once the last of its tables has come.

        Raises
        ------
        Aborted
            It did not come about, and may be tried again.
        """

    @abc.abstractmethod
    def keep(self, number: int, source: Source) -> None:
        """Commits the offsets of the newest batch again, as a group's offsets go when none come for long."""


class CallbackSink(Sink):
    """Hands each result to a function, as one table, with its number.

    Parameters
    ----------
    callback : callable
    schema : pyarrow.Schema
        Of the results.
    durable : bool
        The join goes on in another process, which is told what was handed over.
    """

    block_bytes = 32 << 20

    def __init__(self, callback: Callable[[pa.Table, int], Any], schema: pa.Schema, *, durable: bool):
        self._callback, self._schema, self._durable = callback, schema, durable

    def write(self, number: int, tables: Iterable[pa.Table], source: Source, letters: Iterable[Letter]) -> None:
        self._callback(pa.concat_tables([self._schema.empty_table(), *tables]), number)
        self.keep(number, source)

    def keep(self, number: int, source: Source) -> None:
        if self._durable:
            source.commit(number)


class TopicSink(Sink):
    """Writes each result to a topic, in a transaction with the offsets of what was read for it.

    Parameters
    ----------
    settings : dict
        Of the client.
    name : str
        The transactional id: of two producers that have it, the later one goes on.
    topic : str
    format : Format
    dead_letters : str, optional
        The topic for messages that could not be read.
    timeout : float
        Seconds for an answer.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        name: str,
        topic: str,
        format: Format,
        dead_letters: str | None,
        timeout: float,
    ):
        self._topic, self._format, self._dead_letters, self._timeout = topic, format, dead_letters, timeout
        with named("open a producer"):
            self._producer = confluent_kafka().Producer(
                {"linger.ms": 5, **settings, "transactional.id": name, "enable.idempotence": True}, logger=LOG
            )

    def begin(self) -> None:
        try:
            with named(f"begin transactions of {self._topic!r}"):
                self._producer.init_transactions(self._timeout)
        except Aborted as error:
            raise KafkaError(f"the brokers do not answer within {self._timeout:g} s: {error}") from error

    def write(self, number: int, tables: Iterable[pa.Table], source: Source, letters: Iterable[Letter]) -> None:
        headers = [(HEADER, str(number).encode())]
        with named(f"begin a transaction of {self._topic!r}"):
            self._producer.begin_transaction()
        try:
            for table in tables:
                for value in self._format.encode(table):
                    self._produce(self._topic, value, headers)
            for letter in letters:
                assert self._dead_letters is not None
                self._produce(self._dead_letters, letter.value, headers + letter.headers)
            with named(f"write batch {number} to {self._topic!r}"):
                self._producer.flush(self._timeout)
                source.commit_in(self._producer, number)
                self._producer.commit_transaction(self._timeout)
        except BaseException:
            with suppress(confluent_kafka().KafkaException):  # the next process of this name ends it, too
                self._producer.abort_transaction(self._timeout)
            raise

    def _produce(self, topic: str, value: bytes | None, headers: list[tuple[str, bytes]]) -> None:
        while True:
            try:
                with named(f"write a message of {len(value or b''):,} bytes to {topic!r}"):
                    self._producer.produce(topic, value, headers=headers)
                return
            except BufferError:  # what was produced waits to be sent
                self._producer.poll(0.05)

    def keep(self, number: int, source: Source) -> None:
        self.write(number, (), source, ())


@dataclass(frozen=True)
class Letter:
    """A message that could not be read; its place, column and error as of `RecordError`."""

    value: bytes | None
    topic: str
    partition: int
    offset: int
    reason: str
    field: str | None

    def error(self) -> RecordError:
        """As an error."""
        where = f"topic {self.topic!r}, partition {self.partition}, offset {self.offset}"
        of = "" if self.field is None else f", column {self.field!r}"
        return RecordError(
            f"{where}{of}: {self.reason}. Give dead_letters=, a topic for such messages, or correct the columns",
            self.topic, self.partition, self.offset, self.field,
        )  # fmt: skip

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """What a topic of such messages has of it."""
        told: dict[str, object] = {"topic": self.topic, "partition": self.partition, "offset": self.offset}
        told |= {"error": self.reason, **({} if self.field is None else {"column": self.field})}
        return [(f"muntin.{name}", str(value).encode()) for name, value in told.items()]
