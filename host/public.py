"""Where a public name is imported from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Named = TypeVar("_Named")


def public(place: str) -> Callable[[_Named], _Named]:
    """Has a class or function say, in ``help()``, errors and pickles, the module that users import it from."""

    def said(named: _Named) -> _Named:
        named.__module__ = place
        return named

    return said
