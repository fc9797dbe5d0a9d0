"""A process that joins two topics until it is killed, or to their end.

``python -m tests.host.kafka.worker JSON`` with the parameters of `KafkaJoin`, and ``to_end``.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import confluent_kafka
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


if __name__ == "__main__":
    confluent_kafka.Producer = Producer
    parameters = json.loads(sys.argv[1])
    to_end = parameters.pop("to_end", False)
    with join(tuple(parameters.pop("topics")), **parameters) as running:
        print("ready", flush=True)
        running.run(to_end=to_end)
        print(running.stats.late_left + running.stats.late_right, flush=True)
