"""Where the files of a state log lie: a local folder, or an object store."""

from __future__ import annotations

import abc
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from muntin.host.errors import StateError, StateTakenError

_FORMS = (
    "Give a folder, such as /shared/state (a mounted one by its path, as in /dbfs/state), or the address of an object "
    "store that creates a file only once: s3://bucket/prefix, gs://bucket/prefix, "
    "az://container/prefix (abfss://container@account.dfs.core.windows.net/prefix names the account too)"
)
_IMPATIENT = {"retry_config": {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}}
_AZURE = re.compile("az(ure)?:|abfss?:|adl:", re.IGNORECASE)  # opened with an account, by default the environment's
_MAX_NAME, _MAX_KEY = 255, 1024 - 64  # bytes; of an object's name some are for what a log calls its files


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
            raise StateError(f"cannot {what} the state's file {self.path(name)}: {_reason(error)}") from error


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
        try:
            self._store = obstore.store.from_url(self.place, **options)
        except Exception as error:  # obstore has many classes of its own
            raise StateError(f"state in {address} cannot be opened: {_reason(error)}. {_FORMS}") from error
        if type(self._store).__name__ in ("HTTPStore", "MemoryStore"):  # no conditional PUT; gone with the process
            raise StateError(f"state cannot be kept in {address}. {_FORMS}")

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


def open_store(place: str | Path, *, patient: bool = True) -> Store:
    """The store at a path, a ``file:`` address or the address of an object store.

    Unless it is ``patient``, an object store that does not answer fails within some 20 seconds, not minutes.

    Raises
    ------
    StateError
        If there can be none.
    """
    folder = local_folder(place)
    return LocalStore(folder) if folder is not None else ObjectStore(str(place), **({} if patient else _IMPATIENT))


def local_folder(place: str | Path) -> str | None:
    """The folder that a place is; None where it is the address of an object store. Raises StateError where it is
    neither, by its text alone."""
    text = str(place) if isinstance(place, Path) else place
    if not isinstance(text, str) or not text or "\0" in text:
        raise StateError(f"state is kept in a folder or in an object store, not in {place!r}. {_FORMS}")
    if text.startswith("file:"):
        _, host, path, *more = urlsplit(text)
        if host not in ("", "localhost") or not path.startswith("/") or any(more):
            raise StateError(f"{text!r} names no folder of this machine. {_FORMS}")
        return unquote(path)
    if "://" in text:
        return None
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", text):  # as in "dbfs:/folder": a folder of such a name is not meant
        raise StateError(f"{text!r} is neither a folder nor the address of an object store. {_FORMS}")
    return text


def check_place(place: str | Path, names: Sequence[str] = (), *, here: bool = True) -> None:
    """Whether state could be kept at a place, as far as is seen without touching it.

    Parameters
    ----------
    names : sequence of str
        Of stores below it, each a folder or a part of a blob's name.
    here : bool
        A folder is one of this machine, and an object store is reached with its environment.

    Raises
    ------
    StateError
        It could not: there is no such kind of place, nothing can be written there, or a name is too long.
    """
    folder = local_folder(place)
    what, most, before = "folder", _MAX_NAME, 0
    if folder is None:
        ObjectStore(str(place), **({} if here or not _AZURE.match(str(place)) else {"account_name": "elsewhere"}))
        what, most, before = "prefix", _MAX_KEY, len(unquote(urlsplit(str(place)).path).encode())
        names = [unquote(name) for name in names]  # as an address is read
        if wrong := [name for name in names if {"", ".", ".."} & set(name.split("/"))]:
            raise StateError(
                f"the prefix {wrong[0]!r} of the state in {place} has nothing, '.' or '..' between two slashes, which "
                "no address of an object store has: give the join another name"
            )
    elif here:
        path = os.path.abspath(folder)
        while not os.path.exists(path):
            path = os.path.dirname(path)
        if not os.path.isdir(path):
            raise StateError(f"state cannot be kept in {folder}: {path} is no folder")
        if not os.access(path, os.W_OK | os.X_OK):
            raise StateError(f"state cannot be kept in {folder}: this user may not write in {path}")
    for name in names:
        if (size := before + len(name.encode())) > most:
            raise StateError(
                f"the {what} {name!r} of the state in {place} would have a name of {size} bytes, above the {most} that "
                "there may be: give the join a shorter name"
            )


def _reason(error: Exception) -> str:
    """What an error says to users; what follows in those of obstore is for its developers."""
    return str(error).partition("\n")[0]


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
