"""The join by its contract alone: a nested loop over all rows."""

from __future__ import annotations

from muntin.sim.models.join_settings import JoinRow, JoinSettings


def join_oracle(rows: list[JoinRow], settings: JoinSettings) -> list[set[tuple[int, int]]]:
    """The pairs (probing row, stored row) of rows that arrive in this order, by the side of the probing row.

    A row joins the last rows of the other stream's window that arrived before it; in a time window, every row
    whose time fits, whenever it arrived.
    """
    pairs: list[set[tuple[int, int]]] = [set(), set()]
    rows = [row for row in rows if not row.mark]
    for at, row in enumerate(rows):
        others = [other for other in rows[:at] if other.side != row.side and not other.again]
        if not settings.timed:
            window = settings.windows[1 - row.side]
            others = others[len(others) - window :] if window < len(others) else others
        for other in others:
            left, right = (row, other) if row.side == 0 else (other, row)
            if settings.own_bounds:
                matches = row.lower <= other.key <= row.upper
            else:
                matches = settings.low <= right.key - left.key <= settings.high
            on_time = not settings.timed or settings.time_low <= right.time - left.time <= settings.time_high
            if not row.null and not other.null and on_time and matches != settings.complement:
                pairs[row.side].add((row.row, other.row))
    return pairs
