"""Times the window join and its peers on the same batches, side by side, and compares their pairs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from bench.contenders import Contender, Operator, Unavailable, make_contender
from bench.plan import Plan
from bench.workloads import BLOCK, Batch, Workload

_CHECKSUM_LIMIT = 4_000_000  # of more pairs only the first call of a round is summed, the others counted


class ResultsDiffer(Exception):
    """Two contenders returned different pairs for the same batches."""


@dataclass
class _Entry:
    """One contender in one cell."""

    contender: Contender
    thorough: bool
    budget: float
    estimate: float = 0.0
    spent: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)
    calls: list[float] = field(default_factory=list)
    stretches: list[dict] = field(default_factory=list)


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
            cell, start = _run_cell(plan, workload, batch, {name: contenders[name] for name in wanted}, start)
            positions.update(dict.fromkeys(wanted, start))
            if missing:
                cell["missing"] = missing
            yield cell


def _load(contender: Contender, workload: Workload, start: int, stop: int) -> None:
    for at in range(start, stop, BLOCK):
        end = min(stop, at + BLOCK)
        contender.load(workload.rows(0, at, end), workload.rows(1, at, end))


def _run_cell(
    plan: Plan, workload: Workload, batch: int, contenders: dict[str, Contender], start: int
) -> tuple[dict, int]:
    entries = {
        name: _Entry(
            contender=contender,
            thorough=plan.thorough(name),
            budget=plan.budget(name, workload.kind, batch),
        )
        for name, contender in contenders.items()
    }
    start = _warm_up(workload, batch, entries, start)
    calls = _calls_per_round(plan, workload, batch, entries)
    pairs = checked = 0
    for turn in range(plan.turns):
        for round_ in range(plan.rounds):
            batches = [
                (workload.rows(0, at, at + batch), workload.rows(1, at, at + batch))
                for at in range(start, start + calls * batch, batch)
            ]
            for left, right in batches:  # Arrow tables are made here, not while the clock runs
                _ = left.table, right.table
            expected: dict[int, tuple[int, int | None]] = {}
            order = list(entries.items())
            if round_ % 2:
                order.reverse()
            # The thorough ones see every batch; they go first so that all later ones have something to agree
            # with.
            order.sort(key=lambda item: not item[1].thorough)
            for name, entry in order:
                checked += _run_stretch(plan, name, entry, batches, turn, expected, workload, batch)
            pairs += sum(count for count, _ in expected.values())
            start += calls * batch
    cell = {
        "workload": workload.kind,
        "window": workload.window,
        "batch": batch,
        "band": list(workload.band),
        "calls": calls * plan.rounds * plan.turns,
        "windows_per_turn": calls * plan.rounds * batch / workload.window,
        "pairs_per_row": pairs / (2 * batch * calls * plan.rounds * plan.turns),
        "calls_compared": checked,
        "contenders": {name: _summary(entry, batch) for name, entry in entries.items()},
    }
    return cell, start


def _warm_up(workload: Workload, batch: int, entries: dict[str, _Entry], start: int) -> int:
    """Two calls each, untimed but for an estimate: first calls compile kernels and touch new memory."""
    for at in (start, start + batch):
        left, right = workload.rows(0, at, at + batch), workload.rows(1, at, at + batch)
        _ = left.table, right.table
        for entry in entries.values():
            if entry.estimate > 0.5:  # slow ones were warmed up enough by the first
                entry.contender.load(left, right)
                continue
            started = time.perf_counter()
            entry.contender.step(left, right)
            entry.estimate = time.perf_counter() - started
    return start + 2 * batch


def _calls_per_round(plan: Plan, workload: Workload, batch: int, entries: dict[str, _Entry]) -> int:
    whole = max(1, workload.window // batch // plan.rounds)
    thorough = [entry for entry in entries.values() if entry.thorough] or list(entries.values())
    slowest = max(entry.estimate for entry in thorough)
    affordable = int(max(entry.budget for entry in thorough) / slowest / plan.turns / plan.rounds)
    return max(1, min(whole, affordable))


def _run_stretch(
    plan: Plan,
    name: str,
    entry: _Entry,
    batches: list[tuple[Batch, Batch]],
    turn: int,
    expected: dict[int, tuple[int, int | None]],
    workload: Workload,
    batch: int,
) -> int:
    """Time one contender on the first batches of a round, load the others. Returns calls compared."""
    if entry.thorough:
        count = len(batches)
    else:
        share = entry.budget / plan.turns / plan.rounds
        count = min(len(batches), int(share / entry.estimate))
        if count == 0 and (not entry.calls or entry.spent + entry.estimate <= entry.budget):
            count = 1
    seconds = 0.0
    checked = 0
    before = entry.contender.parts()  # loading counts in there, too
    for index, (left, right) in enumerate(batches[:count]):
        started = time.perf_counter()
        found = entry.contender.step(left, right)
        elapsed = time.perf_counter() - started
        entry.calls.append(elapsed)
        seconds += elapsed
        summed = found.checksum if index == 0 or len(found) <= _CHECKSUM_LIMIT else None
        if index not in expected:
            expected[index] = (len(found), summed)
        elif expected[index] != (len(found), summed):
            raise ResultsDiffer(
                f"{name} differs in {workload.kind}, window {workload.window:,}, batch {batch:,}, rows from "
                f"{left.first:,}: {len(found):,} pairs, checksum {summed}; the first contender has "
                f"{expected[index][0]:,} pairs, checksum {expected[index][1]}"
            )
        else:
            checked += 1
    for part, total in entry.contender.parts().items():
        entry.parts[part] = entry.parts.get(part, 0.0) + total - before.get(part, 0.0)
    if count:
        entry.spent += seconds
        entry.stretches.append({"turn": turn, "calls": count, "seconds": round(seconds, 7)})
    _load_rest(entry.contender, workload, batches[count:])
    return checked


def _load_rest(contender: Contender, workload: Workload, batches: list[tuple[Batch, Batch]]) -> None:
    if batches:
        _load(contender, workload, batches[0][0].first, batches[-1][0].first + len(batches[-1][0]))


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
        "memory": entry.contender.memory(),
        "stretches": entry.stretches,
    }
    if isinstance(entry.contender, Operator):
        summary["stats"] = entry.contender.stats()
    return summary
