"""Where the files of a state log lie: a local folder, or an object store."""

from __future__ import annotations

import abc
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from muntin.host.errors import StateError, StateTakenError


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
    def names(self, after: str = "") -> list[str]:
        """All names, sorted; those after one alone."""

    @abc.abstractmethod
    def below(self) -> list[str]:
        """Names of the stores below this one that have a blob, sorted, as `query_place` was given them."""

    def drop(self) -> None:
        """Removes all blobs."""
        for name in self.names():
            self.delete(name)

    def settle(self) -> None:  # noqa: B027 - an object store has nothing to sync
        """Makes durable what is there: a name may be there whose writer could not sync it."""

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
        self.place = os.path.abspath(folder)
        with self._named("make the folder of"):
            missing, path = [], self.place
            while not os.path.exists(path):
                missing.append(path)
                path = os.path.dirname(path)
            os.makedirs(self.place, 0o700, exist_ok=True)
            for path in reversed(missing):
                _sync_folder(os.path.dirname(path))

    def create(self, name: str, pieces: Sequence[bytes | pa.Buffer]) -> None:
        target = self.path(name)
        partial = f"{self.place}/.{name}-{secrets.token_hex(8)}"
        with self._named("write", name):
            try:
                handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
                try:
                    if size := sum(len(piece) for piece in pieces):
                        os.posix_fallocate(handle, 0, size)  # at once costs less than as it is written
                    for piece in pieces:
                        view = memoryview(piece)
                        while len(view):
                            view = view[os.write(handle, view) :]
                    os.fsync(handle)
                finally:
                    os.close(handle)
                os.link(partial, target)
            except FileExistsError as error:
                raise StateTakenError(f"the state's file {target} is there already") from error
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(partial)
            _sync_folder(self.place)

    def read(self, name: str) -> bytes:
        with self._named("read", name):
            handle = os.open(self.path(name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                size = os.fstat(handle).st_size
                return b"".join(iter(lambda: os.read(handle, size + 1), b""))
            finally:
                os.close(handle)

    def names(self, after: str = "") -> list[str]:
        with self._named("list"):
            return sorted(name for name in os.listdir(self.place) if name > after and not name.startswith("."))

    def below(self) -> list[str]:
        with self._named("list"):
            paths = {name: self.path(name) for name in os.listdir(self.place)}
            return sorted(unquote(name) for name, path in paths.items() if os.path.isdir(path) and os.listdir(path))

    def drop(self) -> None:
        super().drop()
        with self._named("delete the folder of"):
            shutil.rmtree(self.place)

    def settle(self) -> None:
        with self._named("sync the folder of"):
            _sync_folder(self.place)

    def delete(self, name: str) -> None:
        with self._named("delete", name), suppress(FileNotFoundError):
            os.unlink(self.path(name))


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
                f"state in {address} needs the package obstore: pip install 'muntin[object-store]'"
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

    def names(self, after: str = "") -> list[str]:
        with self._named("list"):
            chunks = self._obstore.list(self._store, offset=after or None)
            return sorted(path for chunk in chunks for entry in chunk if "/" not in (path := entry["path"]))

    def below(self) -> list[str]:
        with self._named("list"):
            paths = [entry["path"] for chunk in self._obstore.list(self._store) for entry in chunk]
        return sorted({path.rpartition("/")[0] for path in paths if "/" in path})

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


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
