"""Measures the merger alone, with sources that always have a beat and a sink that always takes one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from muntin.sim.block_runner import run_bench
from tests.hw.meters.merger_meter import MergerMeter

WIDTHS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class MergerFigure:
    """The rate of a merger.

    Attributes
    ----------
    width : int
        W.
    shape : str
        How the keys of both sides lie to each other.
    lengths : str
        How the rows are shared between the sides.
    rows, cycles : int
        From the first beat of the run to the last one.
    """

    width: int
    shape: str
    lengths: str
    rows: int
    cycles: int

    @property
    def share(self) -> float:
        """Rows a cycle, divided by W."""
        return self.rows / self.cycles / self.width


def merger_bench(seed: int) -> Iterator[MergerFigure]:
    """Measure every width and shape of data; each width is compiled first. Raises AssertionError where order, rows or
    rate are not what they should be."""
    for width in WIDTHS:
        log = run_bench(
            MergerMeter(key_bits=32, width=width),
            f"merger_{width}",
            "tests.hw.benches.merger",
            seed=seed,
            width=width,
            key_bits=32,
            latency=11 + (2 * (width.bit_length() - 1) or 1),
            gap=11,
            beats=4096,
        )
        for shape, lengths, rows, cycles in re.findall(
            r"RATE (.+?) (\(.+?\)) (\d+) rows \d+ beats (\d+) cycles", log.read_text()
        ):
            yield MergerFigure(width, shape, lengths, int(rows), int(cycles))
