"""Many random joins against the nested loop: ``python -m tests.random_joins --joins 25000``, ``--seed 17``."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tests.random_joins.case import draw
from tests.random_joins.check import run
from tests.random_joins.seeds import Task, quiet, run_seeds, told
from tests.random_joins.shrink import SECONDS, shrink

SHARE = 10  # joins that a process takes at a time
EXAMPLES = 5  # seeds of a kind in the summary


def main() -> int:
    """Runs what the command line asks for; 1 if a join failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.random_joins", description=__doc__)
    parser.add_argument("--joins", type=int, default=0, help="how many joins to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes that join")
    parser.add_argument("--seed", type=int, help="run the join of one seed, and tell of it")
    parser.add_argument("--shrink", type=float, default=SECONDS, help="seconds for which a failure is shrunk; 0: not")
    parser.add_argument("--json", type=Path, default=Path("build/random-joins.json"), help="file for the summary")
    options = parser.parse_args()
    quiet()
    failed = 0
    if options.seed is not None:
        case = draw(options.seed)
        outcome = run(case)
        print(case.told(), f"{outcome.verdict}: {outcome.text or outcome.pairs}", sep="\n")
        if outcome.fault and options.shrink:
            print("", told(options.seed, *shrink(case, outcome, options.shrink)), sep="\n")
        failed += outcome.fault
    if options.joins:
        failed += _run(options)
    return 1 if failed else 0


def _run(options: Any) -> int:
    """How many joins failed; each is told of, and a summary is written."""
    seeds = range(options.first, options.first + options.joins)
    tasks = [Task(seeds[at : at + SHARE], options.shrink) for at in range(0, len(seeds), SHARE)]
    verdicts: Counter[str] = Counter()
    kinds: dict[str, dict[str, list[int]]] = {verdict: defaultdict(list) for verdict in ("refused", "wrong", "failed")}
    traits: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    begun = time.perf_counter()
    with (
        multiprocessing.get_context("spawn").Pool(options.jobs, quiet, maxtasksperchild=50) as pool,
        tqdm(total=options.joins, unit=" joins", smoothing=0.05) as bar,
    ):
        for outcomes in pool.imap_unordered(run_seeds, tasks):
            for seed, case, outcome, own in outcomes:
                verdicts[outcome.verdict] += 1
                if outcome.verdict == "right" and not outcome.pairs:
                    verdicts["right, without a row"] += 1
                for name, value in own.items():
                    traits[name][value][outcome.verdict] += 1
                if outcome.verdict != "right":
                    kinds[outcome.verdict][outcome.kind].append(seed)
                if case is not None:
                    tqdm.write(f"{told(seed, case, outcome)}\n")
            bar.update(len(outcomes))
            bar.set_postfix(failed=verdicts["wrong"] + verdicts["failed"])
    summary = {
        "first": options.first,
        "joins": options.joins,
        "seconds": round(time.perf_counter() - begun, 1),
        "verdicts": dict(verdicts),
        **{
            verdict: {
                kind: {"joins": len(seeds), "seeds": sorted(seeds)[:EXAMPLES]}
                for kind, seeds in sorted(of.items(), key=lambda item: -len(item[1]))
            }
            for verdict, of in kinds.items()
        },
        "traits": {name: {value: dict(own) for value, own in sorted(of.items())} for name, of in traits.items()},
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
    failed = verdicts["wrong"] + verdicts["failed"]
    print(
        f"seeds {seeds[0]} to {seeds[-1]}: {failed} of {len(seeds):,} joins failed, {verdicts['refused']:,} were "
        f"refused; summary in {options.json}"
    )
    return failed


if __name__ == "__main__":
    sys.exit(main())
