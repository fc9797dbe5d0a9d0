"""One line of the tables of SplitJoin."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SplitJoinFigure:
    """A stretch of rows through SplitJoin, its windows full.

    Attributes
    ----------
    what : str
        Why it was measured.
    sub_window : str
        What holds the rows.
    cores, lanes, window : int
        J, C, and the rows a side.
    order, sides : str
        As in `Order` and `SIDES`; `order` with its interval, in comparisons of a core for inner order and in rows of
        both streams for outer order.
    apart : bool
        Whether each side's results came out by themselves.
    rows, cycles : int
        That came, and how long it took until all had come out.
    compared, pairs, stars, first_pair, last_pair : int
        As the meter counts them.
    """

    what: str
    sub_window: str
    cores: int
    lanes: int
    window: int
    order: str
    sides: str
    apart: bool
    rows: int
    cycles: int
    compared: int
    pairs: int
    stars: int
    first_pair: int
    last_pair: int

    @property
    def rows_per_cycle(self) -> float:
        """Of both sides together."""
        return self.rows / self.cycles

    @property
    def bound(self) -> float:
        """Rows a cycle of a nested loop that never rests; both halves of each core compare where both sides come."""
        return (2 if self.sides == "in turn" else 1) * self.cores * self.lanes / self.window

    @property
    def busy(self) -> float:
        """Share of the comparators' cycles in which they compared; rows of one side leave half of them idle."""
        halves = 2 if self.sides == "in turn" else 1
        return self.compared / (halves * self.cores * self.lanes * self.cycles)

    @property
    def results_per_cycle(self) -> float:
        """Pairs and punctuation at the root, from the first pair to the last one."""
        return (self.pairs + max(self.stars - 1, 0)) / (self.last_pair - self.first_pair + 1)
