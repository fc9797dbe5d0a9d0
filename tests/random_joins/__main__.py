"""Many random joins against the nested loop: ``python -m tests.random_joins --joins 25000``, ``--seed 17``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from muntin.host.progress import Progress
from tests.random_joins.case import Case
from tests.random_joins.seeds import found, quiet, run_seeds
from tests.random_joins.shrink import SECONDS

EXAMPLES = 5  # seeds of a kind in the summary


def main() -> int:
    """Runs what the command line asks for; 1 if a join failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.random_joins", description=__doc__)
    parser.add_argument("--joins", type=int, default=0, help="how many joins to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes that join")
    parser.add_argument("--seed", type=int, help="run the join of one seed, and tell of it")
    parser.add_argument("--shell", action="store_true", help="by the command, over files")
    parser.add_argument("--shrink", type=float, default=SECONDS, help="seconds for which a failure is shrunk; 0: not")
    parser.add_argument("--json", type=Path, default=Path("build/random-joins.json"), help="file for the summary")
    options = parser.parse_args()
    quiet()
    failed = 0
    if options.seed is not None:
        result = found(options.seed, options.shrink, options.shell)
        failed += result.outcome.fault
        print(result.case.told(), "")
        print(result.told() if result.smallest else f"{result.outcome.verdict} {result.outcome.text}")
    if options.joins:
        failed += _run(options)
    return 1 if failed else 0


def _traits(case: Case) -> dict[str, str]:
    """What the summary counts of a case."""
    options = case.options
    return {
        "form": options["form"] + (" at close" if options.get("at") == "close" else ""),
        "how": options["how"],
        "window": "as-of" if case.as_of else "count" if case.rows else "time" if case.within else "none",
        "device": case.device,
        "way": case.way.name,
        "partitions": str(getattr(case.partitions, "by", case.partitions)),
        **{name: getattr(options.get(name), "name", str(options.get(name))) for name in ("index", "engine")},
    }


def _run(options: Any) -> int:
    """How many joins failed; each is told of, and a summary is written."""
    seeds = range(options.first, options.first + options.joins)
    verdicts: Counter[str] = Counter()
    kinds: dict[str, dict[str, list[int]]] = {verdict: defaultdict(list) for verdict in ("wrong", "failed", "refused")}
    traits: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    begun = time.perf_counter()
    with Progress("random joins", len(seeds), "joins") as bar:
        for result in run_seeds(seeds, options.jobs, options.shrink, options.shell):
            outcome = result.outcome
            verdicts[outcome.verdict] += 1
            verdicts["right, without a row"] += outcome.verdict == "right" and not outcome.pairs
            for name, value in _traits(result.case).items():
                traits[name][value][outcome.verdict] += 1
            if outcome.verdict != "right":
                kinds[outcome.verdict][outcome.kind].append(result.seed)
            if result.smallest is not None:
                bar.write(f"{result.told()}\n")
            bar.advance(failed=verdicts["wrong"] + verdicts["failed"])
    summary = {
        "first": options.first,
        "joins": options.joins,
        "seconds": round(time.perf_counter() - begun, 1),
        "verdicts": dict(verdicts),
        **{verdict: _ordered(of) for verdict, of in kinds.items()},
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


def _ordered(kinds: dict[str, list[int]]) -> dict[str, dict[str, Any]]:
    """Kinds of errors with how many joins had each, and some of their seeds; the most frequent first."""
    return {
        kind: {"joins": len(seeds), "seeds": sorted(seeds)[:EXAMPLES]}
        for kind, seeds in sorted(kinds.items(), key=lambda item: -len(item[1]))
    }


if __name__ == "__main__":
    sys.exit(main())
