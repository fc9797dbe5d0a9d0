"""Checks the order of one side's results as they come out."""

from __future__ import annotations

from hw.splitjoin.order import Order
from sim.models.join_settings import JoinResult, JoinRow, JoinSettings


class OrderMonitor:
    """Follows results and holds each to the order that was promised.

    Outer order: the punctuation of every probing row comes in their order of arrival, and every pair of a
    probing row between the punctuation before it and its own. Inner order: within that, each pair lies
    between the punctuations of its stored row's blocks; where there is one for each block, pairs come out in
    the order in which their stored rows arrived.

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
        self.expected = [row.row for row in rows if row.side == side]
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
        assert self.at < len(self.expected), f"a result behind the last punctuation: {result}"
        assert result.probe == self.expected[self.at], f"{result} among those of row {self.expected[self.at]}"
        if result.row is None:
            if result.last:
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
        """Checks that every probing row had its punctuation."""
        if self.order != Order.NONE:
            assert self.at == len(self.expected), f"{len(self.expected) - self.at} rows without punctuation"
