"""A report beside the one before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

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
