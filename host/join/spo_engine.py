"""The engine of SPO-Join: several conditions indexed at once, in the native core.

Source: SPO-Join, section 3. What a step does stands in host/native/spo_engine.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from muntin.host.index import Index, SpoJoin
from muntin.host.join.engine import SIDES, Batch, Call
from muntin.host.join.native_engine import NativeEngine

_FIRST_ROWS = 1 << 14  # of both sides, that are joined at a time before it is known how many pairs they find
_LEAST_ROWS, _MOST_ROWS = 1 << 9, 1 << 18
_PAIRS = 1 << 23  # that a step should find at most: bounds its memory


class SpoEngine(NativeEngine):
    """Joins batches on all parts of a conjunction, those of `EngineSpec.others` too. See `NativeEngine`.

    Calls are cut in steps along the order of arrival, as long as the pairs found so far suggest.
    """

    _refuses = False

    def _core_index(self, index: Index) -> tuple[str, dict[str, float]]:
        assert isinstance(index, SpoJoin)
        return index.name, {
            "slide": float(index.slide or 0),
            "sub_intervals": float(index.sub_intervals),
            "mutable_hash": float(index.mutable == "hash"),
            "immutable": float(SpoJoin.IMMUTABLE.index(index.immutable)),
        }

    def _bytes_per_row(self) -> int:
        """Of a run: keys, permutation and ranks of each condition, and the number; trees take no more."""
        return 16 * (1 + len(self.spec.others)) + 4

    def _steps(self, call: Call) -> Iterator[dict[str, Batch]]:
        if call.max_pairs is not None:
            yield from super()._steps(call)
            return
        batches = call.batches
        places = {side: batch.rows + batch.other_position for side, batch in batches.items()}
        every = np.sort(np.concatenate(list(places.values())))
        self._step_rows = min(self._step_rows, _MOST_ROWS) if self._found else _FIRST_ROWS
        done, at = 0, dict.fromkeys(SIDES, 0)
        while True:
            rows, before = min(self._step_rows, len(every) - done), self._found
            done += rows
            last = done >= len(every)
            to = {
                side: len(batches[side]) if last else int(np.searchsorted(places[side], every[done], "left"))
                for side in SIDES
            }
            yield {side: batches[side].take(slice(at[side], to[side])) for side in SIDES}
            if rows:
                per_row = (self._found - before) / rows
                self._step_rows = int(min(max(_PAIRS / max(per_row, 1e-9), _LEAST_ROWS), _MOST_ROWS))
            if last:
                return
            at = to
