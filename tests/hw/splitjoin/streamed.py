"""Blocks whose ports are never held up, behind streams that are, as benches want them."""

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.hw.splitjoin.almost_full_fifo import AlmostFullFifo
from muntin.hw.splitjoin.combiner import Combiner
from muntin.hw.splitjoin.distributor import Distributor, rows_way
from muntin.hw.splitjoin.join_core import RESULTS_WAY, JoinCore
from muntin.hw.splitjoin.layouts import result_layout, tagged_row
from muntin.hw.splitjoin.rap_merger import MERGER_WAY, RapMerger
from muntin.hw.splitjoin.settings_signature import SettingsSignature


class StreamedDistributor(wiring.Component):
    """The distributor, with a FIFO for each core that is as deep as it must be."""

    def __init__(self, parameters: SplitJoinParameters):
        self.parameters = parameters
        row = stream.Signature(tagged_row(parameters))
        super().__init__({"i": In(row), "o": Out(row).array(parameters.cores), "busy": Out(1)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.tree = tree = Distributor(self.parameters)
        wiring.connect(m, wiring.flipped(self.i), tree.i)
        for core in range(self.parameters.cores):
            rows = AlmostFullFifo(tagged_row(self.parameters), way=rows_way(self.parameters))
            m.submodules[f"rows_{core}"] = rows
            wiring.connect(m, tree.o[core], rows.i)
            wiring.connect(m, rows.o, wiring.flipped(self.o[core]))
            m.d.comb += tree.room[core].eq(rows.room)
        m.d.comb += self.busy.eq(tree.busy)
        return m


class OrderedMerger(wiring.Component):
    """A merger whose inputs are in order or not, also while they offer nothing."""

    def __init__(self, *, inputs: int, way: int, rows: int):
        self._merger = RapMerger(inputs=inputs, way=way, rows=rows)
        result = stream.Signature(result_layout())
        super().__init__(
            {
                "in_order": In(1),
                "end": In(inputs),
                "i": In(result).array(inputs),
                "o": Out(result),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.merger = merger = self._merger
        m.submodules.results = results = AlmostFullFifo(result_layout(), way=MERGER_WAY)
        for outer, inner, room in zip(self.i, merger.i, merger.room, strict=True):
            m.d.comb += [
                inner.pair.eq(outer.valid & room & ~outer.p.star),
                inner.star.eq(outer.valid & room & outer.p.star),
                inner.payload.eq(outer.payload),
                inner.payload.in_order.eq(self.in_order),
                outer.ready.eq(room),
            ]
        m.d.comb += [results.i.payload.eq(merger.o.payload), results.i.valid.eq(merger.o.pair | merger.o.star)]
        wiring.connect(m, results.o, wiring.flipped(self.o))
        m.d.comb += [
            merger.end.eq(self.end),
            merger.o_room.eq(results.room),
            self.busy.eq(merger.busy | (results.o.valid & ~results.o.p.gone)),
        ]
        return m


class StreamedCombiner(wiring.Component):
    """The combiner, behind streams that can be held up."""

    def __init__(self, *, way: int, rows: int):
        self._combiner = Combiner(way=way, rows=rows)
        result = stream.Signature(result_layout())
        super().__init__(
            {
                "apart": In(1),
                "ordered": In(1),
                "i_left": In(result),
                "i_right": In(result),
                "o": Out(stream.Signature(result_layout(tagged=True))),
                "left": Out(result),
                "right": Out(result),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.combiner = combiner = self._combiner
        for outer, inner, room in (
            (self.i_left, combiner.i_left, combiner.left_room),
            (self.i_right, combiner.i_right, combiner.right_room),
        ):
            m.d.comb += [
                inner.payload.eq(outer.payload),
                inner.payload.in_order.eq(0),
                inner.pair.eq(outer.valid & room & ~outer.p.star),
                inner.star.eq(outer.valid & room & outer.p.star),
                outer.ready.eq(room),
            ]
        for name in ("o", "left", "right"):
            wiring.connect(m, getattr(combiner, name), wiring.flipped(getattr(self, name)))
        m.d.comb += [
            combiner.apart.eq(self.apart),
            combiner.ordered.eq(self.ordered),
            self.busy.eq(combiner.busy),
        ]
        return m


class StreamedCore(wiring.Component):
    """A join core, with the FIFOs of its results that are at the merger trees."""

    def __init__(self, parameters: SplitJoinParameters, *, index: int):
        self.parameters = parameters
        self._core = JoinCore(parameters, index=index)
        result = stream.Signature(result_layout())
        super().__init__(
            {
                "settings": In(SettingsSignature(parameters)),
                "clear": In(1),
                "i": In(stream.Signature(tagged_row(parameters))),
                "left": Out(result),
                "right": Out(result),
                "busy": Out(1),
                "overflow": Out(1),
                "compared": Out(range(2 * parameters.lanes + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.core = core = self._core
        m.submodules.left = left = AlmostFullFifo(result_layout(), way=RESULTS_WAY)
        m.submodules.right = right = AlmostFullFifo(result_layout(), way=RESULTS_WAY)
        wiring.connect(m, wiring.flipped(self.settings), core.settings)
        for flow, results in ((core.left, left), (core.right, right)):
            m.d.comb += [results.i.payload.eq(flow.payload), results.i.valid.eq(flow.pair | flow.star)]
        wiring.connect(m, left.o, wiring.flipped(self.left))
        wiring.connect(m, right.o, wiring.flipped(self.right))
        coming = Signal()  # the core's busy is a cycle late
        m.d.sync += coming.eq(core.i.valid)
        m.d.comb += [
            core.clear.eq(self.clear),
            core.i.payload.eq(self.i.payload),
            core.i.valid.eq(self.i.valid & core.room),
            self.i.ready.eq(core.room),
            core.left_room.eq(left.room),
            core.right_room.eq(right.room),
            self.busy.eq(coming | core.busy | left.o.valid | right.o.valid),
            self.overflow.eq(core.overflow),
            self.compared.eq(core.compared),
        ]
        return m
