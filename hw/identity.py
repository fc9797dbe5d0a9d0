"""Short hashes by which a host tells one build from another. Standard library only."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from collections.abc import Iterable
from typing import Any


def table_hash(*tables: object) -> int:
    """A hash, 32 bits, of tables of registers, commands and the like: of names, numbers and places, not of what is
    said about them.

    Parameters
    ----------
    *tables : object
        Numbers, names, enumerations, dataclasses, and sequences of them. Members of a dataclass called ``doc``, and
        the last member of a tuple of a name, a number and a text, say what something means and are left out.
    """
    return _hash(_plain(tables))


def parameter_hash(parameters: Any) -> int:
    """A hash, 32 bits, of all that a dataclass of build parameters says, in the order of its fields' names."""
    return _hash(sorted((field.name, getattr(parameters, field.name)) for field in dataclasses.fields(parameters)))


def _hash(content: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(content).encode()).digest()[:4], "little")


def _plain(value: object) -> object:
    """The same, of tuples, texts and numbers alone."""
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return tuple((member.name, member.value) for member in value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, str | int):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(
            (field.name, _plain(getattr(value, field.name)))
            for field in dataclasses.fields(value)
            if field.name != "doc"
        )
    if isinstance(value, tuple) and len(value) == 3 and [type(part) for part in value] == [str, int, str]:
        return value[:2]
    if isinstance(value, Iterable):
        return tuple(_plain(part) for part in value)
    raise TypeError(
        f"a table must be of names, numbers, enumerations, dataclasses and sequences of them, not {value!r}"
    )
