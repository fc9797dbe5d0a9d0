"""Pictures of what memory ports did."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")  # no display is needed
import matplotlib.pyplot as plt

from bench.hardware.kernel_bench import Trace

PARTS = (
    ("read", "beats read", "#2f6db3"),
    ("write", "beats written", "#e08a2e"),
    ("turning", "the bus turns round", "#b04a4a"),
    ("memory", "rows, refreshes, latency", "#c9a5a5"),
    ("engine", "nothing is asked of the memory", "#dddddd"),
)
"""Name in the trace, label, colour."""

_POINTS = 400


def plot_traces(traces: Sequence[Trace], path: Path) -> None:
    """Draw, for each trace and port, the beats per cycle over time, and why there were no more.

    Parameters
    ----------
    traces : sequence of Trace
    path : Path
        Where the picture goes; its ending says in which format.
    """
    panels = [(trace, port) for trace in traces for port in range(next(iter(trace.activity.values())).shape[1])]
    figure, axes = plt.subplots(len(panels), 1, figsize=(9, 1.9 * len(panels) + 0.6), squeeze=False)
    for (trace, port), axis in zip(panels, axes[:, 0], strict=True):
        group = max(1, -(-len(trace.cycles) // _POINTS))
        starts = np.arange(0, len(trace.cycles), group)
        cycles = np.add.reduceat(trace.cycles.astype(np.int64), starts)
        shares = [
            np.add.reduceat(trace.activity[name][:, port].astype(np.int64), starts) / cycles for name, _, _ in PARTS
        ]
        edges = np.concatenate([[0], np.cumsum(cycles)]) / 1e3
        base = np.zeros(len(starts))
        for share, (_, label, colour) in zip(shares, PARTS, strict=True):
            axis.stairs(base + share, edges, baseline=base, fill=True, color=colour, label=label)
            base = base + share
        channels = len(next(iter(trace.activity.values()))[0])
        axis.set_title(trace.title + (f" (channel {port})" if channels > 1 else ""), loc="left", fontsize=9)
        axis.set_xlim(0, edges[-1])
        axis.set_ylim(0, max(1.0, float(base.max())))
        axis.set_ylabel("per cycle")
    axes[-1, 0].set_xlabel("thousand cycles")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=3, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.55 / figure.get_figheight()))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
