"""Merges the results of all join cores."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.hw.splitjoin.rap_merger import MERGER_WAY, RapMerger
from muntin.hw.splitjoin.result_fifo import ResultFlow


class MergerTree(wiring.Component):
    """A tree of RAP mergers over the regions of one side.

    Parameters
    ----------
    parameters : SplitJoinParameters
        `cores`, `fan_in` and `result_rows`; all cores are equally far from the root.
    way : int
        Cycles in which a result of a core may still come, from the one on in which its room is 0 first.

    Attributes
    ----------
    i : In(array of ResultFlow)
        One for each core.
    room : Out(cores)
        For each core: there is room for all that may come.
    end : In(cores)
        For each core: it is gone, whatever comes from it.
    o : Out(ResultFlow)
        Gone where all cores are.
    o_room, o_end : In(1), Out(1)
        `o_room` as of `RapMerger`, and as of a core where there is but one. `o_end` is set where that one is gone.
    busy : Out(1)
        Set while a result waited here that is not `gone`, a cycle late.

    Timing
    ------
    A result a cycle, a cycle a level. With one core it is a wire.

    Source
    ------
    SplitJoin, section 4 (result gathering network).
    """

    def __init__(self, parameters: SplitJoinParameters, *, way: int):
        self.parameters = parameters
        self._way = way
        super().__init__(
            {
                "i": In(ResultFlow()).array(parameters.cores),
                "room": Out(parameters.cores, init=(1 << parameters.cores) - 1),
                "end": In(parameters.cores),
                "o": Out(ResultFlow()),
                "o_room": In(1),
                "o_end": Out(1),
                "busy": Out(1),
            }
        )

    @property
    def o_way(self) -> int:
        """Cycles in which a result may still come out, from the one on in which `o_room` is 0 first."""
        return MERGER_WAY if self.parameters.merger_levels else self._way

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.parameters
        branches = [wiring.flipped(port) for port in self.i]
        rooms, ends = list(self.room), list(self.end)
        waiting = []
        for level in range(p.merger_levels):
            above, above_rooms = [], []
            for at in range(0, len(branches), p.fan_in):
                group = branches[at : at + p.fan_in]
                node = RapMerger(inputs=len(group), way=MERGER_WAY if level else self._way, rows=p.result_rows)
                m.submodules[f"node_{level}_{at // p.fan_in}"] = node
                for port, to in zip(group, node.i, strict=True):
                    wiring.connect(m, port, to)
                m.d.comb += Cat(rooms[at : at + p.fan_in]).eq(node.room)
                if not level:
                    m.d.comb += node.end.eq(Cat(ends[at : at + p.fan_in]))
                above.append(node.o)
                above_rooms.append(node.o_room)
                busy = Signal(name=f"busy_{level}_{at // p.fan_in}")
                m.d.sync += busy.eq(node.busy)
                waiting.append(busy)
            branches, rooms = above, above_rooms
        wiring.connect(m, branches[0], wiring.flipped(self.o))
        m.d.comb += [
            rooms[0].eq(self.o_room),
            self.o_end.eq(0 if p.merger_levels else ends[0]),
            self.busy.eq(Cat(waiting).any()),
        ]
        return m
