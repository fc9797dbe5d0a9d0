"""Carries both streams down one path to every join core."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.hw.splitjoin.layouts import tagged_row
from muntin.hw.splitjoin.settings_signature import SettingsSignature, copy_settings


def rows_way(parameters: SplitJoinParameters) -> int:
    """Cycles in which a row may still come to a core, from the one on in which its room is 0 first."""
    return 2 * parameters.levels


class DistributorNode(wiring.Component):
    """Registers between a node of the tree and the one above it.

    Parameters
    ----------
    parameters : SplitJoinParameters
    branches : int

    Attributes
    ----------
    settings, o_settings : In(SettingsSignature), Out(SettingsSignature)
    clear, o_clear : In(1), Out(1)
    i, o : In(stream of tagged_row, always ready), Out(the same)
    room, o_room : Out(1), In(branches)
        Set while there is room; below all branches.

    Timing
    ------
    All goes on a cycle later.
    """

    def __init__(self, parameters: SplitJoinParameters, *, branches: int):
        self.parameters = parameters
        row = stream.Signature(tagged_row(parameters), always_ready=True)
        settings = SettingsSignature(parameters)
        super().__init__(
            {
                "settings": In(settings),
                "clear": In(1),
                "i": In(row),
                "room": Out(1, init=1),
                "o_settings": Out(settings),
                "o_clear": Out(1),
                "o": Out(row),
                "o_room": In(branches),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        row = Signal(tagged_row(self.parameters), reset_less=True)
        m.d.sync += [
            row.eq(self.i.payload),
            self.o.valid.eq(self.i.valid),
            self.room.eq(self.o_room.all()),
            self.o_clear.eq(self.clear),
        ]
        m.d.comb += self.o.payload.eq(row)
        settings = copy_settings(m, wiring.flipped(self.settings), "copy", parameters=self.parameters)
        wiring.connect(m, settings, wiring.flipped(self.o_settings))
        return m


class Distributor(wiring.Component):
    """A pipelined tree of registers: each node hands a row on to all its branches at once, and nothing holds it up.

    Word of the cores' room comes up the same tree, a cycle a level, and the root takes rows while all have room. So no
    node decides anything, and the cores find room for the rows that are still on the way. Settings go the way of the
    rows, so that none is far from the next register either.

    Parameters
    ----------
    parameters : SplitJoinParameters
        `cores`, `fan_out` and `depth` give the tree its shape; all cores are equally far from the root.

    Attributes
    ----------
    settings : In(SettingsSignature)
    clear : In(1)
    i : In(stream of tagged_row)
    o : Out(array of streams of tagged_row, always ready)
        To each core, every row in order.
    o_settings, o_clear : Out(array of SettingsSignature), Out(cores)
        To each core.
    room : In(cores)
        For each core: it finds room for what comes in `rows_way` cycles, this one included.
    busy : Out(1)
        Set while a row is under way.

    Timing
    ------
    A row a cycle. It takes a cycle per level, and so do `room`, settings and `clear`; with one core and no depth they
    take none.

    Source
    ------
    SplitJoin, section 3 (distribution tree). Ours: room that is known ahead, in place of a handshake in each node.
    """

    def __init__(self, parameters: SplitJoinParameters):
        self.parameters = parameters
        row, settings = tagged_row(parameters), SettingsSignature(parameters)
        super().__init__(
            {
                "settings": In(settings),
                "clear": In(1),
                "i": In(stream.Signature(row)),
                "o": Out(stream.Signature(row, always_ready=True)).array(parameters.cores),
                "o_settings": Out(settings).array(parameters.cores),
                "o_clear": Out(parameters.cores),
                "room": In(parameters.cores),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.parameters
        above: list[DistributorNode | None] = [None]  # of each branch; none is the way in
        waiting = []
        for level in range(p.levels):
            width = -(-p.cores // p.fan_out ** (p.levels - 1 - level))  # branches below this level
            below: list[DistributorNode | None] = []
            for at, parent in enumerate(above):
                count = min(p.fan_out, width - at * p.fan_out)
                m.submodules[f"node_{level}_{at}"] = node = DistributorNode(p, branches=count)
                if parent is None:
                    wiring.connect(m, wiring.flipped(self.settings), node.settings)
                    m.d.comb += [
                        node.clear.eq(self.clear),
                        node.i.payload.eq(self.i.payload),
                        node.i.valid.eq(self.i.valid & self.i.ready),
                        self.i.ready.eq(node.room),
                    ]
                else:
                    wiring.connect(m, parent.o_settings, node.settings)
                    wiring.connect(m, parent.o, node.i)
                    m.d.comb += [node.clear.eq(parent.o_clear), parent.o_room[at % p.fan_out].eq(node.room)]
                waiting.append(node.o.valid)
                below += [node] * count
            above = below
        for core, (port, settings, leaf) in enumerate(zip(self.o, self.o_settings, above, strict=True)):
            if leaf is None:
                wiring.connect(m, wiring.flipped(self.settings), wiring.flipped(settings))
                m.d.comb += [
                    port.payload.eq(self.i.payload),
                    port.valid.eq(self.i.valid & self.room),
                    self.i.ready.eq(self.room),
                    self.o_clear.eq(self.clear),
                ]
                continue
            wiring.connect(m, leaf.o_settings, wiring.flipped(settings))
            m.d.comb += [
                port.payload.eq(leaf.o.payload),
                port.valid.eq(leaf.o.valid),
                leaf.o_room[core % p.fan_out].eq(self.room[core]),
                self.o_clear[core].eq(leaf.o_clear),
            ]
        m.d.comb += self.busy.eq(Cat(waiting).any())
        return m
