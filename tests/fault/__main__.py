"""Many schedules of simulated faults, or many real kills: ``python -m tests.fault --seeds 10000``, ``--kills 100``."""

from __future__ import annotations

import argparse
import sys
import time

import structlog

from tests.fault.real_kills import kill_daemons
from tests.fault.simulator import Schedule, WrongError


def main() -> int:
    """Runs what the command line asks for; 1 if the rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault", description=__doc__)
    parser.add_argument("--seeds", type=int, default=0, help="how many schedules to simulate")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kills", type=int, default=0, help="how many daemons to kill, while a client sends batches")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    started = time.monotonic()
    wrong = []
    for seed in range(options.first, options.first + options.seeds):
        try:
            Schedule(seed).run()
        except WrongError as error:
            wrong.append(seed)
            print(error, flush=True)
        if (done := seed - options.first + 1) % 500 == 0:
            print(f"{done:,} schedules, {len(wrong)} wrong, {time.monotonic() - started:.0f} s", flush=True)
    if options.seeds:
        last = options.first + options.seeds - 1
        print(f"seeds {options.first} to {last}: {len(wrong)} of {options.seeds:,} schedules break the rule")
    if options.kills:
        print(kill_daemons(options.kills, options.first))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
