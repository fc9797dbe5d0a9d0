"""The log of a join's calls by itself: what is written, read, deleted, and refused, file by file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin.host.errors import StateError, StateTakenError
from muntin.host.state import StateLog
from muntin.host.state.log import ended, holds_calls, newest_join, schema_of, schema_text, under
from tests.host.state.faulty_store import FaultyStore

RIGHT = range(50)


def rows(*values: int) -> pa.Table:
    return pa.table({"k": pa.array(values, pa.int64())})


def write(
    log: StateLog, left: int = 1, right: int = 1, oldest: Any = None, batch: int | None = None, **more: Any
) -> None:
    """A call after which so many rows of each side have come, of batch 10 times its number."""
    number = log.records[-1].number + 1 if log.records else 0
    tables = {"left": rows(number), "right": rows(number, *RIGHT)}
    batch = 10 * number if batch is None else batch
    matched = more.pop("matched", {})
    begun = log.begin(batch, tables, {"on": number}, {"arrived": number}, {"left": left, "right": right}, **more)
    log.commit(begun, matched, oldest)


def names(store: FaultyStore) -> list[str]:
    """Of the files there are: the number of the call, the batch of a file of rows, what it is."""
    return [name if name.endswith("t") else f"{name[:12]}-{name.split('-')[1]}.rows" for name in store.names()]


def files(*numbers: int) -> list[str]:
    return [name for number in numbers for name in (f"{number:012d}-{10 * number}.rows", f"{number:012d}.commit")]


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore()


def test_calls_are_read_as_they_were_written(store: FaultyStore) -> None:
    log = StateLog(store)
    assert (log.tag, log.records, log.files, log.seconds, log.cut_short, log.outdated) == (
        None,
        [],
        0,
        0.0,
        None,
        False,
    )
    write(log, 4, 5, tag=b"\0one", pushes=[(2, 0), (0, 3), (2, 2)], whole={"rows": 3})
    assert log.tag == b"\0one"
    log.sender = ["driver", "3"]
    write(log, 6, 7, matched={"left": np.array([3, 8, 1 << 40]), "right": np.array([], np.int64)})
    assert log.seconds > 0
    for each in (log, StateLog(store)):
        assert (each.tag, each.files, each.cut_short, each.outdated) == (None, 4, None, False)
        first, second = each.records
        assert (first.number, first.batch, first.join, first.before) == (0, 0, {"on": 0}, {"arrived": 0})
        assert (second.number, second.batch, second.join, second.before) == (1, 10, {"on": 1}, {"arrived": 1})
        assert (first.end, second.end) == ({"left": 4, "right": 5}, {"left": 6, "right": 7})
        assert (first.whole, second.whole, first.sender, second.sender) == ({"rows": 3}, None, None, ["driver", "3"])
        assert (first.first, second.first) == (0, 0)
        assert (each.pushes(first), each.pushes(second)) == ([(2, 0), (0, 3), (2, 2)], None)
        tables, matched = each.rows(second)
        assert (tables, list(tables)) == ({"left": rows(1), "right": rows(1, *RIGHT)}, ["left", "right"])
        assert {side: numbers.tolist() for side, numbers in matched.items()} == {"left": [3, 8, 1 << 40], "right": []}
        assert each.rows(first) == ({"left": rows(0), "right": rows(0, *RIGHT)}, {})
    assert newest_join(store) == {"on": 1}
    log.close()
    log.close()


def test_calls_go_once_all_their_rows_are_useless(store: FaultyStore) -> None:
    log = StateLog(store)
    write(log, 4, 5)
    write(log, 6, 7, {"left": 4, "right": 4})  # a right row of call 0 is of use
    write(log, 8, 9, {"left": 3, "right": 9})  # and a left one
    write(log, 9, 9, {"left": 6, "right": 7})
    assert (names(store), [record.number for record in log.records]) == (files(0, 1, 2, 3), [0, 1, 2, 3])
    assert [record.first for record in log.records] == [0, 0, 0, 2]
    write(log, 9, 9, {"left": 9, "right": 9})
    assert (names(store), [record.number for record in log.records]) == (files(2, 3, 4), [2, 3, 4])
    write(log, 9, 9, {"left": 9, "right": 9})
    assert (names(store), [record.number for record in log.records]) == (files(4, 5), [4, 5])  # the newest stays
    assert [record.first for record in log.records] == [4, 5]
    assert log.files == 4
    again = StateLog(store)  # which needs call 5 alone
    assert (names(store), [record.number for record in again.records], again.files) == (files(5), [5], 2)
    again.clear()
    assert (names(store), again.records, again.files) == ([], [], 0)
    assert not again.outdated


def test_files_of_calls_that_went_are_deleted_by_whoever_opens_the_log(store: FaultyStore) -> None:
    log = StateLog(store)
    for number in range(4):
        write(log, number, number, {"left": 1, "right": 1} if number == 3 else None)
    kept = dict(store.blobs)
    opened = StateLog(store)
    assert (names(store), opened.files) == (files(2, 3), 4)
    *needed, newest = store.names()
    for lost in needed:
        store.blobs = {name: blob for name, blob in kept.items() if name != lost}
        with pytest.raises(StateError, match=f"{lost} is missing"):
            StateLog(store)
    store.blobs = {name: blob for name, blob in kept.items() if name != newest}
    cut_short = StateLog(store)  # as before the last commit, which said that two calls may go
    assert ([record.number for record in cut_short.records], cut_short.cut_short) == ([0, 1, 2], 30)
    store.blobs = {name: blob for name, blob in kept.items() if name != f"{1:012d}.commit"}
    assert [record.number for record in StateLog(store).records] == [2, 3]  # a process died while it deleted
    assert names(store) == files(2, 3)


def test_a_call_that_was_cut_short_comes_again(store: FaultyStore) -> None:
    log = StateLog(store)
    for batch in (3, 5, 4):
        store.blobs[f"{0:012d}-{batch}-{'ab' * 8}.rows"] = b""
    opened = StateLog(store)
    assert (opened.cut_short, opened.records) == (5, [])
    write(opened, batch=5)
    assert opened.cut_short is None
    write(opened, batch=10)
    later = f"{2:012d}-20-{'ab' * 8}.rows"
    store.blobs[later] = b""
    again = StateLog(store)
    assert again.cut_short == 20
    with pytest.raises(StateError, match=r"000002.commit is missing: the rows of batch 20 are there.*sent is 21"):
        write(again, batch=21)
    write(again, batch=20)
    write(again, batch=21)
    assert log.records == []
    for name in store.names():
        if name.endswith(".commit"):
            del store.blobs[name]
    with pytest.raises(StateError, match=r"000003.commit is missing"):
        StateLog(store)
    store.blobs["unfinished"] = b""
    with pytest.raises(StateError, match="the state in memory is not complete: run `muntin rescale` again"):
        StateLog(store)


def test_a_call_that_came_to_nothing_leaves_no_file(store: FaultyStore) -> None:
    log = StateLog(store)
    write(log)
    begun = log.begin(10, {"left": rows(1)}, {}, {}, {"left": 1, "right": 1})
    begun.result()
    assert (len(store.blobs), log.files) == (3, 3)
    log.withdraw(begun)
    assert (names(store), log.files) == (files(0), 2)
    store.fail_at = 0
    log.withdraw(log.begin(10, {"left": rows(1)}, {}, {}, {"left": 1, "right": 1}))  # nor was one written
    assert (names(store), log.files) == (files(0), 2)


def test_damage_of_rows(store: FaultyStore) -> None:
    log = StateLog(store)
    write(log)
    (record,) = log.records
    data = store.blobs[record.file]
    for wrong in (data + b"\0", data[:-1], data[:-1] + bytes([data[-1] ^ 1])):
        store.blobs[record.file] = wrong
        with pytest.raises(StateError, match=f"{record.file} is damaged: it has {len(wrong):,} bytes of {len(data):,}"):
            log.rows(record)


class Repeats(FaultyStore):
    """Creates a file, and finds it there: a client that repeats a request whose answer was lost."""

    def create(self, name: str, pieces: Sequence[bytes | pa.Buffer]) -> None:
        super().create(name, pieces)
        raise StateTakenError(name)


def test_a_request_that_was_repeated() -> None:
    store = Repeats()
    log = StateLog(store)
    write(log)
    write(log)
    assert names(store) == files(0, 1)
    assert [record.number for record in StateLog(store).records] == [0, 1]


def test_of_two_owners_one_goes_on(store: FaultyStore) -> None:
    log, other = StateLog(store), StateLog(store)
    write(log, 1, 1)
    assert (log.outdated, other.outdated, other.outdated_after(0)) == (False, True, False)
    with pytest.raises(StateTakenError, match="another process has gone on with the state in memory"):
        write(other, 1, 1)
    assert (names(store), other.records) == (files(0), [])
    other = StateLog(store)
    for left in (2, 3, 4):
        write(log, left, left, {"left": left, "right": left})
    assert names(store) == files(2, 3)
    with pytest.raises(StateTakenError, match="another process has gone on"):  # whose number is free again
        write(other, 2, 2)
    assert (names(store), other.outdated, log.outdated) == (files(2, 3), True, False)


def test_a_log_that_goes_on_elsewhere(store: FaultyStore) -> None:
    assert (ended(store), newest_join(store)) == (None, None)
    log, other = StateLog(store), StateLog(store)
    write(log)
    assert (ended(store), newest_join(store)) == (None, {"on": 0})
    log.end(3, ["a", "b"])
    assert (ended(store), newest_join(store)) == ((f"{1:012d}.commit", ["a", "b"]), {"on": 0})
    with pytest.raises(StateError, match=r"was rescaled: start the query with partitions=3,.* delete .*0001.commit"):
        StateLog(store)
    for call in (lambda: write(log), lambda: log.end(2, []), lambda: other.end(2, [])):
        with pytest.raises(StateTakenError, match="another process"):
            call()
    assert log.outdated
    del store.blobs[f"{1:012d}.commit"]
    assert len(StateLog(store).records) == 1
    store.blobs[f"{1:012d}.commit"] = b"no json\n"
    with pytest.raises(StateError, match=r"0001.commit is damaged: it is no JSON"):
        newest_join(store)
    empty = FaultyStore()
    StateLog(empty).end(5, [])
    assert (ended(empty), newest_join(empty)) == ((f"{0:012d}.commit", []), None)


def test_which_files_are_of_a_log() -> None:
    commit, own = f"{3:012d}.commit", f"{3:012d}-12-{'0f' * 8}.rows"
    for name, held in ((commit, True), (own, True), ("unfinished", True), (f"x{commit}", False), (f"{own}x", False)):
        assert holds_calls(["claim", name]) == held
    assert not holds_calls([])


def test_rows_of_a_log_as_a_join_needs_them_today() -> None:
    table = pa.table({"a": [1, None], "b": ["x", "y"], "gone": [1, 2]})
    schema = pa.schema([pa.field("b", pa.string(), nullable=False), ("new", pa.float64()), ("a", pa.int64())])
    assert schema_of(schema_text(schema)) == schema
    found = under(schema, table, "right", "here")
    assert (found.schema, found.to_pydict()) == (schema, {"b": ["x", "y"], "new": [None, None], "a": [1, None]})
    strict = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    with pytest.raises(StateError, match="the right column 'a' has NULL in rows of the state in here"):
        under(strict, table, "right", "here")
    assert under(strict, table.slice(0, 1), "right", "here").to_pydict() == {"a": [1]}
