"""Proofs of blocks, and the same proofs of blocks with a fault, which must fail.

A proof without a depth holds for any number of cycles, one with a depth for that many after reset. `--full` adds the
larger and deeper ones.
"""

from __future__ import annotations

import dataclasses

import pytest
from amaranth.hdl import Elaboratable, Module
from amaranth.lib import fifo

from muntin.contract.designs.splitjoin import Order, SplitJoinParameters
from muntin.hw.bisort import merger
from muntin.hw.memory import burst_splitter, quick_fifo
from muntin.hw.memory.memory_port import MemoryPort
from muntin.hw.memory.port_guard import PortGuard
from muntin.hw.memory.port_interleaver import PortInterleaver
from muntin.hw.memory.port_shape import PortShape
from muntin.hw.memory.port_slice import PortSlice
from muntin.hw.memory.quick_fifo import BlockFifo, QuickFifo
from muntin.hw.splitjoin import region
from muntin.hw.splitjoin.nested_loop import NestedLoop
from tests.hw.formal.admission_proof import AdmissionProof
from tests.hw.formal.axi_proof import AxiProof, GuardProof, InterleaverProof
from tests.hw.formal.fifo_proof import FifoProof, LibraryFifo
from tests.hw.formal.merger_output_proof import MergerOutputProof
from tests.hw.formal.merger_proof import MergerProof
from tests.hw.formal.paths import paths
from tests.hw.formal.port_proof import PortProof
from tests.hw.formal.region_proof import RegionProof
from tests.hw.formal.runner import ProofError, run_proof
from tests.hw.formal.splitter_proof import SplitterProof


def _splitter(**limits: int | None) -> SplitterProof:
    shape = {"address_width": 10, "length_width": 10, "data_width": 32, "burst_bytes": 16} | limits
    return SplitterProof(PortShape(**shape))


FULL = pytest.mark.full


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({}, id="plain"),
        pytest.param(
            {"address_width": 13, "burst_bytes": 64, "max_transfer_bytes": 700, "memory_bytes": 7001}, id="limits"
        ),
        pytest.param({"burst_bytes": 4}, id="one beat a burst", marks=FULL),
        pytest.param({"address_width": 12, "length_width": 12, "burst_bytes": 32}, id="long", marks=FULL),
    ],
)
def test_splitter(limits):
    run_proof(_splitter(**limits), "splitter")


@pytest.mark.parametrize(
    ("right", "wrong", "limits"),
    [
        ("to_boundary < beats", "to_boundary <= beats", {}),
        ("beat_address[:burst_bits])", "beat_address[:1])", {}),
        ("beat_address + count", "beat_address + shape.burst_beats", {}),
        ("(transfer.length - 1)", "transfer.length", {}),
        ("C(memory_bytes) < end", "C(memory_bytes) <= end", {"memory_bytes": 512}),
        ("C(longest) < transfer.length", "C(longest + 1) < transfer.length", {"max_transfer_bytes": 100}),
        ("with m.If(self.burst.ready):", "with m.If(1):", {}),
    ],
)
def test_splitter_fault(fault, right, wrong, limits):
    fault(burst_splitter.BurstSplitter, right, wrong)
    with pytest.raises(ProofError, match="Assertion violated") as failure:
        run_proof(_splitter(**limits), "splitter")
    assert failure.value.trace.exists()


PORT = PortShape(address_width=6, length_width=6, data_width=16, burst_bytes=4, outstanding=2, buffer_bytes=4)


def _between_ports(kind: str) -> AxiProof:
    if kind == "guard":
        return GuardProof(PORT)
    return InterleaverProof(PORT, stride=8) if kind == "interleaver" else AxiProof(PortSlice(PORT))


@pytest.mark.parametrize("kind", ["guard", "interleaver", "slice"])
def test_between_ports(kind):
    run_proof(_between_ports(kind), f"port_{kind}")


@pytest.mark.parametrize(
    ("component", "right", "wrong", "kind"),
    [
        (PortGuard, 'may = announced != 0 if channel == "w" else 1', "may = 1", "guard"),
        (PortGuard, "(shut[channel] | ~valid | ready)", "1", "guard"),
        (PortGuard, "(reads == 0) & (writes == 0)", "(reads == 0)", "guard"),
        (PortGuard, "ready & ~shut[channel]", "ready", "guard"),
        (PortInterleaver, "room & Array(", "Array(", "interleaver"),
        (PortInterleaver, "self.i.wvalid & write.r_rdy & (", "self.i.wvalid & (", "interleaver"),
        (PortInterleaver, "[low : low + width]", "[low + 1 : low + 1 + width]", "interleaver"),
        (PortSlice, 'kept.r_en.eq(getattr(out, f"{channel}ready"))', "kept.r_en.eq(1)", "slice"),
    ],
)
def test_between_ports_fault(fault, component, right, wrong, kind):
    fault(component, right, wrong)
    with pytest.raises(ProofError, match=r"Assertion violated|\(abc pdr\) returned FAIL"):
        run_proof(_between_ports(kind), f"port_{kind}")


def _port(alternate_bytes: int | None = None) -> PortProof:
    return PortProof(PORT, alternate_bytes=alternate_bytes)


@pytest.mark.parametrize("alternate_bytes", [None, pytest.param(4, marks=FULL)])
def test_memory_port(alternate_bytes):
    run_proof(_port(alternate_bytes), f"memory_port_{alternate_bytes}", timeout=3600)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("~self.halt & ~writing", "~writing"),
        ("& ~writing & open_turn", "& open_turn"),
        ("read_order.w_rdy & ~self.axi.arvalid", "read_order.w_rdy"),
        ("read_order.r_en.eq(beat_read & self.axi.rlast)", "read_order.r_en.eq(beat_read)"),
        ("(answer_order.r_data == n)", "(write_order.r_data == n)"),
        ("& ~write_order.r_rdy & ~answer_order.r_rdy", "& ~write_order.r_rdy"),
    ],
)
def test_memory_port_fault(fault, right, wrong):
    fault(MemoryPort, right, wrong)
    with pytest.raises(ProofError, match=r"Assertion violated|\(abc bmc3\) returned FAIL"):
        run_proof(_port(), "memory_port", depth=12)


def test_memory_port_serves_in_turn(monkeypatch):
    """Not so if the one that was served last comes first again."""
    monkeypatch.setattr(MemoryPort, "_rotate", staticmethod(_first_that_asks))
    with pytest.raises(ProofError, match=r"Assertion violated|\(abc bmc3\) returned FAIL"):
        run_proof(_port(), "memory_port", depth=20)


def _first_that_asks(m, asks, last, choice):
    m.d.comb += choice.eq(~asks[0])


def _sure_fifo(**size: int) -> QuickFifo:
    return QuickFifo(sure=True, **size)


def _sure_quick_fifo(**size: int) -> QuickFifo:
    return QuickFifo(sure=True, quick=1, **size)


def _block_fifo(*, width: int, depth: int) -> BlockFifo:
    """Has two more items than it says."""
    return BlockFifo(width=width, depth=depth - 2)


class _EagerFifo(fifo.FIFOInterface, Elaboratable):
    """An eager `QuickFifo`, and what it asks for: `r_en` wherever there is nothing."""

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.items = items = QuickFifo(width=self.width, depth=self.depth, sure=True, eager=True)
        m.d.comb += [
            items.w_data.eq(self.w_data),
            items.w_en.eq(self.w_en),
            items.r_en.eq(self.r_en | ~items.r_rdy),
            self.r_data.eq(items.r_data),
            *(getattr(self, name).eq(getattr(items, name)) for name in ("w_rdy", "r_rdy", "w_level", "r_level")),
        ]
        return m


@pytest.mark.parametrize(
    ("kind", "depth"),
    [
        (fifo.SyncFIFO, 2),
        (QuickFifo, 1),
        (QuickFifo, 2),
        (QuickFifo, 3),
        (_sure_fifo, 3),
        (_sure_quick_fifo, 3),
        (_sure_quick_fifo, 4),
        (_EagerFifo, 3),
        (_block_fifo, 4),
        pytest.param(QuickFifo, 4, marks=FULL),
        pytest.param(_sure_fifo, 4, marks=FULL),
        (fifo.SyncFIFO, 4),
        (fifo.SyncFIFOBuffered, 4),
        pytest.param(fifo.SyncFIFOBuffered, 8, marks=FULL),
    ],
)
def test_fifo(kind, depth):
    run_proof(FifoProof(LibraryFifo(kind, depth=depth)), f"fifo_{kind.__name__}_{depth}")


def test_library_fifo_fault(fault):
    fault(fifo.SyncFIFO, "self.w_rdy.eq(self.level != self.depth)", "self.w_rdy.eq(1)")
    with pytest.raises(ProofError, match="Assertion violated"):
        run_proof(FifoProof(LibraryFifo(fifo.SyncFIFO, depth=2)), "fifo")


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (_sure_fifo, "(put & ~some) | (got & (more | put))", "(put & ~some) | (got & more)"),
        (_sure_fifo, "Cat(filled[1:], 0)", "Cat(filled[1:], 1)"),
        (_sure_fifo, "with m.If(put ^ got):", "with m.If(put | got):"),
        (_sure_fifo, "depth if self._sure else depth - 1", "depth - 1"),
        (_sure_fifo, "else got | ~some):", "else 1):"),
        (_EagerFifo, "with m.If(self.r_en if", "with m.If(got if"),
        (_sure_quick_fifo, "with m.If(got | ~more):", "with m.If(got):"),
        (_sure_quick_fifo, "second.eq(Mux(filled[2]", "second.eq(Mux(more"),
        (_sure_quick_fifo, "Signal(range(places), init=1)", "Signal(range(places))"),
    ],
)
def test_quick_fifo_fault(fault, kind, right, wrong):
    fault(quick_fifo.QuickFifo, right, wrong)
    # A trace with what the memory held at first cannot always be written; the verdict stands before it.
    with pytest.raises(ProofError, match=r"Assertion violated|\(abc pdr\) returned FAIL"):
        run_proof(FifoProof(LibraryFifo(kind, depth=4)), "fifo")


def test_block_fifo_fault(fault):
    fault(BlockFifo, "block.r_en.eq(quick.w_rdy)", "block.r_en.eq(1)")
    with pytest.raises(ProofError, match=r"Assertion violated|\(abc pdr\) returned FAIL"):
        run_proof(FifoProof(LibraryFifo(_block_fifo, depth=4)), "fifo")


@pytest.mark.parametrize("width", [2, *(pytest.param(width, marks=FULL) for width in (1, 4, 8, 16))])
def test_merger_output(width):
    run_proof(MergerOutputProof(width=width), f"merger_output_{width}", inductive=True)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("_DEPTH - self._stages", "_DEPTH - self._stages + 2"),
        ("with m.If(take | self.ready):", "with m.If(1):"),
        ("level[1:].any() | (level[0] & ~take)", "level.any()"),
        ("with m.If(self.write ^ take):", "with m.If(self.write):"),
        ("reader.addr.eq(read_at)", "reader.addr.eq(_successor(read_at))"),
        ("writer.en.eq(self.write)", "writer.en.eq(self.write & some)"),
    ],
)
def test_merger_output_fault(fault, right, wrong):
    fault(merger._Output, right, wrong)
    with pytest.raises(ProofError, match="Assertion violated"):
        run_proof(MergerOutputProof(width=4), "merger_output", inductive=True)


@pytest.mark.parametrize(
    ("rule", "width", "key_bits", "depth"),
    [
        ("order", 2, 3, 18),
        ("rows", 2, 2, 18),
        pytest.param("order", 2, 3, 21, marks=FULL),
        pytest.param("order", 4, 3, 20, marks=FULL),
        pytest.param("rows", 2, 3, 20, marks=FULL),
        pytest.param("rows", 4, 3, 20, marks=FULL),
    ],
)
def test_merger(rule, width, key_bits, depth):
    proof = MergerProof(key_bits=key_bits, width=width, rule=rule)
    run_proof(proof, f"merger_{rule}_{width}", depth=depth, timeout=3600)


@FULL
@pytest.mark.parametrize("rule", ["order", "rows"])
def test_merger_without_stalls(rule):
    """Deep enough for rows of a second run to come out."""
    proof = MergerProof(key_bits=2, width=2, rule=rule, stalls=False)
    run_proof(proof, f"merger_{rule}_flow", depth=26, timeout=3600)


@pytest.mark.parametrize(("width", "depth"), [(2, 18), (4, 20)])
def test_depth_reaches_whole_runs(width, depth):
    with pytest.raises(ProofError, match="Assertion violated"):
        run_proof(MergerProof(key_bits=2, width=width, rule="reach"), f"merger_reach_{width}", depth=depth)


def test_depth_reaches_a_second_run():
    with pytest.raises(ProofError, match="Assertion violated"):
        run_proof(MergerProof(key_bits=2, width=2, rule="again", stalls=False), "merger_again_2", depth=28)


@pytest.mark.parametrize(
    ("component", "right", "wrong", "rule"),
    [
        (merger.Merger, "b_next.key < a.key", "a.key < b_next.key", "order"),
        (merger.Merger, "stage[high].key < stage[low].key", "stage[low].key < stage[high].key", "order"),
        (merger.Merger, "(started | some)", "some", "order"),
        (merger._Side, "padding | ~self.i.p.keep[lane]", "padding", "rows"),
        (merger.Merger, "older.pop[lane].eq(step & take)", "older.pop[lane].eq(step)", "rows"),
        (merger._Side, "head.eq(after),", "", "rows"),
    ],
)
def test_merger_fault(fault, component, right, wrong, rule):
    fault(component, right, wrong)
    with pytest.raises(ProofError, match="Assertion violated"):
        run_proof(MergerProof(key_bits=2, width=2, rule=rule), f"merger_{rule}", depth=20)


@pytest.mark.parametrize("width", [2, 4])
def test_merger_answers_from_registers(width):
    found = paths(
        merger.Merger(key_bits=8, width=width),
        f"merger_{width}",
        inputs=["older__payload", "older__valid", "newer__payload", "newer__valid", "o__ready"],
        outputs=["older__ready", "newer__ready", "o__payload", "o__valid"],
    )
    assert not found


def _admission(*, order: Order = Order.OUTER, **size: int) -> AdmissionProof:
    tiny = dataclasses.replace(SplitJoinParameters.preset("tiny"), time_bits=0, bounds=0)
    return AdmissionProof(dataclasses.replace(tiny, **size), order=order)


@pytest.mark.parametrize(
    ("rows", "lanes", "order", "columns"),
    [
        (1, 1, Order.OUTER, 2),
        pytest.param(2, 2, Order.INNER, 1, marks=FULL),
        pytest.param(2, 2, Order.INNER, 2, marks=FULL),
        pytest.param(2, 1, Order.OUTER, 1, marks=FULL),
        pytest.param(2, 1, Order.INNER, 1, marks=FULL),
    ],
)
def test_admission(rows, lanes, order, columns):
    proof = _admission(rows=rows, lanes=lanes, order=order, bounds=columns - 1, columns=columns)
    run_proof(proof, f"admission_{rows}_{lanes}_{columns}", timeout=3600)


def _region(*, cores: int, rows: int, index: int) -> RegionProof:
    tiny = dataclasses.replace(SplitJoinParameters.preset("tiny"), time_bits=0, bounds=0, lanes=1)
    return RegionProof(dataclasses.replace(tiny, cores=cores, rows=rows), index=index)


@pytest.mark.parametrize(
    ("cores", "rows", "index"),
    [(1, 2, 0), (2, 1, 0), pytest.param(3, 2, 1, marks=FULL), pytest.param(4, 1, 3, marks=FULL)],
)
def test_region(cores, rows, index):
    run_proof(_region(cores=cores, rows=rows, index=index), f"region_{cores}_{rows}_{index}", timeout=3600)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("self.arrives & arrive.now)", "self.arrives)"),
        ("with m.If(full):", "with m.If(1):"),
        ("rows.i.p.first.eq(leave.place)", "rows.i.p.first.eq(leave.place + leave.now)"),
        ("full.eq(missing == 1)", "full.eq(missing == 2)"),
    ],
)
def test_region_fault(fault, right, wrong):
    fault(region.Region, right, wrong)
    with pytest.raises(ProofError, match="Assertion violated"):
        run_proof(_region(cores=2, rows=1, index=0), "region", depth=24)


@pytest.mark.parametrize(
    ("rows", "lanes", "order", "depth"),
    [
        (1, 1, Order.OUTER, 24),
        (2, 2, Order.INNER, 20),
        pytest.param(1, 1, Order.OUTER, 32, marks=FULL),
        pytest.param(2, 1, Order.OUTER, 32, marks=FULL),
        pytest.param(2, 2, Order.INNER, 32, marks=FULL),
        pytest.param(1, 1, Order.OUTER, None, marks=FULL),
    ],
)
def test_admission_in_a_time_window(rows, lanes, order, depth):
    proof = _admission(rows=rows, lanes=lanes, order=order, time_bits=32, probe_rows=1)
    run_proof(proof, f"admission_time_{rows}_{lanes}", depth=depth, timeout=3600)


@pytest.mark.parametrize(
    ("right", "wrong", "size"),
    [
        ("(free_read | ~reading)", "1", {}),
        ("Mux(now_begin, now_first, Mux(", "Mux(0, now_first, Mux(", {}),
        ("queue.w_en | waits", "waits", {}),
        ("Mux(timed, moving, ", "Mux(timed, queue.r_rdy, ", {"time_bits": 32}),
        ("drops.eq(timed & ~free)", "drops.eq(timed)", {"time_bits": 32}),
        ("stored - (rows - 1)", "stored - rows", {"time_bits": 32}),
    ],
)
def test_admission_fault(fault, right, wrong, size):
    fault(NestedLoop, right, wrong)
    with pytest.raises(ProofError, match="Assertion violated"):
        run_proof(_admission(rows=2, lanes=1, probe_rows=1, **size), "admission", depth=24)


@FULL
def test_admission_by_an_earlier_probe(fault):
    """Storage asks by the probe that was the next one when the queue was last empty: 53 cycles."""
    fault(NestedLoop, "Mux(queue.r_rdy, head.first, ", "Mux(queue.r_rdy, next_first, ")
    with pytest.raises(ProofError, match="Assertion violated"):
        run_proof(_admission(rows=2, lanes=1), "admission", timeout=3600)


SPLITTER_PATHS = {"inputs": ["burst__ready"], "outputs": ["transfer__ready", "burst__payload", "burst__valid"]}


def test_splitter_does_not_wait_for_ready():
    assert not paths(burst_splitter.BurstSplitter(PortShape()), "splitter", **SPLITTER_PATHS)


def test_splitter_that_waits_for_ready(fault):
    fault(burst_splitter.BurstSplitter, "self.burst.valid.eq(1)", "self.burst.valid.eq(self.burst.ready)")
    assert paths(burst_splitter.BurstSplitter(PortShape()), "splitter", **SPLITTER_PATHS) == {"burst__valid"}
