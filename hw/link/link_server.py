"""Carries out what the host asks for."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.link import DATA_WORDS, HEADER_WORDS, MAGIC, PATIENCE, Request, Status
from muntin.hw.link.signatures import RegisterBusSignature, WordMemorySignature

_PLACES = range(512)
_RESET_CYCLES = 8


class LinkServer(wiring.Component):
    """Carries out the requests that `muntin.contract.link` lists, one at a time, each of them once.

    Parameters
    ----------
    patience : int
        Cycles within which a bus must answer.

    Attributes
    ----------
    valid, words, done, place, word : In(1), In(9), Out(1), Out(9), In(32)
        A request, as `FrameReceiver` has it.
    answer_place, answer_word, answer_write, answer_words, answer_start, answer_busy
        The answer, as `FrameSender` takes it.
    bus : Out(RegisterBusSignature)
    memory : Out(WordMemorySignature)
    interrupt : In(1)
        The kernel's.
    halt : Out(1)
        The kernel's memory accesses must end,
    quiet : In(1)
        and have ended.
    reset : Out(1)
        Of the kernel.

    Timing
    ------
    Five cycles until a request is begun, three a word and what the bus or the memory takes.
    """

    def __init__(self, patience: int = PATIENCE):
        self._patience = patience
        super().__init__(
            {
                "valid": In(1),
                "words": In(_PLACES),
                "done": Out(1),
                "place": Out(_PLACES),
                "word": In(32),
                "answer_place": Out(_PLACES),
                "answer_word": Out(32),
                "answer_write": Out(1),
                "answer_words": Out(_PLACES),
                "answer_start": Out(1),
                "answer_busy": In(1),
                "bus": Out(RegisterBusSignature()),
                "memory": Out(WordMemorySignature()),
                "interrupt": In(1),
                "halt": Out(1),
                "quiet": In(1),
                "reset": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus, memory = self.bus, self.memory
        request, sequence, session = Signal(8), Signal(8), Signal(16)
        address, count = Signal(32), Signal(32)
        opened, answered, last_sequence = Signal(16), Signal(), Signal(8)
        data = Signal(_PLACES)  # data words of the request
        taken, given = Signal(_PLACES), Signal(_PLACES)  # words of the request, data words of the answer
        kept = Signal(_PLACES)  # words of the last answer
        status, stuck = Signal(Status), Signal()
        waited = Signal(range(max(self._patience, _RESET_CYCLES) + 1))
        late = waited == self._patience
        resetting = Signal()
        m.d.comb += [
            self.place.eq(taken),
            self.answer_words.eq(kept),
            bus.address.eq(address),
            bus.value.eq(self.word),
            memory.address.eq(address),
            memory.value.eq(self.word),
            self.reset.eq(resetting),
        ]

        def give(value) -> None:
            """Adds a data word to the answer."""
            m.d.comb += [self.answer_place.eq(given + 1), self.answer_word.eq(value), self.answer_write.eq(1)]
            m.d.sync += given.eq(given + 1)

        def fail(code: Status) -> None:
            m.d.sync += status.eq(code)
            m.next = "FAILED"

        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [taken.eq(0), given.eq(0), status.eq(Status.OK)]
                with m.If(self.valid & ~self.answer_busy):
                    m.d.sync += taken.eq(1)
                    m.next = "FIRST"
            with m.State("FIRST"):
                m.d.sync += [Cat(request, sequence, session).eq(self.word), taken.eq(2)]
                m.next = "SECOND"
            with m.State("SECOND"):
                m.d.sync += [address.eq(self.word), taken.eq(3), data.eq(self.words - HEADER_WORDS)]
                m.next = "THIRD"
            with m.State("THIRD"):
                m.d.sync += count.eq(self.word)
                m.d.comb += memory.fresh.eq(1)
                m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.sync += waited.eq(0)
                with m.If(request == Request.OPEN):
                    m.d.sync += opened.eq(session)
                    m.next = "OPEN"
                with m.Elif(session != opened):
                    fail(Status.SESSION)
                with m.Elif(answered & (sequence == last_sequence)):
                    m.next = "SEND"
                with m.Else():
                    with m.Switch(request):
                        with m.Case(Request.READ):
                            m.next = "READ"
                        with m.Case(Request.WRITE):
                            m.next = "ADDRESS"
                        with m.Case(Request.PUSH):
                            m.next = "PUSH"
                        with m.Case(Request.READ_MEMORY):
                            m.next = "READ_MEMORY"
                            with m.If((count > DATA_WORDS) | (data != 0)):
                                fail(Status.UNKNOWN)
                        with m.Case(Request.WRITE_MEMORY):
                            m.next = "WRITE_MEMORY"
                        with m.Case(Request.WAIT):
                            m.next = "WAIT"
                        with m.Case(Request.RESET):
                            m.next = "RESET"
                        with m.Default():
                            fail(Status.UNKNOWN)
                    with m.If((request == Request.WRITE) & data[0]):
                        fail(Status.UNKNOWN)
                    with m.If(stuck & (request != Request.WAIT)):
                        fail(Status.SILENT)

            # What each asks for. `taken` is the next data word, whose value is there a cycle later.
            with m.State("OPEN"):
                give(MAGIC)
                m.next = "ANSWER"
            with m.State("READ"):
                m.d.sync += [address.eq(self.word), waited.eq(0)]
                m.next = "READING"
                with m.If(taken == self.words):
                    m.next = "ANSWER"
            with m.State("READING"):
                m.d.comb += bus.valid.eq(~late)
                m.d.sync += waited.eq(waited + 1)
                with m.If(bus.done):
                    with m.If(bus.error):
                        fail(Status.BUS)
                    with m.Else():
                        give(bus.read)
                        m.d.sync += taken.eq(taken + 1)
                        m.next = "NEXT_READ"
                with m.Elif(late):
                    fail(Status.SILENT)
            with m.State("NEXT_READ"):
                m.next = "READ"
            with m.State("ADDRESS"):
                m.d.sync += [address.eq(self.word), taken.eq(taken + 1)]
                m.next = "VALUE"
                with m.If(taken == self.words):
                    m.d.sync += taken.eq(taken)
                    m.next = "ANSWER"
            with m.State("VALUE"):
                m.d.sync += waited.eq(0)
                m.next = "WRITING"
            with m.State("PUSH"):
                m.d.sync += waited.eq(0)
                m.next = "WRITING"
                with m.If(taken == self.words):
                    m.next = "ANSWER"
            with m.State("WRITING"):
                m.d.comb += [bus.valid.eq(~late), bus.write.eq(1)]
                m.d.sync += waited.eq(waited + 1)
                with m.If(bus.done):
                    m.d.sync += taken.eq(taken + 1)
                    with m.If(bus.error):
                        m.d.sync += taken.eq(taken)
                        fail(Status.BUS)
                    with m.Elif(request == Request.PUSH):
                        m.next = "NEXT_PUSH"
                    with m.Else():
                        m.next = "NEXT_ADDRESS"
                with m.Elif(late):
                    fail(Status.SILENT)
            with m.State("NEXT_PUSH"):
                m.next = "PUSH"
            with m.State("NEXT_ADDRESS"):
                m.next = "ADDRESS"
            with m.State("READ_MEMORY"):
                m.d.comb += memory.valid.eq((given != count) & ~late)
                m.d.sync += waited.eq(waited + 1)
                with m.If(given == count):
                    m.next = "ANSWER"
                with m.Elif(memory.done):
                    with m.If(memory.error):
                        fail(Status.BUS)
                    with m.Else():
                        give(memory.read)
                        m.d.sync += address.eq(address + 1)
                        m.next = "NEXT_READ_MEMORY"
                with m.Elif(late):
                    fail(Status.SILENT)
            with m.State("NEXT_READ_MEMORY"):
                m.d.sync += waited.eq(0)
                m.next = "READ_MEMORY"
            with m.State("WRITE_MEMORY"):
                m.d.sync += waited.eq(0)
                m.next = "WRITING_MEMORY"
                with m.If(taken == self.words):
                    m.next = "ANSWER"
            with m.State("WRITING_MEMORY"):
                m.d.comb += [
                    memory.valid.eq(~late),
                    memory.write.eq(1),
                    memory.last.eq(taken + 1 == self.words),
                ]
                m.d.sync += waited.eq(waited + 1)
                with m.If(memory.done):
                    with m.If(memory.error):
                        fail(Status.BUS)
                    with m.Else():
                        m.d.sync += [taken.eq(taken + 1), address.eq(address + 1)]
                        m.next = "NEXT_WRITE_MEMORY"
                with m.Elif(late):
                    fail(Status.SILENT)
            with m.State("NEXT_WRITE_MEMORY"):
                m.next = "WRITE_MEMORY"
            with m.State("WAIT"):
                m.d.sync += count.eq(count - 1)
                with m.If(self.interrupt | (count == 0)):
                    give(self.interrupt)
                    m.next = "ANSWER"
            with m.State("RESET"):
                m.d.comb += self.halt.eq(1)
                m.d.sync += waited.eq(waited + 1)
                with m.If(self.quiet):
                    m.d.sync += waited.eq(0)
                    m.next = "RESETTING"
                with m.Elif(late):
                    fail(Status.SILENT)
            with m.State("RESETTING"):
                m.d.comb += [self.halt.eq(1), resetting.eq(1)]
                m.d.sync += waited.eq(waited + 1)
                with m.If(waited == _RESET_CYCLES):
                    m.next = "ANSWER"

            # The answer.
            with m.State("FAILED"):
                # Where the request read, each data word gave one; where it wrote, it took one.
                begun = (status != Status.SESSION) & (status != Status.UNKNOWN)
                progress = Mux(
                    (request == Request.READ) | (request == Request.READ_MEMORY), given, taken - HEADER_WORDS
                )
                m.d.comb += [
                    self.answer_place.eq(1),
                    self.answer_word.eq(Mux(begun, progress, 0)),
                    self.answer_write.eq(1),
                ]
                m.d.sync += given.eq(1)
                with m.If(status == Status.SILENT):
                    m.d.sync += stuck.eq(1)
                m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += [
                    self.answer_place.eq(0),
                    self.answer_word.eq(Cat(status, Const(0, 8 - len(status)), sequence, session)),
                    self.answer_write.eq(1),
                ]
                m.d.sync += [answered.eq(status != Status.SESSION), last_sequence.eq(sequence), kept.eq(given + 1)]
                m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += [self.answer_start.eq(1), self.done.eq(1)]
                m.next = "SENDING"
            with m.State("SENDING"), m.If(~self.answer_busy):  # until then the words of the answer are stable
                m.next = "IDLE"
        return m
