"""Processor time of the processes that a benchmark has started."""

from __future__ import annotations

import os
from pathlib import Path

#: What a process is, by a word of its command line.
KINDS = {"java": "Spark", "pyspark.daemon": "Python workers", "serve": "daemon"}


def by_kind() -> dict[str, float]:
    """Seconds so far of the processes that descend from this one, those of them that ended included, by `KINDS`; empty
    where the system has no /proc."""
    parents, kinds, seconds = {}, {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        process = int(folder.name)
        parents[process] = int(fields[1])
        kinds[process] = next((kind for word, kind in KINDS.items() if word in (*words, Path(words[0]).name)), None)
        seconds[process] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    found: dict[str, float] = {}
    for process, kind in kinds.items():
        above = process
        while above in parents and above != os.getpid():
            above = parents[above]
        if kind is not None and above == os.getpid():
            found[kind] = found.get(kind, 0.0) + seconds[process]
    return found
