"""Checks the order of one side's results as they come out."""

from __future__ import annotations

from muntin.contract.designs.splitjoin import JoinSettings, Order
from muntin.sim.models.splitjoin import JoinResult, JoinRow


class OrderMonitor:
    """Follows results and holds each to the order that was promised.

    Outer order: the punctuation of every group of probing rows, each of which goes on as long as its rows say that
    there are more, comes in their order of arrival, and every pair of a group between the punctuation before it and its
    own. Inner order: every probing row is a group, and within it each pair lies between the punctuations of its stored
    row's blocks; where there is one for each block, pairs come out in the order in which their stored rows arrived.

    Parameters
    ----------
    rows : list of JoinRow
        In order of arrival.
    settings : JoinSettings
    side : int
        The stream of the probing rows.
    cores : int
    """

    def __init__(self, rows: list[JoinRow], settings: JoinSettings, *, side: int, cores: int):
        self.order = settings.order
        self.every = settings.every
        self.cores = cores
        rows = [row for row in rows if not row.mark]
        self.expected: list[list[int]] = [[]]  # the rows of each group; in the last one, of one that goes on
        for row in rows:
            if row.side == side:
                self.expected[-1].append(row.row)
                if ends_group(row, settings):
                    self.expected.append([])
        stored = [row for row in rows if row.side != side and not row.again]
        self.number = {row.row: at for at, row in enumerate(stored)}
        self.at = 0
        self.stars = 0
        self.base: int | None = None  # the group of the first pair, less the punctuations before it
        self.youngest = -1

    def see(self, result: JoinResult) -> None:
        """The next result.

        Raises
        ------
        AssertionError
            If it is not its turn.
        """
        if self.order == Order.NONE:
            assert result.row is not None, f"a punctuation where there should be none: {result}"
            return
        group = self.expected[self.at]
        assert result.probe in group, f"{result} among those of rows {group}"
        if result.row is None:
            if result.last:
                assert result.probe == group[-1], f"{result} ends rows {group}"
                assert self.at < len(self.expected) - 1, f"{result} ends rows that go on"
                self.at += 1
                self.stars, self.base, self.youngest = 0, None, -1
            else:
                assert self.order == Order.INNER, f"a punctuation of inner order: {result}"
                self.stars += 1
        elif self.order == Order.INNER:
            number = self.number[result.row]
            base = (number // self.cores >> self.every) - self.stars
            assert self.base in (None, base), f"{result} between other punctuations than its block's"
            self.base = base
            if self.every == 0:
                assert number > self.youngest, f"{result} behind a younger row"
                self.youngest = number

    def end(self) -> None:
        """Checks that every group that came to an end had its punctuation."""
        if self.order != Order.NONE:
            missing = len(self.expected) - 1 - self.at
            assert not missing, f"{missing} groups without punctuation"


def ends_group(row: JoinRow, settings: JoinSettings) -> bool:
    """Whether a punctuation comes behind the results of a probing row, where there is order."""
    return not (row.more and settings.order == Order.OUTER)


def check_order(
    rows: list[JoinRow],
    settings: JoinSettings,
    found: list[tuple[int, JoinResult]],
    *,
    cores: int,
    ended: bool = True,
) -> None:
    """Checks each side's results as `OrderMonitor` does, to their end where they `ended`, and both as `check_arrival`
    does."""
    monitors = [OrderMonitor(rows, settings, side=side, cores=cores) for side in (0, 1)]
    for side, result in found:
        monitors[side].see(result)
    for monitor in monitors if ended else ():
        monitor.end()
    if settings.order != Order.NONE:
        check_arrival(rows, settings, found)


def check_arrival(rows: list[JoinRow], settings: JoinSettings, found: list[tuple[int, JoinResult]]) -> None:
    """Checks that each group comes behind those of both sides that had ended when its first row arrived; results may be
    missing.

    Raises
    ------
    AssertionError
        If a result comes behind one of a later group.
    """
    last: dict[tuple[int, int], int] = {}  # where each row arrived last
    ended: dict[tuple[int, int], list[int]] = {}  # where either side's last group before each row's ended; -1 for none
    newest, before = [-1, -1], [[-1, -1], [-1, -1]]
    goes_on = [False, False]
    for at, row in enumerate(rows):
        if row.mark:
            continue
        side = row.side
        if not goes_on[side]:
            before[side] = list(newest)
        last[side, row.row] = at
        ended.setdefault((side, row.row), before[side])
        goes_on[side] = not ends_group(row, settings)
        if not goes_on[side]:
            newest[side] = at
    over = [-1, -1]
    for side, result in found:
        assert last[side, result.probe] > over[side], f"{result} of side {side} behind a group that came later"
        over = [max(pair) for pair in zip(over, ended[side, result.probe], strict=True)]
