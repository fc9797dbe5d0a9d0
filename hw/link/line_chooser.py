"""Lets requests of two lines be carried out one at a time."""

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

_WORDS = range(512)


class LineChooser(wiring.Component):
    """Lets requests of two lines be carried out one at a time, and says which line the answer goes to.

    Of two that wait, the one of line 0 goes first; that line must be so slow that its next one does not wait yet when
    the answer has been sent.

    Attributes
    ----------
    valid, words, done, address, data : Out(1), Out(9), In(1), In(9), Out(32)
        The request, as `FrameReceiver` has it.
    line_valid, line_words, line_done, line_address, line_data : arrays of In(1), In(9), Out(1), Out(9), In(32)
        The same of the receiver of each line; shape (2,).
    answer_busy : In(1)
        The answer is being sent; from the cycle after `done`.
    line : Out(1)
        The line whose request is carried out, until the last byte of its answer has been taken.
    Timing
    ------
    A request is there a cycle later than in the receiver.
    """

    def __init__(self):
        super().__init__(
            {
                "valid": Out(1),
                "words": Out(_WORDS),
                "done": In(1),
                "address": In(_WORDS),
                "data": Out(32),
                "line_valid": In(1).array(2),
                "line_words": In(_WORDS).array(2),
                "line_done": Out(1).array(2),
                "line_address": Out(_WORDS).array(2),
                "line_data": In(32).array(2),
                "answer_busy": In(1),
                "line": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        with m.FSM():
            with m.State("CHOOSE"):
                m.d.sync += self.line.eq(~self.line_valid[0])
                with m.If(self.line_valid[0] | self.line_valid[1]):
                    m.next = "REQUEST"
            with m.State("REQUEST"):
                m.d.comb += self.valid.eq(1)
                with m.If(self.done):
                    m.next = "ANSWER"
            with m.State("ANSWER"), m.If(~self.answer_busy):  # the line's next request waits for its turn
                m.next = "CHOOSE"
        m.d.comb += [
            self.words.eq(Mux(self.line, self.line_words[1], self.line_words[0])),
            self.data.eq(Mux(self.line, self.line_data[1], self.line_data[0])),
        ]
        for number in range(2):
            m.d.comb += [
                self.line_address[number].eq(self.address),
                self.line_done[number].eq(self.done & (self.line == number)),
            ]
        return m
