"""Words of memory through an AXI4 port."""

from amaranth.hdl import Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from muntin.hw.link.signatures import WordMemorySignature
from muntin.hw.memory.axi4_signature import Axi4Signature

_INCREMENT = 1


class WordMemory(wiring.Component):
    """Words of memory through an AXI4 port of a beat or more.

    Words that follow each other are written together where they lie in one beat, and read with one read of it.

    Parameters
    ----------
    address_width, data_width, id_width : int
        Of the AXI4 port; a beat has at least a word.

    Attributes
    ----------
    words : In(WordMemorySignature)
        A word behind the port's address space is an error. A write is done, with the words before it in its beat, once
        the memory has acknowledged it, if it is the last of its beat or of all; else at once.
    axi : Out(Axi4Signature)
        Bursts of one beat, one at a time.

    Timing
    ------
    One cycle for a word that goes to a beat that others follow in, or that lies in the beat read before; for others
    two and what the memory takes.
    """

    def __init__(self, address_width: int, data_width: int, id_width: int = 1):
        self._data_width = data_width
        super().__init__(
            {
                "words": In(WordMemorySignature()),
                "axi": Out(Axi4Signature(address_width, data_width, id_width)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        words, axi = self.words, self.axi
        count = self._data_width // 32
        low = exact_log2(count)
        place = words.address[:low] if low else Const(0, 1)
        beat_address = words.address >> low
        size = exact_log2(self._data_width // 8)

        held, held_address = Signal(), Signal(32)
        beat = Signal(self._data_width)
        strobes = Signal(self._data_width // 8)
        outside = (words.address >> (len(axi.araddr) - 2)) != 0
        address_sent, data_sent = Signal(), Signal()
        for channel in ("ar", "aw"):
            m.d.comb += [
                getattr(axi, f"{channel}addr").eq(beat_address << size),
                getattr(axi, f"{channel}size").eq(size),
                getattr(axi, f"{channel}burst").eq(_INCREMENT),
            ]
        m.d.comb += [
            axi.wdata.eq(beat),
            axi.wstrb.eq(strobes),
            axi.wlast.eq(1),
            words.read.eq(beat.word_select(place, 32)),
        ]

        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [address_sent.eq(0), data_sent.eq(0)]
                with m.If(words.fresh):
                    m.d.sync += [held.eq(0), strobes.eq(0)]
                with m.Elif(words.valid & outside):
                    m.d.comb += [words.done.eq(1), words.error.eq(1)]
                    m.next = "DONE"
                with m.Elif(words.valid & words.write):
                    m.d.sync += [
                        held.eq(0),
                        beat.word_select(place, 32).eq(words.value),
                        strobes.word_select(place, 4).eq(-1),
                    ]
                    with m.If(words.last | (place == count - 1)):
                        m.next = "WRITE"
                    with m.Else():
                        m.d.comb += words.done.eq(1)
                        m.next = "DONE"
                with m.Elif(words.valid):
                    with m.If(held & (held_address == beat_address)):
                        m.d.comb += words.done.eq(1)
                        m.next = "DONE"
                    with m.Else():
                        m.next = "READ"
            with m.State("WRITE"):
                m.d.comb += [axi.awvalid.eq(~address_sent), axi.wvalid.eq(~data_sent), axi.bready.eq(1)]
                with m.If(axi.awready):
                    m.d.sync += address_sent.eq(1)
                with m.If(axi.wready):
                    m.d.sync += data_sent.eq(1)
                with m.If(axi.bvalid):
                    m.d.comb += [words.done.eq(1), words.error.eq(axi.bresp != 0)]
                    m.d.sync += strobes.eq(0)
                    m.next = "DONE"
            with m.State("READ"):
                m.d.comb += [axi.arvalid.eq(~address_sent), axi.rready.eq(1)]
                with m.If(axi.arready):
                    m.d.sync += address_sent.eq(1)
                with m.If(axi.rvalid):
                    m.d.sync += [beat.eq(axi.rdata), held.eq(1), held_address.eq(beat_address)]
                    with m.If(axi.rresp != 0):
                        m.d.sync += held.eq(0)
                        m.d.comb += [words.done.eq(1), words.error.eq(1)]
                        m.next = "DONE"
                    with m.Else():
                        m.next = "IDLE"  # where it is found
            with m.State("DONE"):  # who asks takes its request back
                m.next = "IDLE"
        return m
