"""The commands that wait."""

from amaranth.hdl import Cat, Module, ResetInserter, Signal
from amaranth.lib import fifo, stream, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.registers import COMMAND_WORDS
from muntin.hw.control.layouts import CommandLayout


class CommandQueue(wiring.Component):
    """Puts the words that the host pushes together to commands, and keeps them until they are taken.

    Parameters
    ----------
    rows : int
        Commands that may wait.

    Attributes
    ----------
    pushed : In(1)
        `word` is the next word of a command.
    word : In(32)
    clear : In(1)
        Forget everything, a command that is pushed in part too.
    o : Out(stream of CommandLayout)
    waiting, free : Out(range(rows + 1))
        Commands that wait, and those there is room for. A command that is pushed in part takes room.
    partial : Out(1)
        Some words of a command are here, not all.
    overflow : Out(1)
        The first word of a command came while there was no room; its words are dropped. High for one cycle.

    Timing
    ------
    A word a cycle in; a command every ``COMMAND_WORDS`` cycles out.
    """

    def __init__(self, rows: int):
        self._rows = rows
        super().__init__(
            {
                "pushed": In(1),
                "word": In(32),
                "clear": In(1),
                "o": Out(stream.Signature(CommandLayout())),
                "waiting": Out(range(rows + 1)),
                "free": Out(range(rows + 1)),
                "partial": Out(1),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words = fifo.SyncFIFOBuffered(width=32, depth=self._rows * COMMAND_WORDS)
        m.submodules.words = ResetInserter(self.clear)(words)
        taken = Signal(range(self._rows + 1))  # commands in the queue, the partial one included
        came = Signal(range(COMMAND_WORDS))
        left = Signal(range(COMMAND_WORDS + 1))
        dropping = Signal()
        first, final = Signal(), Signal()
        starts, leaves = Signal(), Signal()
        m.d.comb += [
            first.eq(came == 0),
            final.eq(came == COMMAND_WORDS - 1),
            starts.eq(self.pushed & first & (taken != self._rows)),
            leaves.eq(self.o.valid & self.o.ready),
            self.overflow.eq(self.pushed & first & (taken == self._rows)),
            words.w_data.eq(self.word),
            words.w_en.eq(self.pushed & ~self.overflow & (first | ~dropping)),
            self.partial.eq(came != 0),
            self.waiting.eq(taken - (self.partial & ~dropping)),
            self.free.eq(self._rows - taken),
        ]
        with m.If(self.pushed):
            m.d.sync += came.eq(came + 1)
            with m.If(first):
                m.d.sync += dropping.eq(self.overflow)
            with m.If(final):
                m.d.sync += came.eq(0)
        m.d.sync += taken.eq(taken + starts - leaves)

        # The words of a command move up as they come out.
        command = Signal(32 * COMMAND_WORDS)
        m.d.comb += [
            self.o.payload.eq(command),
            self.o.valid.eq(left == COMMAND_WORDS),
            words.r_en.eq(~self.o.valid),
        ]
        with m.If(words.r_en & words.r_rdy):
            m.d.sync += [command.eq(Cat(command[32:], words.r_data)), left.eq(left + 1)]
        with m.If(leaves):
            m.d.sync += left.eq(0)
        with m.If(self.clear):
            m.d.sync += [taken.eq(0), came.eq(0), left.eq(0), dropping.eq(0)]
        return m
