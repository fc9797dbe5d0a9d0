"""``python -m muntin.sim.coverage``: lines and branches of each block that its benches have taken, with COVERAGE=1."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from muntin.sim.kept import CACHE
from muntin.sim.left_out import LEFT_OUT, LeftOut

_CELLS = "cells.json"  # next to ``coverage.dat``
_BLOCKS = CACHE / "blocks"
_POINT = re.compile(r"^C '(.*)' (\d+)$")
_WIRE = re.compile(r"\\\$\S+ ")
_NUMBER = re.compile(r"\\\$\d+ ")
_LANE = re.compile(r"\b(engine|lane)_\d+")
_ALONE = re.compile(rf"\(({_WIRE.pattern})\)")
_NAME = re.compile(r"\\(\S+?)(?:\$\d+)? ")
_ASSIGNMENT = re.compile(r"  assign (\\\S+ |\w+) = (.*);$")
_TARGET = re.compile(r"(\\\S+ |\w+)(?:\[[\d:]+\])? <?= (.*);$")
_LONGEST = 400  # characters of a condition


@dataclasses.dataclass(frozen=True)
class Coverage:
    """What the benches of a block have taken.

    Attributes
    ----------
    name : str
        Of the block's build.
    taken, points : int
        Branches and runs of lines that Verilator counts, but for those that are left out; those of them that at least
        one bench took in one place.
    missed : list of str
        The others: line of the block's Verilog, and the point's name.
    left_out : Counter of LeftOut
        How many were left out by each.
    """

    name: str
    taken: int
    points: int
    missed: list[str]
    left_out: Counter[LeftOut] = dataclasses.field(default_factory=Counter)

    @property
    def share(self) -> float:
        return self.taken / self.points if self.points else 1.0


class PointNames:
    """Names of points in a block's Verilog, which stay as they are when others come and go.

    Yosys numbers wires over a module. A point is named by its module, by what its process or assignment drives, and by
    the conditions around it, in which numbered wires are replaced by what they stand for.

    Parameters
    ----------
    source : str
        As `muntin.sim.compact_verilog` leaves it.
    """

    def __init__(self, source: str):
        self._lines = source.splitlines()
        self._module = functools.cache(self._read_module)

    def name(self, line: int, kind: str) -> str:
        """The name of a point at a line, counted from 1, of one of Verilator's kinds, such as ``else``."""
        module, wires, registers = self._module(self._start(line))
        text = self._lines[line - 1]
        if assigned := _ASSIGNMENT.match(text):
            return self._plain(f"{module}: {assigned[1]}: {kind} of {assigned[2]}", wires)
        around, target = [text.strip()], ""
        depth = len(text) - len(text.lstrip())
        for number in range(line - 1, 0, -1):
            before = self._lines[number - 1]
            indent = len(before) - len(before.lstrip())
            if depth <= 2 or not before.startswith(" "):
                break
            if indent < depth:
                around.insert(0, before.strip())
                depth = indent
        if around[0].startswith("always"):
            first = next(number for number in range(line, 0, -1) if self._lines[number - 1].startswith("  always"))
            target = self._target(first, registers)
        around = [part.removesuffix("begin").removeprefix("end ").rstrip(" :") for part in around]
        conditions = [part for part in around if not part.startswith("always @*")]
        return self._plain(": ".join(filter(None, [module, target, *conditions, kind])), wires)

    def _start(self, line: int) -> int:
        return next((number for number in range(line, 0, -1) if self._lines[number - 1].startswith("module ")), 1)

    def _read_module(self, start: int) -> tuple[str, dict[str, str], dict[str, str]]:
        """Name of the module that begins at a line, what its wires stand for, and what is driven by each of them."""
        wires: dict[str, str] = {}
        driven: dict[str, str] = {}
        for text in self._lines[start:]:
            if text.startswith("endmodule"):
                break
            if (assigned := _ASSIGNMENT.match(text)) and _WIRE.fullmatch(assigned[1]):
                wires[assigned[1]] = assigned[2]
            elif (found := _TARGET.match(text.strip().removeprefix("assign "))) and _WIRE.fullmatch(found[2]):
                driven.setdefault(found[2], found[1])
        module = re.match(r"module \\?(.*?) ?\(", self._lines[start - 1])
        return module[1] if module else "", wires, driven

    def _target(self, always: int, driven: Mapping[str, str]) -> str:
        for text in self._lines[always:]:
            if found := _TARGET.match(text.strip()):
                return driven.get(found[1], found[1])
        return ""

    @staticmethod
    def _plain(text: str, wires: Mapping[str, str]) -> str:
        """Text with what wires stand for in place of them, and no escapes."""
        for _ in range(8):
            if len(text) > _LONGEST or not _WIRE.search(text):
                break
            text = _ALONE.sub(lambda found: f"({wires.get(found[1], found[1])})", text)
            text = _WIRE.sub(lambda found: f"({wires[found[0]]})" if found[0] in wires else found[0], text)
        text = _NUMBER.sub("$ ", text)
        text = _NAME.sub(r"\1 ", text)
        return re.sub(r"\s+(?=\))", "", re.sub(r"\s+", " ", text)).strip()


def coverage_of(model: Path, left_out: Iterable[LeftOut] = LEFT_OUT) -> Coverage:
    """What all benches that ran on a block have taken.

    A module that is there several times counts once, and so do the lanes of a kernel: what one instance took is taken.

    Parameters
    ----------
    model : Path
        The block's folder, as `muntin.sim.block_runner` leaves it with ``COVERAGE=1``.
    left_out : iterable of LeftOut
        What does not count.
    """
    counts: Counter[tuple[int, int, str]] = Counter()
    for file in sorted(model.glob("*/coverage.dat")):
        for text in file.read_text(errors="replace").splitlines():
            if found := _POINT.match(text):
                fields = dict(part.partition("\x02")[::2] for part in found[1].split("\x01")[1:])
                counts[int(fields["l"]), int(fields.get("n", 0)), fields.get("o", "")] += int(found[2])
    names = PointNames((model / "top.v").read_text())
    same: Counter[str] = Counter()
    points: Counter[tuple[str, int]] = Counter()  # by name, and which of those with the same name it is
    lines: dict[tuple[str, int], int] = {}
    for (line, _, kind), taken in sorted(counts.items()):
        name = names.name(line, kind)
        point = _LANE.sub(r"\1", name), same[name]
        same[name] += 1
        points[point] += taken
        lines.setdefault(point, line)
    block = model.name.partition("-coverage-")[0]
    reasons = [part for part in left_out if part.is_about(block)]
    without: Counter[LeftOut] = Counter()
    missed, counted = [], 0
    for (name, number), taken in points.items():
        if reason := next((part for part in reasons if part.has(name)), None):
            without[reason] += 1
            continue
        counted += 1
        if not taken:
            missed.append(f"{lines[name, number]}: {name}")
    return Coverage(block, counted - len(missed), counted, missed, without)


class Cross:
    """How often benches took each cell of a cross, and which cells none can take.

    Parameters
    ----------
    name : str
        Of its axes.
    cells : iterable of tuple of str
        All of them, a value for each axis.
    impossible : callable
        Of a cell: why it cannot be taken; empty where it can.

    Attributes
    ----------
    name : str
    taken : Counter of str
        Of each cell that can be taken, by its values.
    impossible : dict of str to list of str
        The others, by reason.
    """

    def __init__(
        self,
        name: str,
        cells: Iterable[tuple[str, ...]] = (),
        impossible: Callable[..., str] = lambda *_: "",
    ):
        self.name = name
        self.taken: Counter[str] = Counter()
        self.impossible: dict[str, list[str]] = {}
        for cell in cells:
            if reason := impossible(*cell):
                self.impossible.setdefault(reason, []).append(" ".join(cell))
            else:
                self.taken[" ".join(cell)] = 0

    def take(self, *cell: str) -> None:
        """Count a cell.

        Raises
        ------
        AssertionError
            If there is no such cell, or it is one that cannot be taken.
        """
        assert " ".join(cell) in self.taken, f"{cell} was taken, which cannot be"
        self.taken[" ".join(cell)] += 1

    @property
    def missed(self) -> list[str]:
        """What can be taken and was not."""
        return [cell for cell, count in self.taken.items() if not count]

    def write(self, folder: Path) -> None:
        """Leave it in the folder that a bench runs in."""
        (folder / _CELLS).write_text(json.dumps([self.name, self.taken, self.impossible]))

    @classmethod
    def of(cls, model: Path) -> Cross | None:
        """What all benches that ran on a block have taken; None where they have no cross."""
        found = None
        for file in sorted(model.glob(f"*/{_CELLS}")):
            name, taken, impossible = json.loads(file.read_text())
            found = found or cls(name)
            found.taken.update(taken)
            found.impossible = impossible
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the coverage of each block that was run with COVERAGE=1, and writes what was missed in its folder.

    The status is 1 where nothing was run, and where a reason to leave something out has nothing to leave out.
    """
    parser = argparse.ArgumentParser(prog="python -m muntin.sim.coverage", description=main.__doc__)
    parser.add_argument("--blocks", type=Path, default=_BLOCKS, help="where the blocks were built")
    parser.add_argument(
        "--least", type=float, default=0.0, help="the share of its lines and branches that each block must take"
    )
    given = parser.parse_args(arguments)
    models = sorted(given.blocks.glob("*-coverage-*/kept.json"), key=lambda path: path.stat().st_mtime)
    newest = {path.parent.name.partition("-coverage-")[0]: path.parent for path in models}
    if not newest:
        print("nothing was run with COVERAGE=1", file=sys.stderr)
        return 1
    wrong = []
    left_out: Counter[LeftOut] = Counter()
    for name in sorted(newest):
        if not any(newest[name].glob("*/coverage.dat")):
            print(f"{name:28} has no bench that ended")
            continue
        found = coverage_of(newest[name], LEFT_OUT)
        cross = Cross.of(newest[name])
        missed = newest[name] / "missed.txt"
        missed.write_text("".join(f"{line}\n" for line in [*found.missed, *(cross.missed if cross else [])]))
        print(f"{name:28} {found.share:7.1%} of {found.points:6,} lines and branches; the others are in {missed}")
        if cross:
            print(f"{'':28} {len(+cross.taken)} of {len(cross.taken)} cells of {cross.name}")
            for reason, cells in cross.impossible.items():
                print(f"{'':28} {len(cells):8} cannot be: {reason}")
        if found.share < given.least:
            wrong.append(f"{name} takes less than {given.least:.0%}")
        wrong += [
            f"{name} has nothing to leave out for: {part.reason}"
            for part in LEFT_OUT
            if part.blocks != ("*",) and part.is_about(name) and not found.left_out[part]
        ]
        left_out += found.left_out
    print("Left out, by reason:")
    for part, count in left_out.items():
        print(f"{count:7,} {part.reason}")
    for text in wrong:
        print(text, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
