"""The engine of SPO-Join: several conditions indexed at once, in the native core.

Source: SPO-Join, section 3. What a step does stands in host/native/engine/spo_engine.cpp.
"""

from __future__ import annotations

from muntin.host.engine.native_engine import NativeEngine
from muntin.host.engine.pacer import Pacer

_FIRST_ROWS = 1 << 14  # of both sides, that are joined at a time before it is known how many pairs they find
_MIN_ROWS, _MAX_ROWS = 1 << 9, 1 << 18
_PAIRS = 1 << 23  # that a step should find at most: bounds its memory


class SpoEngine(NativeEngine):
    """Joins batches on all parts of a conjunction, those of `EngineSpec.others` too. See `NativeEngine`.

    Calls are cut in steps along the order of arrival, as long as the pairs found so far suggest.
    """

    _refuses = False

    def _bytes_per_row(self) -> int:
        """Of a run: keys, permutation and ranks of each condition, and the number; trees take no more."""
        return 16 * (1 + len(self.spec.others)) + 4

    def _open_pacer(self, step_rows: int) -> Pacer:
        return Pacer(
            min(step_rows, _MAX_ROWS),
            pairs=_PAIRS,
            min_rows=_MIN_ROWS,
            first_rows=_FIRST_ROWS,
            counts=self.spec.counts,
        )
