"""What no bench can take of the blocks' Verilog, by reason; `muntin.sim.coverage` leaves it out."""

from __future__ import annotations

import dataclasses
import fnmatch


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """Points that cannot be taken, and why.

    Attributes
    ----------
    reason : str
    points : tuple of str
        Patterns, as of `fnmatch`, of names as `muntin.sim.coverage.PointNames` gives them.
    blocks : tuple of str
        Patterns of the builds' names. Where they name a build, there must be such points in it.
    """

    reason: str
    points: tuple[str, ...]
    blocks: tuple[str, ...] = ("*",)

    def is_about(self, block: str) -> bool:
        """Whether a build's points are to be left out."""
        return any(fnmatch.fnmatchcase(block, pattern) for pattern in self.blocks)

    def has(self, point: str) -> bool:
        """Whether a point, of a build that it is about, is to be left out."""
        return any(fnmatch.fnmatchcase(point, pattern) for pattern in self.points)


_KERNELS = ("kernel_*", "splitjoin_kernel_*")

LEFT_OUT: tuple[LeftOut, ...] = (
    LeftOut(
        "Yosys begins each process with a branch that is never taken, for simulators that run it on a change alone",
        ("*: if ($helper) begin end: *",),
    ),
    LeftOut(
        "`muntin.sim.undefined` gives wrong data where a read meets a write, which blocks avoid",
        ("*) ? ~*: cond_then",),
    ),
    LeftOut("the condition is always true in this build", ("*: if (1'h1): else",)),
    LeftOut(
        "the kernel has checked what its readers and writers check again",
        (
            "*.splitter: verdict: * elsif",
            "*.splitter: verdict: *end): if",
            "*: o__ready: cond_then of * ? (end__ready & *",
            "*writer: status: casez (fsm_state): 2'h1: *if",
        ),
        _KERNELS,
    ),
    LeftOut("the kernel takes each status at once", ("*.collector.results: *filled?1?*",), _KERNELS),
    LeftOut(
        "of two parts of a beat, one is at hand, or it is the first",
        ("*_resizer: o__payload: * else if (! part): *",),
        ("kernel_*",),
    ),
    LeftOut(
        "a full insertion buffer hands itself over: no row comes behind its last",
        ("*buffer: *_15: *if (~ counted?15?): else",),
        ("blocks_narrow",),
    ),
    LeftOut(
        "a full insertion buffer hands itself over, here in one beat: no row comes behind its last",
        ("*buffer: *_7: *if (~ counted?7?): else", "*buffer: handing: *: if (sorted__payload*): else"),
        ("blocks_wide", "splitjoin_blocks"),
    ),
    LeftOut(
        "the kernel's insertion buffer has room for one beat more than a host may insert",
        (
            "*buffer: *_[789]: *if (~ counted?[789]?): else",
            "*buffer: (counted?8?*: cond_then*",
            "*buffer: row__payload: *: casez (read__payload): 4'h9: case",
        ),
        ("kernel_*",),
    ),
    LeftOut(
        "the kernel empties SplitJoin by its reset", ("top.engine.join.*: if (clear): if",), ("splitjoin_kernel_*",)
    ),
    LeftOut(
        "no core of this build can stop",
        ("top.engine*(lost): if", "top.engine*cond_then of lost *", "*.join: (dead?*cond_then*", "*.watch: first: *"),
        ("splitjoin_kernel_*",),
    ),
    LeftOut(
        "no more results are sent than have room", ("top.engine.writer: status: *kept &*: if",), ("splitjoin_kernel_*",)
    ),
)
