"""What reads topics of Kafka."""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, chain, groupby, islice
from typing import Any

import numpy as np

from muntin.host.errors import KafkaError, StateError

LOOK_SECONDS = 60.0
"""After which a topic is looked at for partitions that are new."""
IDLE_SECONDS = 0.1
"""For which a reader that waits for no more messages waits for the first."""
MIN_WAITING = 10_000
"""Messages that wait before a partition is read no more: what the client has of it is then read again."""
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


@dataclass
class _Partition:
    """A partition, and what was read of it and waits: messages, and for each the newest time up to it."""

    topic: str
    number: int
    offset: int  # the next one to be given
    messages: list[Any] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    end: int = -1  # where the client found no more
    paused: bool = False

    def add(self, messages: list[Any]) -> None:
        """Puts messages behind those that wait."""
        newest = self.times[-1:]
        times = accumulate([*newest, *(message.timestamp()[1] for message in messages)], max)
        self.times += islice(times, len(newest), None)
        self.messages += messages

    def take(self, count: int) -> tuple[list[int], list[Any]]:
        """The first of those that wait, with their times."""
        times, messages = self.times[:count], self.messages[:count]
        del self.times[:count], self.messages[:count]
        if messages:
            self.offset = messages[-1].offset() + 1
        if not self.messages:  # what a transaction left behind its messages is no message
            self.offset = max(self.offset, self.end)
        return times, messages


class Source:
    """Reads all partitions of some topics, from given offsets on, in the order of the times that their messages have.

    Partitions are assigned, not shared within a consumer group, so no rebalance takes any away. They come at their own
    pace, most of all where a join catches up: a message waits until each partition has given one that is later, or has
    no more, so that none is late for that alone.

    Parameters
    ----------
    settings : dict
        Of the client.
    name : str
        The group whose offsets say which batch was given out.
    topics : sequence of str
    others : sequence of str
        Topics that have to be there, too.
    start : str
        "earliest" or "latest": from where on, where no offsets are known.
    timeout : float
        Seconds for an answer.

    Raises
    ------
    KafkaError
        A topic is not there, or the brokers do not answer.
    """

    def __init__(
        self, settings: dict[str, Any], name: str, topics: Iterable[str], others: Iterable[str], start: str,
        timeout: float,
    ):  # fmt: skip
        self._kafka = confluent_kafka()
        self._name, self._start, self._timeout = name, start, timeout
        self._topics, self._others = list(topics), list(others)
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._settings = {
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            **settings,
            "group.id": name,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }
        self._consumer = self._open()
        try:
            self._places = self._look()
        except BaseException:
            self.close()
            raise

    def _open(self) -> Any:
        with named("open a consumer"):
            return self._kafka.Consumer(self._settings)

    def _look(self) -> list[tuple[str, int]]:
        """The partitions there are. Not asked for a topic alone, which would make it."""
        self._looked = time.monotonic()
        try:
            with named("ask for the topics"):
                there = self._consumer.list_topics(timeout=self._timeout).topics
        except Aborted as error:
            raise KafkaError(f"the brokers do not answer within {self._timeout:g} s: {error}") from error
        missing = [topic for topic in (*self._topics, *self._others) if topic not in there]
        if missing:
            names = sorted(topic for topic in there if not topic.startswith("_"))
            raise KafkaError(f"there is no topic {missing[0]!r}: make it first. There are {', '.join(names) or 'none'}")
        return [(topic, number) for topic in self._topics for number in sorted(there[topic].partitions)]

    def begin(self, offsets: Offsets | None) -> None:
        """Reads on from these offsets; a partition that has none there from its beginning. None: from `start` on."""
        for topic, number in self._places:
            offset = (offsets or {}).get(topic, {}).get(number)
            if offset is None:
                low, high = self._reach(self._consumer, topic, number)
                offset = high if offsets is None and self._start == "latest" else low
            self._partitions[topic, number] = _Partition(topic, number, offset)
        with named("read the topics"):
            self._consumer.assign([self._place(each) for each in self._partitions.values()])

    def _reach(self, consumer: Any, topic: str, partition: int) -> tuple[int, int]:
        """The first offset that a partition still has, and one past the last. A consumer that reads answers late."""
        with named(f"ask for the offsets of topic {topic!r}, partition {partition},"):
            place = self._kafka.TopicPartition(topic, partition)
            low, high = consumer.get_watermark_offsets(place, timeout=self._timeout, cached=False)
        return low, high

    def _place(self, partition: _Partition, number: int | None = None) -> Any:
        """The offset of a partition as the client takes it, with a batch's number."""
        more = {} if number is None else {"metadata": str(number)}
        return self._kafka.TopicPartition(partition.topic, partition.number, partition.offset, **more)

    @property
    def offsets(self) -> Offsets:
        """Up to where messages were given."""
        found: Offsets = {topic: {} for topic in self._topics}
        for partition in self._partitions.values():
            found[partition.topic][partition.number] = partition.offset
        return found

    def read(self, rows: int, seconds: float) -> dict[str, list[Any]]:
        """The next messages by topic: so many, or what comes in so many seconds.

        Raises
        ------
        KafkaError
            A topic is gone, may not be read, or what was to be read next is not there any more.
        """
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._add_partitions()
        with named("read the topics"):
            messages = []
            new = self._consumer.consume(rows, seconds)
            if not new and seconds < IDLE_SECONDS and not any(each.messages for each in self._partitions.values()):
                new = self._consumer.consume(1, IDLE_SECONDS)
                new += self._consumer.consume(rows - 1, 0) if new and rows > 1 else []
            for message in new:
                if message.error() is None:
                    messages.append(message)
                else:
                    self._tell(message)
            for place, run in groupby(messages, lambda message: (message.topic(), message.partition())):
                self._partitions[place].add(list(run))
            found = self._taken(rows)
            for partition in self._partitions.values():
                self._pause(partition, rows)
        return found

    def _taken(self, rows: int) -> dict[str, list[Any]]:
        """The earliest of the messages that wait, at most so many, of those that no earlier one can come before."""
        places = self._partitions.values()
        if not any(each.messages for each in places):
            return {topic: [] for topic in self._topics}
        until = min((each.times[-1] if each.times else -1 for each in places if not self._at_end(each)), default=None)
        counts = [len(each.times) if until is None else bisect_right(each.times, until) for each in places]
        if sum(counts) > rows:
            waiting = [each.times[:count] for each, count in zip(places, counts, strict=True)]
            until = sorted(chain.from_iterable(waiting))[rows - 1]
            counts = [bisect_right(each.times, until) for each in places]
        found: dict[str, list[Any]] = {topic: [] for topic in self._topics}
        stamps: dict[str, list[int]] = {topic: [] for topic in self._topics}
        for each, count in zip(places, counts, strict=True):
            times, messages = each.take(min(count, rows))
            rows -= len(messages)
            stamps[each.topic] += times
            found[each.topic] += messages
        for topic, messages in found.items():
            order = np.argsort(stamps[topic], kind="stable")
            found[topic] = [messages[place] for place in order.tolist()]
        return found

    def _at_end(self, partition: _Partition) -> bool:
        """Whether a partition had nothing after what was read of it, when the brokers were asked last."""
        next_offset = partition.messages[-1].offset() + 1 if partition.messages else partition.offset
        _, high = self._consumer.get_watermark_offsets(self._place(partition), cached=True)
        return max(next_offset, partition.end) >= high >= 0

    def _pause(self, partition: _Partition, rows: int) -> None:
        """Has no more read of a partition of which a batch waits, until that is given."""
        if partition.paused != (len(partition.messages) > max(2 * rows, MIN_WAITING)):
            partition.paused = not partition.paused
            (self._consumer.pause if partition.paused else self._consumer.resume)([self._place(partition)])

    def _add_partitions(self) -> None:
        for place in self._look():
            if place not in self._partitions:
                partition = self._partitions[place] = _Partition(*place, self._reach(self._consumer, *place)[0])
                self._places.append(place)
                with named("read the topics"):
                    self._consumer.incremental_assign([self._place(partition)])

    def _tell(self, message: Any) -> None:
        """Raises what came in the place of a message, or takes note of it."""
        error, place = message.error(), f"topic {message.topic()!r}, partition {message.partition()}"
        if error.code() == self._kafka.KafkaError._PARTITION_EOF:
            self._partitions[message.topic(), message.partition()].end = message.offset()
        elif error.code() == self._kafka.KafkaError._AUTO_OFFSET_RESET:
            partition = self._partitions[message.topic(), message.partition()]
            raise KafkaError(
                f"{place}: offset {partition.offset:,} is not there any more ({error.str()}). Rows are lost that the "
                "join has not read: start with empty state and another name, and give the topic a longer retention"
            )
        elif not error.retriable() and (message.topic() is not None or error.fatal()):
            raise KafkaError(f"{place}: {error.str()}")
        else:
            LOG.warning("%s", error.str())

    def ends(self) -> dict[tuple[str, int], int]:
        """One past the last offset of each partition, as of now."""
        consumer = self._open()
        try:
            return {place: self._reach(consumer, *place)[1] for place in self._places}
        finally:
            consumer.close()

    def has_given(self, ends: dict[tuple[str, int], int]) -> bool:
        """Whether all messages before these offsets were given."""
        return all(
            max(self._partitions[place].offset, -1 if self._partitions[place].messages else self._partitions[place].end)
            >= end
            for place, end in ends.items()
        )

    def given(self) -> int:
        """The number of the newest batch that the group's offsets belong to; -1 where it has none.

        Raises
        ------
        StateError
            Others have committed offsets of this group.
        """
        places = [self._kafka.TopicPartition(*place) for place in self._places]
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
            places = [self._place(each, number) for each in self._partitions.values()]
            self._consumer.commit(offsets=places, asynchronous=False)

    def commit_in(self, producer: Any, number: int) -> None:
        """The same, as a part of a producer's transaction."""
        group = self._consumer.consumer_group_metadata()
        places = [self._place(each, number) for each in self._partitions.values()]
        producer.send_offsets_to_transaction(places, group, self._timeout)

    def close(self) -> None:
        """Ends the client."""
        self._consumer.close()
