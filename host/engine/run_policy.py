"""Run policies: when the runs of a subwindow are merged."""

from __future__ import annotations

import abc

from host.errors import WindowError


class RunPolicy(abc.ABC):
    """Decides which runs of a subwindow to merge.

    Source: PanJoin, section III-D (BI-Sort) for `FlatPolicy`; `LadderPolicy` is ours.
    """

    name: str

    @abc.abstractmethod
    def merges(self, lengths: list[int]) -> int:
        """How many of the newest runs to merge into one after a run was added.

        Parameters
        ----------
        lengths : list of int
            Rows of each run, oldest first; the last one is new.

        Returns
        -------
        int
            0 or 1: none. The newest two are merged first, the result with the next older one, and so on.
        """


class FlatPolicy(RunPolicy):
    """BI-Sort as in the paper: a main array, and an insertion buffer that is merged into it when full.

    A batch of at least the buffer's size goes straight into the main array (PanJoin, section III-E).

    Parameters
    ----------
    buffer_rows : int
        Size of the insertion buffer; the paper uses 1 K (section V-A).
    """

    name = "flat"

    def __init__(self, buffer_rows: int = 1024):
        self.buffer_rows = buffer_rows

    def merges(self, lengths: list[int]) -> int:
        if len(lengths) == 1:
            return 0
        buffered = sum(lengths[1:])
        return len(lengths) if buffered >= self.buffer_rows else len(lengths) - 1


class LadderPolicy(RunPolicy):
    """Runs that grow geometrically: one run at most for each power of the growth factor.

    A new run is merged into its elder while the elder is of the same size class or a lesser one, so that every row
    is moved about ``growth / 2`` times per class, and a probe meets one run per class.

    Parameters
    ----------
    growth : int
        Ratio of the sizes of neighbouring classes.
    base_rows : int
        Upper end of the lowest class.
    """

    name = "ladder"

    def __init__(self, growth: int = 8, base_rows: int = 1024):
        self.growth = growth
        self.base_rows = base_rows

    def _rung(self, length: int) -> int:
        rung, top = 0, self.base_rows
        while length > top:
            rung, top = rung + 1, top * self.growth
        return rung

    def merges(self, lengths: list[int]) -> int:
        count, total = 1, lengths[-1]
        for elder in reversed(lengths[:-1]):
            if self._rung(elder) > self._rung(total):
                break
            count, total = count + 1, total + elder
        return count if count > 1 else 0


POLICIES: dict[str, type[RunPolicy]] = {"flat": FlatPolicy, "ladder": LadderPolicy}


def open_policy(policy: str | RunPolicy) -> RunPolicy:
    """The policy of that name, or the policy itself.

    Raises
    ------
    WindowError
        If there is none of that name.
    """
    if isinstance(policy, RunPolicy):
        return policy
    if policy not in POLICIES:
        raise WindowError(f"there is no run policy {policy!r}: use one of {', '.join(POLICIES)}")
    return POLICIES[policy]()
