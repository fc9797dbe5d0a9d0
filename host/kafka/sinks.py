"""What the results of a join of topics go to."""

from __future__ import annotations

import abc
import itertools
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from muntin.host.errors import KafkaError, RecordError
from muntin.host.kafka.formats import BLOCK_BYTES, Format
from muntin.host.kafka.source import Aborted, Source, confluent_kafka, named

HEADER = "muntin.batch"
"""Of each message of a result: the number of its batch."""


LETTERS = pa.schema(
    [
        pa.field("topic", pa.string(), False),
        pa.field("partition", pa.int32(), False),
        pa.field("offset", pa.int64(), False),
        pa.field("error", pa.string(), False),
        ("column", pa.string()),
        ("value", pa.binary()),
    ]
)
"""Of messages that could not be read or joined, as a function gets them."""


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
    dead_letters : callable, optional
        Is handed the messages that could not be read or joined, as a table, with the number of their batch.
    durable : bool
        The join goes on in another process, which learns what was handed over.
    """

    block_bytes = 32 << 20

    def __init__(
        self,
        callback: Callable[[pa.Table, int], Any],
        schema: pa.Schema,
        dead_letters: Callable[[pa.Table, int], Any] | None,
        *,
        durable: bool,
    ):
        self._callback, self._schema, self._dead_letters, self._durable = callback, schema, dead_letters, durable

    def write(self, number: int, tables: Iterable[pa.Table], source: Source, letters: Iterable[Letter]) -> None:
        found = list(tables)
        self._callback(pa.concat_tables(found) if found else self._schema.empty_table(), number)
        if rows := [letter.row for letter in letters]:
            assert self._dead_letters is not None
            self._dead_letters(pa.Table.from_pylist(rows, LETTERS), number)
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
    key : str, optional
        The column whose text is the key of a message.
    dead_letters : str, optional
        The topic for messages that could not be read or joined.
    timeout : float
        Seconds for an answer.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        name: str,
        topic: str,
        format: Format,
        key: str | None,
        dead_letters: str | None,
        timeout: float,
    ):
        self._topic, self._format, self._key = topic, format, key
        self._dead_letters, self._timeout = dead_letters, timeout
        with named("open a producer"):
            self._producer = confluent_kafka().Producer(
                {"linger.ms": 5, **settings, "transactional.id": name, "enable.idempotence": True}
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
                for key, value in zip(self._keys(table), self._format.encode(table), strict=False):
                    self._produce(self._topic, value, headers, key)
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

    def _keys(self, table: pa.Table) -> Iterable[bytes | None]:
        """Of the messages that rows become."""
        if self._key is None:
            return itertools.repeat(None)
        return table.column(self._key).cast(pa.string()).cast(pa.binary()).to_pylist()

    def _produce(
        self, topic: str, value: bytes | None, headers: list[tuple[str, bytes]], key: bytes | None = None
    ) -> None:
        while True:
            try:
                with named(f"write a message of {len(value or b''):,} bytes to {topic!r}"):
                    self._producer.produce(topic, value, key, headers=headers)
                return
            except BufferError:  # what was produced waits to be sent
                self._producer.poll(0.05)

    def keep(self, number: int, source: Source) -> None:
        self.write(number, (), source, ())


@dataclass(frozen=True)
class Letter:
    """A message that could not be read or joined; its place, column and error as of `RecordError`."""

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
            f"{where}{of}: {self.reason}. Give dead_letters=, for such messages, or correct the columns",
            self.topic, self.partition, self.offset, self.field,
        )  # fmt: skip

    @property
    def row(self) -> dict[str, object]:
        """As a row of `LETTERS`."""
        place = {"topic": self.topic, "partition": self.partition, "offset": self.offset}
        return {**place, "error": self.reason, "column": self.field, "value": self.value}

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """What a topic of such messages has of it."""
        told = {name: value for name, value in self.row.items() if name != "value" and value is not None}
        return [(f"muntin.{name}", str(value).encode()) for name, value in told.items()]
