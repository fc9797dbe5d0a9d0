"""Measures SplitJoin alone, with a source that always has a row and a sink that always takes a result."""

import dataclasses
import functools
import json
import re
from collections.abc import Iterator, Sequence

from bench.hardware.splitjoin_figure import SplitJoinFigure
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.hw.splitjoin.bisort_window import BisortWindow
from muntin.hw.splitjoin.nested_loop import NestedLoop
from muntin.sim.block_runner import run_bench
from tests.hw.meters.splitjoin_meter import SplitJoinMeter

Ki = 1 << 10
WINDOW = 64 * Ki
CORES = (1, 2, 4, 8, 16, 32, 64)
DETAILED = (16, 64)
"""Cores whose orders, result path and shorter windows are measured, too."""
BUFFER_ROWS = 32
"""Of the insertion buffer of a sorted sub-window."""

_TINY = dataclasses.replace(SplitJoinParameters.preset("tiny"), time_bits=0, lanes=1, probe_rows=4, result_rows=4)
_ORDERS = (("OUTER", 0), ("OUTER", 4), ("INNER", 6), ("INNER", 0))


def _step(what: str, window: int, rows: int, order: str = "NONE", every: int = 0, **more: object) -> dict:
    step = {"what": what, "window": window, "rows": rows, "order": order, "every": every}
    return step | {"sides": "in turn", "apart": False, "everything": False} | more


def splitjoin_bench(seed: int, cores: Sequence[int] = CORES) -> Iterator[SplitJoinFigure]:
    """Measure busy comparators, scaling, orders, the result path and shorter windows at a window of 64 Ki rows a side.

    Parameters
    ----------
    seed : int
    cores : sequence of int
        J; each is compiled first, those of 64 cores in minutes.

    Yields
    ------
    SplitJoinFigure
    """
    for count in cores:
        steps = [_step("no order", WINDOW, 64)]
        if count in DETAILED:
            steps += [_step("order", WINDOW, 64, order, every) for order, every in _ORDERS]
            steps += [
                _step("order, sides apart", WINDOW, 64, "INNER", 0, apart=True),
                _step("one side alone", WINDOW, 64, sides="right"),
                _step("everything matches", WINDOW, 2, "NONE", sides="right", everything=True),
                _step("everything matches", WINDOW, 2, "OUTER", sides="right", everything=True),
            ]
            steps += [_step("shorter windows", window, 512, "OUTER") for window in (16 * Ki, 4 * Ki, Ki)]
            steps += [_step("shorter windows", Ki, 512, "OUTER", 4)]
        parameters = dataclasses.replace(_TINY, cores=count, rows=WINDOW // count)
        yield from _measure(parameters, "nested loop", steps, seed)


def sorted_bench(seed: int) -> Iterator[SplitJoinFigure]:
    """Measure four cores whose sub-windows are sorted beside four that compare with every row, window by window.

    Yields
    ------
    SplitJoinFigure
    """
    parameters = dataclasses.replace(_TINY, cores=4, rows=4 * Ki)
    windows = (64, 256, Ki, 4 * Ki, 16 * Ki)
    for name in ("nested loop", "BI-Sort"):
        steps = [_step("sub-windows", window, 1024 if window <= Ki else 256, "OUTER") for window in windows]
        yield from _measure(parameters, name, steps, seed)


def _measure(parameters: SplitJoinParameters, name: str, steps: list[dict], seed: int) -> Iterator[SplitJoinFigure]:
    sub_window = functools.partial(BisortWindow, buffer_rows=BUFFER_ROWS) if name == "BI-Sort" else NestedLoop
    log = run_bench(
        SplitJoinMeter(parameters, sub_window=sub_window),
        f"splitjoin_meter_{parameters.cores}",
        "tests.hw.benches.splitjoin_plan",
        seed=seed,
        parameters=dataclasses.asdict(parameters),
        steps=steps,
    )
    for line in re.findall(r"STEP (\{.*\})", log.read_text()):
        got = json.loads(line)
        interval = got["order"] == "INNER" or got["every"]
        order = got["order"].lower() + (f", every {1 << got['every']}" if interval else "")
        # A nested loop compares each row with the whole window; a sorted one with what it reads.
        if name == "nested loop":
            assert got["compared"] == got["rows"] * got["window"], f"not all was compared: {line}"
        fields = {field.name for field in dataclasses.fields(SplitJoinFigure)} & got.keys()
        yield SplitJoinFigure(
            **{field: got[field] for field in fields} | {"order": order},
            sub_window=name,
            cores=parameters.cores,
            lanes=parameters.lanes,
        )
