"""SplitJoin as a whole."""

from collections.abc import Callable

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.splitjoin.combiner import Combiner
from hw.splitjoin.distributor import Distributor
from hw.splitjoin.join_core import JoinCore
from hw.splitjoin.merger_tree import MergerTree
from hw.splitjoin.nested_loop import NestedLoop
from hw.splitjoin.order import Order
from hw.splitjoin.parameters import SplitJoinParameters
from hw.splitjoin.result_layout import result_layout
from hw.splitjoin.settings_signature import SettingsSignature
from hw.splitjoin.tagged_row import tagged_row


class SplitJoin(wiring.Component):
    """Joins two streams over sliding windows that are spread over J cores.

    Rows of both streams come in one stream, in their order of arrival. Each meets the rows of the other
    stream's window that arrived before it. Each matching pair comes out once, at the row that arrived later. In
    outer and inner order all probing rows come out as they arrived, whichever stream they are of.
    Nothing is lost: where results are not taken, everything waits.

    Parameters
    ----------
    parameters : SplitJoinParameters
    sub_window : callable
        Makes the sub-windows, see `Region`.

    Attributes
    ----------
    settings : In(SettingsSignature)
        Changed only while `idle`.
    apart : In(1)
        As of `Combiner`; changed only while `idle`.
    clear : In(1)
        Empties both windows, while `idle`; to be set for one cycle whenever a window's length or kind changes.
    i : In(stream of tagged_row)
    o : Out(stream of result_layout, tagged)
    left, right : Out(stream of result_layout)
        As of `Combiner`.
    idle : Out(1)
        Set while no row and no result is under way.
    overflow : Out(1)
        Set for good, until `clear`, once a time window did not fit: pairs are missing.
    compared : Out(range(2 * cores * lanes + 1))
        Rows compared in a cycle; for counters.

    Timing
    ------
    A row is distributed in a cycle a level, compared with C rows a cycle in each core, and its results are
    merged in a cycle a level: from row to first result ``levels + merger_levels + 10`` cycles at the
    earliest. Rows of one stream alone go at ``J * C / window`` a cycle, rows of both in turn at twice that,
    as both regions compare at once. `idle` and `overflow` are a cycle late, `compared` two.

    Source
    ------
    SplitJoin (Najafi, Sadoghi, Jacobsen, USENIX ATC 2016). Ours: what `Region`, `NestedLoop` and `RapMerger`
    say.
    """

    def __init__(self, parameters: SplitJoinParameters, *, sub_window: Callable[..., wiring.Component] = NestedLoop):
        self.parameters = parameters
        self._sub_window = sub_window
        result = stream.Signature(result_layout())
        super().__init__(
            {
                "settings": In(SettingsSignature(parameters)),
                "apart": In(1),
                "clear": In(1),
                "i": In(stream.Signature(tagged_row(parameters))),
                "o": Out(stream.Signature(result_layout(tagged=True))),
                "left": Out(result),
                "right": Out(result),
                "idle": Out(1),
                "overflow": Out(1),
                "compared": Out(range(2 * parameters.cores * parameters.lanes + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.parameters
        m.submodules.distributor = distributor = Distributor(p)
        m.submodules.left_merger = left = MergerTree(p)
        m.submodules.right_merger = right = MergerTree(p)
        m.submodules.combiner = combiner = Combiner()
        wiring.connect(m, wiring.flipped(self.i), distributor.i)
        in_order = self.settings.order == Order.INNER
        busy = [self.i.valid, distributor.busy, left.busy, right.busy, combiner.busy]
        overflow, compared = [], []
        for index in range(p.cores):
            core = JoinCore(p, index=index, sub_window=self._sub_window)
            m.submodules[f"core_{index}"] = core
            wiring.connect(m, wiring.flipped(self.settings), core.settings)
            wiring.connect(m, distributor.o[index], core.i)
            wiring.connect(m, core.left, left.i[index])
            wiring.connect(m, core.right, right.i[index])
            m.d.comb += core.clear.eq(self.clear)
            busy.append(core.busy)
            overflow.append(core.overflow)
            compared.append(core.compared)
        wiring.connect(m, left.o, combiner.i_left)
        wiring.connect(m, right.o, combiner.i_right)
        for name in ("o", "left", "right"):
            wiring.connect(m, getattr(combiner, name), wiring.flipped(getattr(self, name)))
        m.d.comb += [left.in_order.eq(in_order), right.in_order.eq(in_order), combiner.apart.eq(self.apart)]
        m.d.comb += combiner.ordered.eq(self.settings.order != Order.NONE)
        quiet = Signal()
        m.d.sync += [
            quiet.eq(~Cat(busy).any()),
            self.overflow.eq(Cat(overflow).any()),
            self.compared.eq(sum(compared)),
        ]
        m.d.comb += self.idle.eq(quiet & ~self.i.valid)
        return m
