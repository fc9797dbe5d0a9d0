"""The operator: what a join of two streams of Arrow batches is planned, run, logged and restored by."""

from muntin.host.window_join.given import BLOCK_BYTES
from muntin.host.window_join.journal import Tables
from muntin.host.window_join.pipeline import INCOMPLETE
from muntin.host.window_join.window_join import WindowJoin

__all__ = ["BLOCK_BYTES", "INCOMPLETE", "Tables", "WindowJoin"]
