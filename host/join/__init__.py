"""The operator: what a join of two streams of Arrow batches is planned, run, logged and restored by."""

from muntin.host.join.given import BLOCK_BYTES
from muntin.host.join.journal import Tables
from muntin.host.join.pipeline import INCOMPLETE
from muntin.host.join.window_join import WindowJoin

__all__ = ["BLOCK_BYTES", "INCOMPLETE", "Tables", "WindowJoin"]
