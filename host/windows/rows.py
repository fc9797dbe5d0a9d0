"""The count window."""

from __future__ import annotations

import dataclasses
from typing import Any

from muntin.host.errors import WindowError
from muntin.host.keys.constants import whole_number
from muntin.host.public import public

MAX_ROWS = (1 << 31) - (1 << 20)  # row numbers on a device have 32 bits


@public("muntin")
@dataclasses.dataclass(frozen=True)
class Rows:
    """The last `count` rows of a stream: a row joins those of the other stream that arrived before it.

    Parameters
    ----------
    count : int
        At least 1.

    Raises
    ------
    WindowError
        If `count` is not a positive integer that row numbers of 32 bits can tell apart.

    Examples
    --------
    >>> from muntin import Band, Rows, WindowJoin
    >>> join = WindowJoin(on=Band("limit", "price", -5, 5), left=Rows(1000), right=Rows(250))
    """

    count: int

    def __post_init__(self) -> None:
        if (count := whole_number(self.count)) is None:
            raise WindowError(f"Rows takes a number of rows, not {self.count!r}")
        object.__setattr__(self, "count", count)
        if not 1 <= self.count <= MAX_ROWS:
            raise WindowError(f"Rows({self.count}) is not a window: use 1 to {MAX_ROWS} rows")


def of_sides(rows: Any) -> tuple[Any, Any]:
    """What ``rows=(left, right)`` gives each side; None where it is None. Raises WindowError."""
    if rows is None:
        return None, None
    if not isinstance(rows, (tuple, list)) or len(rows) != 2:
        raise WindowError(f"rows={rows!r} must be what is kept of both sides, such as rows=(1000, 250)")
    return rows[0], rows[1]
