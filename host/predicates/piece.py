"""What every predicate comes down to: intervals of the difference of the two keys."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Piece:
    """One interval of ``right - left``, or of ``right + left``.

    Attributes
    ----------
    low, high : object or None
        Ends as the user gave them (number, Decimal, timedelta, text); None is open.
    low_strict, high_strict : bool
        The end itself is left out.
    """

    low: object = None
    high: object = None
    low_strict: bool = False
    high_strict: bool = False
