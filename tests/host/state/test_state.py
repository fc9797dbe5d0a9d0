"""A join that goes on in another process: after any death, from files that are whole, or not at all."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import muntin.host.join.journal as journal_module
from muntin import AllOf, AnyOf, AsOf, Band, Compare, Rows, Watermark, WindowJoin, Within
from muntin.host.aggregates import Count, Last, Max
from muntin.host.errors import (
    CapacityError,
    DeviceError,
    ReplayError,
    SchemaError,
    StateError,
    StateTakenError,
)
from muntin.host.state import LocalStore, open_store
from tests.host.state.faulty_store import Died, FaultyStore

JOINS: dict[str, dict[str, Any]] = {
    "count": {"on": Band("a", "b", -3, 3), "left": Rows(90), "right": Rows(60)},
    "sequence": {"on": Band("a", "b", -3, 3), "left": Rows(90), "right": Rows(60), "sequence": "s"},
    "time": {
        "on": Band("a", "b", -3, 3),
        "within": Within("t", "t", -60, 40),
        "watermark": Watermark(left=30, right=30, lag=1),
    },
    "self": {"on": Band("a", "b", -2, 2), "left": Rows(50), "right": Rows(70), "self_join": True, "itself": True},
    "text": {"on": AllOf(Compare("x", "=", "x"), Band("a", "b", -20, 20)), "left": Rows(90), "right": Rows(60)},
    "union": {"on": AnyOf(Band("a", "b", -9, -5), Band("a", "b", 5, 9)), "left": Rows(90), "right": Rows(60)},
    "pairs": {"on": Band("a", "b", -3, 3), "left": Rows(90), "right": Rows(60), "form": "pairs"},
    "all pairs": {"on": AllOf(), "left": Rows(9), "right": Rows(6), "form": "pairs"},
    "counts": {"on": Band("a", "b", -3, 3), "left": Rows(90), "right": Rows(60), "form": "counts"},
}
for _how in ("left", "full", "left_semi", "left_anti"):
    JOINS[f"count {_how}"] = {**JOINS["count"], "how": _how}
    JOINS[f"time {_how}"] = {**JOINS["time"], "how": _how}


def call(rng: np.random.Generator, number: int, rows: int) -> pa.Table:
    """Rows of one side for a call."""
    s = np.sort(number * 1000 + rng.integers(0, 1000, rows))
    t = number * 25 + rng.integers(-40, 40, rows)
    x = [f"x{value}" for value in rng.integers(0, 3, rows)]
    mask = rng.random(rows) < 0.1
    return pa.table(
        {
            "a": pa.array(rng.integers(0, 200, rows), mask=mask),
            "b": rng.integers(0, 200, rows),
            "s": s,
            "t": t,
            "x": pa.array(x, pa.string()),
        }
    )


def calls(seed: int, count: int, rows: int = 40) -> list[tuple[pa.Table, pa.Table | None]]:
    rng = np.random.default_rng(seed)
    return [(call(rng, k, int(rng.integers(0, rows))), call(rng, k, int(rng.integers(0, rows)))) for k in range(count)]


def sides(join: WindowJoin, tables: tuple[pa.Table, pa.Table | None]) -> tuple[pa.Table, pa.Table | None]:
    return (tables[0], None) if join.spec.self_join else tables


def content(table: pa.Table) -> list[str]:
    """The rows, in any order."""
    return sorted(map(str, table.to_pylist()))


def results(options: dict[str, Any], stream: list[tuple[pa.Table, pa.Table | None]]) -> list[list[str]]:
    """What one process gives, the rest at the end too."""
    join = WindowJoin(**options)
    found = [content(join.process(*sides(join, tables))) for tables in stream]
    return [*found, content(join.finish())]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> FaultyStore:
    """What joins keep their state in, in whatever folder."""
    kept = FaultyStore()
    monkeypatch.setattr(journal_module, "open_store", lambda _: kept)
    return kept


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("device", ["cpu", "numpy"])
def test_goes_on_in_another_process(name: str, device: str, tmp_path: Path, seed: int) -> None:
    stream = calls(seed, 10)
    due = results(JOINS[name], stream)
    place, other = tmp_path / "state", {"cpu": "numpy", "numpy": "cpu"}
    for number, tables in enumerate(stream):
        join = WindowJoin(**JOINS[name], state=place, device=device)
        device = other[device]  # the next process has another one
        assert join.last_batch == number - 1
        assert join.last_tag == (b"%d" % (number - 1) if number else None)
        if number:
            assert content(join.repeat()) == due[number - 1]
            assert join.last_tag == b"%d" % (number - 1)
        assert content(join.process(*sides(join, tables), tag=b"%d" % number)) == due[number]
        if number % 3 == 0:  # two calls of one process
            with pytest.raises(StateError, match="no call can be repeated"):
                join.repeat()
        join.close()
    join = WindowJoin(**JOINS[name], state=place)
    assert content(join.finish()) == due[-1]


def survivor(options: dict[str, Any], stream: list[Any], store: FaultyStore, deaths: list[float]) -> list[list[str]]:
    """What comes out where processes die: after each death the caller sends again what it has no result of."""
    taken: list[list[str]] = []
    while True:
        store.die_at = deaths.pop(0) if deaths else float("inf")
        try:
            join = WindowJoin(**options, state="anywhere")
            if join.last_batch == len(taken):  # applied, but its result was lost
                taken.append(content(join.repeat()))
            assert join.last_batch == len(taken) - 1
            assert join.last_tag == (b"%d" % len(taken) if taken else None)
            while len(taken) < len(stream):
                tag = b"%d" % (len(taken) + 1)
                taken.append(content(join.process(*sides(join, stream[len(taken)]), tag=tag)))
            return [*taken, content(join.finish())]
        except Died:
            continue


@pytest.mark.parametrize("name", JOINS)
def test_dies_at_every_operation(name: str, store: FaultyStore, seed: int) -> None:
    stream = calls(seed, 5)
    due = results(JOINS[name], stream)
    assert survivor(JOINS[name], stream, store, []) == due
    for operation in range(store.operations):
        for half in (0, 0.5):
            store.blobs.clear()
            assert survivor(JOINS[name], stream, store, [operation + half]) == due


@settings(deadline=None, max_examples=30)
@given(
    name=st.sampled_from(sorted(JOINS)),
    deaths=st.lists(st.integers(0, 24).map(lambda halves: halves / 2), max_size=6),
    seed=st.integers(0, 2**32),
)
def test_dies_again_and_again(name: str, deaths: list[float], seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        kept = FaultyStore()
        patch.setattr(journal_module, "open_store", lambda _: kept)
        stream = calls(seed, 6)
        assert survivor(JOINS[name], stream, kept, deaths) == results(JOINS[name], stream)


def test_state_stays_as_large_as_the_window(store: FaultyStore) -> None:
    sizes = []
    join = WindowJoin(**JOINS["count"], state="anywhere")
    for number, tables in enumerate(calls(3, 60)):
        join.process(*tables)
        if number > 20:
            sizes.append(len(store.blobs))
    assert max(sizes) < 30
    stats = join.stats
    assert stats.state_calls == len(store.blobs) / 2
    assert stats.state_files == len(store.blobs)
    assert stats.sync_seconds > 0
    assert stats.state_bytes == sum(len(blob) for name, blob in store.blobs.items() if name.endswith(".rows"))
    assert stats.state_seconds > stats.restore_seconds
    restored = WindowJoin(**JOINS["count"], state="anywhere").stats
    assert restored.restore_seconds > stats.restore_seconds
    assert restored.state_files == len(store.blobs)
    join.forget_state()
    assert not store.blobs


def test_a_full_disk_loses_nothing(store: FaultyStore, seed: int) -> None:
    stream = calls(seed, 6)
    due = results(JOINS["time left"], stream)
    taken: list[list[str]] = []
    for writes in range(4):
        join = WindowJoin(**JOINS["time left"], state="anywhere")
        store.fail_at = writes
        with pytest.raises(StateError, match=r"memory/0000.*no space left"):  # noqa: PT012
            while True:
                taken.append(content(join.process(*stream[len(taken)])))
        with pytest.raises(DeviceError, match="no longer usable"):
            join.process(*stream[len(taken)])
        store.fail_at = None
    join = WindowJoin(**JOINS["time left"], state="anywhere")
    while len(taken) < len(stream):
        taken.append(content(join.process(*stream[len(taken)])))
    assert [*taken, content(join.finish())] == due


def test_of_two_owners_one_goes_on(tmp_path: Path, seed: int) -> None:
    stream = calls(seed, 4)
    due = results(JOINS["count"], stream)
    first = WindowJoin(**JOINS["count"], state=tmp_path)
    assert content(first.process(*stream[0])) == due[0]
    second = WindowJoin(**JOINS["count"], state=tmp_path)
    assert content(second.process(*stream[1])) == due[1]
    with pytest.raises(StateTakenError, match="another process has gone on"):
        first.process(*stream[1])
    assert content(second.process(*stream[2])) == due[2]
    third = WindowJoin(**JOINS["count"], state=tmp_path)
    assert content(third.repeat()) == due[2]
    assert content(third.process(*stream[3])) == due[3]


# Damage


@pytest.mark.parametrize("damage", ["flipped", "torn", "lost", "empty"])
@pytest.mark.parametrize("which", range(6))
def test_damage_is_named(damage: str, which: int, tmp_path: Path, seed: int) -> None:
    join = WindowJoin(**JOINS["count left"], state=tmp_path)
    for tables in calls(seed, 3):
        join.process(*tables)
    join.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 6
    data = files[which].read_bytes()
    if damage == "lost":
        files[which].unlink()
    else:
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]
        files[which].write_bytes({"flipped": flipped, "torn": data[:middle], "empty": b""}[damage])
    with pytest.raises(StateError) as raised:  # noqa: PT012
        again = WindowJoin(**JOINS["count left"], state=tmp_path)
        if again.last_batch == 2:
            again.repeat()
        again.process(*calls(seed, 1)[0], batch=3)  # as a caller that was told of batch 2
    assert str(tmp_path / files[which].name) in str(raised.value)


def changed(**change: Any) -> dict[str, Any]:
    return {**JOINS["count"], **change}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (changed(on=Band("a", "b", -3, 4)), "on="),
        (changed(left=Rows(91)), "left=91"),
        (changed(how="left"), "how="),
        (changed(form="pairs"), "form="),
        (changed(on=Band("a", "s", -3, 3)), "on="),
    ],
)
def test_another_join_is_refused(options: dict[str, Any], named: str, tmp_path: Path) -> None:
    join = WindowJoin(**JOINS["count"], state=tmp_path)
    join.process(*calls(1, 1)[0])
    join.close()
    with pytest.raises(StateError, match=named.partition("=")[0]):
        WindowJoin(**options, state=tmp_path)
    assert WindowJoin(**JOINS["count"], state=tmp_path, index="bisort", device="numpy").last_batch == 0


def test_columns_may_be_added(tmp_path: Path) -> None:
    tables = calls(2, 3)
    join = WindowJoin(**JOINS["count"], state=tmp_path)
    for left, right in tables[:2]:
        join.process(left, right)
    join.close()
    left, right = tables[2]
    extra = pa.array(["new"] * len(left))
    schema = left.schema.append(pa.field("extra", pa.string()))
    again = WindowJoin(**JOINS["count"], state=tmp_path, left_schema=schema, right_schema=right.schema)
    found = again.process(left.append_column("extra", extra), right)
    assert set(found["extra"].to_pylist()) == {None, "new"}
    again.close()
    for columns, error in (
        (left.schema.remove(0), "column 'a', which is gone"),
        (left.schema.set(2, pa.field("s", pa.string())), "'s' has type int64"),
        (schema.append(pa.field("more", pa.int64(), nullable=False)), "must allow NULL"),
    ):
        with pytest.raises(StateError, match=error):
            WindowJoin(**JOINS["count"], state=tmp_path, left_schema=columns, right_schema=right.schema)


def test_columns_may_be_added_to_the_one_stream_of_a_self_join(tmp_path: Path) -> None:
    options: dict[str, Any] = {"on": ["k"], "left": 9, "right": 9, "self_join": True, "state": tmp_path}
    with WindowJoin(**options) as join:
        join.process(pa.table({"k": [1]}))
    more = pa.table({"k": [1], "more": ["new"]})
    with WindowJoin(**options, left_schema=more.schema) as join:
        found = join.process(more).sort_by("more")
        assert (found["more"].to_pylist(), found["more_right"].to_pylist()) == (["new", None], [None, "new"])


def test_numbers_ascend(tmp_path: Path) -> None:
    tables = calls(1, 1)[0]
    join = WindowJoin(**JOINS["count"], state=tmp_path)
    join.process(*tables, batch=7)
    for batch in (7, 3):
        with pytest.raises(ReplayError, match="after batch 7"):
            join.process(*tables, batch=batch)
    join.process(*tables, batch=20)
    assert WindowJoin(**JOINS["count"], state=tmp_path).last_batch == 20


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    join = WindowJoin(**JOINS["count"], state=tmp_path)
    join.process(*calls(1, 1)[0])
    join.close()
    commit = tmp_path / "000000000000.commit"
    fields = json.loads(commit.read_bytes().partition(b"\n")[0]) | {"format": 99, "muntin": "9.9"}
    from muntin.host.state.log import _digest

    text = json.dumps(fields).encode()
    commit.write_bytes(text + b"\n" + _digest(text).encode())
    with pytest.raises(StateError, match=r"format 99, written by Muntin 9\.9"):
        WindowJoin(**JOINS["count"], state=tmp_path)


GOLDEN = Path(__file__).parent / "golden"
GOLDEN_JOINS = ("sequence", "time full", "self", "text")


@pytest.mark.parametrize("release", sorted(path.name for path in GOLDEN.iterdir()))
def test_state_of_a_release_is_restored(release: str, tmp_path: Path) -> None:
    """Made by ``python -m tests.host.state.test_state FOLDER``, with the release."""
    for name in GOLDEN_JOINS:
        options = JOINS[name]
        folder = shutil.copytree(GOLDEN / release / name.replace(" ", "_"), tmp_path / name)
        due = json.loads((folder / "results.json").read_text())
        (folder / "results.json").unlink()
        stream = calls(5, 4, rows=12)
        join = WindowJoin(**options, state=folder)
        assert [content(join.repeat()), content(join.process(*sides(join, stream[3]))), content(join.finish())] == due


def make_golden(folder: Path) -> None:
    """State after three small calls of each join, and what is due then."""
    for name in GOLDEN_JOINS:
        options = JOINS[name]
        place, stream = folder / name.replace(" ", "_"), calls(5, 4, rows=12)
        join = WindowJoin(**options, state=place)
        for tables in stream[:3]:
            join.process(*sides(join, tables))
        join.close()
        (place / "results.json").write_text(json.dumps(results(options, stream)[2:]))


# Real files, real deaths, a real object store

KILLED = """
import os, signal, sys
import numpy as np, pyarrow as pa
from muntin import WindowJoin
from tests.host.state.test_state import JOINS, calls, content
join = WindowJoin(**JOINS["time full"], state=sys.argv[1])
stream = calls(5, 24)
if join.last_batch >= 0:
    print(join.last_batch, content(join.repeat()), flush=True)
for number in range(join.last_batch + 1, len(stream)):
    print(number, content(join.process(*stream[number])), flush=True)
print("end", content(join.finish()), flush=True)
"""


def test_killed_processes(tmp_path: Path) -> None:
    stream = calls(5, 24)
    due = results(JOINS["time full"], stream)
    root = Path(__file__).parents[3]
    rng = np.random.default_rng(1)
    seen: dict[str, str] = {}
    for attempt in range(7):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path / "state")],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        assert process.stdout is not None
        for lines, line in enumerate(process.stdout):
            number, _, found = line.strip().partition(" ")
            assert seen.setdefault(number, found) == found
            if attempt < 6 and lines >= rng.integers(0, 8):
                process.send_signal(signal.SIGKILL)
        process.stdout.close()
        process.wait()
    assert [seen[str(number)] for number in range(len(stream))] == list(map(str, due[:-1]))
    assert seen["end"] == str(due[-1])


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="cannot make the folder"):
        WindowJoin(**JOINS["count"], state=tmp_path / "file" / "state")


def test_a_file_is_there_whole_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = LocalStore(tmp_path)
    synced: list[int] = []
    link: Callable[..., None] = os.link

    def before_link(*paths: Any) -> None:
        assert synced, "the data are to be durable before the name is"
        link(*paths)

    monkeypatch.setattr(os, "link", before_link)
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(handle), fsync(handle)))
    local.create("a", [b"who", b"le"])
    assert len(synced) == 2  # the file, then its folder
    with pytest.raises(StateTakenError):
        local.create("a", [b"other"])
    assert (local.read("a"), local.names(), os.listdir(tmp_path)) == (b"whole", ["a"], ["a"])


@contextmanager
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a bucket in an object store."""
    pytest.importorskip("obstore")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        import urllib.request

        urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/windows", method="PUT"))
        yield "s3://windows"
    finally:
        server.stop()


def test_an_object_store(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    with bucket(monkeypatch) as place:
        stream = calls(seed, 5)
        due = results(JOINS["time left"], stream)
        first = WindowJoin(**JOINS["time left"], state=f"{place}/query/1")
        for number in range(3):
            assert content(first.process(*stream[number])) == due[number]
        second = WindowJoin(**JOINS["time left"], state=f"{place}/query/1")
        assert content(second.repeat()) == due[2]
        assert content(second.process(*stream[3])) == due[3]
        with pytest.raises(StateTakenError):
            first.process(*stream[3])
        assert content(second.process(*stream[4])) == due[4]
        blobs = open_store(place)
        assert (blobs.names(), blobs.below()) == ([], ["query/1"])
        blobs.create("b", [b"1"])
        assert blobs.names() == ["b"]
        for _ in range(2):
            blobs.delete("b")
        assert blobs.names() == []
        with pytest.raises(StateError, match=f"cannot read the state's file {place}/nothing: "):
            blobs.read("nothing")
        with pytest.raises(StateError, match="s3://nowhere/x") as failed:
            WindowJoin(**JOINS["time left"], state="s3://nowhere/x")
        assert "\n" not in str(failed.value)


def test_engines_load_without_pairs(store: FaultyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    from muntin.host.engine.index_engine import IndexEngine
    from muntin.host.engine.native_engine import NativeEngine

    join = WindowJoin(**JOINS["count"], state="anywhere")
    for tables in calls(1, 4):
        join.process(*tables)
    for device, engine, finds in (("cpu", NativeEngine, "_joined"), ("numpy", IndexEngine, "_step")):
        with monkeypatch.context() as patch:
            patch.setattr(engine, finds, None)
            WindowJoin(**JOINS["count"], state="anywhere", device=device)


if __name__ == "__main__":
    make_golden(Path(sys.argv[1]))


# What fails in the middle of a call


class Tracer:
    """Raises an error where a line of this package is about to run for the first time.

    Parameters
    ----------
    at : (str, int) or None
        File and number of the line; None: at none.
    """

    def __init__(self, at: tuple[str, int] | None = None, error: BaseException | None = None):
        self.lines: dict[tuple[str, int], None] = {}
        self._at, self._error = at, error

    def __enter__(self) -> Tracer:
        self._before = sys.gettrace()
        sys.settrace(self._enters)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _enters(self, frame: types.FrameType, event: str, _: object) -> Any:
        return self._runs if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _runs(self, frame: types.FrameType, event: str, _: object) -> Any:
        place = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and place not in self.lines:
            self.lines[place] = None
            if place == self._at:
                assert self._error is not None
                raise self._error
        return self._runs


PACKAGE = os.path.dirname(os.path.dirname(journal_module.__file__))
OUTPUT = tuple(f"{PACKAGE}/join/{name}.py" for name in ("materializer", "row_log", "match_bits"))
FAILING: dict[str, dict[str, Any]] = {
    **{name: JOINS[name] for name in ("count", "sequence", "time full", "self", "counts", "count left_semi")},
    "ordered": {**JOINS["count"], "order": "inner"},
    "driven": {"on": AllOf(Compare("a", "<", "b"), Compare("s", ">", "t")), "left": Rows(90), "right": Rows(60)},
    "as-of": {"on": AsOf("t", "t", "backward", by="x"), "how": "left", "watermark": Watermark(left=30, right=30)},
    "aggregate": {**JOINS["count"], "form": "aggregate", "aggregates": [Count(), Max("b")]},
    "closing": {**JOINS["time"], "form": "aggregate", "aggregates": [Count(), Max("b"), Last("b")], "at": "close"},
    "partitions": {**JOINS["count"], "partitions": 2},
}


@pytest.mark.parametrize("name", FAILING)
def test_a_call_that_fails_anywhere_has_changed_nothing_or_gives_its_result(
    name: str, store: FaultyStore, seed: int, request: pytest.FixtureRequest
) -> None:
    """An error at a line that a call or its repetition runs: at each in turn, with --full."""
    errors = [MemoryError, pa.ArrowInvalid, KeyboardInterrupt]
    options, stream = FAILING[name], calls(seed, 4)
    due = results(options, stream)
    rng = np.random.default_rng(seed)
    for count, again in ((2, False), (3, True)):

        def opened(count: int = count, *, again: bool = again) -> WindowJoin:
            """A join that has taken so many calls, or a later one over its state."""
            store.blobs.clear()
            join = WindowJoin(**options, state="anywhere")
            for tables in stream[:count]:
                join.process(*sides(join, tables))
            return WindowJoin(**options, state="anywhere") if again else join

        def called(join: WindowJoin, *, again: bool = again) -> pa.Table:
            return join.repeat() if again else join.process(*sides(join, stream[2]))

        join = opened()
        with Tracer() as seen:
            assert content(called(join)) == due[2]
        cases = list(itertools.product(seen.lines, errors))
        if not request.config.getoption("--full"):
            cases = [cases[at] for at in rng.choice(len(cases), 20, replace=False)]
        for line, error in cases:
            join, raised = opened(), type(None)
            before = join.stats.calls
            try:
                with Tracer(line, error("no room")):
                    found = called(join)
            except BaseException as caught:  # KeyboardInterrupt too
                raised = type(caught)
            if raised is not type(None):
                if error is KeyboardInterrupt or line[0] in OUTPUT:
                    kind = {KeyboardInterrupt: KeyboardInterrupt, MemoryError: CapacityError}.get(error, SchemaError)
                    assert issubclass(raised, kind), (line, raised)
                if not join.usable or join.stats.calls > before:
                    join.close()
                    join = WindowJoin(**options, state="anywhere")
                found = join.repeat() if join.last_batch == 2 else called(join)
            assert content(found) == due[2], line
            assert content(join.process(*sides(join, stream[3]))) == due[3], line
            assert content(join.finish()) == due[4], line


# What a schema may be when a join goes on

PAYLOADS: dict[str, list[Any]] = {
    "int64": [pa.int64(), [1, 2]],
    "text": [pa.string(), ["a", "b"]],
    "time": [pa.timestamp("us", "UTC"), [1, 2]],
    "list": [pa.list_(pa.int64()), [[1, 2], []]],
    "struct": [pa.struct({"x": pa.int64(), "y": pa.string()}), [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}]],
    "dictionary": [pa.dictionary(pa.int8(), pa.string()), ["a", "b"]],
    "map": [pa.map_(pa.string(), pa.int64()), [[("a", 1)], []]],
    "view": [pa.string_view(), ["a", "b"]],
}


def changed_types(kind: pa.DataType) -> list[pa.DataType]:
    """Types that are much like one."""
    types = pa.types
    if types.is_timestamp(kind):
        return [kind, pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us"), pa.timestamp("ns", "UTC")]
    if types.is_list(kind):
        value = kind.value_field
        return [kind, pa.list_(value.with_name("element")), pa.list_(value.with_nullable(False)),
                pa.list_(value.with_metadata({"a": "b"})), pa.large_list(value)]  # fmt: skip
    if types.is_struct(kind):
        x, y = kind
        return [kind, pa.struct([y, x]), pa.struct([x.with_nullable(False), y]),
                pa.struct([x.with_metadata({"a": "b"}), y]), pa.struct([x, y.with_name("z")])]  # fmt: skip
    if types.is_dictionary(kind):
        return [kind, pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.string(), ordered=True)]
    if types.is_map(kind):
        return [kind, pa.map_(pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int64()))]
    return [kind, pa.large_string()] if types.is_string(kind) or types.is_string_view(kind) else [kind]


@st.composite
def schemas_of_calls(draw: st.DrawFn) -> list[tuple[pa.Table, pa.Table, bool]]:
    """Rows of calls, in columns that are much alike, and whether another process makes the call."""
    kind, values = PAYLOADS[draw(st.sampled_from(sorted(PAYLOADS)))]
    found = []
    for _ in range(draw(st.integers(2, 4))):
        tables = []
        for side in ("left", "right"):
            null = draw(st.booleans())
            key = pa.field("k", pa.int64(), draw(st.booleans()) or null)
            own = draw(st.sampled_from(changed_types(kind))) if draw(st.booleans()) else kind
            payload = pa.field("p", own, draw(st.booleans()) or null)
            if draw(st.booleans()):
                payload = payload.with_metadata({"comment": side})
            schema = pa.schema([key, payload])
            if draw(st.booleans()):
                schema = pa.schema([payload, key], metadata={"of": side})
            rows = {"k": [1, None if null else 2], "p": [values[0], None if null else values[1]]}
            tables.append(
                pa.table({name: pa.array(rows[name], schema.field(name).type) for name in schema.names}, schema)
            )
        found.append((*tables, draw(st.booleans())))
    return found


def test_a_column_that_becomes_not_null(store: FaultyStore) -> None:
    options: dict[str, Any] = {"on": Compare("k", "=", "k2"), "left": Rows(5), "right": Rows(5), "state": "anywhere"}
    loose = pa.schema([("k", pa.int64()), ("x", pa.string())])
    strict = pa.schema([pa.field("k", pa.int64(), nullable=False), ("x", pa.string())])
    row, right = pa.table({"k": [1], "x": ["a"]}, loose), pa.table({"k2": [1]})
    with WindowJoin(**options) as join:
        assert join.process(row, right.slice(0, 0)).num_rows == 0
    with WindowJoin(**options, left_schema=strict) as join:
        assert join.process(row.cast(strict), right).num_rows == 2
        with pytest.raises(SchemaError, match=r"column 'k' of the left batch has NULL.*left_schema="):
            join.process(pa.table({"k": [None], "x": ["b"]}, loose), None)
    with WindowJoin(**options) as join:
        assert join.repeat().num_rows == 2
    with WindowJoin(**options, left_schema=loose) as join:
        assert join.process(pa.table({"k": [None], "x": ["b"]}, loose), right).num_rows == 2
    with pytest.raises(StateError, match="left column 'k' has NULL in rows of the state in memory"):
        WindowJoin(**options, left_schema=strict)


@settings(max_examples=80)
@given(stream=schemas_of_calls(), how=st.sampled_from(["inner", "full", "left_semi"]))
def test_a_schema_is_refused_by_name_or_answered(stream: list[tuple[pa.Table, pa.Table, bool]], how: str) -> None:
    """At once and by repeat(); what is refused has changed nothing."""
    options: dict[str, Any] = {"on": Compare("k", "=", "k"), "left": Rows(9), "right": Rows(9), "how": how}
    with pytest.MonkeyPatch.context() as patch:
        kept = FaultyStore()
        patch.setattr(journal_module, "open_store", lambda _: kept)
        first = [{name: table.schema.field(name).type for name in "kp"} for table in stream[0][:2]]
        loose = WindowJoin(**options)  # of columns that may be NULL
        join, taken, strict = WindowJoin(**options, state="anywhere"), 0, False
        for left, right, another in stream:
            both = left, right
            strict = strict or not all(table.schema.field(name).nullable for table in both for name in "kp")
            refused = ""
            try:
                if another:
                    join.close()
                    join = WindowJoin(**options, state="anywhere", left_schema=left.schema, right_schema=right.schema)
                found = join.process(left, right)
            except (StateError, SchemaError) as error:
                refused = str(error)
            if refused:
                types = [{name: table.schema.field(name).type for name in "kp"} for table in both]
                assert strict or types != first, refused
                assert "'k'" in refused or "'p'" in refused
                join.close()
                join = WindowJoin(**options, state="anywhere")
                assert join.last_batch == taken - 1
                continue
            taken += 1
            tables = [table.select(["k", "p"]).cast(pa.schema(kinds)) for table, kinds in zip(both, first, strict=True)]
            due = content(loose.process(*tables))
            for result in (found, WindowJoin(**options, state="anywhere").repeat()):
                result.validate(full=True)
                assert (
                    content(result.select(["k", "p", *(["k_right", "p_right"] if how != "left_semi" else [])])) == due
                )
