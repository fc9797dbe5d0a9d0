"""Blocks that measure other blocks, so that no bulk data passes through Python."""
