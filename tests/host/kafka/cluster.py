"""A cluster of Kafka in a process of its own, without a network and without brokers: the mock of librdkafka.

It keeps the newest 5 MB of a partition, shows what transactions wrote that came to nothing, fences no producer, and
does not keep the offsets that a transaction commits. So `Producer` here commits them a second time, by themselves: only
then is a batch given out. What was written before that and not committed is what a broker would not show.

`python -m tests.host.kafka.cluster` runs one until its standard input ends, and prints its address.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import confluent_kafka

from muntin.host.kafka.sinks import HEADER

QUIET = {"log_level": 0}
PARTITIONS = 4


Plain = confluent_kafka.Producer  # a test puts the one below in its place


class Producer(Plain):
    """Commits the offsets of its transactions in this cluster."""

    def __init__(self, settings: dict[str, Any]):
        super().__init__(settings)
        own = {"bootstrap.servers": settings["bootstrap.servers"], "group.id": settings["transactional.id"]}
        self._consumer = confluent_kafka.Consumer(QUIET | own)
        self._offsets: list[Any] = []

    def __del__(self) -> None:
        self._consumer.close()

    def send_offsets_to_transaction(self, offsets: list[Any], *more: Any) -> None:
        super().send_offsets_to_transaction(offsets, *more)
        self._offsets = offsets

    def commit_transaction(self, *more: Any) -> None:
        super().commit_transaction(*more)
        self._consumer.commit(offsets=self._offsets, asynchronous=False)


@contextmanager
def cluster() -> Iterator[str]:
    """The address of one that ends with the block."""
    command = [sys.executable, "-m", "tests.host.kafka.cluster"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


class Topics:
    """Writes and reads topics of a cluster, each with `PARTITIONS` partitions."""

    def __init__(self, servers: str, *names: str):
        self.servers = servers
        self._producer = Plain(QUIET | {"bootstrap.servers": servers, "linger.ms": 1})
        self._read: dict[str, list[Any]] = {}
        for name in names:
            self._producer.list_topics(topic=name, timeout=10)  # makes it

    def send(
        self,
        topic: str,
        values: Iterable[bytes | None],
        partitions: Sequence[int] = range(PARTITIONS),
        times: Iterable[int] = itertools.repeat(0),
    ) -> None:
        """Writes messages, to these partitions in turn, of some time in milliseconds; of now by default."""
        for number, (value, stamp) in enumerate(zip(values, times, strict=False)):
            while True:
                try:
                    self._producer.produce(
                        topic, value, partition=partitions[number % len(partitions)], timestamp=stamp
                    )
                    break
                except BufferError:
                    self._producer.poll(0.01)
        self._producer.flush()

    def read(self, topic: str) -> list[Any]:
        """All messages that have come since it was read."""
        settings = {"group.id": "reader", "isolation.level": "read_uncommitted", "fetch.wait.max.ms": 10}
        settings |= {"enable.partition.eof": True, "auto.offset.reset": "error"}
        consumer = confluent_kafka.Consumer(QUIET | settings | {"bootstrap.servers": self.servers})
        places = self._read.setdefault(
            topic, [confluent_kafka.TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
        )
        consumer.assign(places)
        found: list[Any] = []
        ended: set[int] = set()
        begun = time.monotonic()
        while len(ended) < PARTITIONS:
            for message in consumer.consume(100_000, 0.05):
                if message.error() is None:
                    found.append(message)
                else:
                    assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                    ended.add(message.partition())
                places[message.partition()].offset = message.offset() + (message.error() is None)
            assert time.monotonic() - begun < 60
        consumer.close()
        return found


def batch_of(message: Any) -> int:
    """The number in a message's header."""
    return int(dict(message.headers())[HEADER])


def given(servers: str, group: str, topics: Iterable[str]) -> tuple[int, int]:
    """The number of the newest batch that a group has committed, -1 where there is none, and messages before it."""
    consumer = confluent_kafka.Consumer(QUIET | {"bootstrap.servers": servers, "group.id": group})
    places = [confluent_kafka.TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
    committed = [place for place in consumer.committed(places, timeout=10) if place.offset >= 0]
    consumer.close()
    numbers = {int(place.metadata) for place in committed}
    assert len(numbers) <= 1
    return max(numbers, default=-1), sum(place.offset for place in committed)


if __name__ == "__main__":
    mock = Plain(QUIET | {"bootstrap.servers": "none", "test.mock.num.brokers": "1"})
    print(*(f"{b.host}:{b.port}" for b in mock.list_topics(timeout=10).brokers.values()), sep=",", flush=True)
    sys.stdin.read()
