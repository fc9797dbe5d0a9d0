"""What a figure needs beside it: the machine, the versions and the commit it was measured on."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
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
