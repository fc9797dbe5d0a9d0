"""What a figure needs beside it: the machine, the versions and the commit it was measured on."""

from __future__ import annotations

import datetime
import os
import platform
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from importlib import metadata
from pathlib import Path

from muntin.host.native import _core

PACKAGES = ("numpy", "pyarrow", "pyopencl", "intel-opencl-rt", "polars", "duckdb", "chdb-core", "pyspark")
_ROOT = Path(__file__).parents[1]


def describe_machine() -> dict:
    """Date, commit, machine and versions, ready for JSON; unknown values are None."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "machine": {
            "cpu": _cpu(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "instruction_set": _core.isa(),  # that the native core chose
            "memory_bytes": _memory(),
            "system": f"{platform.system()} {platform.machine()}",
            "load_at_start": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        },
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "command": ["python", "-m", "bench", *sys.argv[1:]],
    }


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):  # no git, or not a checkout: the report then says null
        return None
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu() -> str | None:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or None


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


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
