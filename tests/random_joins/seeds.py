"""The joins of many seeds, in processes that may die of them."""

from __future__ import annotations

import dataclasses
import faulthandler
import multiprocessing
import queue
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import structlog

from tests.random_joins.case import Case, draw
from tests.random_joins.check import Outcome, run
from tests.random_joins.shell import over_files
from tests.random_joins.shrink import shrink

SHARE = 250  # seeds that a process takes: it starts with nothing open
SHRUNK = 3  # failures of a kind that are shrunk, by each process
LONGEST = 600  # seconds: a join that takes as long hangs


@dataclasses.dataclass(frozen=True)
class Found:
    """What came of a seed.

    Attributes
    ----------
    smallest : Case or None
        Of a failure: the smallest case of its kind that was found.
    """

    seed: int
    case: Case
    outcome: Outcome
    smallest: Case | None = None

    def told(self) -> str:
        """A failure, and how to see it again."""
        assert self.smallest is not None
        again = f"python -m tests.random_joins --seed {self.seed}{' --shell' * (self.case.way.name == 'shell')}"
        return f"{again}\n{self.smallest.told()}\n{self.outcome.verdict}: {self.outcome.text}"


def quiet() -> None:
    """Leaves out what daemons log."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


def found(seed: int, seconds: float, shell: bool = False) -> Found:
    """What comes of a seed, in the shell if that has such joins; a failure is shrunk for so long."""
    case = draw(seed)
    if shell:
        over = over_files(case)
        if over is None:
            return Found(seed, case, Outcome("refused", "the command has no such joins", "not in the shell"))
        case = over
    outcome = run(case)
    smallest = case if outcome.fault else None
    if outcome.fault and seconds:
        smallest, outcome = shrink(case, outcome, seconds)
    return Found(seed, case, outcome, smallest)


def run_seeds(seeds: range, jobs: int, seconds: float, shell: bool = False) -> Iterator[Found]:
    """What comes of all seeds, in any order, by so many processes at a time."""
    results: queue.Queue[Found | BaseException] = queue.Queue()

    def work(share: range) -> None:
        try:
            while share:
                share = _in_a_process(share, seconds, shell, results)
        except BaseException as error:  # it is raised where results are taken
            results.put(error)

    with ThreadPoolExecutor(jobs) as threads:
        for at in range(0, len(seeds), SHARE):
            threads.submit(work, seeds[at : at + SHARE])
        for _ in seeds:
            result = results.get()
            if isinstance(result, BaseException):
                threads.shutdown(wait=False, cancel_futures=True)
                raise result
            yield result


def _in_a_process(seeds: range, seconds: float, shell: bool, results: queue.Queue[Found | BaseException]) -> range:
    """Runs seeds in a process of their own; those that are left where it died of one."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(seeds, seconds, shell, theirs), daemon=True)
    process.start()
    theirs.close()
    done = 0
    try:
        while done < len(seeds):
            results.put(ours.recv())
            done += 1
    except EOFError:
        process.join()
        case = draw(seeds[done])
        outcome = Outcome("failed", f"the process died of it, exit status {process.exitcode}", "the process died")
        results.put(Found(seeds[done], case, outcome, case))
        done += 1
    process.join()
    return seeds[done:]


def _work(seeds: range, seconds: float, shell: bool, results: Connection) -> None:
    quiet()
    shrunk: Counter[str] = Counter()
    for seed in seeds:
        faulthandler.dump_traceback_later(LONGEST + seconds, exit=True)
        result = found(seed, 0, shell)
        if result.smallest is not None and seconds and shrunk[result.outcome.kind] < SHRUNK:
            shrunk[result.outcome.kind] += 1
            smallest, outcome = shrink(result.case, result.outcome, seconds)
            result = dataclasses.replace(result, smallest=smallest, outcome=outcome)
        results.send(result)
        faulthandler.cancel_dump_traceback_later()
