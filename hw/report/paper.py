"""The estimate for the paper's board, beside the paper's own figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muntin.contract.designs.bisort import Parameters
from muntin.hw.report.designs import ARRIA_10

PAPER_ALMS, PAPER_M20K, PAPER_MHZ = 178_647, 848, 252.7
"""PanJoin, table I: the whole design on the DE5a-Net."""

PAPER_MERGERS = PAPER_PROBERS = 8
"""PanJoin, section V-B; each compares one row a cycle (section IV)."""

AIM = 1 / 3
"""Of the paper's logic, at equal throughput."""


def paper_text(lines: Iterable[Mapping[str, Any]]) -> str:
    """The comparison, with its arithmetic; empty where the kernel was not estimated."""
    preset = "de5a"
    of = {(line["design"], line["part"]): line for line in lines}
    kernel = of.get((f"BI-Sort kernel, preset {preset}", ARRIA_10))
    if kernel is None:
        return ""
    p = Parameters.preset(preset)
    rows = kernel["rows_per_cycle"]
    compared = p.keys_per_beat * p.lanes
    share = kernel["logic"] / PAPER_ALMS
    return (
        f"The paper's board: {PAPER_MERGERS} mergers of a row a cycle each at {PAPER_MHZ} MHz merge "
        f"{PAPER_MERGERS * PAPER_MHZ / 1e3:.2f} G rows/s, and {PAPER_PROBERS} probers compare as many; {PAPER_ALMS:,} "
        f"ALMs and {PAPER_M20K} M20K by its table I, which does not say how much of that is the shell. The kernel of "
        f"preset {preset} merges {rows:g} rows and compares {compared} a cycle, at the same clock "
        f"{rows / PAPER_MERGERS:g} and {compared / PAPER_PROBERS:g} times as many; it is estimated at "
        f"{kernel['logic']:,} ALMs, {share:.2f} of the paper's (aim: {AIM:.2f} at most), and {kernel['block_ram']:,} "
        "M20K, without a shell. Whether it reaches that clock on an Arria 10 is not known."
    )
