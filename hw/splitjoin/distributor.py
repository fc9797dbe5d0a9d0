"""Carries both streams down one path to every join core."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.splitjoin.parameters import SplitJoinParameters
from hw.splitjoin.quick_fifo import QuickFifo
from hw.splitjoin.tagged_row import tagged_row


class Distributor(wiring.Component):
    """A pipelined tree: each node hands a row on to all its branches, each when that one is ready.

    Parameters
    ----------
    parameters : SplitJoinParameters
        `cores`, `fan_out` and `depth` give the tree its shape; all cores are equally far from the root.

    Attributes
    ----------
    i : In(stream of tagged_row)
    o : Out(array of streams of tagged_row)
        To each core, every row in order.
    busy : Out(1)
        Set while a row is under way.

    Timing
    ------
    A row a cycle. It takes a cycle per level, at the earliest; with one core and no depth it takes none. A
    node holds two rows, so no ready waits for another one, and a core that stalls holds the others up only
    once the nodes above it are full.

    Source
    ------
    SplitJoin, section 3 (distribution tree). Ours: nodes that let each branch go as far as it can.
    """

    def __init__(self, parameters: SplitJoinParameters):
        self.parameters = parameters
        row = stream.Signature(tagged_row(parameters))
        super().__init__({"i": In(row), "o": Out(row).array(parameters.cores), "busy": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        cores, levels, fan_out = self.parameters.cores, self.parameters.levels, self.parameters.fan_out
        layout = tagged_row(self.parameters)
        if not levels:
            wiring.connect(m, wiring.flipped(self.i), wiring.flipped(self.o[0]))
            return m
        branches = [wiring.flipped(self.i)]
        waiting = []
        for level in range(levels):
            width = -(-cores // fan_out ** (levels - 1 - level))  # branches below this level
            below = []
            for at, above in enumerate(branches):
                node = QuickFifo(width=layout.size, depth=2)
                m.submodules[f"node_{level}_{at}"] = node
                m.d.comb += [node.w_data.eq(above.payload), node.w_en.eq(above.valid), above.ready.eq(node.w_rdy)]
                waiting.append(node.r_rdy)
                count = min(fan_out, width - at * fan_out)
                sent = Signal(count, name=f"sent_{level}_{at}")
                taken = []
                for branch in range(count):
                    if level == levels - 1:
                        to = wiring.flipped(self.o[at * fan_out + branch])
                        below.append(None)
                    else:
                        to = stream.Signature(layout).create(path=(f"row_{level}_{at}_{branch}",))
                        below.append(to)
                    m.d.comb += [to.payload.eq(node.r_data), to.valid.eq(node.r_rdy & ~sent[branch])]
                    taken.append(sent[branch] | to.ready)
                m.d.comb += node.r_en.eq(Cat(taken).all())
                with m.If(node.r_rdy):
                    for branch in range(count):
                        m.d.sync += sent[branch].eq(taken[branch] & ~node.r_en)
            branches = below
        m.d.comb += self.busy.eq(Cat(waiting).any())
        return m
