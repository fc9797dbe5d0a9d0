"""The blocks beside the merger, each against its model; two builds hold them all."""

import functools

import pytest

from muntin.contract import ParameterError
from muntin.hw.bisort.bound_merger import BoundMerger
from muntin.hw.bisort.bound_repeater import BoundRepeater
from muntin.hw.bisort.boundary_generator import BoundaryGenerator
from muntin.hw.bisort.count_adder import CountAdder
from muntin.hw.bisort.gather import Gather
from muntin.hw.bisort.indexer import Indexer
from muntin.hw.bisort.insertion_buffer import InsertionBuffer
from muntin.hw.bisort.limit_table import LimitTable
from muntin.hw.bisort.partitioner import Partitioner
from muntin.hw.bisort.prober import Prober
from muntin.hw.bisort.range_finder import RangeFinder
from muntin.sim.block_runner import run_bench
from tests.hw.bundle import Bundle

BLOCKS = (
    "indexer",
    "boundary_generator",
    "bound_merger",
    "bound_repeater",
    "partitioner",
    "prober",
    "range_finder",
    "limit_table",
    "gather",
    "count_adder",
    "insertion_buffer",
)
BUILDS = {
    "narrow": {"key_bits": 32, "width": 4, "partition_log2": 3, "index_rows": 64, "index_width": 4, "buffer_rows": 16},
    # A partition is one beat, and so is the insertion buffer.
    "wide": {"key_bits": 64, "width": 8, "partition_log2": 3, "index_rows": 32, "index_width": 2, "buffer_rows": 8},
}


@functools.cache
def bundle(
    key_bits: int, width: int, partition_log2: int, index_rows: int, index_width: int, buffer_rows: int
) -> Bundle:
    return Bundle(
        {
            "indexer": Indexer(key_bits=key_bits, width=width, partition_log2=partition_log2),
            "boundary_generator": BoundaryGenerator(key_bits=key_bits),
            "bound_merger": BoundMerger(key_bits=key_bits),
            "bound_repeater": BoundRepeater(key_bits=key_bits, bound_rows=8),
            "range_finder": RangeFinder(probe_rows=4),
            "limit_table": LimitTable(probe_rows=4),
            "count_adder": CountAdder(probe_rows=4),
            "partitioner": Partitioner(key_bits=key_bits, index_rows=index_rows, index_width=index_width),
            "prober": Prober(
                key_bits=key_bits,
                width=width,
                partition_log2=partition_log2,
                index_rows=index_rows,
                bound_rows=8,
            ),
            "gather": Gather(width=width, range_rows=4),
            "insertion_buffer": InsertionBuffer(key_bits=key_bits, width=width, rows=buffer_rows),
        }
    )


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("build", BUILDS)
def test_against_the_model(build, block, seed):
    run_bench(
        bundle(**BUILDS[build]),
        f"blocks_{build}",
        f"tests.hw.benches.{block}",
        seed=seed,
        drawn=True,
        probe_latency=3,
        bound_rows=8,
        **BUILDS[build],
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Indexer(key_bits=32, width=8, partition_log2=2), "partition_log2 must be at least 3"),
        (
            lambda: Prober(key_bits=32, width=8, partition_log2=2, index_rows=4, bound_rows=4),
            "partition_log2 must be at least 3",
        ),
        (lambda: Partitioner(key_bits=32, index_rows=8, index_width=8), "less than index_rows, 8, not 8"),
        (lambda: Gather(width=6, range_rows=4), "width must be a power of two, not 6"),
        (lambda: InsertionBuffer(key_bits=32, width=4, rows=6), "rows must be a multiple of width, 4, not 6"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ParameterError, match=message):
        make()
