"""Many schedules of simulated faults, or many real kills: ``python -m tests.fault --seeds 10000``, ``--kills 100``."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time

from muntin.host.progress import Progress
from tests.fault.kills import kill_in_spark, to_json
from tests.fault.orders import KINDS
from tests.fault.real_kills import kill_daemons
from tests.fault.simulator import explain, quiet, run_seeds

SHARE = 20  # schedules that a process takes at a time


def main() -> int:
    """Runs what the command line asks for; 1 if the rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault", description=__doc__)
    parser.add_argument("--seeds", type=int, default=0, help="how many schedules to simulate")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes that simulate")
    parser.add_argument("--explain", type=int, metavar="SEED", help="tell what happens in one schedule")
    parser.add_argument("--kills", type=int, default=0, help="how many processes of each kind to kill")
    parser.add_argument(
        "--kinds",
        default=",".join(("client", *KINDS)),
        help="which: 'client' (daemons, while a client sends batches), and in Spark daemon, task, executor, driver",
    )
    parser.add_argument("--json", help="file for the kills in Spark, by kind and phase")
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    if unknown := set(kinds) - {"client", *KINDS}:
        parser.error(f"there is no kind {', '.join(unknown)}")
    quiet()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what was started ends
    if options.explain is not None:
        print(explain(options.explain))
    wrong = _simulate(options.first, options.seeds, options.jobs) if options.seeds else 0
    if options.kills and "client" in kinds:
        print(kill_daemons(options.kills, options.first))
    if options.kills and kinds != ["client"]:
        outcome = kill_in_spark([kind for kind in KINDS if kind in kinds], options.kills, options.first)
        print(outcome)
        if options.json:
            to_json(outcome, options.json)
        wrong += outcome.lost + outcome.doubled
    return 1 if wrong else 0


def _simulate(first: int, count: int, jobs: int) -> int:
    """How many schedules break the rule; each is told of."""
    shares = [range(at, min(at + SHARE, first + count)) for at in range(first, first + count, SHARE)]
    wrong, begun = 0, time.perf_counter()
    with (
        multiprocessing.get_context("spawn").Pool(jobs, quiet, maxtasksperchild=100) as pool,
        Progress("faults", count, "schedules") as bar,
    ):
        for done, stories in pool.imap_unordered(run_seeds, shares):
            for story in stories:
                wrong += 1
                bar.write(f"{story}\n")
            bar.advance(done, wrong=wrong)
    hours = (time.perf_counter() - begun) / 3600
    print(f"seeds {first} to {first + count - 1}: {wrong} of {count:,} schedules break the rule")
    print(f"{count / hours:,.0f} schedules an hour on {jobs} processes")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
