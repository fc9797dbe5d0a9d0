"""A sub-window in block RAM, every row of which is compared with each probe."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.designs.bisort import ROW_BITS
from muntin.contract.designs.splitjoin import Order, SplitJoinParameters, second_column
from muntin.hw.memory.quick_fifo import QuickFifo
from muntin.hw.splitjoin.band import BandSums, ClosedRange
from muntin.hw.splitjoin.layouts import ARRIVAL_BITS, Side, result_of
from muntin.hw.splitjoin.sub_window import SubWindowSignature, command_layout

NO_COLLISION = {"no_rw_check": 1}  # for Yosys: nothing depends on what a read gives that meets a write
_UNDER_WAY = 6
"""Words that may come to be among those that wait after it was looked how many do."""
_MIN_WAITING = 2 * _UNDER_WAY
"""Words that there is room for, at least: as many come before the next ones as are under way."""


class Admission(wiring.Component):
    """One look-up table between four registers and the wide enable behind which the next row waits.

    A component of its own so that tools can keep it apart: within others they put it together out of what these have
    already, and the enable comes three look-up tables late.

    Attributes
    ----------
    valid, probing : In(1)
        A row waits, and it is a probe.
    full, room : In(1)
        No probe can be taken, and a row can be stored.
    ready : Out(1)
        Set where the row goes in, and where none waits.
    """

    valid: In(1)
    probing: In(1)
    full: In(1)
    room: In(1)
    ready: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += self.ready.eq(~self.valid | Mux(self.probing, ~self.full, self.room))
        return m


class NestedLoop(wiring.Component):
    """Stores rows in a ring of block RAM, C rows wide, and compares C of them a cycle with a probing row.

    A predicate becomes two bounds when its probe comes up, so that a comparison is two of unsigned numbers. A second
    column is compared beside the first one, with bounds that its row brings.
    Storage has the write port of the memory and processing the read port. A row is stored while probes are
    under way or wait; it waits only where it would overwrite a row that one of them still has to read.

    In a time window the oldest rows are dropped by the scan that finds that no later row can match them; a
    row that does not match by its time never comes out, dropped or not.

    Parameters
    ----------
    parameters : SplitJoinParameters
    side : Side
        The stream whose rows are stored.

    Attributes
    ----------
    As of `SubWindowSignature`.

    Timing
    ------
    C comparisons a cycle, with no cycle lost between probes; but a probe takes three cycles at least, also one that has
    nothing to compare. Where scans are shorter than eleven cycles, a row that is stored over the oldest one of a full
    ring, and waits for the probe before it, may hold the next probe up for five. The first result comes out nine cycles
    after its probe was taken, at the earliest, and one a cycle then: rows that match and punctuation of inner
    order cost a cycle each where a word of C rows has more than one of them, and the word that ends a probe none
    for its punctuation unless a row in it matches. Words that have results wait, `result_rows` or twelve, and no
    further one is read while there might be no room for it: what was read is never held up. In inner order a time
    window is scanned over its whole capacity, so that all cores put out the same punctuation.

    Source
    ------
    SplitJoin, section 3 (algorithms 2 to 4: storage, processing, expiration). Ours: exact bounds, the
    complement, C lanes, two columns, and rows that are stored ahead of probes.
    """

    def __init__(self, parameters: SplitJoinParameters, *, side: Side):
        self.parameters = parameters
        self.side = side
        super().__init__(SubWindowSignature(parameters))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        p = self.parameters
        lanes, rows, place_bits = p.lanes, p.rows, p.place_bits
        lane_bits = lanes.bit_length() - 1
        word_bits = place_bits - lane_bits
        timed = self.settings.timed if p.time_bits else Const(0, 1)
        inner = Signal()
        m.d.sync += inner.eq(self.settings.order == Order.INNER)
        command = command_layout(p)

        def place(name: str, *, reset_less: bool = False) -> Signal:
            return Signal(place_bits, name=name, reset_less=reset_less)

        # Storage. Probes wait in a queue; `go` lets the next word be read, and moves everything before it.
        m.submodules.queue = queue = QuickFifo(width=command.size, depth=p.probe_rows)
        head = data.View(command, queue.r_data)
        go = Signal(init=1)
        taken = Signal()  # the probe behind the queue, with its sums made
        wants = Signal(init=1)  # the next one may be taken from the queue
        taken_first = place("taken_first")
        active = Signal()
        at = Signal(word_bits)  # the word to be read next
        left = Signal(word_bits, init=-1)  # words behind this one, less one: at most as many as the memory has
        oldest = place("oldest")  # in a time window: what lies before is dropped
        was_at = Signal(word_bits)  # the word that was read last
        one = _Word(p, "one")
        ending = left[-1]  # the word that is read is the probe's last, or none is read
        load = Signal()
        now_begin = Signal()
        now_first = place("now_first", reset_less=True)  # of the probe whose words are read
        moving = Signal()  # probes are under way
        store = Signal()
        room = Signal(init=1)
        stored = place("stored")  # where the next row goes

        # A row is stored unless it would overwrite what a probe still has to read: the probe whose first word
        # comes next, or else the first one that waits, all from its first place on; one that is being read, all
        # from the word that was read last. How far behind the next row these places lie is known some cycles late:
        # they may have moved on by then, but never back, as `first` never goes back at the input either, and three rows
        # at most were stored meanwhile: places are distinct that much further. So a probe counts among those that
        # wait for as long, and one that has just come at once; one that is being read counts once the word that was
        # read last, as it is known, is its own, or its first word is held up, until which all its rows count. In a time
        # window, rows that wait need what lies from the oldest row on; a row that does not fit is dropped once nobody
        # needs it. Of each distance the registers have one less: a difference with the store as its carry. (Proved in
        # tests/hw/formal/admission_proof.py.)
        next_first, waiting_first = place("next_first"), place("waiting_first")
        before_first, before_read = (Signal(place_bits, name=f"before_{name}", init=-1) for name in ("first", "read"))
        waits, waited, waiting = Signal(), Signal(2), Signal()
        scanning, scanned = Signal(), Signal(2)
        free, free_read, reading = Signal(), Signal(), Signal()
        m.submodules.admission = admission = Admission()
        m.d.comb += [
            waits.eq(Mux(timed, moving, taken | queue.r_rdy | now_begin)),
            waiting.eq(queue.w_en | waits | waited.any()),  # a probe that does not come in waits behind others
            free.eq(_fits(before_first, store, rows)),
            scanning.eq(one.valid | active),
            reading.eq(scanning & scanned.all()),
            free_read.eq(_fits(before_read, store, rows)),
            data.View(command, queue.w_data).eq(self.i.payload),
            data.View(command, queue.w_data).early.eq(self.i.p.early & inner),
            data.View(command, queue.w_data).late.eq(self.i.p.late & inner),
            queue.w_en.eq(self.i.valid & self.i.p.probing),
            admission.valid.eq(self.i.valid),
            admission.probing.eq(self.i.p.probing),
            admission.full.eq(queue.filled[-1]),
            admission.room.eq(room),
            self.i.ready.eq(admission.ready),
            store.eq(self.i.valid & ~self.i.p.probing & room),
        ]
        m.d.sync += [
            waited.eq(Cat(waits, waited)),
            scanned.eq(Cat(scanning, scanned)),
            next_first.eq(Mux(queue.r_rdy, head.first, self.i.p.first)),
            room.eq((free | ~waiting) & (free_read | ~reading)),
            waiting_first.eq(Mux(now_begin, now_first, Mux(timed, oldest, Mux(taken, taken_first, next_first)))),
            before_first.eq(_less(stored, waiting_first, store)),
            before_read.eq(_less(stored, was_at << lane_bits, store)),
        ]
        with m.If(store):
            m.d.sync += stored.eq(stored + 1)
        with m.If(go):
            m.d.sync += was_at.eq(at)
        drops = Signal()  # the next row takes the place of the oldest one
        m.d.sync += drops.eq(timed & ~free)
        with m.If(self.clear):
            m.d.sync += [stored.eq(0), waiting_first.eq(0), before_first.eq(-1), room.eq(1), drops.eq(0)]

        # A row as it is stored, by lanes. The memories are read in every cycle and may give anything for what is
        # written just then, as no probe needs it: logic would have to make up for the rest.
        fields = {"key": p.key_bits, "row": ROW_BITS + 1}  # with the row's number, whether it is null
        if p.time_bits:
            fields["time"] = p.time_bits
        if p.columns > 1:
            fields["key_2"] = p.key_bits
        item = {name: self.i.p[name] for name in fields} | {"row": Cat(self.i.p.row, self.i.p.null)}
        read: dict[str, list[Value]] = {name: [] for name in fields}
        for name, width in fields.items():
            for lane in range(lanes):
                ring = memory.Memory(shape=width, depth=rows // lanes, init=[], attrs=NO_COLLISION)
                m.submodules[f"{name}_{lane}"] = ring
                writer, reader = ring.write_port(), ring.read_port()
                here = (stored[:lane_bits] == lane) if lane_bits else 1
                m.d.comb += [
                    writer.addr.eq(stored >> lane_bits),
                    writer.data.eq(item[name]),
                    writer.en.eq(store & here),
                    reader.addr.eq(at),
                ]
                read[name].append(reader.data)

        # The sums that bounds are made of: what is stored on the right is compared with the left row plus a
        # bound, what is stored on the left with the right row minus a bound.
        probe = Signal(command, reset_less=True)
        key = BandSums(p.key_bits, "key")
        m.d.comb += [taken_first.eq(probe.first), queue.r_en.eq(wants)]
        if p.time_bits:
            time, horizon = BandSums(p.time_bits, "time"), BandSums(p.time_bits, "horizon")
            late = self.settings.left_late if self.side == Side.RIGHT else self.settings.right_late
        # What the probe scans: in inner order all blocks that any core has a row in.
        base, end, last = (place(name, reset_less=True) for name in ("base", "end", "last"))
        nothing = Signal(reset_less=True)  # they have none
        with m.If(wants & queue.r_rdy):
            m.d.sync += [taken.eq(1), wants.eq(0)]
        with m.If(wants):
            m.d.sync += [
                probe.eq(head),
                base.eq(head.first - head.early),
                nothing.eq(head.empty & ~head.early & ~head.late),
                end.eq(head.stop + head.late),
                last.eq(head.stop - ~head.late),
            ]
            m.d.sync += key.make(head.key, self.settings.low, self.settings.high, self.side)
            if p.bounds:
                with m.If(self.settings.own_bounds):
                    m.d.sync += key.take(head.lower, head.upper)
            if p.time_bits:
                # No later row of the probing stream has a time before this one.
                since = Signal(p.time_bits)
                early = Signal(signed(p.time_bits + 1))
                m.d.comb += [
                    early.eq(head.time - late),
                    since.eq(Mux(head.mark, head.time, Mux(early < 0, 0, early))),
                ]
                m.d.sync += time.make(head.time, self.settings.time_low, self.settings.time_high, self.side)
                m.d.sync += horizon.make(since, self.settings.time_low, self.settings.time_high, self.side)

        # The probe that is compared. Its words are read at once; what they are compared with follows as they get there.
        # It is all that a register as wide as this waits for, and until then the next probe stays in the queue.
        start, lower = place("start"), place("lower")
        first_word, last_word = Signal(word_bits), Signal(word_bits)
        mark = probe.mark if p.time_bits else Const(0, 1)
        skip = Signal()
        m.d.comb += [
            lower.eq(Mux(timed, oldest, probe.first)),
            start.eq(Mux(timed & ~inner, oldest, base)),
            first_word.eq(start >> lane_bits),
            last_word.eq(last >> lane_bits),
            skip.eq(Mux(timed & ~inner, oldest == end, nothing) | ((probe.null | mark) & ~timed)),
            load.eq(taken & go & ending),
        ]
        now = _Probe(p, "now")
        now_skip, now_final, now_quiet = Signal(), Signal(), Signal()
        loaded, compares = Signal(), Signal()  # one and two cycles after `load`
        now_rows, now_inside, now_stop = (place(f"now_{name}", reset_less=True) for name in ("rows", "inside", "stop"))
        # Of each lane: how far its place lies behind the window's first row, and behind the first block.
        behind_lower = [place(f"behind_lower_{lane}", reset_less=True) for lane in range(lanes)]
        behind_base = [place(f"behind_base_{lane}", reset_less=True) for lane in range(lanes)]
        with m.If(go):
            m.d.sync += [active.eq(load | ~ending), now_begin.eq(load)]
            with m.If(load):
                m.d.sync += taken.eq(0)
            # What belongs to a scan is anything where none is: no need to wait for whether a probe is there.
            with m.If(ending):
                m.d.sync += [
                    at.eq(first_word),
                    now_skip.eq(skip),
                    now_first.eq(lower),
                    now_rows.eq(probe.stop - lower),
                    now_inside.eq(last - base),
                    now_stop.eq(probe.stop),
                    now_quiet.eq(mark | probe.null),
                    now_final.eq(~(mark | probe.more) & (self.settings.order != Order.NONE)),
                ]
                for lane in range(lanes):
                    m.d.sync += [
                        behind_lower[lane].eq(((first_word << lane_bits) | lane) - lower),
                        behind_base[lane].eq(((first_word << lane_bits) | lane) - base),
                    ]
            with m.Else():
                m.d.sync += at.eq(at + 1)
                for lane in range(lanes):
                    m.d.sync += [
                        behind_lower[lane].eq(behind_lower[lane] + lanes),
                        behind_base[lane].eq(behind_base[lane] + lanes),
                    ]
            with m.If(~ending | taken):
                m.d.sync += left.eq(Mux(ending, Mux(skip, -1, last_word + ~first_word), left - 1))
        m.d.sync += [loaded.eq(load), compares.eq(loaded)]
        with m.If(loaded):
            m.d.sync += wants.eq(1)
        with m.If(compares):
            m.d.sync += [
                now.row.eq(probe.row),
                now.before.eq(probe.before),
                now.quiet.eq(mark | probe.null),
                *now.key.clamp(key),
            ]
            if now.key_2 is not None:
                m.d.sync += [now.key_2.lower.eq(probe.lower_2), now.key_2.upper.eq(probe.upper_2)]
            if p.time_bits:
                m.d.sync += [*now.time.clamp(time), now.horizon.eq(horizon.lower_wide)]

        # Read a word: which lanes count, and where punctuation goes.
        boundary = Signal(place_bits)  # the bits of a place that are 1 where a punctuation belongs behind it
        m.d.sync += boundary.eq((1 << self.settings.every) - 1)
        in_range = Signal(lanes)
        m.d.sync += [
            one.valid.eq(active & go),
            one.begin.eq(now_begin),
            one.final.eq(ending & now_final),
            one.mask.eq(in_range),
            one.scan.eq(~now_skip),
            one.place.eq(at << lane_bits),
        ]
        for lane in range(lanes):
            here = Signal(place_bits, name=f"place_{lane}")
            m.d.comb += [
                here.eq((at << lane_bits) | lane),
                in_range[lane].eq(~now_skip & (behind_lower[lane] < now_rows)),
            ]
            m.d.sync += [
                one.star[lane].eq(
                    inner & ~now_quiet & ~now_skip & (behind_base[lane] < now_inside) & (here | ~boundary).all()
                ),
                one.beyond[lane].eq(~(here - now_stop)[place_bits - 1]),
            ]
        with m.If(go & active):
            m.d.sync += self.compared.eq(sum(in_range))
        with m.Else():
            m.d.sync += self.compared.eq(0)

        # The memory's own registers are slow: its words stand a cycle in others before they are compared.
        two, three = _Word(p, "two"), _Word(p, "three")
        hits, fresh = Signal(lanes), Signal(lanes)
        probing = Signal(
            data.StructLayout({"row": ROW_BITS, "before": ARRIVAL_BITS, "quiet": 1}), reset_less=True
        )  # with `three`
        m.d.sync += [
            *two.eq(one),
            *three.eq(two),
            probing.row.eq(now.row),
            probing.before.eq(now.before),
            probing.quiet.eq(now.quiet),
        ]
        for lane in range(lanes):
            item = {name: Signal(width, name=f"read_{name}_{lane}", reset_less=True) for name, width in fields.items()}
            m.d.sync += [item[name].eq(read[name][lane]) for name in fields]
            at_least, at_most = Signal(name=f"at_least_{lane}"), Signal(name=f"at_most_{lane}")
            null = Signal(name=f"null_{lane}")
            m.d.sync += [
                Cat(three.rows[lane], null).eq(item["row"]),
                at_least.eq(~(item["key"] < now.key.lower)),
                at_most.eq(~(now.key.upper < item["key"])),
            ]
            within = (at_least & at_most) ^ self.settings.complement
            if now.key_2 is not None:
                at_least_2, at_most_2 = (Signal(name=f"{end}_of_second_{lane}") for end in ("at_least", "at_most"))
                m.d.sync += [
                    at_least_2.eq(~(item["key_2"] < now.key_2.lower)),
                    at_most_2.eq(~(now.key_2.upper < item["key_2"])),
                ]
                within &= at_least_2 & at_most_2
            on_time = 1
            if p.time_bits:
                not_early, not_late = Signal(name=f"not_early_{lane}"), Signal(name=f"not_late_{lane}")
                m.d.sync += [
                    not_early.eq(~(item["time"] < now.time.lower)),
                    not_late.eq(~(now.time.upper < item["time"])),
                    fresh[lane].eq(~(item["time"] < now.horizon)),
                ]
                on_time = ~timed | (not_early & not_late)
            m.d.comb += hits[lane].eq(three.valid & three.mask[lane] & ~probing.quiet & ~null & within & on_time)

        # Drop what no later row can match: the oldest rows, up to the first that one can.
        if p.time_bits:
            leading = Signal()
            whole = Signal()
            passed = place("passed")
            m.d.comb += [passed.eq(three.place + lanes), whole.eq(1)]
            for lane in reversed(range(lanes)):
                with m.If((three.mask[lane] & fresh[lane]) | three.beyond[lane]):
                    m.d.comb += [passed.eq(three.place + lane), whole.eq(0)]
            with m.If(three.valid & three.scan):
                m.d.sync += leading.eq((leading | three.begin) & whole)
                with m.If(timed & (leading | three.begin) & ~(passed - oldest)[place_bits - 1]):
                    m.d.sync += oldest.eq(passed)
            with m.If(store & drops):  # nothing is under way
                m.d.sync += [oldest.eq(stored - (rows - 1)), self.overflow.eq(1)]
            with m.If(self.clear):
                m.d.sync += [oldest.eq(0), self.overflow.eq(0)]

        # Words that have results wait here: each lane's pair and the punctuation behind it, then what ends the probe.
        slots = 2 * lanes + 1
        found = Signal(
            data.StructLayout(
                {"slots": slots, "rows": data.ArrayLayout(ROW_BITS, lanes), "probe": ROW_BITS, "before": ARRIVAL_BITS}
            ),
            reset_less=True,
        )
        finds = Signal()
        waiting_rows = max(p.result_rows, _MIN_WAITING)
        m.submodules.found = found_words = QuickFifo(width=found.shape().size, depth=waiting_rows)
        next_found = data.View(found.shape(), found_words.r_data)
        new = Signal(slots)
        m.d.comb += [
            new.eq(
                Cat(*(Cat(hits[lane], three.star[lane]) for lane in range(lanes)), three.final)
                & three.valid.replicate(slots)
            ),
            found_words.w_data.eq(found),
            found_words.w_en.eq(finds),
        ]
        m.d.sync += [
            finds.eq(new.any()),
            found.slots.eq(new),
            found.probe.eq(probing.row),
            found.before.eq(probing.before),
            *(found.rows[lane].eq(row) for lane, row in enumerate(three.rows)),
            go.eq(~found_words.filled[waiting_rows - _UNDER_WAY]),
        ]

        # One result a cycle.
        pending = Signal(slots)
        pending_probe = Signal(ROW_BITS, reset_less=True)
        pending_before = Signal(ARRIVAL_BITS, reset_less=True)
        some, many = Signal(), Signal()  # results pending, one and two at least
        rest = Signal(slots)
        pending_rows = [Signal(ROW_BITS, name=f"pending_row_{lane}", reset_less=True) for lane in range(lanes)]
        m.d.comb += [
            rest.eq(_less_one(pending)),
            found_words.r_en.eq(~many & (~some | self.o.ready)),
            self.o.valid.eq(some),
        ]
        with m.If(found_words.r_en):
            m.d.sync += [
                pending.eq(next_found.slots),
                some.eq(found_words.r_rdy),
                many.eq(found_words.r_rdy & _less_one(next_found.slots).any()),
                pending_probe.eq(next_found.probe),
                pending_before.eq(next_found.before),
                *(row.eq(next_found.rows[lane]) for lane, row in enumerate(pending_rows)),
            ]
        with m.Elif(self.o.ready):
            m.d.sync += [pending.eq(rest), many.eq(_less_one(rest).any())]
        star, row = Signal(), Signal(ROW_BITS)
        m.d.comb += star.eq(1)
        for lane in reversed(range(lanes)):
            with m.If(pending[2 * lane + 1]):
                m.d.comb += star.eq(1)
            with m.If(pending[2 * lane]):
                m.d.comb += [star.eq(0), row.eq(pending_rows[lane])]
        last = ~pending[:-1].any()
        m.d.comb += self.o.payload.eq(
            result_of(star=star, last=last, probe=pending_probe, row=row, before=pending_before)
        )

        m.d.comb += [
            moving.eq(queue.r_rdy | taken | active | one.valid | two.valid | three.valid),
            self.busy.eq(moving | self.i.valid | finds | found_words.r_rdy | some),
        ]
        return m


def _less(place: Value, other: Value, store: Value) -> Value:
    """How far a place lies behind another one, less one, and one more where `store` is set: as one carry chain."""
    return (Cat(store, place) + Cat(1, ~other[: len(place)]))[1 : len(place) + 1]


def _fits(before: Value, store: Value, rows: int) -> Value:
    """Whether a place is less than all rows behind the next row, once `store` is done.

    `before` is one less than its distance, modulo a power of two that is twice as many as rows, at least.
    """
    bits = rows.bit_length() - 1
    low, last = before[:bits], rows - 1
    less = ~((low == last) | (store & (low == last - 1)))
    at_it = before.all() & (~store if rows == 1 else 1)
    return Mux(before[bits:] == 0, less, at_it)


def _less_one(bits: Value) -> Value:
    """Without the lowest bit that is set."""
    return bits & (bits - 1)


class _Probe:
    """What words are compared with."""

    def __init__(self, parameters: SplitJoinParameters, name: str):
        self.row = Signal(ROW_BITS, name=f"{name}_row", reset_less=True)
        self.before = Signal(ARRIVAL_BITS, name=f"{name}_before", reset_less=True)
        self.quiet = Signal(
            name=f"{name}_quiet", reset_less=True
        )  # matches nothing: no pairs, and no punctuation between
        self.key = ClosedRange(parameters.key_bits, f"{name}_key")
        self.key_2 = ClosedRange(parameters.key_bits, f"{name}_key_2") if second_column(parameters) else None
        self.time = None
        if parameters.time_bits:
            self.time = ClosedRange(parameters.time_bits, f"{name}_time")
            self.horizon = Signal(parameters.time_bits + 1, name=f"{name}_horizon", reset_less=True)


class _Word:
    """A word on its way through the comparison."""

    def __init__(self, parameters: SplitJoinParameters, name: str):
        lanes = parameters.lanes
        self.valid = Signal(name=f"{name}_valid")
        self.begin = Signal(name=f"{name}_begin", reset_less=True)  # the first of a scan
        self.scan = Signal(name=f"{name}_scan", reset_less=True)  # it was read at all
        self.final = Signal(name=f"{name}_final", reset_less=True)  # a punctuation ends the probe
        self.mask = Signal(lanes, name=f"{name}_mask", reset_less=True)
        self.star = Signal(lanes, name=f"{name}_star", reset_less=True)
        self.beyond = Signal(lanes, name=f"{name}_beyond", reset_less=True)
        self.place = Signal(parameters.place_bits, name=f"{name}_place", reset_less=True)
        self.rows = [Signal(ROW_BITS, name=f"{name}_row_{lane}", reset_less=True) for lane in range(lanes)]

    def eq(self, other: "_Word") -> list:
        names = ("valid", "begin", "scan", "final", "mask", "star", "beyond", "place")
        return [getattr(self, name).eq(getattr(other, name)) for name in names]
