"""Proofs of the blocks that probes pass, and the same proofs of blocks with a fault, which must fail."""

from typing import Any

import pytest

from muntin.hw.bisort.bound_repeater import BoundRepeater
from muntin.hw.bisort.partitioner import Partitioner
from muntin.hw.bisort.prober import Prober
from muntin.hw.bisort.range_finder import RangeFinder
from tests.hw.formal.partitioner_proof import PartitionerProof
from tests.hw.formal.prober_proof import ProberProof
from tests.hw.formal.range_proof import RangeProof
from tests.hw.formal.repeater_proof import RepeaterProof
from tests.hw.formal.runner import ProofError, run_proof

FULL = pytest.mark.full
FAILS = r"Assertion violated|\(abc (pdr|bmc3)\) returned FAIL"


def _full(*cases: tuple[object, ...]) -> list[Any]:
    return [pytest.param(*case, marks=FULL) for case in cases]


@pytest.mark.parametrize("bound_rows", [2, pytest.param(4, marks=FULL)])
def test_bound_repeater(bound_rows):
    run_proof(RepeaterProof(bound_rows=bound_rows), f"bound_repeater_{bound_rows}", timeout=3600)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("left & (left - 1)", "self.runs & (self.runs - 1)"),
        *_full(
            ("next_run.last.eq(rest == 0)", "next_run.last.eq(after == 0)"),
            ("left & ~rest", "left"),
            ("place == final[half]", "place == final[~half]"),
            ("~full.bit_select(half_in, 1))", "1)"),
            ("(~given | outs.w_rdy)", "1"),
            ("known & (found | ~ends)", "known"),
            ("Mux(run.last | ~known, self.runs, after)", "Mux(~known, self.runs, after)"),
            ("final[half_in].eq(place_in)", "final[half_in].eq(place_in + 1)"),
            ("full.bit_select(half, 1).eq(0)", "full.eq(0)"),
        ),
    ],
)
def test_bound_repeater_fault(fault, right, wrong):
    fault(BoundRepeater, right, wrong)
    with pytest.raises(ProofError, match=FAILS):
        run_proof(RepeaterProof(bound_rows=2), "bound_repeater", depth=14)


@pytest.mark.parametrize("probe_rows", [2, pytest.param(4, marks=FULL)])
def test_range_finder(probe_rows):
    run_proof(RangeProof(probe_rows=probe_rows), f"range_finder_{probe_rows}", timeout=3600)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(upper < lower)", "1"),
        *_full(
            ("reader.data < stop", "reader.data <= stop"),
            ("valid & (found | last)", "valid & found"),
            ("Mux(after == self.probes, 0, after)", "after"),
            ("first + upper)", "first + lower)"),
            (" - ~self.i.p.upper", ""),
            ("~self.o.valid | self.o.ready", "1"),
            ("reader.en.eq(enable)", "reader.en.eq(1)"),
            ("found.replicate(4)", "last.replicate(4)"),
            ("with m.If(self.i.p.run.last):", "with m.If(1):"),
        ),
    ],
)
def test_range_finder_fault(fault, right, wrong):
    fault(RangeFinder, right, wrong)
    with pytest.raises(ProofError, match=FAILS):
        run_proof(RangeProof(probe_rows=2), "range_finder", depth=14)


def _prober(*, key_bits: int = 1, partition_log2: int = 1) -> ProberProof:
    return ProberProof(key_bits=key_bits, width=2, partition_log2=partition_log2, index_rows=2, bound_rows=2)


@pytest.mark.parametrize(
    ("key_bits", "partition_log2"), [(1, 1), pytest.param(2, 1, marks=FULL), pytest.param(2, 2, marks=FULL)]
)
def test_prober(key_bits, partition_log2):
    proof = _prober(key_bits=key_bits, partition_log2=partition_log2)
    run_proof(proof, f"prober_{key_bits}_{partition_log2}", timeout=3600)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("active_valid & (active == head.partition)", "active_valid"),
        *_full(
            ("(~new | ~self.request.valid | self.request.ready)", "1"),
            ("with m.If(opened & ~(bounds.r_rdy & same) & (bounds.r_rdy | ~active_valid)):", "with m.If(0):"),
            ("(asked_valid | self.i.p.hit) & ~self.i.p.bound.last", "(asked_valid | self.i.p.hit)"),
            ("beyond.eq(below == self.keys.p.keep)", "beyond.eq(below[0])"),
            ("keep & (bound[-1] | (key < bound[:-1]))", "keep & (bound[-1] | (key <= bound[:-1]))"),
            ("keep & (bound[-1] | (key < bound[:-1]))", "(bound[-1] | (key < bound[:-1]))"),
            ("sum(self.keys.p.keep)", "self._width"),
            ("(head.hit & ~read).replicate(self._width)", "head.hit.replicate(self._width)"),
            ("Mux(head.hit & same, after, 0)", "after"),
            ("with m.If(answer & head.bound.last):", "with m.If(0):"),
            ("bounds.r_rdy & free", "bounds.r_rdy"),
        ),
    ],
)
def test_prober_fault(fault, right, wrong):
    fault(Prober, right, wrong)
    with pytest.raises(ProofError, match=FAILS):
        run_proof(_prober(partition_log2=2), "prober", depth=14)


def _partitioner(*, key_bits: int = 1, index_rows: int = 8) -> PartitionerProof:
    return PartitionerProof(key_bits=key_bits, index_rows=index_rows, index_width=2)


@pytest.mark.parametrize(("key_bits", "index_rows"), [(1, 8), pytest.param(1, 16, marks=FULL)])
def test_partitioner(key_bits, index_rows):
    proof = _partitioner(key_bits=key_bits, index_rows=index_rows)
    run_proof(proof, f"partitioner_{key_bits}_{index_rows}", timeout=3600)


@pytest.mark.parametrize(
    ("right", "wrong", "index_rows"),
    [
        ("beyond.eq((at != last) & below.all())", "beyond.eq(below.all())", 8),
        *_full(
            ("self.i.valid & ~beyond & free", "self.i.valid & ~beyond", 8),
            ("Mux(at == first, before, 0)", "0", 8),
            ("(within | (at != last).replicate(width))", "1", 8),
            ("keep.eq(self.index.valid & self.index.p.keep[0] & (put < self._index_rows))", "keep.eq(1)", 8),
            ("self.i.valid & beyond & following", "self.i.valid & beyond", 8),
            ("(2 << end[:bits]) - 1", "(1 << end[:bits]) - 1", 8),
            ("far.eq(readers[-1].data)", "far.eq(readers[0].data)", 16),
            ("beneath.eq(reached == low + 1)", "beneath.eq(1)", 16),
        ),
    ],
)
def test_partitioner_fault(fault, right, wrong, index_rows):
    fault(Partitioner, right, wrong)
    with pytest.raises(ProofError, match=FAILS):
        run_proof(_partitioner(index_rows=index_rows), "partitioner", depth=18)
