"""Runs as beats, and back."""

from __future__ import annotations

from typing import Any

import numpy as np


def to_beats(keys: np.ndarray, rows: np.ndarray, width: int) -> list[dict[str, Any]]:
    """The beats of a run, as `row_beat` lays them out; rows that are not kept are noise."""
    beats = []
    for at in range(0, max(len(keys), 1), width):
        part = [
            {"key": int(key), "row": int(row)}
            for key, row in zip(keys[at : at + width], rows[at : at + width], strict=True)
        ]
        keep = (1 << len(part)) - 1
        part += [{"key": at * 77, "row": 0xDEAD}] * (width - len(part))
        beats.append({"rows": part, "keep": keep, "last": int(at + width >= len(keys))})
    return beats


def from_beats(beats: list[dict[str, Any]], width: int) -> list[list[tuple[int, int]]]:
    """The runs in a list of beats, as (key, row); checks that only last beats keep fewer than all rows."""
    runs: list[list[tuple[int, int]]] = []
    run: list[tuple[int, int]] = []
    for beat in beats:
        count = beat["keep"].bit_length()
        assert beat["keep"] == (1 << count) - 1, f"rows that are kept must stand at the low end: {beat}"
        assert count == width or beat["last"], f"only the last beat may be partial: {beat}"
        assert count or not run, f"an empty beat ends a run that is not empty: {beat}"
        run += [(row["key"], row["row"]) for row in beat["rows"][:count]]
        if beat["last"]:
            runs.append(run)
            run = []
    assert not run, "the last run has no end"
    return runs
