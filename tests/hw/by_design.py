"""A pytest plugin that tells of tests by the design they are about: a line for each, as soon as its last test is over.

``-p tests.hw.by_design`` turns it on, as `make sim` does. On a terminal a counter shows that the tests go on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from muntin.sim.kept import COUNTS

OUTCOMES = ("failed", "error", "skipped", "passed")


def design_of(nodeid: str) -> str:
    """The design that a test is about: its folder and file, or its folder and the block that it is given last.

    >>> design_of("tests/hw/splitjoin/test_kernel.py::test_kernel_against_the_model[narrow]")
    'splitjoin kernel'
    >>> design_of("tests/hw/bisort/test_blocks.py::test_against_the_model[wide-gather]")
    'bisort gather'
    """
    path, _, test = nodeid.partition("::")
    *_, folder, file = path.split("/")
    part = file.removeprefix("test_").removesuffix(".py")
    if test.startswith("test_against_the_model["):
        part = test.removesuffix("]").rpartition("[")[2].rpartition("-")[2]
    return part if folder in ("hw", part) else f"{folder} {part}"


class ByDesign:
    """Counts and tells; in the process that has the terminal.

    Parameters
    ----------
    terminal : TerminalReporter
    """

    def __init__(self, terminal: pytest.TerminalReporter):
        self._terminal = terminal
        self._to_come: Counter[str] = Counter()
        self._total = 0
        self._over = 0
        self._outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._made: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._expect(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        self._expect(ids)  # of every worker the same

    def _expect(self, nodeids: Iterable[str]) -> None:
        if not self._total:
            self._to_come.update(map(design_of, nodeids))
            self._total = self._to_come.total()

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Iterator[None]:
        """No letter for each test."""
        category, _, _ = yield
        return category, "", ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        design = design_of(report.nodeid)
        self._seconds[design] += report.duration
        if report.when == "call" or not report.passed:
            self._outcomes[design]["error" if report.failed and report.when != "call" else report.outcome] += 1
        if report.failed:
            self._write(f"FAILED {report.nodeid}", red=True)
        if report.when != "teardown":
            return
        for key, value in report.user_properties:
            if key == "made":
                self._made[design].update(value)
        self._over += 1
        self._to_come[design] -= 1
        if not self._to_come[design]:
            self._tell(design)
        if self._terminal.isatty:
            self._terminal.rewrite(f"{self._over} of {self._total} tests", erase=True)

    def pytest_terminal_summary(self) -> None:
        for design in sorted(self._outcomes):
            if self._to_come[design]:  # the tests were stopped
                self._tell(design)
        made = sum(self._made.values(), Counter())
        self._write(f"{self._over} tests of {len(self._outcomes)} designs; {_words(made) or 'nothing to make'}")

    def _tell(self, design: str) -> None:
        outcomes = self._outcomes[design]
        tests = ", ".join(f"{outcomes[kind]} {kind}" for kind in OUTCOMES if outcomes[kind])
        bad = bool(outcomes["failed"] or outcomes["error"])
        line = f"{design:28} {tests:24} {self._seconds[design]:7.1f} s  {_words(self._made[design])}"
        self._write(line.rstrip(), red=bad, green=not bad)

    def _write(self, line: str, **colour: bool) -> None:
        if self._terminal.isatty:
            self._terminal.rewrite("", erase=True)
        else:
            self._terminal.ensure_newline()
        self._terminal.write_line(line, **colour)


def _words(made: Counter[str]) -> str:
    """``1 model made, 13 kept``"""
    kinds = dict.fromkeys(key.partition(" ")[0] for key in sorted(made))
    return "; ".join(f"{kind}s: {made[f'{kind} made']} made, {made[f'{kind} kept']} kept before" for kind in kinds)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Notes what a test has made, and what it found."""
    before = COUNTS.copy()
    try:
        return (yield)
    finally:
        item.user_properties.append(("made", dict(COUNTS - before)))


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(ByDesign(terminal))
