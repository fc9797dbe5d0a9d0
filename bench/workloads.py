"""Seeded, deterministic streams for the operator benchmark.

A workload says how keys (and times) of two streams are drawn, and which band joins them. Every 262,144 rows
are drawn from a generator of their own, seeded by (seed, side, block), so a stretch of a stream is the same
however it is cut into batches, and a stream of any length costs no memory.

Wherever ``matches`` is named it is the *average number of pairs per row*, counted over the rows of both
streams: a call with b rows a side yields about ``2 * b * matches`` pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import click
import numpy as np
import pyarrow as pa

BLOCK = 1 << 18

_INT64_SPAN = 1 << 63  # -2**62 .. 2**62 - 1: `key + low` and `key + high` never leave the type
_RISING_STEP = 32
_RISING_JITTER = 16 * _RISING_STEP

KINDS = {
    "uniform": "32-bit keys, uniform, about 1 match a row",
    "matches64": "32-bit keys, uniform, about 64 matches a row",
    "half-equal": "half of a side's rows have one key, just outside the other's band; about 1 match a row",
    "rising": "32-bit keys that rise with arrival, jitter of 16 rows; about 1 match a row",
    "int64": "64-bit keys, uniform, about 1 match a row",
    "time": "time window of the same size, 32-bit keys, uniform, about 1 match a row",
}


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Consecutive rows of one stream.

    Attributes
    ----------
    first : int
        Arrival number of the first row in its stream.
    keys : numpy.ndarray
        Keys, shape (n,), int32 or int64.
    times : numpy.ndarray or None
        Times in milliseconds, shape (n,), int64, where the workload has a time window.
    """

    first: int
    keys: np.ndarray
    times: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def table(self) -> pa.Table:
        """The same rows as an Arrow table: ``key`` and, with a time window, ``time`` (timestamp[ms])."""
        columns = {"key": pa.array(self.keys)}
        if self.times is not None:
            columns["time"] = pa.array(self.times).cast(pa.timestamp("ms"))
        return pa.table(columns)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Two streams and the band that joins them.

    Parameters
    ----------
    kind : str
        A name from `KINDS`.
    window : int
        Rows a side in the window; for ``time`` the span in milliseconds, with one row a side per millisecond.
    seed : int
        Every value follows from it.

    Raises
    ------
    ValueError
        The kind is not known, or the window is smaller than 64 rows (1,024 with 64 matches a row).
    """

    kind: str
    window: int
    seed: int = 20

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"workload kind must be one of {', '.join(KINDS)}, not {self.kind!r}")
        least = max(64, 16 * self.matches)
        if self.window < least:
            raise ValueError(f"window must be at least {least} rows for {self.kind!r}, not {self.window!r}")

    @property
    def dtype(self) -> np.dtype:
        """The type of the keys."""
        return np.dtype(np.int64 if self.kind == "int64" else np.int32)

    @property
    def timed(self) -> bool:
        """Whether the window is one of time, not of rows."""
        return self.kind == "time"

    @property
    def matches(self) -> int:
        """Average number of pairs per row, expected."""
        return 64 if self.kind == "matches64" else 1

    @property
    def margin(self) -> int:
        """How far 32-bit keys stay from the ends of the type.

        So `key + low` and `key + high` never leave it, and no peer needs wider arithmetic than another.
        """
        return (4 * self.matches << 32) // self.window

    @property
    def span(self) -> int:
        """Number of values that keys are drawn from."""
        return _INT64_SPAN if self.kind == "int64" else (1 << 32) - 2 * self.margin

    @cached_property
    def band(self) -> tuple[int, int]:
        """``(low, high)`` of ``low <= right.key - left.key <= high``, as wide as `matches` asks for.

        Source: n rows spread over s key values leave n * width / s of them in a band of that width. With half
        of the rows out of reach (``half-equal``) the other half must find two partners each, among half as
        many.
        """
        if self.kind == "rising":
            # Rows that arrive together have keys that lie together, so the partners are the newest rows: a
            # left row meets those of earlier calls, a right row also those of its own call. Two steps a row
            # at the later row of the pair make one a row over both sides.
            return -_RISING_STEP, _RISING_STEP - 1
        width = self.span * self.matches // self.window
        if self.kind == "half-equal":
            width *= 4
        return -(width // 2), width - width // 2 - 1

    @cached_property
    def heavy(self) -> tuple[int, int]:
        """The key that half of the rows have, left and right (``half-equal`` only).

        If both heavy keys lay in one band, or if one uniform key hit the other side's heavy key, the output
        would be quadratic and its size a matter of luck. So the right heavy key lies one above the band of
        the left heavy key, and uniform keys keep out of the other side's heavy band: heavy rows are sorted,
        merged, stored, probed and expired like all others, and each probe for one ends exactly at the edge of
        the run of equal keys, but they find no partner.
        """
        return 0, self.band[1] + 1

    def block(self, side: int, index: int) -> Batch:
        """Rows ``index * BLOCK`` to ``(index + 1) * BLOCK`` of the left (0) or right (1) stream."""
        rng = np.random.default_rng((self.seed, side, index))
        first = index * BLOCK
        times = None
        if self.kind == "int64":
            keys = rng.integers(-(1 << 62), 1 << 62, BLOCK, dtype=np.int64)
        elif self.kind == "rising":
            rising = (np.arange(first, first + BLOCK) * _RISING_STEP) + rng.integers(0, _RISING_JITTER, BLOCK)
            if rising[-1] + _RISING_JITTER >= self.span:
                raise ValueError(f"rising 32-bit keys end at {self.span // _RISING_STEP} rows a side")
            keys = (rising + (np.iinfo(np.int32).min + self.margin)).astype(np.int32)
        else:
            half = self.span // 2
            keys = rng.integers(-half, half, BLOCK, dtype=np.int32)
            if self.kind == "half-equal":
                keys = self._with_heavy(keys, side, rng)
            if self.kind == "time":
                # One row a millisecond; rows of the same 64 ms arrive in any order.
                steps = np.arange(first, first + BLOCK).reshape(-1, 64)
                times = rng.permuted(steps, axis=1).reshape(-1)
        return Batch(first=first, keys=keys, times=times)

    def _with_heavy(self, keys: np.ndarray, side: int, rng: np.random.Generator) -> np.ndarray:
        low, high = self.band
        other = self.heavy[1 - side]
        # Left keys that would join the right heavy key lie in [other - high, other - low]; right keys that
        # would join the left one in [other + low, other + high]. They move past the forbidden stretch.
        start, stop = (other - high, other - low) if side == 0 else (other + low, other + high)
        hit = (keys >= start) & (keys <= stop)
        keys = np.where(hit, keys + np.int32(2 * (stop - start + 1)), keys)
        return np.where(rng.random(len(keys)) < 0.5, np.int32(self.heavy[side]), keys).astype(np.int32)

    def rows(self, side: int, start: int, stop: int) -> Batch:
        """Rows ``start`` to ``stop`` of the left (0) or right (1) stream, by arrival number."""
        parts = []
        for index in range(start // BLOCK, -(-stop // BLOCK)):
            block = _block(self, side, index)
            parts.append((block, slice(max(0, start - block.first), stop - block.first)))
        keys = np.concatenate([block.keys[part] for block, part in parts])
        timed = [block.times[part] for block, part in parts if block.times is not None]
        times = np.concatenate(timed) if timed else None
        return Batch(first=start, keys=keys, times=times)


@lru_cache(maxsize=4)  # small batches take one block many times
def _block(workload: Workload, side: int, index: int) -> Batch:
    return workload.block(side, index)


class RowsType(click.ParamType):
    """A number of rows such as 4096, 32K or 8M (binary units)."""

    name = "rows"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns the number, or fails with what was wrong."""
        if isinstance(value, int):
            return value
        factor = {"K": 1 << 10, "M": 1 << 20}.get(value[-1:].upper(), 1)
        digits = value[:-1] if factor > 1 else value
        if not digits.isdigit() or int(digits) == 0:
            self.fail(f"{value!r} is not a number of rows such as 4096, 32K or 8M", param, ctx)
        return int(digits) * factor


ROWS = RowsType()


def size(rows: int) -> str:
    """``8M`` for 8 * 2**20 and the like."""
    for unit, letter in ((1 << 20, "M"), (1 << 10, "K")):
        if rows >= unit and rows % unit == 0:
            return f"{rows // unit}{letter}"
    return f"{rows:,}"
