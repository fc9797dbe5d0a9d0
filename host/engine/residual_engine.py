"""Residual conditions over any engine: the pairs that it finds, less those that do not satisfy all of them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence

import numpy as np

from muntin.host.call import Batch, Call, Counts, Found, OrderedPairs, Pairs, Punctuation, Want, by_probing_side
from muntin.host.engine.engine import Engine, EngineStatus, Held
from muntin.host.engine.pacer import Pacer
from muntin.host.engine.residual import ResidualPart
from muntin.host.errors import IncompleteError
from muntin.host.sides import SIDES, Side, Sides

_FIRST_ROWS = 1 << 14  # of both sides, that are joined at a time before it is known how many pairs they find
_MIN_ROWS, _MAX_ROWS = 1 << 9, 1 << 20
_PAIRS = 1 << 22  # that a step should find: bounds the memory for pairs that are dropped


class ResidualEngine(Engine):
    """An engine for a conjunction: another engine finds the pairs that satisfy what drives, and this one asks the rest.

    Calls are cut in steps along the order of arrival, as long as the pairs found so far suggest.

    Parameters
    ----------
    engine : Engine
        Closed with this one.
    residuals : sequence of ResidualPart
    beside : sequence of int
        Which of `Batch.others` the engine itself takes, as its `EngineSpec.others`.
    """

    def __init__(self, engine: Engine, residuals: Sequence[ResidualPart], beside: Sequence[int] = ()):
        self._beside = tuple(beside)
        self.spec = engine.spec
        self.engine = engine
        self._residuals = list(residuals)
        self._residual_seconds = 0.0
        self._stored = SIDES[:1] if residuals[0].shared else SIDES  # whose keys are kept
        self._pacer = Pacer(_MAX_ROWS, pairs=_PAIRS, min_rows=_MIN_ROWS, first_rows=_FIRST_ROWS)
        self._asked = self._kept = 0

    @property
    def changed(self) -> bool:  # type: ignore[override]
        return self.engine.changed

    def status(self) -> EngineStatus:
        """``report`` with ``residual_bytes``, host memory taken by the keys of residual parts, and ``selectivity``, the
        share of the pairs found so far that satisfied all of them, None before any."""
        status = self.engine.status()
        status.seconds["residual"] = status.seconds.get("residual", 0.0) + self._residual_seconds
        status.report |= {
            "residual_bytes": self._residual_bytes,
            "selectivity": self._kept / self._asked if self._asked else None,
        }
        return status

    @property
    def _residual_bytes(self) -> int:
        return sum(residual.nbytes for residual in self._residuals)

    def admit(self, call: Call) -> Call:
        self.engine.admit(call)
        return call

    def run(self, call: Call) -> Iterator[Found]:
        if call.want is Want.NOTHING:
            self._put(call.batches)
            yield from self.engine.run(self._bare(call))
            self._trim_counted(call.arrived)
            return
        batches = call.batches
        lost: IncompleteError | None = None
        known = False  # the keys of the call: once the engine has begun with it
        bare = dataclasses.replace(
            self._bare(call), want=Want.PAIRS, max_pairs=None if call.counting else call.max_pairs
        )
        for step in self._pacer.steps(bare):
            try:
                for found in self.engine.run(step):
                    if not known:
                        self._put(batches)
                        known = True
                    if isinstance(found, Punctuation):
                        yield found
                        continue
                    assert isinstance(found, Pairs | OrderedPairs)
                    pairs = self._satisfying(found)
                    if call.counting:
                        for own in by_probing_side(pairs, call):
                            yield Counts(own.side, *np.unique(own.probing, return_counts=True))
                    else:
                        yield pairs
            except IncompleteError as error:  # the other parts of the device go on
                lost = error
        if not known:
            self._put(batches)
        self._trim_counted(call.arrived)
        if lost is not None:
            raise lost

    def expire(self, expiry: Sides[int | None]) -> Sides[Held]:
        held = self.engine.expire(expiry)
        for side in self._stored:
            if expiry[side] is not None:
                oldest = held[side].oldest
                self._trim(side, np.iinfo(np.int64).max if oldest is None else oldest)
        return held

    def stop(self) -> None:
        self.engine.stop()

    def close(self) -> None:
        self.engine.close()

    def _put(self, batches: Sides[Batch]) -> None:
        for side in self._stored:
            if len(batches[side]):
                for residual in self._residuals:
                    residual.put(side, batches[side])

    def _trim_counted(self, arrived: Sides[int]) -> None:
        """Drops what has left count windows."""
        if self.spec.counts is not None:
            most = max(self.spec.counts.values())
            for side in self._stored:
                count = most if len(self._stored) == 1 else self.spec.counts[side]
                self._trim(side, arrived[side] - count)

    def _trim(self, side: Side, oldest: int) -> None:
        for residual in self._residuals:
            residual.trim(side, oldest)

    def _satisfying(self, found: Pairs | OrderedPairs) -> Pairs | OrderedPairs:
        """The pairs for which all residual conditions hold, in the same order."""
        start = time.perf_counter()
        try:
            side = found.side if isinstance(found, Pairs) else "left"
            probing, stored = (found.probing, found.stored) if isinstance(found, Pairs) else (found.left, found.right)
            self._asked += len(probing)
            self._pacer.add(len(probing))
            for residual in self._residuals:
                kept = residual.keep(side, probing, stored)
                probing, stored = probing[kept], stored[kept]
            self._kept += len(probing)
            return Pairs(side, probing, stored) if isinstance(found, Pairs) else OrderedPairs(probing, stored)
        finally:
            self._residual_seconds += time.perf_counter() - start

    def _bare(self, call: Call) -> Call:
        """A call without the keys of residual parts."""
        others = {side: tuple(batch.others[at] for at in self._beside) for side, batch in call.batches.items()}
        batches = {side: dataclasses.replace(batch, others=others[side]) for side, batch in call.batches.items()}
        return dataclasses.replace(call, batches=batches)
