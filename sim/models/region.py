"""Model of a region."""

from __future__ import annotations

from muntin.contract.designs.splitjoin import Order
from muntin.sim.models.splitjoin import JoinResult, JoinRow, JoinSettings


class Region:
    """Stores every J-th row of one stream, and compares the rows of the other one with those in the window.

    Row number n of the stored stream is kept by core ``n % J``, in block ``n // J``.

    Parameters
    ----------
    settings : JoinSettings
    index, cores, rows : int
        The core, how many there are, and how many rows each holds.
    side : int
        The stream whose rows are stored.

    Attributes
    ----------
    overflow : bool
        Whether a row was dropped from a time window before its time.
    """

    def __init__(self, settings: JoinSettings, *, index: int, cores: int, rows: int, side: int):
        self.settings = settings
        self.index = index
        self.cores = cores
        self.rows = rows
        self.side = side
        self.arrived = 0
        self.stored: list[JoinRow] = []
        self.oldest = 0
        self.overflow = False

    def take(self, row: JoinRow) -> list[JoinResult]:
        """The results of a row, in order; none where it is of the stored stream."""
        if row.side != self.side:
            return self._probe(row)
        if not row.mark and not row.again:
            if self.arrived % self.cores == self.index:
                if self.settings.timed and len(self.stored) - self.oldest >= self.rows:
                    self.overflow = True
                    self.oldest += 1
                self.stored.append(row)
            self.arrived += 1
        return []

    def _probe(self, row: JoinRow) -> list[JoinResult]:
        now = self.settings
        window = self.cores * self.rows if now.timed else now.windows[self.side]
        first = max(self.arrived - window, 0)
        base, end = first // self.cores, -(-self.arrived // self.cores)
        found = []
        if not row.null:
            for block in range(base, end):
                number = block * self.cores + self.index
                if first <= number < self.arrived and (not now.timed or block >= self.oldest) and not row.mark:
                    stored = self.stored[block]
                    if self._matches(row, stored):
                        found.append(JoinResult(row.row, stored.row))
                inside = block + 1 < end and (block + 1) % (1 << now.every) == 0
                if now.order == Order.INNER and inside and not row.mark:
                    found.append(JoinResult(row.row))
        if now.timed:
            self._expire(row)
        more = row.more and now.order == Order.OUTER
        if now.order != Order.NONE and not row.mark and not more:
            found.append(JoinResult(row.row, last=True))
        return found

    def _difference(self, probing: int, stored: int) -> int:
        """Right minus left."""
        return stored - probing if self.side else probing - stored

    def _matches(self, probing: JoinRow, stored: JoinRow) -> bool:
        now = self.settings
        if stored.null:
            return False
        if now.timed and not now.time_low <= self._difference(probing.time, stored.time) <= now.time_high:
            return False
        if now.own_bounds:
            within = probing.lower <= stored.key <= probing.upper
        else:
            within = now.low <= self._difference(probing.key, stored.key) <= now.high
        return within != now.complement

    def _expire(self, row: JoinRow) -> None:
        now = self.settings
        since = row.time if row.mark else max(row.time - now.late[row.side], 0)
        horizon = since + now.time_low if self.side else since - now.time_high
        while self.oldest < len(self.stored) and self.stored[self.oldest].time < horizon:
            self.oldest += 1
