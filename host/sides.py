"""The two sides of a join, by name."""

from __future__ import annotations

from typing import Literal, TypeVar

Side = Literal["left", "right"]

SIDES: tuple[Side, Side] = ("left", "right")
OTHER: dict[Side, Side] = {"left": "right", "right": "left"}

_T = TypeVar("_T")
Sides = dict[Side, _T]
"""Something of each side, or of some sides."""
