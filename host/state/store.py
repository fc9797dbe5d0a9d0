"""Where the files of a state log lie: a local folder, or an object store."""

from __future__ import annotations

import abc
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from host.errors import StateError, StateTakenError


class Store(abc.ABC):
    """Named blobs in one place. Names are plain: letters, digits, dots and dashes.

    Every method raises `StateError`, which names the file, where the storage fails.
    """

    #: What to show of it in messages.
    place: str

    @abc.abstractmethod
    def create(self, name: str, pieces: Sequence[bytes | pa.Buffer]) -> None:
        """Writes a blob that is not there yet, of these bytes; it appears whole, and is durable when this returns.

        Raises
        ------
        StateTakenError
            If there is one of that name.
        """

    @abc.abstractmethod
    def read(self, name: str) -> bytes:
        """A blob."""

    @abc.abstractmethod
    def names(self) -> list[str]:
        """All names, sorted."""

    @abc.abstractmethod
    def delete(self, name: str) -> None:
        """Removes a blob; nothing happens where there is none."""

    def path(self, name: str) -> str:
        """A blob as messages name it."""
        return f"{self.place}/{name}"

    @contextmanager
    def _named(self, what: str, name: str = "") -> Iterator[None]:
        try:
            yield
        except StateError:
            raise
        except Exception as error:  # obstore has many classes of its own
            raise StateError(f"cannot {what} the state's file {self.path(name)}: {error}") from error


class LocalStore(Store):
    """A folder of a local file system, made if it is not there.

    A file is written under a name of its own, synced, then linked to its name, which fails where that is taken; then
    the folder is synced.

    Raises
    ------
    StateError
        If the folder cannot be made.
    """

    def __init__(self, folder: str | Path):
        self._folder = Path(folder).absolute()
        self.place = str(self._folder)
        with self._named("make the folder of"):
            missing = [path for path in (self._folder, *self._folder.parents) if not path.exists()]
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for path in missing:
                _sync_folder(path.parent)

    def create(self, name: str, pieces: Sequence[bytes | pa.Buffer]) -> None:
        target = self._folder / name
        partial = self._folder / f".{name}-{secrets.token_hex(8)}"
        with self._named("write", name):
            try:
                with partial.open("xb", buffering=0) as file:
                    for piece in pieces:
                        view = memoryview(piece)
                        while len(view):
                            view = view[file.write(view) :]
                    os.fsync(file.fileno())
                os.link(partial, target)
            except FileExistsError as error:
                raise StateTakenError(f"the state's file {target} is there already") from error
            finally:
                with suppress(FileNotFoundError):
                    partial.unlink()
            _sync_folder(self._folder)

    def read(self, name: str) -> bytes:
        with self._named("read", name):
            return (self._folder / name).read_bytes()

    def names(self) -> list[str]:
        with self._named("list"):
            return sorted(entry.name for entry in os.scandir(self._folder) if not entry.name.startswith("."))

    def delete(self, name: str) -> None:
        with self._named("delete", name), suppress(FileNotFoundError):
            (self._folder / name).unlink()


class ObjectStore(Store):
    """A prefix in an object store: S3, Google Cloud Storage, Azure, as `obstore` opens its address.

    A blob is created by a conditional PUT, which the store refuses where the name is taken.

    Parameters
    ----------
    address : str
        Such as ``"s3://bucket/prefix"``. Keys and endpoints come from the environment (``AWS_ENDPOINT_URL``, ...).

    Raises
    ------
    StateError
        If obstore is not installed, or does not take the address.
    """

    def __init__(self, address: str, **options: Any):
        try:
            import obstore
        except ImportError as error:
            raise StateError(
                f"state in {address} needs the package obstore: pip install 'mullion[object-store]'"
            ) from error
        self.place = address.rstrip("/")
        self._obstore = obstore
        with self._named("open"):
            self._store = obstore.store.from_url(self.place, **options)

    def create(self, name: str, pieces: Sequence[bytes | pa.Buffer]) -> None:
        with self._named("write", name):
            try:
                self._obstore.put(self._store, name, b"".join(pieces), mode="create")
            except self._obstore.exceptions.AlreadyExistsError as error:
                raise StateTakenError(f"the state's file {self.path(name)} is there already") from error

    def read(self, name: str) -> bytes:
        with self._named("read", name):
            return bytes(self._obstore.get(self._store, name).bytes())

    def names(self) -> list[str]:
        with self._named("list"):
            found = [entry["path"] for chunk in self._obstore.list(self._store) for entry in chunk]
            return sorted(path for path in found if "/" not in path)

    def delete(self, name: str) -> None:
        with self._named("delete", name), suppress(FileNotFoundError):
            self._obstore.delete(self._store, name)


def open_store(place: str | Path) -> Store:
    """The store at a path, a ``file:`` address or the address of an object store.

    Raises
    ------
    StateError
        If there can be none.
    """
    text = str(place)
    scheme = urlsplit(text).scheme
    if "://" not in text:
        return LocalStore(text)
    if scheme == "file":
        return LocalStore(urlsplit(text).path)
    return ObjectStore(text)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
