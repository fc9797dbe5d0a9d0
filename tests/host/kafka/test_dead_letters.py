"""Messages that cannot be read or joined: each an error, or put aside once, whatever ends in between."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from contextlib import suppress
from decimal import Decimal
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest

from muntin import Compare, Watermark, Within
from muntin.errors import OrderError, RecordError, StateError
from muntin.kafka import Arrow, Format, Json
from tests.host.kafka.cluster import Producer, batch_of, given
from tests.host.kafka.world import Died, Mortal, World, pairs


def test_a_message_that_cannot_be_read_ends_the_join_or_goes_to_its_topic(world: World) -> None:
    world.write(10)
    world.topics.send(world.right, [b'{"rid": 1, "u": "now"}', None])
    world.write(10)
    with world.open(max_rows=4) as join:
        for _ in range(2):  # the second time from the state
            with pytest.raises(
                RecordError, match=f"topic '{world.right}', partition 0, offset .*column 'u': "
            ) as caught:
                join.run(to_end=True)
            assert (caught.value.topic, caught.value.partition, caught.value.field) == (world.right, 0, "u")
            assert caught.value.offset in (2, 3)
    with world.open(dead_letters=world.dead) as join:
        join.run(to_end=True)
    assert pairs(world.shown()) == world.due()
    letters = [(message.value(), dict(message.headers())) for message in world.topics.read(world.dead)]
    assert sorted(value or b"" for value, _ in letters) == [b"", b'{"rid": 1, "u": "now"}']
    for value, headers in letters:
        assert headers["muntin.topic"].decode() == world.right
        assert headers["muntin.partition"] == (b"1" if value is None else b"0")
        assert headers.get("muntin.column") == (None if value is None else b"u")
        assert set(headers) - {"muntin.column"} == {
            "muntin.batch", "muntin.topic", "muntin.partition", "muntin.offset", "muntin.error"
        }  # fmt: skip


#: Of rows that a join refuses: the column `a` of which it may take, and `t`, of which it may not.
DECIMALS = pa.schema([pa.field("id", pa.int64(), False), ("t", pa.timestamp("s")), ("a", pa.decimal128(30, 2))])
NANOS = pa.schema([("rid", pa.int64()), ("u", pa.timestamp("ns")), ("b", pa.int64())])
REFUSED: dict[str, Any] = {
    "on": Compare("a", "=", "b"), "within": Within("t", "u", "-50 s", "50 s"), "watermark": Watermark(left="9 h"),
    "left_schema": DECIMALS, "right_schema": NANOS, "how": "inner",
}  # fmt: skip


def refused_rows(world: World, count: int, format: Format) -> tuple[list[bytes], Counter[tuple[int, int]]]:
    """Writes so many rows of each side, and among the left ones such as the join refuses, each for another reason;
    their values, and the pairs of the others."""
    start = dt.datetime(2026, 1, 1)
    wrong = [
        {"id": -1, "t": dt.datetime(9999, 1, 1), "a": Decimal(1)},  # no nanoseconds as of the right side
        {"id": -2, "t": start, "a": Decimal(10) ** 25},  # more than 64 bits
        {"id": None, "t": start, "a": Decimal(1)},  # not null by the columns: its format refuses it
    ]
    left = [{"id": n, "t": start + dt.timedelta(seconds=n), "a": Decimal(n % 7)} for n in range(count)]
    right = [{"rid": n, "u": start + dt.timedelta(seconds=n), "b": n % 5} for n in range(count)]
    rows = [*left[: count // 2], *wrong, *left[count // 2 :]]
    loose = pa.schema([field.with_nullable(True) for field in DECIMALS])
    values = [value for row in rows for value in format.encode(pa.Table.from_pylist([row], loose))]
    world.topics.send(world.left, values)
    world.topics.send(world.right, Json().encode(pa.Table.from_pylist(right, NANOS)))
    due = Counter(
        (a["id"], b["rid"]) for a in left for b in right if a["a"] == b["b"] and abs(a["id"] - b["rid"]) <= 50
    )
    return values[count // 2 : count // 2 + 3], due


@pytest.mark.parametrize("half", [0, 0.5])
@pytest.mark.parametrize("format", ["json", "arrow"])
def test_rows_that_the_join_refuses_are_dead_letters_once(
    format: str, half: float, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever operation of the process is its last one."""
    monkeypatch.setattr(confluent_kafka, "Producer", Mortal)
    wrong, due = refused_rows(world, 60, Arrow() if format == "arrow" else Json())
    own: dict[str, Any] = {**REFUSED, "max_rows": 40, "left_format": Arrow() if format == "arrow" else None}
    with world.open(**own) as join:
        for _ in range(2):  # the second time from the state
            with pytest.raises(RecordError, match=f"topic '{world.left}', partition .*Give dead_letters="):
                join.run(to_end=True)
    found: list[dict[str, Any]] = []
    letters: dict[tuple[int, int], tuple[bytes, str]] = {}
    columns: dict[bytes, str | None] = {}
    for operation in range(9):
        Mortal.operations, Mortal.die_at = 0, operation + half if operation < 8 else float("inf")
        with suppress(Died), world.open(**own, dead_letters=world.dead) as join:
            join.run(to_end=True)
        Mortal.die_at = float("inf")
        before = world.newest
        found += world.shown()
        for message in world.topics.read(world.dead):  # those that a broker would show
            if before < batch_of(message) <= world.newest:
                headers = {name: value.decode() for name, value in message.headers()}
                place = int(headers["muntin.partition"]), int(headers["muntin.offset"])
                assert place not in letters, "a message was put aside twice"
                letters[place] = message.value(), headers["muntin.error"]
                columns[message.value()] = headers.get("muntin.column")
    assert pairs(found) == due
    assert Counter(value for value, _ in letters.values()) == Counter(wrong)
    for value, reason in zip(
        wrong,
        ("fit 64 bits in the unit of", f"a key of type .* does not fit 64 bits, 1{'0' * 25}", "NULL|null"),
        strict=True,
    ):
        assert re.search(reason, dict(letters.values())[value])
    assert [columns[value] for value in wrong] == ["t", "a", "id"]


def test_a_function_has_dead_letters_until_it_has_taken_them(world: World) -> None:
    wrong, due = refused_rows(world, 30, Json())
    world.topics.send(world.right, [b"none", None])
    taken: dict[str, list[Any]] = {"pairs": [], "letters": []}
    fails = ["full"]

    def take(table: pa.Table, number: int) -> None:
        taken["letters"] += [{**row, "batch": number} for row in table.to_pylist()]
        if fails:
            raise OSError(fails.pop())

    def show(table: pa.Table, number: int) -> None:
        taken["pairs"] += [(number, row["id"], row["rid"]) for row in table.to_pylist()]

    with world.open(show, **REFUSED, dead_letters=take, max_rows=1000, max_delay="300 ms") as join:
        with pytest.raises(OSError, match="full"):
            join.run(to_end=True)
        again = taken.copy()
        taken["pairs"], taken["letters"] = [], []
        join.run(to_end=True)
    for what in ("pairs", "letters"):
        assert again[what], "none came before it failed"
        assert all(each in taken[what] for each in again[what]), "with another number"
    assert Counter((left, right) for _, left, right in taken["pairs"]) == due
    assert {row["value"] for row in taken["letters"]} == {*wrong, b"none", None}
    assert {row["topic"] for row in taken["letters"]} == {world.left, world.right}
    assert all(row["error"] for row in taken["letters"])


@pytest.mark.parametrize("half", [0, 0.5])
def test_dead_letters_outlive_their_process(half: float, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confluent_kafka, "Producer", Mortal)
    world.topics.send(world.left, [b"\xff", None])
    Mortal.operations, Mortal.die_at = 0, half  # as the transaction begins: the batch is in the state, or not
    with pytest.raises(Died), world.open(dead_letters=world.dead) as join:
        join.run(to_end=True)
    Mortal.die_at = float("inf")
    with world.open(dead_letters=world.dead) as join:
        join.run(to_end=True)
        assert join.last_batch == 0
    assert {message.value() for message in world.topics.read(world.dead)} == {b"\xff", None}


def test_dead_letters_that_are_due_need_their_topic(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.topics.send(world.left, [b"no object"])
    with monkeypatch.context() as dying:
        dying.setattr(Producer, "commit_transaction", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError), world.open(dead_letters=world.dead) as join:
            join.run(to_end=True)
    for output in (world.out, print):
        with pytest.raises(
            StateError, match=r"batch 0 of the state in .* could not be read or joined: give dead_letters="
        ):
            world.open(output)
    with world.open(dead_letters=world.dead) as join:
        join.run(to_end=True)
    assert {message.value() for message in world.topics.read(world.dead)} == {b"no object"}


def test_an_error_of_the_join_takes_nothing(world: World) -> None:
    world.write(30)
    options: dict[str, Any] = {"sequence": "t", "select": ["id"], "left": 5, "right": 5, "within": None}
    schema = pa.schema([("rid", pa.int64()), ("t", pa.int64()), ("b", pa.int64())])
    with world.open(**options, watermark=None, right_schema=schema) as join:
        for _ in range(2):
            said = f"topic '{world.right}', partition 0, offset 0, column 't': "
            said += "(.* rows of the batch are refused, the first: )?"  # one row has arrived, or more
            with pytest.raises(RecordError, match=said + "row 0 of the right batch has no value in") as e:
                join.run(to_end=True)
            assert isinstance(e.value.__cause__, OrderError)
    assert given(world.servers, world.name, [world.left]) == (-1, 0)
