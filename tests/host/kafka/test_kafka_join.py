"""Joins of topics: each pair once, whatever ends in between."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import confluent_kafka
import duckdb
import numpy as np
import pyarrow as pa
import pytest

from muntin import Compare, Watermark, WindowJoin, Within
from muntin.errors import KafkaError, SchemaError, StateError, StateTakenError, WindowError
from muntin.host.join.range_mirror import RUNS
from muntin.host.kafka import source
from muntin.kafka import Arrow, Avro, Format, Json, KafkaJoin
from tests.host.kafka.cluster import PARTITIONS, Producer, batch_of, given
from tests.host.kafka.worker import LEFT, ON, RIGHT, WATERMARK, WITHIN
from tests.host.kafka.world import Died, Mortal, World, batch, pairs
from tests.pages import run


@pytest.mark.parametrize("format", ["json", "arrow", "avro"])
def test_goes_on_in_another_process(format: str, world: World) -> None:
    formats: dict[str, dict[str, Format]] = {"json": {}, "arrow": {"left": Arrow(), "right": Arrow()}, "avro": {}}
    if format == "avro":
        for side, schema in (("left", LEFT), ("right", RIGHT)):
            fields = [{"name": name, "type": ["null", "long"]} for name in schema.names]
            formats["avro"][side] = Avro({"type": "record", "name": side, "fields": fields}, schema_id=3)
    own = {f"{side}_format": each for side, each in formats[format].items()}
    found: list[dict[str, Any]] = []
    for life in range(3):
        world.write(100, **formats[format])
        with world.open(**own) as join:
            assert join.last_batch == world.newest
            join.run(to_end=True)
            if format == "json":
                assert join.last_batch >= world.newest + 4
            assert "window:    -50 <= right.u - left.t <= 50" in join.explain()
            assert join.stats.rows_left + join.stats.rows_right >= 200
        assert join.last_batch == -1
        found += world.shown()
        assert given(world.servers, world.name, [world.left])[0] == world.newest >= life
        if life == 1:  # from now on the columns are those in the state
            own |= {"left_schema": None, "right_schema": None}
    assert pairs(found) == world.due()


def test_a_callback_has_each_batch_until_it_has_taken_it(world: World) -> None:
    taken: dict[int, pa.Table] = {}
    fails = {0, 2, 3}  # batches whose first call fails

    def take(table: pa.Table, number: int) -> None:
        assert number == len(taken)
        if number in fails:
            fails.remove(number)
            raise OSError("full")
        taken[number] = table

    world.write(120)
    with world.open(take) as join:
        for _ in range(40):
            try:
                number = join.step()
                assert number is None or number == len(taken) - 1
            except OSError:
                assert join.last_batch == -1
                with pytest.raises(KafkaError, match="step has failed"):
                    _ = join.stats
    assert not fails
    with world.open(lambda *_: pytest.fail("it was taken")) as join:
        assert join.step() is None
    world.write(60)
    world.open(take).run(to_end=True)
    # The receiver alone knows that it has the newest batch, or has not.
    with world.open(lambda *_: pytest.fail("it was taken"), taken=len(taken) - 1) as join:
        assert join.step() is None
    last = taken.popitem()
    with world.open(take, taken=len(taken) - 1) as join:
        assert batch(join) == len(taken) - 1
    assert taken[last[0]].sort_by("id").num_rows == last[1].num_rows
    assert pairs([row for table in taken.values() for row in table.to_pylist()]) == world.due()


def killed(world: World, messages: int, kills: int) -> None:
    """Writes so many messages, while processes that join them are killed, each at some moment of its batches: when it
    has so many yet to read that the cluster still has them when the next one comes."""
    rng = np.random.default_rng(kills)
    parameters = {
        "topics": [world.left, world.right], "servers": world.servers, "name": world.name, "state": str(world.state),
        "output": world.out, "max_rows": messages // (kills + 1) // 16,
    }  # fmt: skip
    found: Counter[tuple[int, int]] = Counter()
    command = [sys.executable, "-m", "tests.host.kafka.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as nursery:
        assert nursery.stdin is not None
        assert nursery.stdout is not None
        for life in range(kills + 1):
            nursery.stdin.write(json.dumps(parameters | ({"to_end": True} if life == kills else {})) + "\n")
            nursery.stdin.flush()
            world.write(messages // (kills + 1) // 2)
            written = sum(map(len, world.rows["left"] + world.rows["right"]))
            process = int(nursery.stdout.readline())
            assert nursery.stdout.readline() == "ready\n"
            if life == kills:
                assert nursery.stdout.readline() == "0\n", "rows were late"
                assert nursery.stdout.readline() == "0\n"
            else:
                read = written - rng.uniform(0, 1.5) * messages / (kills + 1)
                begun = time.monotonic()
                while given(world.servers, world.name, (world.left, world.right))[1] < read:
                    assert time.monotonic() - begun < 60
                time.sleep(rng.uniform(0, 0.03))
                os.kill(process, signal.SIGKILL)
                assert nursery.stdout.readline() == f"{-signal.SIGKILL}\n"
            found += pairs(world.shown())
        nursery.stdin.close()
    assert found == world.due()


def test_killed_processes(servers: str, tmp_path: Path) -> None:
    killed(World(servers, tmp_path, span=600), 20_000, 3)


@pytest.mark.full
def test_a_million_messages_and_fifty_kills(servers: str, tmp_path: Path) -> None:
    killed(World(servers, tmp_path, span=600), 1_000_000, 50)


@pytest.mark.parametrize("half", [0, 0.5])
def test_dies_at_every_operation(half: float, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a batch, of the one after it, and of a batch that is given out again."""
    monkeypatch.setattr(confluent_kafka, "Producer", Mortal)
    found: list[dict[str, Any]] = []
    for operation in range(7):
        world.write(12)
        for die_at in (operation + half, operation % 4 + half):
            Mortal.operations, Mortal.die_at = 0, die_at
            with pytest.raises(Died):  # noqa: PT012
                with world.open(max_rows=12, max_delay="4 ms") as join:
                    for _ in range(20):
                        join.step()
                Mortal.operations = 99  # it had too little to do
                raise Died
            Mortal.die_at = float("inf")
            found += world.shown()
    with world.open() as join:
        join.run(to_end=True)
    found += world.shown()
    assert pairs(found) == world.due()


def test_late_rows_are_in_the_result_once(world: World) -> None:
    """Marked, and again where the receiver has failed: the pairs are those of all other rows."""
    taken: dict[int, pa.Table] = {}
    fails = {1, 3}

    def take(table: pa.Table, number: int) -> None:
        if number in fails:
            fails.remove(number)
            raise OSError("full")
        taken[number] = table

    with world.open(take, watermark=Watermark(left=1, right=1, lag=0), late="keep") as join:
        for _ in range(8):
            world.write(25)
            for _ in range(4):
                with suppress(OSError):
                    join.step()
        join.run(to_end=True)
    found = [row for table in taken.values() for row in table.to_pylist()]
    late = {side: [row for row in found if row["_late"] == side] for side in ("left", "right")}
    for side, schema in (("left", LEFT), ("right", RIGHT)):
        numbers = [row[schema.names[0]] for row in late[side]]
        assert 0 < len(numbers) == len(set(numbers)) < 200
        sent = pa.concat_tables(world.rows[side]).take(numbers).to_pylist()
        assert late[side] == [{**dict.fromkeys([*LEFT.names, *RIGHT.names]), **row, "_late": side} for row in sent]
    gone = [{row[key] for row in late[side]} for side, key in (("left", "id"), ("right", "rid"))]
    due = Counter({pair: n for pair, n in world.due().items() if pair[0] not in gone[0] and pair[1] not in gone[1]})
    assert pairs([row for row in found if row["_late"] is None]) == due


def test_of_two_processes_of_a_name_the_later_goes_on(world: World) -> None:
    world.write(100)
    with world.open() as first:
        assert batch(first) == 0
        with world.open() as second:
            second.run(to_end=True)
            assert pairs(world.shown()) == world.due()
            with pytest.raises(StateTakenError, match="another process has gone on"):
                batch(first)
            assert second.step() is None


def test_a_self_join_and_other_forms(world: World) -> None:
    world.write(50)
    with KafkaJoin(
        world.left, Compare("a", "=", "a"), within=Within("t", "t", -9, 9), watermark=Watermark(left=999, right=999),
        servers=world.servers, name=world.name, state=world.state, output=world.out, left_schema=LEFT, form="pairs",
        output_format=Arrow(),
    ) as join:  # fmt: skip
        join.run(to_end=True)
    messages = world.topics.read(world.out)
    found = pa.concat_tables(pa.ipc.open_stream(message.value()).read_all() for message in messages)
    (rows,) = world.rows["left"]
    con = duckdb.connect()
    con.register("l", rows)
    due = con.execute("SELECT count(*) FROM l x JOIN l y USING (a) WHERE abs(x.t - y.t) <= 9 AND x.id != y.id")
    assert len(found) == due.fetchall()[0][0] > 0


@pytest.mark.parametrize("waiting", [50, 10_000])
def test_partitions_are_read_in_the_order_of_time(waiting: int, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A join that catches up has no late rows, though each partition comes as a whole, and is paused where it waits."""
    monkeypatch.setattr(source, "MIN_WAITING", waiting)
    rng = np.random.default_rng(1)
    for side, schema, topic in (("left", LEFT, world.left), ("right", RIGHT, world.right)):
        times = np.sort(rng.integers(0, 20_000, 1200))
        rows = pa.table([np.arange(1200), times, rng.integers(0, 60, 1200)], schema=schema)
        world.rows[side].append(rows)
        parts = rng.integers(0, PARTITIONS, 1200)
        for part in range(PARTITIONS):
            own = rows.filter(pa.array(parts == part))
            world.topics.send(topic, Json().encode(own), [part], (own.column(1).to_numpy() + 10**12).tolist())
    with world.open(watermark=Watermark(left=0, right=0), max_rows=100) as join:
        join.run(to_end=True)
        assert join.last_batch >= 23
        stats = join.stats
        assert (stats.late_left, stats.late_right) == (0, 0)
    assert pairs(world.shown()) == world.due()


def test_partitions_that_are_new_are_read_from_their_beginning(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LOOK_SECONDS", 0.0)
    look, most = source.Source._look, 2
    monkeypatch.setattr(source.Source, "_look", lambda source: [each for each in look(source) if each[1] < most])
    world.write(40)
    found = []
    for most in (2, 3):
        with world.open(start="latest" if most == 2 else "earliest") as join:
            if most == 2:
                world.write(40)
            join.run(to_end=True)
            most = 4 if most == 3 else most
            join.run(to_end=True)
        found += world.shown()
    seen = {row["id"] for row in found}
    assert any(number < 40 for number in seen), "none of the partitions that came later"
    assert not any(number < 40 and number % PARTITIONS < 2 for number in seen), "read before its start"
    assert {number % PARTITIONS for number in seen if number >= 40} == set(range(PARTITIONS))


def test_what_does_not_fit_together_is_refused(world: World, tmp_path: Path) -> None:
    world.write(40)
    with world.open() as join:
        join.run(to_end=True)
        newest = join.last_batch
    other = World(world.servers, tmp_path)
    for options, error, said in (
        ({"left": 9, "right": 9, "within": None, "watermark": None}, StateError, "to a join with left=None, not"),
        ({"name": "another"}, StateError, f"belongs to a KafkaJoin with name='{world.name}', not 'another'"),
        ({"state": other.state}, StateError, f"is empty, and group '{world.name}' has those of batch {newest}"),
        ({"taken": newest - 2}, StateError, f"the newest batch of the state in .* is {newest}, and group"),
        ({"servers": "localhost:1", "timeout": 0.2}, KafkaError, "not answer within 0.2 s|cannot ask for the topics"),
        ({"left_format": Avro({"type": "record", "name": "r", "fields": []})}, SchemaError, "has no field 'id'"),
        ({"output_format": Avro({"type": "record", "name": "r", "fields": []})}, SchemaError, "has no field 'id'"),
        ({"max_rows": 0}, WindowError, "max_rows must be a whole number from 1 to 1,000,000, not 0"),
        ({"max_delay": "-1 s"}, WindowError, "max_delay must not be negative"),
        ({"start": "now"}, KafkaError, "start='now' must be"),
        ({"name": None}, KafkaError, "needs name="),
        ({"state": None}, KafkaError, "is a topic, written exactly once: give state="),
        ({"output": print, "dead_letters": "x"}, KafkaError, "must be two topics, written in one transaction, or two"),
        ({"dead_letters": print}, KafkaError, "must be two topics, written in one transaction, or two functions"),
        ({"state": other.state, "name": other.name, "left_schema": None}, SchemaError, "columns of the sides are not"),
        ({"config": {"no.such.setting": 1}}, KafkaError, "cannot open a consumer: No such configuration property"),
    ):  # fmt: skip
        with pytest.raises(error, match=said):
            world.open(**options)
    for topics, said in ((("a", "b", "c"), "must be two topics"), (("a", "a"), "must be two topics")):
        with pytest.raises(KafkaError, match=said):
            KafkaJoin(topics, ON, servers=world.servers, output=print)
    with pytest.raises(KafkaError, match=r"there is no topic 'nowhere': make it first. There are .*dead"):
        KafkaJoin(("nowhere", world.left), ON, servers=world.servers, output=print)
    for missing in ({"output": "nowhere"}, {"dead_letters": "nowhere"}):
        with pytest.raises(KafkaError, match="there is no topic 'nowhere'"):
            world.open(**missing)
    with WindowJoin(
        on=ON, within=WITHIN, watermark=WATERMARK, left_schema=LEFT, right_schema=RIGHT, state=other.state
    ) as plain:
        plain.process(world.rows["left"][0], world.rows["right"][0])
    with pytest.raises(StateError, match="is not of a KafkaJoin"):
        world.open(state=other.state)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": world.servers, "group.id": "theirs"})
    consumer.commit(offsets=[confluent_kafka.TopicPartition(world.left, 0, 3)], asynchronous=False)
    consumer.close()
    with pytest.raises(StateError, match=r"group 'theirs' has an offset of topic .* that no KafkaJoin has committed"):
        world.open(name="theirs", state=tmp_path / "new")
    with world.open() as join:  # all of that has changed nothing
        assert join.step() is None
    with pytest.raises(KafkaError, match="was closed"):
        join.step()


def test_rows_that_kafka_has_deleted_are_missed(world: World) -> None:
    world.write(8)
    with world.open() as join:
        join.run(to_end=True)
    value = json.dumps({"rid": 1, "u": 1, "b": 1, "more": "x" * 500_000}).encode()
    world.topics.send(world.right, [value] * 14, partitions=[0])  # which has 5 MB
    with world.open() as join, pytest.raises(KafkaError, match=r"partition 0: offset \d+ is not there any more"):
        join.run(to_end=True)


def test_without_state_nothing_goes_on(world: World) -> None:
    world.write(30)
    tables: list[pa.Table] = []
    with world.open(lambda table, _: tables.append(table), state=None, name=None) as join:
        join.run(to_end=True)
        assert join.last_batch == len(tables) - 1
    assert pairs([row for table in tables for row in table.to_pylist()]) == world.due()
    with world.open(lambda table, _: tables.append(table), state=None, name=None, form="ranges") as join:
        join.run(to_end=True)
    assert RUNS in (tables[-1].schema.metadata or {}), "what a mirror of the runs follows"
    with world.open(lambda *_: 1 / 0, state=None, name=None) as join:
        with pytest.raises(ZeroDivisionError):
            join.run(to_end=True)
        with pytest.raises(KafkaError, match="was closed"):
            join.step()
    with world.open(print, state=None, name=None, start="latest") as join:
        assert join.step() is None
        join.stop()
        join.run()


def test_it_is_not_closed_within_a_step(world: World) -> None:
    joins: list[KafkaJoin] = []
    world.write(30)
    with world.open(lambda *_: joins[0].close()) as join:
        joins.append(join)
        for _ in range(2):  # the function is called again
            with pytest.raises(KafkaError, match=r"close\(\) while a step is under way.* call stop\(\) there"):
                join.run(to_end=True)


def test_without_a_delay_it_waits_for_a_first_message(world: World) -> None:
    world.write(30)
    taken: list[pa.Table] = []
    with world.open(lambda table, _: taken.append(table), max_delay="0 ms") as join:
        join.run(to_end=True)
        started = time.monotonic()
        for _ in range(12):  # some of them are told where partitions end
            assert join.step() is None
        assert time.monotonic() - started > 0.25  # it does not ask again and again
        world.write(1)
        while join.step() is None:
            pass
    assert sum(map(len, taken)) > 0


def test_offsets_are_committed_again_before_brokers_forget_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write(30)
    with world.open() as join:
        join.run(to_end=True)
        sent: list[int] = []
        monkeypatch.setattr(Producer, "commit_transaction", lambda *_: sent.append(1))
        assert join.step() is None
        assert not sent
        monkeypatch.setattr("muntin.host.kafka.join.KEEP_SECONDS", -1.0)
        assert join.step() is None
        assert sent == [1]


def test_what_brokers_give_up_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write(60)
    begin = Producer.send_offsets_to_transaction
    refused = [2, 5, 6]  # of the calls
    calls = itertools.count()

    def send(producer: Producer, *given: Any) -> None:
        if next(calls) in refused:
            error = confluent_kafka.KafkaError(
                confluent_kafka.KafkaError.INVALID_TXN_STATE, "given up", txn_requires_abort=True
            )
            raise confluent_kafka.KafkaException(error)
        begin(producer, *given)

    monkeypatch.setattr(Producer, "send_offsets_to_transaction", send)
    found: dict[int, list[dict[str, Any]]] = {}
    with world.open(max_rows=20) as join:
        join.run(to_end=True)
        assert next(calls) == join.last_batch + 1 + len(refused)
    for message in world.topics.read(world.out):  # with those of transactions that were given up
        found.setdefault(batch_of(message), []).append(json.loads(message.value()))
    assert {row for rows in found.values() for row in pairs(rows)} == set(world.due())
    assert {number: set(pairs(rows).values()) for number, rows in found.items()} == {
        number: {{2: 2, 4: 3}.get(number, 1)} for number in found
    }
    assert 4 in found
    calls = itertools.repeat(2)
    world.write(1)
    monkeypatch.setattr("muntin.host.kafka.join.TRIES", 2)
    with world.open() as join, pytest.raises(KafkaError, match=r"cannot|write batch \d+ to .*: given up"):
        join.run(to_end=True)


def test_messages_of_a_result_have_keys(world: World) -> None:
    world.write(60)
    with world.open(output_key="a") as join:
        join.run(to_end=True)
    messages = world.topics.read(world.out)
    assert all(message.key() == str(json.loads(message.value())["a"]).encode() for message in messages)
    assert Counter((row["id"], row["rid"]) for row in map(json.loads, (m.value() for m in messages))) == world.due()
    places: dict[bytes, set[int]] = {}
    for message in messages:
        places.setdefault(message.key(), set()).add(message.partition())
    assert all(len(partitions) == 1 for partitions in places.values())
    for options, error, said in (
        (
            {"output_key": "nope"},
            SchemaError,
            "output_key='nope' is no column of the result: it has id, t, a, rid, u, b",
        ),
        ({"output_key": "a", "output_format": Arrow()}, KafkaError, "for messages of one row"),
        ({"output_key": "a", "output": print}, KafkaError, "for messages of one row"),
    ):
        with pytest.raises(error, match=said):
            world.open(**options)


def test_a_producer_that_was_fenced_says_who_has_taken_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fenced(*_: Any) -> None:
        raise confluent_kafka.KafkaException(confluent_kafka.KafkaError(confluent_kafka.KafkaError._FENCED, fatal=True))

    world.write(20)
    monkeypatch.setattr(Producer, "commit_transaction", fenced)
    with world.open() as join, pytest.raises(KafkaError, match="another process of this name has taken over"):
        join.run(to_end=True)


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(KafkaError, match=r"confluent-kafka: pip install 'muntin\[kafka\]'"):
        KafkaJoin(("a", "b"), ON, servers="localhost:1", output=print)
    with pytest.raises(KafkaError, match=r"fastavro: pip install 'muntin\[kafka\]'"):
        Avro({})


def test_blocks_of_the_page_run_and_print_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[3] / "docs" / "kafka.md"
    assert run(page, capsys, {"__name__": "__main__"}) == page.read_text().count("\n```text\n")
