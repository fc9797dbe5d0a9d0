"""Times `KafkaJoin` beside the joins of Quix Streams and of Bytewax over the same topics: messages a second.

``python -m bench.kafka_join --rows 200K`` writes as many JSON messages to each of two topics of librdkafka's mock
cluster, which runs in a process of its own, and has each contender join them in a process of its own: on an equality
and in a time window, as the others have no join on a range. A rate is the messages of both topics over the time from
the start of reading to the last result. All keep to at-least-once, but for those of ours that write a topic.

muntin, muntin/topic
    `KafkaJoin` with state, which hands its results to a function, or writes them to a topic in transactions.
muntin/arrow
    The same as *muntin* over topics whose messages are Arrow streams of 1,000 rows.
quix
    ``StreamingDataFrame.join_interval`` of Quix Streams, with its state in RocksDB and without changelog topics.
bytewax
    ``windowing.join_window`` of Bytewax in windows that tumble, without recovery: it finds the pairs of a key in one
    of these, which are fewer.

The last two are measured where they are installed.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from bench.machine import describe_machine
from bench.workloads import ROWS

KEYS, SPAN, PARTITIONS = 1_000, 200, 4
"""Values that are equal or not; milliseconds before and after, of which each has one row a side; of each topic."""
ARROW_ROWS = 1_000
START = 1_700_000_000_000
QUIET = {"log_level": 0}
SCHEMAS = [pa.schema([("k", pa.int64()), (time_name, pa.int64())]) for time_name in ("t", "u")]


@contextmanager
def mock_cluster() -> Iterator[str]:
    """The address of one."""
    program = (
        "import sys, confluent_kafka as k\n"
        "c = k.Producer({'bootstrap.servers': 'none', 'test.mock.num.brokers': '1', 'log_level': 0})\n"
        "print(*(f'{b.host}:{b.port}' for b in c.list_topics(timeout=10).brokers.values()), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def write(servers: str, rows: int) -> int:
    """Fills the topics; how many pairs they have."""
    import confluent_kafka

    from muntin.kafka import Arrow, Json

    rng = np.random.default_rng(1)
    producer = confluent_kafka.Producer(QUIET | {"bootstrap.servers": servers, "linger.ms": 5})
    sides = []
    for side, schema in zip(("left", "right"), SCHEMAS, strict=True):
        table = pa.table([rng.integers(0, KEYS, rows), np.arange(rows) + START], schema=schema)
        sides.append(table)
        keys, times = (column.to_numpy() for column in table.columns)
        pieces = [table.slice(first, ARROW_ROWS) for first in range(0, rows, ARROW_ROWS)]
        for topic, values, stamps, parts in (
            (side, Json().encode(table), times.tolist(), (keys % PARTITIONS).tolist()),
            (f"{side}-arrow", (next(Arrow().encode(piece)) for piece in pieces), times[::ARROW_ROWS].tolist(),
             [number % PARTITIONS for number in range(len(pieces))]),
        ):  # fmt: skip
            producer.list_topics(topic=topic, timeout=10)  # makes it
            for value, stamp, part, key in zip(values, stamps, parts, keys.tolist(), strict=False):
                while True:
                    try:
                        producer.produce(topic, value, str(key), partition=part, timestamp=stamp)
                        break
                    except BufferError:
                        producer.poll(0.01)
    producer.list_topics(topic="pairs", timeout=10)
    producer.flush()
    from muntin import join

    left, right = sides
    return join(left, right, on="k", within=("t", "u", -SPAN, SPAN), form="pairs").num_rows


def run_muntin(servers: str, pairs: int, folder: str, *, arrow: bool = False, topic: bool = False) -> float:
    """Seconds that `KafkaJoin` takes."""
    from muntin import Watermark
    from muntin.kafka import Arrow, Json, KafkaJoin

    found = 0

    def take(table: pa.Table, _: int) -> None:
        nonlocal found
        found += table.num_rows

    ending = "-arrow" if arrow else ""
    format = Arrow() if arrow else Json()
    with KafkaJoin(
        (f"left{ending}", f"right{ending}"), ["k"], within=("t", "u", -SPAN, SPAN),
        watermark=Watermark(left=5_000, right=5_000), left_schema=SCHEMAS[0], right_schema=SCHEMAS[1],
        left_format=format, right_format=format, servers=servers, name=Path(folder).name, state=folder,
        output="pairs" if topic else take, max_rows=64 if arrow else 65_536, config=QUIET,
    ) as join:  # fmt: skip
        begun = time.perf_counter()
        join.run(to_end=True)
        seconds = time.perf_counter() - begun
        found = found or join.stats.matches
    if found != pairs:
        raise RuntimeError(f"{found:,} pairs were found, of {pairs:,}")
    return seconds


def run_quix(servers: str, pairs: int, folder: str) -> float:
    """Seconds that Quix Streams takes."""
    from quixstreams import Application
    from quixstreams.models.topics import TopicAdmin, TopicConfig

    # The mock has no controller, which is asked for the settings of topics.
    config = TopicConfig(num_partitions=PARTITIONS, replication_factor=1, extra_config={"retention.ms": "604800000"})
    TopicAdmin.inspect_topics = lambda _, names, timeout=30: dict.fromkeys(names, config)
    application = Application(
        servers, consumer_group=Path(folder).name, auto_offset_reset="earliest", state_dir=folder,
        use_changelog_topics=False, auto_create_topics=False, loglevel="ERROR",
    )  # fmt: skip
    times: list[float] = []
    left, right = (
        application.topic(side, value_deserializer="json", key_deserializer="str") for side in ("left", "right")
    )
    joined = application.dataframe(left).join_interval(
        application.dataframe(right), on_merge="keep-left", backward_ms=SPAN, forward_ms=SPAN, grace_ms=60_000
    )
    joined.update(lambda _: times.append(time.perf_counter()))
    begun = time.perf_counter()
    application.run(timeout=10.0)  # of silence
    if len(times) != pairs:
        raise RuntimeError(f"{len(times):,} pairs were found, of {pairs:,}")
    return times[-1] - begun


def run_bytewax(servers: str, pairs: int, folder: str) -> float:
    """Seconds that Bytewax takes."""
    import bytewax.operators as op
    import bytewax.operators.windowing as win
    from bytewax.connectors.kafka import KafkaSource
    from bytewax.dataflow import Dataflow
    from bytewax.testing import TestingSink, run_main

    flow = Dataflow("join")
    sides = []
    for side, time_name in (("left", "t"), ("right", "u")):
        source = KafkaSource([servers], [side], tail=False, batch_size=1_000)
        stream = op.input(side, flow, source)
        rows = op.map(f"{side}-rows", stream, lambda message: json.loads(message.value))
        at = op.map(f"{side}-at", rows, lambda row, name=time_name: (str(row["k"]), row[name]))
        sides.append(at)
    clock: Any = win.EventClock(
        lambda at: datetime.fromtimestamp(at / 1000, UTC), wait_for_system_duration=timedelta(seconds=5)
    )
    windower = win.TumblingWindower(
        length=timedelta(milliseconds=SPAN), align_to=datetime.fromtimestamp(START / 1000, UTC)
    )
    joined = win.join_window("pairs", clock, windower, *sides, insert_mode="product")
    found: list[Any] = []
    op.output("out", joined.down, TestingSink(found))
    begun = time.perf_counter()
    run_main(flow)
    return time.perf_counter() - begun


CONTENDERS: dict[str, tuple[str, Callable[[str, int, str], float]]] = {
    "muntin": ("confluent_kafka", run_muntin),
    "muntin/topic": ("confluent_kafka", lambda *given: run_muntin(*given, topic=True)),
    "muntin/arrow": ("confluent_kafka", lambda *given: run_muntin(*given, arrow=True)),
    "quix": ("quixstreams", run_quix),
    "bytewax": ("bytewax", run_bytewax),
}


def measure(name: str, servers: str, pairs: int) -> float:
    """Seconds that a contender takes, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="muntin-bench-") as folder:
        command = [sys.executable, "-m", "bench.kafka_join", "--one", json.dumps([name, servers, pairs, folder])]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout.split()[-1])


def run_kafka_benchmark(rows: int, turns: int, contenders: list[str]) -> dict[str, Any]:
    """Ready for JSON: of each contender its messages a second, of all turns and their median; or why there are none."""
    found: dict[str, Any] = {name: {} for name in contenders}
    with mock_cluster() as servers:
        pairs = write(servers, rows)
        rates: dict[str, list[float]] = {name: [] for name in contenders}
        for _, name in itertools.product(range(turns), contenders):
            module = CONTENDERS[name][0]
            if importlib.util.find_spec(module) is None:
                found[name] = {"unavailable": f"{module} is not installed"}
            else:
                rates[name].append(2 * rows / measure(name, servers, pairs))
    for name, each in rates.items():
        if each:
            found[name] = {"rate": statistics.median(each), "rates": each}
    return {**describe_machine(), "rows": rows, "pairs": pairs, "contenders": found}


@click.command()
@click.option("--rows", type=ROWS, default=100_000, show_default=True, help="Messages of each topic; it holds 5 MB.")
@click.option("--turns", type=click.IntRange(1), default=3, show_default=True, help="Figures are medians over them.")
@click.option("--contender", "contenders", multiple=True, type=click.Choice(list(CONTENDERS)), help="Repeatable.")
@click.option("--json", "path", type=click.Path(path_type=Path, dir_okay=False), help="File for the figures.")
@click.option("--one", hidden=True)
def main(rows: int, turns: int, contenders: tuple[str, ...], path: Path | None, one: str | None) -> None:
    """Messages a second of KafkaJoin, and of others where they are installed."""
    if one is not None:
        name, *given = json.loads(one)
        print(CONTENDERS[name][1](*given))
        return
    report = run_kafka_benchmark(rows, turns, list(contenders or CONTENDERS))
    table = Table("join", "messages a second", "turns")
    for name, figures in report["contenders"].items():
        rate = f"{figures['rate']:,.0f}" if "rate" in figures else figures["unavailable"]
        table.add_row(name, rate, ", ".join(f"{each:,.0f}" for each in figures.get("rates", ())))
    Console().print(table)
    if path is not None:
        path.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
