"""The designs that the report tells of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from amaranth.lib import wiring

from muntin.contract.designs.bisort import Parameters
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.hw.bisort.kernel import Kernel
from muntin.hw.bisort.merger import Merger
from muntin.hw.bisort.probe_path import ProbePath
from muntin.hw.splitjoin.join_core import JoinCore
from muntin.hw.splitjoin.splitjoin import SplitJoin

ECP5, ARRIA_10 = "ECP5-85", "Arria 10"
PARTS = (ECP5, ARRIA_10)
SPLITJOIN_PARTS = ("*.core_?", "*.core_??", "*_merger.node_*", "*.distributor.node_*", "*.admission", "*.combiner")
"""The modules of a SplitJoin that are synthesized separately: join cores, and the nodes of its trees.

Yosys would merge the copies that a row has in the nodes of one level; and a node synthesized alone has fewer levels of
look-up tables than where longer paths of other modules leave it slack.
"""
_ROW_BYTES = 16  # that a merge moves for each row: key and row number, in and out


@dataclass(frozen=True)
class Design:
    """A design in the report.

    Attributes
    ----------
    name : str
    make : callable
        Gives the component.
    parts : tuple of str
        Of `PARTS`: where it is placed and routed, or estimated.
    rows_per_cycle : float
        What it does in a cycle, at most; of its docstring's Timing, which tests hold it to.
    what : str
        What these rows are.
    quick : bool
        Whether it is done unless others are asked for.
    apart : tuple of str
        As of `bench.area.ecp5.synthesize`.
    core : callable or None
        Gives one of the cores that are placed as one of them by itself, see `bench.area.floor_plan`.
    """

    name: str
    make: Callable[[], wiring.Component]
    parts: tuple[str, ...]
    rows_per_cycle: float
    what: str
    quick: bool = False
    apart: tuple[str, ...] = ()
    core: Callable[[], wiring.Component] | None = None


def merged_per_cycle(parameters: Parameters, memory_bytes: int | None = None) -> float:
    """Rows that a kernel merges in a cycle, at most: what its mergers do, or what its memory moves.

    Parameters
    ----------
    parameters : Parameters
    memory_bytes : int, optional
        What the memory of each channel moves in a cycle of the kernel's; by default a beat of the port.
    """
    p = parameters
    return min(p.width * p.lanes, p.channels * p.lanes * (memory_bytes or p.beat_bytes) / _ROW_BYTES)


def _kernel(preset: str, part: str) -> Design:
    p = Parameters.preset(preset)
    return Design(
        f"BI-Sort kernel, preset {preset}",
        lambda: Kernel(p),
        (part,),
        merged_per_cycle(p),
        "rows merged; with a memory that moves a beat a cycle",
    )


def _core(preset: str, part: str, *, quick: bool = False) -> Design:
    p = SplitJoinParameters.preset(preset)
    return Design(
        f"SplitJoin core, preset {preset}",
        lambda: JoinCore(p, index=0),
        (part,),
        p.lanes / p.rows,
        _joined(p, p.rows),
        quick,
    )


def _splitjoin(preset: str, part: str) -> Design:
    p = SplitJoinParameters.preset(preset)
    return Design(
        f"SplitJoin of {p.cores} cores, preset {preset}",
        lambda: SplitJoin(p),
        (part,),
        p.lanes / p.rows,
        _joined(p, p.capacity),
        apart=SPLITJOIN_PARTS,
        core=lambda: JoinCore(p, index=0),
    )


def _joined(parameters: SplitJoinParameters, window: int) -> str:
    return f"rows joined, with full windows of {window} rows a side; {parameters.lanes} comparisons a cycle and core"


def _merger(width: int, parts: tuple[str, ...]) -> Design:
    return Design(
        f"merger, W = {width}",
        lambda: Merger(key_bits=32, width=width),
        parts,
        width,
        "rows merged",
        quick=True,
    )


def _probe_path(preset: str, part: str, *, quick: bool = False) -> Design:
    p = Parameters.preset(preset)
    what = f"probes, a start and a stop each; {p.keys_per_beat} keys a cycle pass the prober"
    return Design(f"probe path, preset {preset}", lambda: ProbePath(p), (part,), 0.5, what, quick)


DESIGNS: tuple[Design, ...] = (
    _merger(4, (ECP5,)),
    _merger(8, PARTS),
    _probe_path("ecp5", ECP5),
    _probe_path("de5a", ARRIA_10),
    _kernel("ecp5", ECP5),
    _kernel("de5a", ARRIA_10),
    _core("ecp5", ECP5, quick=True),
    _splitjoin("ecp5", ECP5),
    _core("operator", ARRIA_10),
)
"""A further design is a line more. All have keys of 32 bits, but for those of preset operator: 64, and times."""
