"""Which files a place names: a path, a folder, a pattern, an address of an object store."""

from __future__ import annotations

import os
import re
import stat
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.fs

from muntin.host.errors import SchemaError, UnsupportedError

#: The formats of files, by the endings of their names.
FORMATS = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv",),
    "json": (".json", ".jsonl", ".ndjson"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "arrows": (".arrows",),
}
#: What may follow the ending of a format that is read from its beginning to its end, and what it says.
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
STREAMS = ("csv", "json", "arrows")
STANDARD = "-"
_NULL = "__HIVE_DEFAULT_PARTITION__"


class File(NamedTuple):
    """A file, and the values that its folders have (``year=2024/``)."""

    path: str
    keys: dict[str, str | None]


class Files(NamedTuple):
    """What a place names, in the order of their paths."""

    system: Any  # pyarrow.fs.FileSystem
    files: list[File]


def format_of(path: str, given: str | None = None) -> tuple[str, str | None]:
    """The format of a file and its compression, by its ending; `given` where that says none.

    Raises
    ------
    UnsupportedError
        Another ending.
    """
    name = PurePosixPath(path.lower())
    compression = COMPRESSIONS.get(name.suffix)
    ending = name.with_suffix("").suffix if compression else name.suffix
    kind = next((kind for kind, endings in FORMATS.items() if ending in endings), given)
    if kind is None:
        known = ", ".join(ending for endings in FORMATS.values() for ending in endings)
        raise UnsupportedError(
            f"{path}: files must end in {known}, or give --format; "
            f"{', '.join(COMPRESSIONS)} may follow the endings of {', '.join(STREAMS)}"
        )
    if compression and kind not in STREAMS:
        raise UnsupportedError(f"{path}: a file of format {kind} is compressed inside: unpack it, or name it {ending}")
    return kind, compression


def is_stream(place: str) -> bool:
    """Whether a place is standard input or output, or a pipe: read and written once, from beginning to end."""
    if place == STANDARD:
        return True
    return "://" not in place and os.path.exists(place) and stat.S_ISFIFO(os.stat(place).st_mode)


def find(place: str) -> Files:
    """The files that a place names; those of a folder and of a pattern by their paths.

    Parameters
    ----------
    place : str
        A path or an address (``s3://bucket/path``), of a file or a folder, or with ``*`` (of one name), ``**`` (of
        any names) and ``[...]``, in a path ``?`` too. Names that begin with a dot or ``_`` are passed over, unless a
        pattern has such a name.

    Raises
    ------
    SchemaError
        Nothing is there, or it cannot be listed.
    UnsupportedError
        An address of a kind that pyarrow does not open.
    """
    system, path, rest = _opened(place)
    if not rest:
        info = system.get_file_info(path)
        if info.type == pyarrow.fs.FileType.NotFound:
            raise SchemaError(f"cannot read {place}: there is no such file or folder")
        if info.is_file:
            return Files(system, [File(path, {})])
    base = path.rstrip("/") + "/" if path else ""
    pattern = rest or "**"
    matches = re.compile(_pattern(pattern))
    selector = pyarrow.fs.FileSelector(path or ".", recursive="/" in pattern or "**" in pattern, allow_not_found=True)
    infos = [each for each in system.get_file_info(selector) if each.is_file]
    names = sorted(each.path.removeprefix(base or "./") for each in infos)
    found = [name for name in names if matches.fullmatch(name) and (_hidden(pattern) or not _hidden(name))]
    if not found:
        raise SchemaError(f"no file matches {place}" if rest else f"the folder {place} has no files")
    return Files(system, [File(base + name, _keys(name)) for name in found])


def _hidden(path: str) -> bool:
    """Whether one of its names begins as those do that are passed over."""
    return any(part.startswith((".", "_")) for part in path.split("/"))


def file_system(place: str) -> tuple[Any, str]:
    """The file system of a place, and the path there. Raises as `find`."""
    if "://" not in place:
        return pyarrow.fs.LocalFileSystem(), place
    try:
        return pyarrow.fs.FileSystem.from_uri(quote(place, safe="/:?#@!$&'()*+,;=%~"))  # spaces may be written as such
    except (pa.ArrowException, ValueError) as error:
        raise UnsupportedError(
            f"cannot open {place}: {error}. Addresses are s3://bucket/path, gs://bucket/path, "
            "abfss://container@account.dfs.core.windows.net/path, hdfs://host/path or file:///path"
        ) from error


def _opened(place: str) -> tuple[Any, str, str]:
    """The file system, the path up to the first name with a wildcard, and what follows."""
    if "://" not in place:
        wild = None if os.path.exists(place) else re.search(r"[*?[]", place)
        system = pyarrow.fs.LocalFileSystem()
        if wild is None:
            return system, place, ""
        cut = place.rfind("/", 0, wild.start()) + 1
        return system, place[: cut - 1] if cut > 1 else place[:cut], place[cut:]
    address = urlsplit(place)
    wild = re.search(r"[*[]", address.path)
    if wild is None:
        return *file_system(place), ""
    cut = address.path.rfind("/", 0, wild.start()) + 1
    system, path = file_system(address._replace(path=address.path[: cut - 1]).geturl())
    return system, path, unquote(address.path[cut:])


def _pattern(text: str) -> str:
    """A regular expression of the paths that a pattern matches."""
    made = ""
    for part in re.findall(r"\*\*/?|\*|\?|\[!?[^]]+\]|.", text):
        if part == "**/":
            made += "(?:[^/]+/)*"
        elif part == "**":
            made += ".*"
        elif part in ("*", "?"):
            made += f"[^/]{part if part == '*' else ''}"
        elif part[0] == "[" and len(part) > 1:
            made += f"[{part[1:-1].replace(chr(92), chr(92) * 2).replace('!', '^', part[1] == '!')}]"
        else:
            made += re.escape(part)
    return made


def _keys(path: str) -> dict[str, str | None]:
    """The values of the folders of a path that are named as Hive names them."""
    pairs = [part.partition("=") for part in path.split("/")[:-1]]
    return {unquote(name): None if value == _NULL else unquote(value) for name, equals, value in pairs if equals}
