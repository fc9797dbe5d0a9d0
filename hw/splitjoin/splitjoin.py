"""SplitJoin as a whole."""

from collections.abc import Callable

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.splitjoin import Order, SplitJoinParameters
from muntin.hw.splitjoin.combiner import Combiner
from muntin.hw.splitjoin.core_watch import CORE_BITS, CoreWatch
from muntin.hw.splitjoin.distributor import Distributor
from muntin.hw.splitjoin.join_core import RESULTS_WAY, JoinCore
from muntin.hw.splitjoin.layouts import result_layout, tagged_row
from muntin.hw.splitjoin.merger_tree import MergerTree
from muntin.hw.splitjoin.nested_loop import NestedLoop
from muntin.hw.splitjoin.settings_signature import SettingsSignature

_WAY = RESULTS_WAY + 2
"""With a register each way between cores and trees."""


class SplitJoin(wiring.Component):
    """Joins two streams over sliding windows that are spread over J cores.

    Rows of both streams come in one stream, in their order of arrival. Each meets the rows of the other
    stream's window that arrived before it. Each matching pair comes out once, at the row that arrived later. In
    outer and inner order all probing rows come out as they arrived, whichever stream they come from; in outer order
    with groups of rows, groups do.
    Nothing is lost: where results are not taken, everything waits.

    A core that stops answering does not stop the others: it is passed by, and what it had stored is missing from
    all that comes out later.

    Parameters
    ----------
    parameters : SplitJoinParameters
    sub_window : callable
        Makes the sub-windows, see `Region`.
    faults : bool
        True to build `fault`, for simulation.

    Attributes
    ----------
    settings : In(SettingsSignature)
        Changed only while `idle`, and two cycles before the next row.
    apart : In(1)
        As of `Combiner`; changed only while `idle`.
    clear : In(1)
        Empties both windows, while `idle` and two cycles before the next row; to be set for one cycle whenever a
        window's length or kind changes. No group of outer order may go on then, nor when the order changes.
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
    core_timeout : In(32)
        Cycles in which a core that has something to do, and is not held up by what stands behind it, may stand still:
        no row taken, no result given, nothing compared. 0 for any number. A probe in inner order over a time window
        may compare nothing for ``rows / lanes`` cycles, and `probe_rows` rows that match nothing pass without a word,
        so it should be above both by 64.
    dead : Out(cores)
        Cores that stood still for longer, as of `CoreWatch`.
    first_dead : Out(CORE_BITS)
    fault : In(cores)
        While 1, the core is frozen: it neither takes nor gives anything. There with `faults` only.

    Timing
    ------
    A row is distributed in a cycle a level, compared with C rows a cycle in each core, and its results are
    merged in a cycle a level: from row to first result ``levels + merger_levels + 15`` cycles at the
    earliest. Rows of one stream alone go at ``J * C / window`` a cycle, rows of both in turn at twice that,
    as both regions compare at once. `overflow` is two cycles late, and ``levels + 4`` after `clear`, which goes the
    rows' way; `idle` is four late, `compared` three and ``ceil(log4(J))``. A core that stands still is passed by
    after twice `core_timeout` cycles and three at most.

    Source
    ------
    SplitJoin (Najafi, Sadoghi, Jacobsen, USENIX ATC 2016). Ours: what `Region`, `NestedLoop` and `RapMerger`
    say.
    """

    def __init__(
        self,
        parameters: SplitJoinParameters,
        *,
        sub_window: Callable[..., wiring.Component] = NestedLoop,
        faults: bool = False,
    ):
        self.parameters = parameters
        self._sub_window = sub_window
        self._faults = faults
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
                "core_timeout": In(32),
                "dead": Out(parameters.cores),
                "first_dead": Out(CORE_BITS),
            }
            | ({"fault": In(parameters.cores)} if faults else {})
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.parameters
        m.submodules.distributor = distributor = Distributor(p)
        m.submodules.left_merger = left = MergerTree(p, way=_WAY)
        m.submodules.right_merger = right = MergerTree(p, way=_WAY)
        m.submodules.combiner = combiner = Combiner(way=left.o_way, rows=p.result_rows)
        m.submodules.watch = watch = CoreWatch(p.cores)
        wiring.connect(m, wiring.flipped(self.i), distributor.i)
        wiring.connect(m, wiring.flipped(self.settings), distributor.settings)
        ordered = Signal()
        m.d.sync += ordered.eq(self.settings.order != Order.NONE)
        came, around, elsewhere = Signal(3), Signal(), Signal()
        near = Signal(2)  # the merger trees are a cycle late themselves
        busy = [elsewhere]  # all three cycles late: from one to the next, no row is missed
        overflow: list[Value] = []
        compared: list[Value] = []
        for index in range(p.cores):
            core = JoinCore(p, index=index, sub_window=self._sub_window, faults=self._faults)
            m.submodules[f"core_{index}"] = core
            wiring.connect(m, distributor.o_settings[index], core.settings)
            wiring.connect(m, distributor.o[index], core.i)
            dead = watch.dead[index]
            m.d.comb += [
                core.clear.eq(distributor.o_clear[index]),
                # What a dead core is sent is lost; what it offers is not looked at.
                distributor.room[index].eq(core.room | dead),
                watch.stirs[index].eq(core.stirs),
            ]
            if self._faults:
                m.d.comb += core.fault.eq(self.fault[index])
            for name, tree, port, room in (
                ("left", left, core.left, core.left_room),
                ("right", right, core.right, core.right_room),
            ):
                # Registers that may stand anywhere on the way.
                result = Signal(result_layout(), name=f"{name}_result_{index}", reset_less=True)
                some = Signal(2, name=f"{name}_some_{index}")
                m.d.sync += [result.eq(port.payload), some.eq(Cat(port.pair, port.star)), room.eq(tree.room[index])]
                m.d.comb += [
                    tree.i[index].payload.eq(result),
                    Cat(tree.i[index].pair, tree.i[index].star).eq(some),
                    tree.end[index].eq(dead),
                ]
            stood = Signal(3, name=f"busy_{index}")
            m.d.sync += stood.eq(Cat(core.busy & ~dead, stood))
            busy.append(stood[1:].any())  # with the registers behind the core
            overflow.append(core.overflow)
            counted = Signal(core.compared.shape(), name=f"compared_{index}")
            m.d.sync += counted.eq(Mux(dead, 0, core.compared))
            compared.append(counted)
        wiring.connect(m, left.o, combiner.i_left)
        wiring.connect(m, right.o, combiner.i_right)
        m.d.comb += [
            distributor.clear.eq(self.clear),
            left.o_room.eq(combiner.left_room),
            right.o_room.eq(combiner.right_room),
            combiner.left_end.eq(left.o_end),
            combiner.right_end.eq(right.o_end),
        ]
        for name in ("o", "left", "right"):
            wiring.connect(m, getattr(combiner, name), wiring.flipped(getattr(self, name)))
        m.d.comb += [combiner.apart.eq(self.apart), combiner.ordered.eq(ordered)]
        quiet = Signal()
        m.d.sync += [
            came.eq(Cat(self.i.valid, came)),
            near.eq(Cat(distributor.busy, combiner.busy)),
            around.eq(Cat(near, left.busy, right.busy).any()),
            elsewhere.eq(came[1] | around),
            quiet.eq(~Cat(busy).any()),
            self.overflow.eq(Cat(overflow).any()),
        ]
        while len(compared) > 1:  # a register for each level of the sum; all are in before `idle` is
            sums = []
            for at in range(0, len(compared), 4):
                part = sum(compared[at : at + 4])
                sums.append(Signal(part.shape(), name=f"compared_{len(compared)}_{at}"))
                m.d.sync += sums[-1].eq(part)
            compared = sums
        m.d.comb += [
            self.compared.eq(compared[0]),
            self.idle.eq(quiet & ~self.i.valid & ~came.any()),
            watch.timeout.eq(self.core_timeout),
            self.dead.eq(watch.dead),
            self.first_dead.eq(watch.first),
        ]
        return m
