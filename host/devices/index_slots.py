"""Which indexes a kernel holds on chip, and where."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from muntin.host.devices.arena import Arena


class IndexSlots:
    """Places on chip for the indexes of runs; where there is no room, those that were used longest ago go.

    Parameters
    ----------
    entries : int
        There is room for, all indexes together.
    """

    def __init__(self, entries: int):
        self._arena = Arena(entries, 1)
        self._slots: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()  # start, entries; used last comes last

    def place(self, run: Hashable, entries: int) -> tuple[int, bool]:
        """Where the index of a run stands, or is to be put.

        Parameters
        ----------
        run : Hashable
        entries : int
            Of its index, at most those there is room for.

        Returns
        -------
        start : int
        there : bool
            Whether it stands there already.
        """
        if run in self._slots:
            self._slots.move_to_end(run)
            return self._slots[run][0], True
        while (start := self._arena.take(entries)) is None:
            self._arena.give(*self._slots.popitem(last=False)[1])
        self._slots[run] = start, entries
        return start, False

    def forget(self, run: Hashable) -> None:
        """Takes the place of a run's index back, if it has one."""
        if run in self._slots:
            self._arena.give(*self._slots.pop(run))
