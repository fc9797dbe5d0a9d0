"""``python -m muntin.sim.coverage``: lines and branches of each block that its benches have taken, with COVERAGE=1."""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_BLOCKS = _ROOT / "build" / "blocks"
_POINT = re.compile(r"^C '(.*)' (\d+)$")


@dataclasses.dataclass(frozen=True)
class Coverage:
    """What the benches of a block have taken.

    Attributes
    ----------
    name : str
        Of the block's build.
    taken, points : int
        Branches and runs of lines that Verilator counts; those of them that at least one bench took in one place.
    missed : list of str
        The others: line of the block's Verilog, kind, and the line itself.
    """

    name: str
    taken: int
    points: int
    missed: list[str]

    @property
    def share(self) -> float:
        return self.taken / self.points if self.points else 1.0


def coverage_of(model: Path) -> Coverage:
    """What all benches that ran on a block have taken.

    A module that is there several times counts once: what one instance took is taken.

    Parameters
    ----------
    model : Path
        The block's folder, as `muntin.sim.block_runner` leaves it with ``COVERAGE=1``.
    """
    counts: Counter[tuple[int, int, str]] = Counter()
    for file in sorted(model.glob("*/coverage.dat")):
        for line in file.read_text(errors="replace").splitlines():
            if found := _POINT.match(line):
                fields = dict(part.partition("\x02")[::2] for part in found[1].split("\x01")[1:])
                counts[int(fields["l"]), int(fields.get("n", 0)), fields.get("o", "")] += int(found[2])
    source = (model / "top.v").read_text().splitlines()
    missed = [f"{line}: {kind}: {source[line - 1].strip()}" for (line, _, kind), n in sorted(counts.items()) if not n]
    return Coverage(model.name.partition("-coverage-")[0], len(counts) - len(missed), len(counts), missed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the coverage of each block that was run with COVERAGE=1, and writes what was missed below build/."""
    parser = argparse.ArgumentParser(prog="python -m muntin.sim.coverage", description=main.__doc__)
    parser.add_argument("--blocks", type=Path, default=_BLOCKS, help="where the blocks were built")
    given = parser.parse_args(arguments)
    models = sorted(given.blocks.glob("*-coverage-*/top.v"), key=lambda path: path.stat().st_mtime)
    newest = {path.parent.name.partition("-coverage-")[0]: path.parent for path in models}
    if not newest:
        print("nothing was run with COVERAGE=1", file=sys.stderr)
        return 1
    for name in sorted(newest):
        found = coverage_of(newest[name])
        missed = newest[name] / "missed.txt"
        missed.write_text("".join(f"{line}\n" for line in found.missed))
        print(f"{name:28} {found.share:7.1%} of {found.points:6,} lines and branches; the others are in {missed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
