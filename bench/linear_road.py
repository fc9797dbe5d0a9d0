"""Position reports as the Linear Road benchmark has them, its key and two queries over a window index.

Vehicles enter expressways of 100 segments (a mile each) in two directions, report each 30 s where they are and how
fast, and leave at their exit; more enter as time goes on. Reports come in order of time.

Source: the partitioned temporal window index, sections 3.1 and 4.1.2, after Arasu et al. (its reference 1). The
expressway stands in bits 28 to 31 of the key, a factor of 2**28 where the paper prints 2**29, and query 2 ends at the
greatest vehicle of its segment.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

SEGMENTS = 100
VEHICLES = 1 << 20  # numbers there are
MINUTES = 5  # of the window
_REPORT = 30  # seconds between the reports of a vehicle


@dataclasses.dataclass(frozen=True)
class Reports:
    """Reports in order of time; arrays of shape (n,).

    Attributes
    ----------
    time : ndarray of int64
        Seconds from 0 on.
    expressway, direction, segment, vehicle : ndarray of int64
        Directions are 0 and 1.
    speed : ndarray of float64
        Miles an hour.
    """

    time: np.ndarray
    expressway: np.ndarray
    direction: np.ndarray
    segment: np.ndarray
    vehicle: np.ndarray
    speed: np.ndarray

    def __len__(self) -> int:
        return len(self.time)

    @property
    def key(self) -> np.ndarray:
        """``<X, D, S, VID>`` in 32 bits, uint32."""
        return road_key(self.expressway, self.direction, self.segment, self.vehicle).astype(np.uint32)


def road_key(expressway: Any, direction: Any, segment: Any, vehicle: Any) -> Any:
    """The compound key: expressway in bits 28 to 31, direction in 27, segment in 20 to 26, vehicle in 0 to 19."""
    return (expressway << 28) | (direction << 27) | (segment << 20) | vehicle


def linear_road(seed: int, expressways: int = 1, arrivals: int = 100, growth: float = 0.02) -> Iterator[Reports]:
    """The reports of each minute, without end.

    Parameters
    ----------
    seed : int
    expressways : int
        1 to 16.
    arrivals : int
        Vehicles that enter in the first half minute, over all expressways; their number grows with time.
    growth : float
        By so much of the first number each half minute.

    Raises
    ------
    ValueError
        If there are too many expressways, or no arrivals.
    """
    if not 1 <= expressways <= 16 or arrivals < 1:
        raise ValueError(f"1 to 16 expressways and at least one arrival, not {expressways} and {arrivals}")
    rng = np.random.default_rng(seed)
    cars = {name: np.empty(0) for name in ("x", "d", "at", "end", "speed", "vid", "second")}
    entered = 0
    minute = 0
    while True:
        parts = []
        for half in (0, 1):
            count = int(arrivals * (1 + growth * (2 * minute + half)))
            entry = rng.integers(0, SEGMENTS, count)
            new = {
                "x": rng.integers(0, expressways, count),
                "d": rng.integers(0, 2, count),
                "at": entry + rng.random(count),
                "end": rng.integers(entry, SEGMENTS, endpoint=True) + 1.0,  # its exit lies ahead
                "speed": rng.normal(60, 10, count).clip(10, 100),
                "vid": (entered + np.arange(count)) % VEHICLES,
                "second": rng.integers(0, _REPORT, count),
            }
            entered += count
            cars = {name: np.concatenate([cars[name], new[name]]) for name in cars}
            on_road = cars["at"] < np.minimum(cars["end"], SEGMENTS)
            cars = {name: column[on_road] for name, column in cars.items()}
            # Traffic slows where segments are full, and drivers differ from report to report.
            speed = (cars["speed"] + rng.normal(0, 5, len(cars["at"]))).clip(1, 100)
            forward = cars["at"].astype(np.int64)
            segment = np.where(cars["d"] == 0, forward, SEGMENTS - 1 - forward)
            time = 60 * minute + _REPORT * half + cars["second"].astype(np.int64)
            order = np.argsort(time, kind="stable")
            columns = (time, cars["x"], cars["d"], segment, cars["vid"])
            parts.append((*(column.astype(np.int64)[order] for column in columns), speed[order]))
            cars["at"] = cars["at"] + speed * _REPORT / 3600
        yield Reports(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        minute += 1


def distinct_keys(seed: int, count: int, expressways: int = 16) -> np.ndarray:
    """So many different keys in order of their first report (section 4.1.2); uint32, shape (count,)."""
    seen = np.empty(0, np.uint32)
    keys: list[np.ndarray] = []
    found = 0
    for reports in linear_road(seed, expressways, arrivals=max(50, count // 400)):
        key, first = np.unique(reports.key, return_index=True)
        fresh = ~np.isin(key, seen, assume_unique=True)
        keys.append(reports.key[np.sort(first[fresh])])
        seen = np.union1d(seen, key[fresh])
        found += len(keys[-1])
        if found >= count:
            break
    return np.concatenate(keys)[:count]


@dataclasses.dataclass
class Road:
    """The window of the last five minutes, and both queries on it.

    Attributes
    ----------
    index : RangeIndex
        Over keys of uint32, with the speeds as values of float64.
    """

    index: Any
    speeds: list[np.ndarray] = dataclasses.field(default_factory=list)
    times: list[np.ndarray] = dataclasses.field(default_factory=list)
    now: int = -1

    def insert(self, reports: Reports) -> None:
        """Takes the reports of a minute; what lies five minutes back goes."""
        self.now = int(reports.time[-1])
        self.index.insert(reports.key, reports.time, reports.speed)
        self.index.expire(self.now - 60 * MINUTES)
        self.speeds.append(reports.speed)
        self.times.append(reports.time)

    def speed_of(self, expressway: int, direction: int, segment: int, vehicle: int) -> float | None:
        """Q1: the speed that a vehicle last reported from a segment in the last minute."""
        key = np.array([road_key(expressway, direction, segment, vehicle)], np.uint32)
        row = int(self.index.find(key)[0])
        for times, speeds in zip(self.times, self.speeds, strict=True):
            if row < len(times):
                return float(speeds[row]) if row >= 0 and times[row] > self.now - 60 else None
            row -= len(times)
        return None

    def average_speed(self, expressway: int, direction: int, segment: int) -> float | None:
        """Q2: the average speed of all reports from a segment in the last five minutes."""
        low = int(road_key(expressway, direction, segment, 0))
        return self.index.map(low, low + VEHICLES - 1, "mean")
