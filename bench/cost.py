"""What a call takes of the machine: what a shared one measures best."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Sequence
from dataclasses import astuple, dataclass


@dataclass(frozen=True)
class Cost:
    """Seconds of processor time of this process, and pages that it touched for the first time."""

    user: float
    system: float
    faults: int

    @classmethod
    def now(cls) -> Cost:
        """Since the process began."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        return cls(used.ru_utime, used.ru_stime, used.ru_minflt)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))


def costs_of(calls: Sequence[Cost]) -> dict:
    """Processor time of a call, milliseconds, the mean, and its page faults, for JSON."""
    faults = [call.faults for call in calls]
    return {
        "cpu_ms": {part: 1e3 * statistics.fmean(getattr(call, part) for call in calls) for part in ("user", "system")},
        "faults": {"median": statistics.median(faults), "max": max(faults)},
    }


def cpu_time(entry: dict) -> str:
    """Processor time of a call as text, user and system; "" of results from before it was measured."""
    return "{user:.1f} + {system:.1f}".format(**entry["cpu_ms"]) if "cpu_ms" in entry else ""


def faults(entry: dict) -> str:
    """Page faults of a call as text, their median; as `cpu_time`."""
    return f"{entry['faults']['median']:,.0f}" if "faults" in entry else ""
