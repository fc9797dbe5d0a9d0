"""A report beside the one before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bench.area.designs import ARRIA_10
from muntin.contract.designs.bisort import Parameters

NOISE = 0.02
"""Share by which a figure may be worse without being a loss: another version of the tools moves it as much."""

_LESS_IS_BETTER = ("logic", "flip_flops", "block_ram", "dsp")


def losses(now: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]]) -> list[str]:
    """What is worse than before, a line each: more area, a lower clock, a seed that is not routed, fewer
    rows a cycle.

    Parameters
    ----------
    now, before : iterable of mapping
        Lines of reports; those that are not in both, by design and part, are not compared.
    """
    known = {(line["design"], line["part"]): line for line in before}
    found = []
    for line in now:
        old = known.get((line["design"], line["part"]))
        if old is None:
            continue
        where = f"{line['design']} on {line['part']}"
        found += [
            f"{where}: {name} is {line[name]:,}, and was {old[name]:,}"
            for name in _LESS_IS_BETTER
            if line[name] > old[name] * (1 + NOISE)
        ]
        # Of the same seeds: the worst of more of them would look like a loss.
        seeds = set(line["mhz"]) & set(old["mhz"])
        mhz, was = (min((of["mhz"][seed] for seed in seeds), default=0.0) for of in (line, old))
        if mhz < was * (1 - NOISE):
            found.append(f"{where}: {mhz:.1f} MHz at worst, and was {was:.1f}")
        lost = sorted(set(map(str, line.get("unrouted", ()))) & set(old["mhz"]))
        found += [f"{where}: seed {seed} is not routed, and was" for seed in lost]
        if line["rows_per_cycle"] < old["rows_per_cycle"]:
            found.append(f"{where}: {line['rows_per_cycle']:g} rows a cycle, and was {old['rows_per_cycle']:g}")
    return found


def joined(now: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The lines of a report, with those of the one before that it does not have, in the order of the one before."""
    lines = {(line["design"], line["part"]): line for line in before}
    return list((lines | {(line["design"], line["part"]): line for line in now}).values())


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
