"""A sub-window that is kept sorted: a small BI-Sort engine with its main array on chip."""

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, memory, wiring

from muntin.contract import ParameterError
from muntin.contract.designs.bisort import ROW_BITS
from muntin.contract.designs.splitjoin import Order, SplitJoinParameters
from muntin.hw.bisort.insertion_buffer import InsertionBuffer
from muntin.hw.bisort.layouts import row_layout
from muntin.hw.bisort.merger import Merger
from muntin.hw.memory.quick_fifo import QuickFifo
from muntin.hw.splitjoin.band import BandSums, ClosedRange
from muntin.hw.splitjoin.layouts import Side, result_layout, result_of
from muntin.hw.splitjoin.nested_loop import NO_COLLISION
from muntin.hw.splitjoin.sub_window import SubWindowSignature, command_layout


class BisortWindow(wiring.Component):
    """Keeps its rows sorted by key, so that a probe reads what it matches and little else.

    Rows go into an insertion buffer. When that is full, it is merged with the main array into a second one, which
    then takes the first one's place; rows that left the window are dropped on the way. A probe finds by binary search
    where its range begins in the main array, and by comparison where in the buffer, and reads both from there to the
    range's end. What it reads counts where its place lies in the window. Key and place are what is sorted; a row's
    number is looked up by its place.

    Parameters
    ----------
    parameters : SplitJoinParameters
        Without time windows, and of one column.
    side : Side
        The stream whose rows are stored.
    buffer_rows : int
        B, the rows of the insertion buffer; at most `rows`.

    Attributes
    ----------
    As of `SubWindowSignature`, but a probe's pairs come out by key, those of the main array before those of the
    buffer. So there is no inner order: it gives the punctuation of outer order.

    Raises
    ------
    ParameterError
        If `parameters` has time windows or two columns, or `buffer_rows` does not fit.

    Timing
    ------
    One command after the other. A row that is stored takes four cycles, and each B-th one as many more as there are
    rows in the main array, and 20 at most. A probe takes ``3 * (log2(rows) + 1) + 14`` cycles at most, and one for each
    row in its range, in the window or not; with the complement of a range, no search and one for each row that is held.
    A pair a cycle. A merge compares nothing, so a core's time-out must be above `rows` by 64.

    Source
    ------
    SplitJoin, section 3 (join cores may hold their sub-windows in any way); PanJoin, section III-D (BI-Sort). Ours: the
    filter by places, which lets rows expire one by one.
    """

    def __init__(self, parameters: SplitJoinParameters, *, side: Side, buffer_rows: int):
        if parameters.time_bits:
            raise ParameterError(
                f"a BisortWindow has no time windows: time_bits must be 0, not {parameters.time_bits!r}"
            )
        if parameters.columns != 1:
            raise ParameterError(f"a BisortWindow has one column: columns must be 1, not {parameters.columns!r}")
        if type(buffer_rows) is not int or not 1 <= buffer_rows <= parameters.rows:
            raise ParameterError(f"buffer_rows must lie in 1..{parameters.rows}, not {buffer_rows!r}")
        self.parameters = parameters
        self.side = side
        self.buffer_rows = buffer_rows
        super().__init__(SubWindowSignature(parameters))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p, settings = self.parameters, self.settings
        rows, place_bits = p.rows, p.place_bits
        address_bits = (rows - 1).bit_length()
        command = command_layout(p)
        entry = data.StructLayout({"key": p.key_bits, "place": place_bits, "null": 1})

        m.submodules.queue = queue = QuickFifo(width=command.size, depth=p.probe_rows)
        m.submodules.results = results = QuickFifo(width=result_layout().size, depth=p.result_rows)
        m.submodules.buffer = ResetInserter(self.clear)(
            buffer := InsertionBuffer(key_bits=p.key_bits, width=1, rows=self.buffer_rows)
        )
        m.submodules.merger = merger = Merger(key_bits=p.key_bits, width=1)
        wiring.connect(m, buffer.sorted, merger.newer)
        head = data.View(command, queue.r_data)
        m.d.comb += [
            queue.w_data.eq(self.i.payload),
            queue.w_en.eq(self.i.valid),
            self.i.ready.eq(queue.w_rdy | ~self.i.valid),
        ]

        # Two arrays: one is read, the other one is written by a merge. Each row's number is kept by its place.
        second = Signal()  # the main array is the second one
        count = Signal(range(rows + 1))
        read_at, merged = Signal(address_bits), Signal(range(rows + 1))
        go = Signal(init=1)  # what is read moves on
        write = Signal()
        found = []
        for number in range(2):
            array = memory.Memory(shape=entry.size, depth=rows, init=[], attrs=NO_COLLISION)
            m.submodules[f"array_{number}"] = array
            writer, reader = array.write_port(), array.read_port()
            m.d.comb += [
                writer.addr.eq(merged),
                writer.en.eq(write & (second != number)),
                reader.addr.eq(read_at),
                reader.en.eq(go),
            ]
            out = merger.o.p.rows[0]
            m.d.comb += writer.data.eq(Cat(out.key, out.row[: place_bits + 1]))
            found.append(reader.data)
        read = data.View(entry, Mux(second, found[1], found[0]))
        m.submodules.numbers = numbers = memory.Memory(shape=ROW_BITS, depth=rows, init=[], attrs=NO_COLLISION)
        number_writer, number_reader = numbers.write_port(), numbers.read_port()

        now = Signal(command)
        sums, wanted = BandSums(p.key_bits, "key"), ClosedRange(p.key_bits, "wanted")
        window = Signal(place_bits)  # places in the window
        at = Signal(range(rows + 1))  # in the main array: what is read next
        step = Signal(range(rows + 1))
        middle = Signal(range(2 * rows))
        phase = Signal(3, init=1)
        seen_key = Signal(p.key_bits)
        below = Signal()
        buffer_at = Signal(range(self.buffer_rows + 1))
        asked = Signal()
        buffered = Signal(range(self.buffer_rows + 1))  # rows given to the buffer since it was handed over
        ended = Signal()  # the range ends before what was read

        # What was read goes through: the memory's own register, `item`, what is known of it, and the result.
        one, two, three, out = Signal(), Signal(), Signal(), Signal()
        item = Signal(entry)
        offset = Signal(place_bits)
        at_least, at_most, null = Signal(), Signal(), Signal()
        from_main, from_buffer = Signal(), Signal()
        reading = Signal()
        number_read = Signal(ROW_BITS)
        final = Signal()
        m.d.comb += number_reader.addr.eq(item.place)
        m.d.comb += number_reader.en.eq(go)
        m.d.sync += self.compared.eq(go & two)
        with m.If(go):
            m.d.sync += [
                one.eq(reading),
                two.eq((one & from_main) | (buffer.row.valid & from_buffer)),
                item.eq(read),
                three.eq(two),
                at_least.eq(~(item.key < wanted.lower)),
                at_most.eq(~(wanted.upper < item.key)),
                offset.eq(item.place - now.first),
                null.eq(item.null),
                out.eq(three & ~null & ((at_least & at_most) ^ settings.complement) & (offset < window)),
                number_read.eq(number_reader.data),
            ]
            with m.If(from_buffer):
                m.d.sync += [item.key.eq(buffer.row.p.key), Cat(item.place, item.null).eq(buffer.row.p.row)]
            with m.If(three & ~at_most & ~settings.complement):
                m.d.sync += ended.eq(1)
        m.d.comb += [
            results.w_en.eq(out | final),
            results.w_data.eq(result_of(star=final, last=final, probe=now.row, row=number_read, before=now.before)),
            self.o.valid.eq(results.r_rdy),
            self.o.payload.eq(results.r_data),
            results.r_en.eq(self.o.ready),
            buffer.probe.p.below.eq(wanted.lower),
            buffer.read.payload.eq(buffer_at),
            buffer.position.ready.eq(1),
            buffer.i.p.row.key.eq(now.key),
            buffer.i.p.row.row.eq(Cat(now.stop, now.null)),
            buffer.i.p.keep.eq(1),
            number_writer.addr.eq(now.stop),
            number_writer.data.eq(now.row),
        ]

        with m.FSM() as machine:
            with m.State("idle"):
                m.d.sync += [now.eq(head), *sums.make(head.key, settings.low, settings.high, self.side)]
                if p.bounds:
                    with m.If(settings.own_bounds):
                        m.d.sync += sums.take(head.lower, head.upper)
                with m.If(queue.r_rdy):
                    m.d.comb += queue.r_en.eq(1)
                    m.next = "decode"
            with m.State("decode"):
                m.d.sync += [
                    *wanted.clamp(sums),
                    window.eq(now.stop - now.first),
                    at.eq(0),
                    step.eq(rows),
                    phase.eq(1),
                    buffer_at.eq(0),
                    asked.eq(0),
                    ended.eq(0),
                ]
                with m.If(~now.probing):
                    m.next = "store"
                with m.Elif(now.null):
                    m.next = "finish"
                with m.Elif(settings.complement):
                    m.next = "scan"
                with m.Else():
                    m.next = "search"
            with m.State("store"):
                m.d.comb += [buffer.i.valid.eq(1), number_writer.en.eq(1)]
                with m.If(buffer.i.ready):
                    m.d.sync += buffered.eq(buffered + 1)
                    m.next = "idle"
                    with m.If(buffered == self.buffer_rows - 1):
                        m.d.sync += buffered.eq(0)
                        m.next = "merge"
            self._merge(m, merger, now, read, entry, second, count, read_at, merged, at, go, write)
            with m.State("search"):
                # All that lies below `at` is below the range; `step` is how much more may be.
                m.d.comb += [
                    middle.eq(at | step),
                    read_at.eq(middle - 1),
                    below.eq((middle <= count) & (seen_key < wanted.lower)),
                    buffer.probe.valid.eq(~asked),
                ]
                m.d.sync += [phase.eq(Cat(phase[-1], phase[:-1])), seen_key.eq(read.key)]
                with m.If(phase[-1]):
                    m.d.sync += step.eq(step >> 1)
                    with m.If(below):
                        m.d.sync += at.eq(middle)
                    with m.If(step[0]):
                        m.next = "scan"
                with m.If(buffer.probe.ready):
                    m.d.sync += asked.eq(1)
                with m.If(buffer.position.valid):
                    m.d.sync += buffer_at.eq(buffer.position.p.position)
            with m.State("scan"):
                m.d.comb += [
                    from_main.eq(1),
                    go.eq(~out | results.w_rdy),
                    reading.eq((at < count) & ~ended),
                    read_at.eq(at),
                ]
                with m.If(go & reading):
                    m.d.sync += at.eq(at + 1)
                with m.If(~(reading | one | two | three)):
                    m.d.sync += ended.eq(0)
                    m.next = "scan_buffer"
            with m.State("scan_buffer"):
                m.d.comb += [
                    from_buffer.eq(1),
                    go.eq(~out | results.w_rdy),
                    reading.eq((buffer_at < buffer.count) & ~ended),
                    buffer.read.valid.eq(reading),
                    buffer.row.ready.eq(go),
                ]
                with m.If(buffer.read.valid & buffer.read.ready):
                    m.d.sync += buffer_at.eq(buffer_at + 1)
                with m.If(~(reading | buffer.row.valid | two | three)):
                    m.next = "finish"
            with m.State("finish"):
                m.d.comb += [
                    final.eq(~out & ~now.more & (settings.order != Order.NONE)),
                    go.eq(~(out | final) | results.w_rdy),
                ]
                with m.If(~out & (~final | results.w_rdy)):
                    m.next = "idle"
        with m.If(self.clear):
            m.d.sync += [count.eq(0), buffered.eq(0)]
        m.d.comb += self.busy.eq(self.i.valid | queue.r_rdy | ~machine.ongoing("idle") | results.r_rdy)
        return m

    def _merge(self, m, merger, now, read, entry, second, count, read_at, merged, at, go, write) -> None:
        """The state in which the main array and the buffer become the new main array."""
        p = self.parameters
        given = Signal()  # the last row was read
        one, two, one_last, two_last = Signal(), Signal(), Signal(), Signal()
        kept = Signal(entry)
        dropped = Signal()
        place = Signal(p.place_bits)
        row = Signal(row_layout(p.key_bits))
        m.d.comb += [
            row.eq(merger.o.p.rows[0]),
            place.eq(row.row[: p.place_bits]),
            # Before the window, or so old that a probe may only see what overwrote its number, or null.
            dropped.eq(
                (place - now.first)[p.place_bits - 1]
                | ~((now.stop - place)[: p.place_bits] < p.rows)
                | row.row[p.place_bits]
            ),
            merger.older.p.rows[0].key.eq(kept.key),
            merger.older.p.rows[0].row.eq(Cat(kept.place, kept.null)),
            merger.older.p.keep.eq(count != 0),
            merger.older.p.last.eq(two_last),
            merger.older.valid.eq(two),
        ]
        with m.State("merge"):
            m.d.comb += [
                go.eq(~two | merger.older.ready),
                read_at.eq(at),
                merger.o.ready.eq(1),
                write.eq(merger.o.valid & merger.o.p.keep[0] & ~dropped),
            ]
            with m.If(go):
                m.d.sync += [
                    one.eq(~given),
                    one_last.eq((at + 1 >= count) & ~given),
                    two.eq(one),
                    two_last.eq(one_last),
                    kept.eq(read),
                ]
                with m.If(~given):
                    m.d.sync += [at.eq(at + 1), given.eq(at + 1 >= count)]
            with m.If(write):
                m.d.sync += merged.eq(merged + 1)
            with m.If(merger.o.valid & merger.o.p.last):
                m.d.sync += [second.eq(~second), count.eq(merged + write), merged.eq(0), given.eq(0)]
                m.next = "idle"
