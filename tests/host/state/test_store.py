"""Where files of state lie, and tables that are named by what is in them."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

import muntin.host.state.store as store_module
from muntin.host.errors import StateError, StateTakenError
from muntin.host.state import LocalStore, check_place, open_store
from muntin.host.state.store import Store
from muntin.host.state.tables import GivenTable, KeptTable, keep_part, keep_table


def test_a_folder_of_files(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b"
    store = open_store(place)
    assert (store.place, store.names(), store.below()) == (str(place), [], [])
    assert place.stat().st_mode & 0o777 == 0o700
    for name in ("b", "a", "c"):
        store.create(name, [name.encode() * 3, pa.py_buffer(b"."), b""])
    store.create("empty", [])
    (place / ".partial").write_text("")
    assert (store.names(), store.names("b"), store.names("a1")) == (
        ["a", "b", "c", "empty"],
        ["c", "empty"],
        ["b", "c", "empty"],
    )
    assert (store.read("a"), store.read("empty"), store.path("a")) == (b"aaa.", b"", f"{place}/a")
    store.settle()
    with pytest.raises(StateTakenError, match=f"the state's file {place}/a is there already"):
        store.create("a", [b"other"])
    store.delete("a")
    store.delete("a")
    assert (store.names(), store.read("b")) == (["b", "c", "empty"], b"bbb.")
    for name in ("nothing", "there"):
        with pytest.raises(StateError, match=f"cannot read the state's file {place}/{name}: .*No such file"):
            store.read(name)
    open_store(place / "query%2F1").create("x", [b"1"])
    open_store(place / "folder")
    assert (store.below(), open_store(tmp_path).below()) == (["query/1"], ["a"])
    with pytest.raises(StateError, match=f"cannot delete the state's file {place}/folder: "):
        store.delete("folder")
    for name in ("query%2F1", "folder"):
        open_store(place / name).drop()
    store.drop()
    assert not place.exists()
    with pytest.raises(StateError, match=f"cannot list the state's file {place}/"):
        store.names()
    with pytest.raises(StateError, match=f"cannot sync the folder of the state's file {place}/"):
        store.settle()


def test_folders_that_are_made_are_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(store_module, "_sync_folder", synced.append)
    store = LocalStore(tmp_path / "a" / "b")
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    store.create("x", [b"1"])
    store.settle()
    LocalStore(tmp_path / "a")
    assert synced[2:] == [store.place, store.place]


def test_a_folder_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_place(tmp_path / "a" / "b")
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(os, "access", lambda *what: asked.append(what))
    with pytest.raises(StateError, match=f"kept in {tmp_path}/a/b: this user may not write in {tmp_path}$"):
        check_place(tmp_path / "a" / "b")
    assert asked == [(str(tmp_path), os.W_OK | os.X_OK)]


def test_what_is_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a system that takes a few bytes at a time, and reads as few; where it fails, no file is left."""
    write, read = os.write, os.read
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:3]))
    monkeypatch.setattr(os, "read", lambda handle, size: read(handle, min(size, 2)))
    store = LocalStore(tmp_path)
    store.create("a", [b"0123456789", b"ab"])
    assert store.read("a") == b"0123456789ab"

    def full(handle: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StateError, match=f"cannot write the state's file {tmp_path}/b: .*No space left"):
        store.create("b", [b"1"])
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("given", [False, True])
def test_tables_are_named_by_their_content(given: bool, tmp_path: Path) -> None:
    store: Store = open_store(tmp_path)
    table = pa.table({"k": [1, 2, 3], "x": ["a", None, "c"]})
    parts = [keep_part(store, table.slice(0, 2)), keep_part(store, table.slice(2))]
    assert [count for _, count in parts] == [2, 1]
    digest = keep_table(store, table.schema, [part for part, _ in parts])
    assert digest == hashlib.sha256(store.read(f"{digest}.table")).hexdigest()
    assert json.loads(store.read(f"{digest}.table")) == [part for part, _ in parts]
    assert len(store.names()) == 3
    assert (
        keep_table(store, table.schema, [keep_part(store, rows)[0] for rows in (table.slice(0, 2), table.slice(2))])
        == digest
    )
    assert len(store.names()) == 3
    empty = keep_table(store, table.schema, [])
    for held in (GivenTable(table, store),) if given else (KeptTable(str(tmp_path), digest),):
        assert held.rows() == held.rows(held.digest) == table
        assert held.rows(digest) == table
        assert held.rows(empty) == table.schema.empty_table()
    (tmp_path / f"{parts[1][0]}.arrow").write_bytes(b"other")
    with pytest.raises(StateError, match=f"{parts[1][0]}.arrow is damaged: its checksum is not the one in its name"):
        KeptTable(str(tmp_path), digest).rows()


def test_a_table_of_a_join_without_state() -> None:
    tables = [GivenTable(pa.table({"k": [1]})) for _ in range(2)]
    assert tables[0].digest != tables[1].digest
    assert tables[0].rows() == tables[0].rows(tables[0].digest) == pa.table({"k": [1]})
