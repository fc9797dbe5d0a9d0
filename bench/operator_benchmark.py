"""Times the window join and its peers on the same batches, side by side, and compares their pairs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from bench.contenders import Contender, Operator, Unavailable, make_contender
from bench.machine import Cost, costs_of
from bench.plan import Plan
from bench.workloads import BLOCK, Batch, Workload

_CHECKSUM_LIMIT = 4_000_000  # of more pairs only the first call of a round is summed, the others counted


class ResultsDiffer(Exception):
    """Two contenders returned different pairs for the same batches."""


@dataclass
class _Entry:
    """One contender in one cell."""

    name: str
    contender: Contender
    thorough: bool
    budget: float
    estimate: float = 0.0
    spent: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)
    calls: list[float] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    stretches: list[dict] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)


def run_operator_benchmark(
    plan: Plan, *, on_cell: Callable[[dict], None], on_stage: Callable[[str], None] = lambda stage: None
) -> None:
    """Measure the cells of a plan.

    Both streams are first loaded to the full window, untimed, in batches of 262,144 rows. A contender's
    *rate* in one turn is the number of rows it took (both sides) over the seconds it took for them, all calls
    of the turn together: structures that put work off are charged for it. The figure of a cell is the median
    over its turns.

    Parameters
    ----------
    plan : Plan
        What to measure.
    on_cell : callable
        Called with each finished cell, a dictionary ready for JSON.
    on_stage : callable
        Called with a few words when something new starts.

    Raises
    ------
    ResultsDiffer
        Pairs differ in one call; the message names cell, call and contenders.
    Unavailable
        None of the contenders can run here.
    """
    for kind in plan.kinds:
        for window in plan.windows:
            for cell in _run_group(plan, Workload(kind=kind, window=window, seed=plan.seed), on_stage):
                on_cell(cell)


def _run_group(plan: Plan, workload: Workload, on_stage: Callable[[str], None]) -> Iterator[dict]:
    """All batch sizes of one workload and window: the windows are loaded once."""
    names = dict.fromkeys(name for batch in plan.batches for name in plan.names(workload.kind, batch))
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        contenders: dict[str, Contender] = {}
        for name in names:
            on_stage(f"{workload.kind}, window {workload.window:,}: filling {name}")
            try:
                contender = make_contender(name, workload)
            except Unavailable as error:
                missing[name] = str(error)
                continue
            stack.callback(contender.close)
            _load(contender, workload, 0, workload.window)
            contenders[name] = contender
        if not contenders:
            raise Unavailable(f"no contender can run here: {'; '.join(missing.values())}")
        positions = dict.fromkeys(contenders, workload.window)
        start = workload.window
        for batch in plan.batches:
            wanted = [name for name in plan.names(workload.kind, batch) if name in contenders]
            for name in wanted:  # those that sat out the cells before catch up
                _load(contenders[name], workload, positions[name], start)
            on_stage(f"{workload.kind}, window {workload.window:,}, batch {batch:,}")
            timed = {name: contenders[name] for name in wanted}
            cell, start = _Cell(plan, workload, batch, timed).run(start)
            positions.update(dict.fromkeys(wanted, start))
            if missing:
                cell["missing"] = missing
            yield cell


def _load(contender: Contender, workload: Workload, start: int, stop: int) -> None:
    for at in range(start, stop, BLOCK):
        end = min(stop, at + BLOCK)
        contender.load(workload.rows(0, at, end), workload.rows(1, at, end))


class _Cell:
    """One workload, window and batch size, with the contenders that are timed in it.

    A cell is a stretch of the streams, cut into ``turns * rounds`` pieces. Within a piece the contenders come
    one after the other; pieces belong to the turns in rotation. So the contenders alternate, and every turn
    has a share of every stage that a subwindow goes through while it fills.
    """

    def __init__(self, plan: Plan, workload: Workload, batch: int, contenders: dict[str, Contender]) -> None:
        self.plan, self.workload, self.batch = plan, workload, batch
        self.entries = [
            _Entry(name, contender, plan.thorough(name), plan.budget(name, workload.kind, batch))
            for name, contender in contenders.items()
        ]
        self.pieces = plan.turns * plan.rounds
        self.compared = 0

    def run(self, start: int) -> tuple[dict, int]:
        """Measure from row `start` on; returns the cell, ready for JSON, and the row after the last one used."""
        start = self._warm_up(start)
        calls = self._calls_per_piece()
        pairs = 0
        for piece in range(self.pieces):
            batches = self._batches(start, calls)
            expected: dict[int, tuple[int, int | None]] = {}
            order = self.entries[:: 1 if piece % 2 else -1]
            # The thorough ones see every batch; they go first so that all others have something to agree
            # with.
            for entry in sorted(order, key=lambda entry: not entry.thorough):
                self._run_piece(entry, batches, piece % self.plan.turns, expected)
            pairs += sum(count for count, _ in expected.values()) * calls // len(expected)
            start += calls * self.batch
        calls *= self.pieces
        cell = {
            "workload": self.workload.kind,
            "window": self.workload.window,
            "batch": self.batch,
            "band": list(self.workload.band),
            "calls": calls,
            "windows_passed": calls * self.batch / self.workload.window,
            "pairs_per_row": pairs / (2 * self.batch * calls),
            "calls_compared": self.compared,
            "contenders": {entry.name: _summary(entry, self.batch) for entry in self.entries},
        }
        return cell, start

    def _batches(self, start: int, calls: int) -> list[tuple[Batch, Batch]]:
        bounds = range(start, start + calls * self.batch, self.batch)
        rows = self.workload.rows
        batches = [(rows(0, at, at + self.batch), rows(1, at, at + self.batch)) for at in bounds]
        for left, right in batches:  # Arrow tables are made here, not while the clock runs
            _ = left.table, right.table
        return batches

    def _warm_up(self, start: int) -> int:
        """Two calls each, untimed but for an estimate: first calls compile kernels and touch new memory."""
        for left, right in self._batches(start, 2):
            for entry in self.entries:
                if entry.estimate > 0.5:  # slow ones are warm enough after one
                    entry.contender.load(left, right)
                    continue
                started = time.perf_counter()
                entry.contender.step(left, right)
                entry.estimate = time.perf_counter() - started
        return start + 2 * self.batch

    def _calls_per_piece(self) -> int:
        """The thorough ones go through half a window at least; through whole windows where time allows it."""
        half = max(1, self.workload.window // self.batch // 2)
        thorough = [entry for entry in self.entries if entry.thorough] or self.entries
        affordable = int(min(entry.budget / entry.estimate for entry in thorough)) // (2 * half)
        halves = 2 * min(max(affordable, self.plan.min_windows), self.plan.turns)
        return max(1, round(half * halves / self.pieces))

    def _count(self, entry: _Entry, calls: int) -> int:
        """How many calls of a piece a contender makes."""
        if entry.thorough:
            return calls
        count = min(calls, int(entry.budget / self.pieces / entry.estimate))
        if count == 0 and (not entry.calls or entry.spent + entry.estimate <= entry.budget):
            return 1
        return count

    def _run_piece(
        self,
        entry: _Entry,
        batches: list[tuple[Batch, Batch]],
        turn: int,
        expected: dict[int, tuple[int, int | None]],
    ) -> None:
        """Time one contender on the middle batches of a piece, and load those before and after."""
        count = self._count(entry, len(batches))
        first = (len(batches) - count) // 2
        middle = (len(batches) - 1) // 2  # everyone who makes a call makes this one
        _load_batches(entry.contender, self.workload, batches[:first])
        before = entry.contender.parts()  # loading counts in there, too
        seconds = 0.0
        for index in range(first, first + count):
            left, right = batches[index]
            before_it, started = Cost.now(), time.perf_counter()
            found = entry.contender.step(left, right)
            elapsed = time.perf_counter() - started
            entry.calls.append(elapsed)
            entry.costs.append(Cost.now() - before_it)
            seconds += elapsed
            result = len(found), found.checksum if index == middle or len(found) <= _CHECKSUM_LIMIT else None
            if index not in expected:
                expected[index] = result
                continue
            self.compared += 1
            if expected[index] != result:
                raise ResultsDiffer(
                    f"{entry.name} in {self.workload.kind}, window {self.workload.window:,}, batch "
                    f"{self.batch:,}, rows from {left.first:,}: (pairs, checksum) {result}; others had "
                    f"{expected[index]}"
                )
        for part, total in entry.contender.parts().items():
            entry.parts[part] = entry.parts.get(part, 0.0) + total - before.get(part, 0.0)
        _keep_most(entry)
        if count:
            entry.spent += seconds
            entry.stretches.append({"turn": turn, "calls": count, "seconds": round(seconds, 7)})
        _load_batches(entry.contender, self.workload, batches[first + count :])


def _load_batches(contender: Contender, workload: Workload, batches: list[tuple[Batch, Batch]]) -> None:
    if batches:
        last = batches[-1][0]
        _load(contender, workload, batches[0][0].first, last.first + len(last))


def _keep_most(entry: _Entry) -> None:
    """Remembers the memory now, if it is more over its content than what was seen before."""
    memory = entry.contender.memory()

    def over(seen: dict[str, int]) -> float:
        return seen["used"] / seen.get("content", 1)

    if memory and (not entry.memory or over(memory) > over(entry.memory)):
        entry.memory = memory


def _summary(entry: _Entry, batch: int) -> dict:
    rates = []
    for turn in sorted({stretch["turn"] for stretch in entry.stretches}):
        stretches = [stretch for stretch in entry.stretches if stretch["turn"] == turn]
        calls = sum(stretch["calls"] for stretch in stretches)
        rates.append(2 * batch * calls / sum(stretch["seconds"] for stretch in stretches))
    milliseconds = np.array(entry.calls) * 1e3
    parts = {part: 1e3 * seconds / len(entry.calls) for part, seconds in entry.parts.items()}
    summary = {
        "rate": statistics.median(rates),
        "rates": rates,
        "calls": len(entry.calls),
        "call_ms": {
            "median": float(np.median(milliseconds)),
            "p99": float(np.percentile(milliseconds, 99)),
            "max": float(milliseconds.max()),
        },
        "part_ms": parts,
        **costs_of(entry.costs),
        "memory": entry.memory,
        "stretches": entry.stretches,
    }
    if isinstance(entry.contender, Operator):
        summary["stats"] = entry.contender.stats()
    return summary
