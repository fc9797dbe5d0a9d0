"""The join of one partition, where other processes have the others."""

from __future__ import annotations

import pyarrow as pa

from muntin.host.engine.routes import RoutingTable
from muntin.host.errors import UnsupportedError
from muntin.host.frames import ArrowRows
from muntin.host.join.batch_summary import BatchSummary
from muntin.host.join.given import BLOCK_BYTES
from muntin.host.join.journal import Tables
from muntin.host.join.window_join import WindowJoin


class JoinPart(WindowJoin):
    """A `WindowJoin` that has the rows of one partition, and gets a summary of all rows in each call.

    Every call must be made of every partition, also without rows of its own.
    """

    def process(
        self,
        left: ArrowRows | None = None,
        right: ArrowRows | None = None,
        *,
        batch: int | None = None,
        tag: bytes | None = None,
        whole: BatchSummary | None = None,
    ) -> pa.Table:
        """As of `WindowJoin`; UnsupportedError for a form that goes by all rows."""
        self._check_whole(whole)
        return self._calls.process(left, right, batch=batch, tag=tag, whole=whole)

    def process_blocks(
        self,
        left: ArrowRows | None = None,
        right: ArrowRows | None = None,
        *,
        batch: int | None = None,
        tag: bytes | None = None,
        block_bytes: int = BLOCK_BYTES,
        whole: BatchSummary | None = None,
    ) -> Tables:
        """As of `WindowJoin`, and as `process`."""
        self._check_whole(whole)
        return self._calls.process_blocks(left, right, batch=batch, tag=tag, block_bytes=block_bytes, whole=whole)

    def _check_whole(self, whole: BatchSummary | None) -> None:
        plain = self.spec.form in ("rows", "pairs") and self.spec.order == "none"
        if whole is not None and whole.order is not None and not plain:
            raise UnsupportedError(
                f"form={self.spec.form!r} with order={self.spec.order!r} goes by all rows, not by those of one "
                "partition: use form='rows' or 'pairs' with order='none'"
            )

    def routes(self, batch: int, partitions: int) -> RoutingTable:
        """By which routes the rows of a call come.

        Parameters
        ----------
        batch : int
            The caller's number: the newest call's, or a later one's.
        partitions : int
            How many there are.
        """
        return self._calls.routes(batch, partitions)
