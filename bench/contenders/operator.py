"""The window join itself, on one device, with one index."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from bench.contenders.contender import Contender, Pairs, Unavailable
from bench.workloads import Batch, Workload
from muntin import Band, Rows, Watermark, WindowJoin, Within
from muntin.host.errors import DeviceError


class Operator(Contender):
    """`WindowJoin` with ``form="pairs"``: Arrow tables in, an Arrow table of row-number pairs out.

    Parameters
    ----------
    device : str
        A device name as `WindowJoin` takes it.
    index : str
        An index of that device, such as ``bisort``; its default where none is named.

    Raises
    ------
    Unavailable
        The device cannot be opened here.
    """

    def __init__(self, workload: Workload, *, device: str, index: str = "auto") -> None:
        super().__init__(workload)
        self.name = device if index == "auto" else f"{device}/{index}"
        low, high = workload.band
        if workload.timed:
            span = workload.window
            windows: dict[str, Any] = {
                "within": Within("time", "time", f"-{span} milliseconds", f"{span} milliseconds"),
                "watermark": Watermark(left="0 seconds", right="0 seconds", lag=0),
            }
        else:
            windows = {"left": Rows(workload.window), "right": Rows(workload.window)}
        try:
            self._join = WindowJoin(
                on=Band("key", "key", low, high), **windows, form="pairs", index=index, device=device
            )
        except DeviceError as error:
            raise Unavailable(str(error)) from error

    def load(self, left: Batch, right: Batch) -> None:
        self._join.process(left.table, right.table)

    def step(self, left: Batch, right: Batch) -> Pairs:
        return _pairs(self._join.process(left.table, right.table))

    def stats(self) -> dict:
        """`WindowJoin.stats` as a dictionary."""
        return self._join.stats.as_dict()

    def parts(self) -> dict[str, float]:
        return dict(self._join.stats.seconds)

    def memory(self) -> dict[str, int]:
        """Device bytes, and those of what the rows now in the windows consist of.

        That is their keys, 32-bit row numbers and, in time windows, event times of 8 bytes.
        """
        stats = self._join.stats
        row_bytes = self.workload.dtype.itemsize + 4 + (8 if self.workload.timed else 0)
        return {
            "used": stats.device_bytes,
            "content": row_bytes * (stats.window_left + stats.window_right),
            "rows_for_output": stats.row_bytes,
        }

    def close(self) -> None:
        self._join.close()


def _pairs(table: pa.Table) -> Pairs:
    return Pairs(left=table["left_row"].to_numpy(), right=table["right_row"].to_numpy())
