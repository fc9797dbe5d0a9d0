"""Carries both streams down one path to every join core."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.splitjoin.parameters import SplitJoinParameters
from hw.splitjoin.tagged_row import tagged_row


def rows_way(parameters: SplitJoinParameters) -> int:
    """Cycles in which a row may still come to a core, from the one on in which its room is 0 first."""
    return 2 * parameters.levels


class Distributor(wiring.Component):
    """A pipelined tree of registers: each node hands a row on to all its branches at once, and nothing holds it up.

    Word of the cores' room comes up the same tree, a cycle a level, and the root takes rows while all have room. So no
    node decides anything, and the cores find room for the rows that are still on the way.

    Parameters
    ----------
    parameters : SplitJoinParameters
        `cores`, `fan_out` and `depth` give the tree its shape; all cores are equally far from the root.

    Attributes
    ----------
    i : In(stream of tagged_row)
    o : Out(array of streams of tagged_row, always ready)
        To each core, every row in order.
    room : In(cores)
        For each core: it finds room for what comes in `rows_way` cycles, this one included.
    busy : Out(1)
        Set while a row is under way.

    Timing
    ------
    A row a cycle. It takes a cycle per level, and so does `room`; with one core and no depth they take none.

    Source
    ------
    SplitJoin, section 3 (distribution tree). Ours: room that is told ahead, in place of a handshake in each node.
    """

    def __init__(self, parameters: SplitJoinParameters):
        self.parameters = parameters
        row = tagged_row(parameters)
        super().__init__(
            {
                "i": In(stream.Signature(row)),
                "o": Out(stream.Signature(row, always_ready=True)).array(parameters.cores),
                "room": In(parameters.cores),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        cores, levels, fan_out = self.parameters.cores, self.parameters.levels, self.parameters.fan_out
        layout = tagged_row(self.parameters)
        if not levels:
            m.d.comb += [
                self.o[0].payload.eq(self.i.payload),
                self.o[0].valid.eq(self.i.valid & self.room),
                self.i.ready.eq(self.room),
            ]
            return m
        rows, some, room = [self.i.payload], [self.i.valid & self.i.ready], [self.i.ready]  # by branches
        waiting = []
        for level in range(levels):
            width = -(-cores // fan_out ** (levels - 1 - level))  # branches below this level
            below_rows, below_some, below_room = [], [], []
            for at, (above_row, above_some, above_room) in enumerate(zip(rows, some, room, strict=True)):
                row = Signal(layout, name=f"row_{level}_{at}", reset_less=True)
                valid, roomy = Signal(name=f"valid_{level}_{at}"), Signal(name=f"room_{level}_{at}", init=1)
                count = min(fan_out, width - at * fan_out)
                branch_room = Signal(count, name=f"branch_room_{level}_{at}")
                m.d.sync += [row.eq(above_row), valid.eq(above_some), roomy.eq(branch_room.all())]
                m.d.comb += above_room.eq(roomy)
                waiting.append(valid)
                below_rows += [row] * count
                below_some += [valid] * count
                below_room += list(branch_room)
            rows, some, room = below_rows, below_some, below_room
        for port, row, valid in zip(self.o, rows, some, strict=True):
            m.d.comb += [port.payload.eq(row), port.valid.eq(valid)]
        m.d.comb += [Cat(room).eq(self.room), self.busy.eq(Cat(waiting).any())]
        return m
