"""The SplitJoin engine on threads: join cores of the native core, each with a share of both windows.

Source: SplitJoin (Najafi, Sadoghi, Jacobsen, USENIX ATC 2016), sections 4 and 5. What a core does stands in
host/native/engine/splitjoin_engine.cpp.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import cast

from muntin.host.call import Call, Counts, Found, OrderedPairs, Pairs, Punctuation, Want
from muntin.host.engine.engine import EngineSpec
from muntin.host.engine.native_engine import NativeEngine, Option
from muntin.host.engine.pacer import Pacer
from muntin.host.engines import SplitJoin
from muntin.host.errors import IncompleteError, UnsupportedError
from muntin.host.index import Auto, Index
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.memory import Cores
from muntin.host.sides import SIDES, Sides

STEP_ROWS = 1 << 16  # rows of a call whose pairs are gathered at a time


class SplitJoinCores(NativeEngine):
    """Joins batches on join cores of this process, row by row, in the order of arrival.

    Order is the engine's own: punctuation tells where the pairs of a group end, and mergers take their inputs in turn.

    In a self join both roles of a row go down the tree, and both windows are kept.

    Parameters
    ----------
    As of `NativeEngine`; `spec.engine` is a `SplitJoin`.

    Raises
    ------
    UnsupportedError
        If rows of a time window were to leave passively.
    """

    _kind = SplitJoin.name
    _stores_once = False
    _refuses = False
    _finders = False

    def __init__(
        self,
        device: Cores,
        spec: EngineSpec,
        generator: BoundaryGenerator,
        key_bits: Sides[int],
        index: Index,
    ):
        self._cores = cast(SplitJoin, spec.engine)
        if spec.counts is None and self._cores.expiry == "passive":
            raise UnsupportedError(
                "expiry='passive' lets a new row push out the oldest one, which a time window does not allow: give "
                "expiry='active' or 'auto'"
            )
        self._sorted_later = spec.self_join and spec.order != "none"
        if spec.self_join:  # a pair comes from either role of a row, and only the operator can put them in order
            spec = dataclasses.replace(spec, order="none", every=1)
        super().__init__(device, spec, generator, key_bits, index)

    def _open_pacer(self, step_rows: int) -> Pacer:
        return super()._open_pacer(STEP_ROWS)

    def _options(self) -> dict[str, Option]:
        return {
            "cores": self._cores.cores,
            "fan_out": self._cores.fan_out,
            "queue_rows": self._cores.queue_rows,
            "active": self._cores.expiry == "active" or self.spec.counts is None,
            "order": self.spec.order,
            "every": self.spec.every,
        }

    def _bytes_per_row(self) -> int:
        rows = self._dtype.itemsize + 8 if isinstance(self._index, Auto) else 0  # beside any index, as they arrive
        return super()._bytes_per_row() + rows

    def run(self, call: Call) -> Iterator[Found]:
        if call.want is Want.NOTHING:
            self._store(call)
            return
        engine, left_rows = self._engine, 0
        for step, found in self._joined(call, whole=True):
            if call.counting:
                yield from (
                    Counts(side, step.batches[side].rows, counts) for side, counts in zip(SIDES, found, strict=True)
                )
            elif self._sorted_later:
                left, right = found
                by_left = left > right
                yield Pairs("left", left[by_left], right[by_left])
                yield Pairs("right", right[~by_left], left[~by_left])
            else:
                yield OrderedPairs(*found)
            if call.max_pairs is not None and not call.counting:
                left_rows = int(rows[-1]) + 1 if len(rows := step.batches["left"].rows) else left_rows
                yield Punctuation(left_rows)
        for side in SIDES:
            engine.arrived(SIDES.index(side), call.arrived[side])
        for core, why, left_rows, right_rows in engine.failures():
            raise IncompleteError(
                f"device {self._device.info.name}: join core {core} failed ({why}), and the pairs it would have found "
                f"are missing. Its share of the windows, {left_rows:,} left and {right_rows:,} right rows, is lost: "
                "open the join again",
                core,
            )
