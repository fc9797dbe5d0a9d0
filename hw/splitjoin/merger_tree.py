"""Merges the results of all join cores."""

from amaranth.hdl import Cat, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.splitjoin.parameters import SplitJoinParameters
from hw.splitjoin.rap_merger import RapMerger
from hw.splitjoin.result_layout import result_layout


class MergerTree(wiring.Component):
    """A tree of RAP mergers over the regions of one side.

    Parameters
    ----------
    parameters : SplitJoinParameters
        `cores`, `fan_in` and `result_rows`; all cores are equally far from the root.

    Attributes
    ----------
    i : In(array of streams of result_layout)
        One for each core.
    o : Out(stream of result_layout)
        Nothing any more where all cores are gone.
    busy : Out(1)

    Timing
    ------
    A result a cycle, a cycle a level. With one core it is a wire.

    Source
    ------
    SplitJoin, section 4 (result gathering network).
    """

    def __init__(self, parameters: SplitJoinParameters):
        self.parameters = parameters
        result = stream.Signature(result_layout())
        super().__init__(
            {
                "i": In(result).array(parameters.cores),
                "o": Out(result),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.parameters
        branches = [wiring.flipped(port) for port in self.i]
        waiting = []
        for level in range(p.merger_levels):
            below = []
            for at in range(0, len(branches), p.fan_in):
                group = branches[at : at + p.fan_in]
                node = RapMerger(inputs=len(group), rows=p.result_rows)
                m.submodules[f"node_{level}_{at // p.fan_in}"] = node
                for port, to in zip(group, node.i, strict=True):
                    wiring.connect(m, port, to)
                below.append(node.o)
                waiting.append(node.busy)
            branches = below
        m.d.comb += [
            self.o.payload.eq(branches[0].payload),
            self.o.valid.eq(branches[0].valid & ~branches[0].p.gone),
            branches[0].ready.eq(self.o.ready),
            self.busy.eq(Cat(waiting).any()),
        ]
        return m
