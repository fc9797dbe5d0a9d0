"""What is kept is made once, appears whole, and is not used when it is damaged."""

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from muntin.sim.kept import COUNTS, digest, is_whole, kept


def make(place: Path) -> None:
    (place / "part").mkdir()
    (place / "part" / "model").write_bytes(os.urandom(1000))


def model(folder: Path) -> bytes:
    return (kept(folder, "thing", make) / "part" / "model").read_bytes()


def test_made_once(tmp_path):
    before = COUNTS.copy()
    made = model(tmp_path / "a")
    assert model(tmp_path / "a") == made
    assert model(tmp_path / "b") != made
    assert COUNTS - before == {"thing made": 2, "thing kept": 1}


@pytest.mark.parametrize("damage", ["cut", "changed", "lost", "no manifest", "half a manifest"])
def test_what_is_damaged_is_made_again(tmp_path, damage):
    folder = tmp_path / "a"
    made = model(folder)
    (folder / "log").write_text("of a run")
    assert model(folder) == made  # files of others do not count
    file, manifest = folder / "part" / "model", folder / "kept.json"
    match damage:
        case "cut":
            file.write_bytes(made[:500])
        case "changed":
            file.write_bytes(made[:-1] + bytes([made[-1] ^ 1]))
        case "lost":
            file.unlink()
        case "no manifest":
            manifest.unlink()
        case "half a manifest":
            manifest.write_text(manifest.read_text()[:20])
    assert not is_whole(folder)
    again = model(folder)
    assert len(again) == 1000
    assert again != made
    assert is_whole(folder)


def test_what_fails_leaves_nothing(tmp_path):
    def fail(place: Path) -> None:
        make(place)
        raise RuntimeError("no compiler")

    with pytest.raises(RuntimeError, match="no compiler"):
        kept(tmp_path / "a", "thing", fail)
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".lock"]
    assert len(model(tmp_path / "a")) == 1000


def _ask(folder: Path, barrier, answers) -> None:
    def slowly(place: Path) -> None:
        make(place)
        time.sleep(0.1)  # long enough for the others to ask as well

    barrier.wait()
    answers.put((kept(folder, "thing", slowly) / "part" / "model").read_bytes())


def test_processes_that_ask_at_once(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    barrier, answers = spawn.Barrier(3), spawn.Queue()
    processes = [spawn.Process(target=_ask, args=(tmp_path / "a", barrier, answers)) for _ in range(3)]
    for process in processes:
        process.start()
    assert len({answers.get() for _ in processes}) == 1
    for process in processes:
        process.join()
        assert process.exitcode == 0


def test_a_digest_tells_values_apart():
    assert digest(["a", 1]) != digest(["a", 2])
    assert len(digest([])) == 16


def test_what_was_not_used_for_long_is_removed(tmp_path):
    for name in ("old", "used"):
        model(tmp_path / name)
        os.utime(tmp_path / name / "kept.json", (0, 0))
    model(tmp_path / "used")
    model(tmp_path / "new")
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"used", "new"}
