"""Keeps what takes long to make: built models, boards and verdicts of proofs, by what they are made from.

All checkouts and installations of a user share them.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

COUNTS: Counter[str] = Counter()
"""What this process has made, and what it found: ``"model made"``, ``"model kept"`` and so on."""

CACHE = Path(
    os.environ.get("MUNTIN_BUILD") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muntin"
)
"""Where they are kept: ``MUNTIN_BUILD``, else in the user's cache."""

_MANIFEST = "kept.json"
_UNUSED = 30 * 24 * 3600  # seconds, after which a folder is removed


def digest(content: object) -> str:
    """Sixteen hexadecimal digits that stand for a value; it must fit JSON."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def kept(folder: Path, what: str, make: Callable[[Path], None]) -> Path:
    """A folder that is made once; what it is made from must be in its name, as a `digest`.

    Any number of processes may ask at once: one makes it, the others wait. A folder appears whole, with a digest of
    each of its files; one that has lost a file, or in which a file has changed, is made again.

    Parameters
    ----------
    folder : Path
    what : str
        What it is, for `COUNTS`.
    make : callable
        Fills an empty folder, which then takes its place. What it raises leaves nothing behind.

    Returns
    -------
    Path
        The folder. Others may write further files into it.
    """
    if not is_whole(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with alone(folder), tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as temporary:
            if not is_whole(folder):  # not made by another process in the meantime
                place = Path(temporary) / folder.name
                place.mkdir()
                make(place)
                files = {str(file.relative_to(place)): _sum(file) for file in place.rglob("*") if file.is_file()}
                (place / _MANIFEST).write_text(json.dumps(files))
                with contextlib.suppress(FileNotFoundError):
                    shutil.rmtree(folder)
                os.rename(place, folder)
                _remove_unused(folder.parent)
                COUNTS[f"{what} made"] += 1
                return folder
    COUNTS[f"{what} kept"] += 1
    return folder


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Lets one process at a time work on a path; the system frees it when a process ends."""
    with path.with_name(f"{path.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_whole(folder: Path) -> bool:
    """Whether a folder was kept and has all its files as they were made; it counts as used now."""
    try:
        files = json.loads((folder / _MANIFEST).read_text())
        with contextlib.suppress(OSError):  # what another user keeps is taken too
            os.utime(folder / _MANIFEST)
        return all(_sum(folder / file) == expected for file, expected in files.items())
    except (OSError, ValueError):
        return False


def _remove_unused(place: Path) -> None:
    for manifest in place.glob(f"*/{_MANIFEST}"):
        with contextlib.suppress(FileNotFoundError):  # another process removes it too
            if time.time() - manifest.stat().st_mtime > _UNUSED:
                manifest.unlink()
                shutil.rmtree(manifest.parent, ignore_errors=True)


def _sum(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
