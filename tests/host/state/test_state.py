"""A join that goes on in another process: after any death, from files that are whole, or not at all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import host.window_join as window_join_module
from host import AllOf, AnyOf, Band, Compare, Rows, Watermark, WindowJoin, Within
from host.errors import DeviceError, ReplayError, StateError, StateTakenError
from host.state import LocalStore
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
    monkeypatch.setattr(window_join_module, "open_store", lambda _: kept)
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
        if number:
            assert content(join.repeat()) == due[number - 1]
        assert content(join.process(*sides(join, tables))) == due[number]
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
            while len(taken) < len(stream):
                taken.append(content(join.process(*sides(join, stream[len(taken)]))))
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
        patch.setattr(window_join_module, "open_store", lambda _: kept)
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
    fields = json.loads(commit.read_bytes().partition(b"\n")[0]) | {"format": 99, "mullion": "9.9"}
    from host.state.log import _digest

    text = json.dumps(fields).encode()
    commit.write_bytes(text + b"\n" + _digest(text).encode())
    with pytest.raises(StateError, match=r"format 99, written by Mullion 9\.9"):
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
from host import WindowJoin
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
        with pytest.raises(StateError, match="s3://nowhere/x"):
            WindowJoin(**JOINS["time left"], state="s3://nowhere/x")


def test_engines_load_without_pairs(store: FaultyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    from host.join.index_engine import IndexEngine
    from host.join.native_engine import NativeEngine

    join = WindowJoin(**JOINS["count"], state="anywhere")
    for tables in calls(1, 4):
        join.process(*tables)
    for device, engine in (("cpu", NativeEngine), ("numpy", IndexEngine)):
        with monkeypatch.context() as patch:
            patch.setattr(engine, "process", None)
            WindowJoin(**JOINS["count"], state="anywhere", device=device)


if __name__ == "__main__":
    make_golden(Path(sys.argv[1]))
