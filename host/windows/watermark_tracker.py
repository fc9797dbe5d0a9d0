"""The running watermark of one join."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from muntin.host.sides import OTHER, Side, Sides
from muntin.host.windows.watermark import Watermark


class WatermarkTracker:
    """Follows the event times of both sides as Spark's own watermark tracker does.

    Parameters
    ----------
    watermark : Watermark
    delays : dict of str to int
        The delay of each side that has one, in the join's time unit.
    tick : int
        The watermark is rounded down to multiples of this (a millisecond in the join's time unit, or 1).
    initial : int or None
        The watermark before the first call, in the join's time unit.
    judged : sequence of str
        The sides whose rows can be late.
    idle_after : int or None
        As of `Watermark`, in the join's time unit.
    """

    def __init__(
        self,
        watermark: Watermark,
        delays: Sides[int],
        tick: int,
        initial: int | None,
        judged: Sequence[str],
        idle_after: int | None = None,
    ):
        self._judged = judged
        self._idle_after = idle_after
        # How far the other side was when a side last sent a time.
        self._since: Sides[int | None] = {} if idle_after is None else dict.fromkeys(delays)
        self._choose = min if watermark.policy == "min" else max
        self._delays = delays
        self._tick = tick
        self._initial = initial
        self._reached: Sides[int | None] = dict.fromkeys(delays)
        self._recent: list[int | None] = [initial] * (watermark.lag + 1)  # oldest first

    @property
    def in_force(self) -> int | None:
        """The watermark that the next call's late-row filter uses; None: there is none yet."""
        return self._recent[0]

    @property
    def newest(self) -> int | None:
        """The watermark as of all rows seen."""
        return self._recent[-1]

    @property
    def state(self) -> dict[str, Any]:
        """What it has seen, JSON-able; set to go on from there."""
        state: dict[str, Any] = {"reached": dict(self._reached), "recent": list(self._recent)}
        return state if self._idle_after is None else state | {"since": dict(self._since)}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._reached = {side: state["reached"][side] for side in self._reached}
        self._recent = list(state["recent"])
        self._since = {side: state["since"][side] for side in self._since}

    @property
    def side(self) -> str | None:
        """The side whose newest time makes the watermark as of all rows seen, by the policy ``"min"`` the one that
        holds it back. None: both do, or there are no times yet."""
        values = self._values()
        known = [value for value in values.values() if value is not None]
        if not known:
            return None
        least = None if self._choose is min and len(known) < len(values) else self._choose(known)
        sides = [side for side, value in values.items() if value == least]
        return sides[0] if len(sides) == 1 else None

    def late(self, side: Side, times: np.ndarray) -> np.ndarray | None:
        """Which of these times, shape (n,), are late; None if none can be."""
        if side not in self._judged or self.in_force is None or not len(times) or int(times.min()) > self.in_force:
            return None
        return times <= self.in_force

    def advance(self, newest_times: Sides[int]) -> None:
        """Ends a call.

        Parameters
        ----------
        newest_times : dict of str to int
            The newest event time of each side that had rows, late ones included.
        """
        for side, delay in self._delays.items():
            if side in newest_times:
                value = newest_times[side] // self._tick * self._tick - delay
                before = self._reached[side]
                self._reached[side] = value if before is None else max(before, value)
        for side, since in self._since.items():
            if side in newest_times or since is None:
                self._since[side] = self._reached[OTHER[side]]
        values = self._values().values()
        known = [value for value in values if value is not None]
        newest = self.newest
        if known and (len(known) == len(values) or self._choose is max):
            chosen = self._choose(known)
            newest = chosen if newest is None else max(newest, chosen)
        self._recent = [*self._recent[1:], newest]

    def after(self, newest_times: Sides[int]) -> WatermarkTracker:
        """As it is once a call has ended with these times; this one stays."""
        later = copy.copy(self)
        later._reached, later._since = dict(self._reached), dict(self._since)
        later.advance(newest_times)
        return later

    def _values(self) -> Sides[int | None]:
        """How far each side that is not idle has come, less its delay; None: it has sent no time."""
        values = {}
        for side, value in self._reached.items():
            since, other = self._since.get(side), self._reached.get(OTHER[side])
            if since is not None and other is not None and other - since > self._idle_after:  # type: ignore[operator]
                continue
            values[side] = self._initial if value is None else value
        return values
