"""Measures two bands on SplitJoin kernels of one column, with the second band left to the host, and of two."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.contract.designs.splitjoin import RESULT_BYTES, row_words
from muntin.contract.simulations import SIMULATIONS
from muntin.host.devices.device import DeviceInfo
from muntin.host.fpga.device import FpgaDevice
from muntin.host.join import WindowJoin
from muntin.host.predicates import AllOf, Band
from muntin.host.windows import Rows
from muntin.sim.board.kernel_board import KernelBoard, open_board

_SIMULATED = SIMULATIONS["sim:splitjoin"]
_KEYS = 10_000  # values of either column, as of CellJoin
_CALL = 256  # rows of a call


@dataclasses.dataclass(frozen=True)
class ColumnsFigure:
    """What some rows of one stream took, against a full window of the other.

    Attributes
    ----------
    columns : int
        Of the kernel.
    reach : int
        How far the values of a pair may lie apart, in either column.
    window, rows : int
    cycles : int
        In which a command was under way.
    results : int
        That the kernel gave.
    pairs : int
        That were left.
    residual_seconds : float
        The host's time for the second band; 0 where the kernel compares both.
    row_bytes : int
        That the kernel is given for a row.
    """

    columns: int
    reach: int
    window: int
    rows: int
    cycles: int
    results: int
    pairs: int
    residual_seconds: float
    row_bytes: int

    @property
    def bytes_per_row(self) -> float:
        """Over the link, both ways, for each row."""
        return self.row_bytes + RESULT_BYTES * self.results / self.rows


def columns_bench(seed: int, *, window: int, rows: int, reaches: tuple[int, ...]) -> Iterator[ColumnsFigure]:
    """Join CellJoin's streams, two columns of numbers uniform in 1 to 10,000, on the board of ``sim:splitjoin``.

    Parameters
    ----------
    seed : int
        Of the rows.
    window : int
        Rows of the left stream, all there before.
    rows : int
        Of the right stream, which are counted.
    reaches : tuple of int
        CellJoin's is 10.

    Yields
    ------
    ColumnsFigure
    """
    for columns in (1, 2):
        build = dataclasses.replace(_SIMULATED.builds["splitjoin"], columns=columns)
        boards = _Boards()
        info = DeviceInfo(f"{columns} columns", "sim", "", _SIMULATED.memory_bytes)
        device = FpgaDevice(info, {"splitjoin": build}, boards.open)
        for reach in reaches:
            rng = np.random.default_rng(seed)
            on = AllOf(Band("x", "a", -reach, reach), Band("y", "b", -reach, reach))
            with WindowJoin(on=on, left=Rows(window), right=Rows(1), form="pairs", device=device) as join:
                join.process(_table(window, "xy", rng), _table(0, "ab", rng))
                kernel, before = boards.last, join.stats.seconds.get("residual", 0.0)
                names = "cycles", "rows_out", "compared"
                start = {name: kernel.read(name) for name in names}
                pairs = sum(join.process(None, _table(_CALL, "ab", rng)).num_rows for _ in range(rows // _CALL))
                took = {name: kernel.read(name) - start[name] for name in names}
                if took["compared"] != rows * window:
                    raise AssertionError(f"not all was compared: {took}")
                seconds = join.stats.seconds.get("residual", 0.0) - before
            yield ColumnsFigure(
                columns, reach, window, rows, took["cycles"], took["rows_out"], pairs, seconds, 4 * row_words(build)
            )
        device.close()


class _Boards:
    """Opens boards, and knows the last one."""

    last: KernelBoard

    def open(self, builds: Mapping[str, Any]) -> KernelBoard:
        self.last = open_board(builds["splitjoin"], "fast")
        return self.last


def _table(rows: int, names: str, rng: np.random.Generator) -> pa.Table:
    return pa.table({name: rng.integers(1, _KEYS + 1, rows) for name in names})
