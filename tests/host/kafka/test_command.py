"""`muntin join` of topics."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from muntin.errors import SchemaError
from muntin.host.cli import main
from muntin.host.cli.run_kafka import Topic
from tests.host.kafka.cluster import Producer, Topics, batch_of, cluster

ORDERS = [{"id": number, "t": number * 10, "limit": number % 7} for number in range(40)]
QUOTES = [{"quote": number, "at": number * 10 + 3, "price": number % 5} for number in range(40)]
PAIRS = sorted(
    (order["id"], quote["quote"])
    for order in ORDERS
    for quote in QUOTES
    if abs(quote["price"] - order["limit"]) <= 1 and -20 <= quote["at"] - order["t"] <= 20
)
#: Of a join; and the columns of both topics.
OPTIONS = ("--on", "price BETWEEN limit - 1 AND limit + 1", "--within", "t,at,-20,20", "--to-end")
COLUMNS = (
    "columns=id int64,t int64,limit int32 not null&delay=500",
    "columns=quote int64,at int64,price int32&delay=500",
)


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with cluster() as address:
        topics = Topics(address, "orders", "quotes", "pairs")
        topics.send("orders", [json.dumps(row).encode() for row in ORDERS])
        topics.send("quotes", [json.dumps(row).encode() for row in QUOTES])
        yield address


def muntin(servers: str, *words: object, left: str = COLUMNS[0], right: str = COLUMNS[1]) -> Result:
    sides = f"kafka://{servers}/orders?{left}", f"kafka://{servers}/quotes?{right}"
    return CliRunner().invoke(main, ["join", *sides, *OPTIONS, *map(str, words)])


def test_topics_to_standard_output_and_to_a_file(servers: str, tmp_path: Path) -> None:
    told = muntin(servers, "--select", "id,quote")
    assert told.exit_code == 0, told.output
    rows = list(csv.reader(io.StringIO(told.stdout)))
    assert rows[0] == ["id", "quote"]
    assert sorted((int(one), int(other)) for one, other in rows[1:]) == PAIRS
    assert f"40 left and 40 right rows, {len(PAIRS)} matches" in told.stderr
    out = tmp_path / "out.arrow"
    told = muntin(servers, "-o", out, "--how", "left_semi")
    assert told.exit_code == 0, told.output
    assert sorted(pa.ipc.open_file(out).read_all()["id"].to_pylist()) == sorted({pair[0] for pair in PAIRS})
    words = ("--how", "left_semi", "--state", tmp_path / "state", "--name", "files")
    told = muntin(servers, *words, "-o", out)
    assert (told.exit_code, "leave out --state" in " ".join(told.stderr.split())) == (2, True)
    assert len(muntin(servers, *words).stdout.split()) == 1 + len({pair[0] for pair in PAIRS})
    told = muntin(servers, *words)
    assert (told.exit_code, told.stdout) == (0, ""), "it has been given out"


def test_topics_to_a_topic(servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confluent_kafka, "Producer", Producer)
    words = ("-o", f"kafka://{servers}/pairs?format=arrow", "--state", tmp_path, "--name", "pairs", "--batch-rows", 16)
    told = muntin(servers, *words)
    assert told.exit_code == 0, told.output
    assert told.stdout == ""
    messages = Topics(servers).read("pairs")
    tables = [pa.ipc.open_stream(message.value()).read_all() for message in messages]
    assert sorted((row["id"], row["quote"]) for table in tables for row in table.to_pylist()) == PAIRS
    assert re.search(r"; batch \d is the newest, in kafka://", told.stderr)
    assert {batch_of(message) for message in messages} <= set(range(9))
    told = muntin(servers, *words, "--explain")
    assert "window:    -20 <= right.at - left.t <= 20" in told.stdout


def test_dead_letters(servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confluent_kafka, "Producer", Producer)
    topics = Topics(servers, "aside", "torn")
    topics.send("torn", [b'{"id": 1, "t": 1, "limit": 1}', b'{"id": '])
    words = (f"kafka://{servers}/torn?{COLUMNS[0]}", f"kafka://{servers}/quotes?{COLUMNS[1]}", *OPTIONS)
    words += ("-o", f"kafka://{servers}/pairs", "--state", str(tmp_path), "--name", "aside")
    told = CliRunner().invoke(main, ["join", *words])
    assert (told.exit_code, "topic 'torn', partition 1, offset 0: " in told.stderr) == (1, True), told.stderr
    assert "Give --dead-letters, for such messages, or correct the columns" in told.stderr
    told = CliRunner().invoke(main, ["join", *words, "--dead-letters", f"kafka://{servers}/aside"])
    assert told.exit_code == 0, told.output
    assert [message.value() for message in topics.read("aside")] == [b'{"id": ']


def test_ends_on_a_signal(servers: str) -> None:
    words = [
        f"kafka://{servers}/{topic}?{columns}" for topic, columns in zip(("orders", "quotes"), COLUMNS, strict=True)
    ]
    command = [sys.executable, "-m", "muntin", "join", *words, *OPTIONS[:-1], "--select", "id,quote"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = [process.stdout.readline() for _ in range(len(PAIRS) + 1)]  # they come while it runs
        assert len(set(found)) == len(PAIRS) + 1
        os.kill(process.pid, signal.SIGTERM)
        rest, said = process.communicate(timeout=30)
    assert (rest, process.returncode) == ("", 0)
    assert f"{len(PAIRS)} matches" in said


@pytest.mark.parametrize(
    ("words", "columns", "said"),
    [
        ([], "format=csv", "format=csv is neither json nor arrow"),
        ([], "form=json", "has 'form': it may have avro, columns, delay, format, schema_id"),
        ([], "", "the columns of the left topic 'orders' are not known: give kafka://"),
        ([], "columns=id int65", "there is no type 'int65'"),
        ([], "columns=id", "columns='id' must be like"),
        ([], "avro=nowhere.avsc", "nowhere.avsc"),
        (["-o", "kafka:/pairs"], COLUMNS[0], "is no address of a topic"),
        (["-o", "kafka://elsewhere/pairs"], COLUMNS[0], "--output is a topic of another cluster"),
        (["--dead-letters", "SERVERS"], COLUMNS[0], "--dead-letters is written in the transaction of --output"),
        (["--state", "state"], COLUMNS[0], "needs --name"),
        (["--name", "x", "-o", "SERVERS"], COLUMNS[0], "is a topic, written exactly once: give --state and --name"),
        (["--left-rows", "5"], COLUMNS[0], "give either count windows"),
    ],
)
def test_errors_are_one_line(words: list[str], columns: str, said: str, servers: str) -> None:
    told = muntin(servers, *(word.replace("SERVERS", f"kafka://{servers}/pairs") for word in words), left=columns)
    assert told.exit_code in (1, 2)
    assert said in told.stderr
    assert "Traceback" not in told.stderr


def test_topics_and_files_do_not_mix(tmp_path: Path) -> None:
    for words, said in (
        (("kafka://x/a", "b.csv"), "one of LEFT and RIGHT is a topic: both are, or none"),
        (("a.csv", "b.csv", "--state", "s"), "are for LEFT and RIGHT that are topics"),
        (("a.csv", "b.csv", "-o", "kafka://x/a"), "are for LEFT and RIGHT that are topics"),
        (("kafka://x/a?columns=a int8", "kafka://y/a?columns=a int8"), "topics of different clusters"),
    ):
        told = CliRunner().invoke(main, ["join", *words, "--on", "a"])
        assert told.exit_code == 2
        assert said in " ".join(told.stderr.split())


def test_columns_of_an_address(tmp_path: Path) -> None:
    text = 'id int64 not null,"at, or so" timestamp[ms, Europe/Berlin], price decimal(9, 2) , t timestamp[us],x string'
    topic = Topic(f"kafka://a:9092,b:9092/orders?columns={text}&delay=10 seconds&format=arrow")
    assert (topic.servers, topic.name, topic.delay) == ("a:9092,b:9092", "orders", "10 seconds")
    assert topic.columns == pa.schema(
        [
            pa.field("id", pa.int64(), False),
            ("at, or so", pa.timestamp("ms", "Europe/Berlin")),
            ("price", pa.decimal128(9, 2)),
            ("t", pa.timestamp("us")),
            ("x", pa.string()),
        ]
    )
    for wrong in ("id int64,", "id", "", "id int64;x int8", "id int64,,x int8", "timestamp[ms"):
        with pytest.raises(SchemaError):
            Topic(f"kafka://a/orders?columns={wrong}")
    file = tmp_path / "orders.avsc"
    file.write_text('{"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}')
    assert Topic(f"kafka://a/orders?avro={file}&schema_id=3").columns == pa.schema([pa.field("id", pa.int64(), False)])
