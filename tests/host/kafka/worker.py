"""Processes that join two topics until they are killed, or to their end.

``python -m tests.host.kafka.worker`` has each for a line of its input: the parameters of `KafkaJoin` in JSON, and
``to_end``. It is forked, as its imports would take longer than it lives. Lines of its output: the process's number,
"ready", the rows that were late where it has come to its end, and how it ended.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import confluent_kafka
import pandas  # noqa: F401 - pyarrow does, in each process
import pyarrow as pa

from muntin import Band, Watermark, Within
from muntin.kafka import KafkaJoin
from tests.host.kafka.cluster import Producer

LEFT = pa.schema([("id", pa.int64()), ("t", pa.int64()), ("a", pa.int64())])
RIGHT = pa.schema([("rid", pa.int64()), ("u", pa.int64()), ("b", pa.int64())])
ON = Band("a", "b", -2, 2)
WITHIN = Within("t", "u", -50, 50)
WATERMARK = Watermark(left=50_000, right=50_000)


def join(topics: tuple[str, str], **options: Any) -> KafkaJoin:
    """The join of the tests, of small batches, which takes rows that are some thousand late."""
    given: dict[str, Any] = {
        "on": ON, "within": WITHIN, "watermark": WATERMARK, "left_schema": LEFT,
        "right_schema": RIGHT, "max_rows": 64, "max_delay": "20 ms",
        "config": {"fetch.wait.max.ms": 5, "log_level": 0}, **options,
    }  # fmt: skip
    return KafkaJoin(topics, **given)


def work(parameters: dict[str, Any]) -> None:
    """What such a process does."""
    confluent_kafka.Producer = Producer
    to_end = parameters.pop("to_end", False)
    with join(tuple(parameters.pop("topics")), **parameters) as running:
        print("ready", flush=True)
        running.run(to_end=to_end)
        print(running.stats.late_left + running.stats.late_right, flush=True)


if __name__ == "__main__":
    for line in sys.stdin:
        number = os.fork()
        if not number:
            work(json.loads(line))
            os._exit(0)
        print(number, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]), flush=True)
