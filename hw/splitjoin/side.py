"""The two streams."""

import enum


class Side(enum.IntEnum):
    """Which stream a row belongs to."""

    LEFT = 0
    RIGHT = 1

    @property
    def other(self) -> "Side":
        """The other stream."""
        return Side(1 - self)
