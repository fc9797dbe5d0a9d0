"""The devices that the conformance suite holds to the contract. A new device is one more line in DEVICES."""

import zlib
from dataclasses import dataclass

from muntin.host.index import Auto, Index
from muntin.host.native import INDEXES
from tests.conformance.keys import KeyCase
from tests.conformance.windows import WindowCase

#: Tests of many alike cases.
PRODUCTS = (
    "test_all_of.py::test_conditions_that_compare_nothing",
    "test_all_of.py::test_sample",
    "test_batching.py::test_cuts_do_not_matter",
    "test_contract.py::",
    "test_count_windows.py::test_thousands_of_rows",
    "test_count_windows.py::test_window_exactly",
    "test_float_keys.py::",
    "test_how.py::test_sample",
    "test_how.py::test_self_joins",
    "test_how.py::test_state_is_bounded",
    "test_integer_keys.py::test_bounds_beyond",
    "test_large.py::test_against_duckdb",
    "test_payload_types.py::",
    "test_self_joins.py::test_one_key",
)


@dataclass(frozen=True)
class DeviceCase:
    """A device under test and what it can do; the suite leaves out what a device may refuse.

    Parameters
    ----------
    name
        What a user writes in ``device=``.
    max_window
        Rows that fit a window, None for more than any test needs.
    indexes, forms
        Indexes (``"auto"``: its default) and result forms it carries out.
    time_windows
        Whether it joins within time windows.
    key_bits
        Widest encoded key.
    pinned
        The tests that are run on it without ``--full``, by how their names begin, file first; None for all of them.
    long
        Tests that are run on it with ``--full`` only, named in the same way.
    every
        Of the products in `PRODUCTS` one case in so many is run on it without ``--full``; other devices run others.
    pinned_only
        The pinned tests are all that is run on it, with ``--full`` too; those of them that are `long` with it alone.
    """

    name: str
    max_window: int | None = None
    indexes: tuple[str | Index, ...] = ("auto", "bisort")
    forms: tuple[str, ...] = ("rows", "pairs", "counts")
    time_windows: bool = True
    key_bits: int = 64
    pinned: tuple[str, ...] | None = None
    long: tuple[str, ...] = ()
    every: int = 1
    pinned_only: bool = False

    def is_left_out(self, test: str, full: bool) -> bool:
        """Whether a test is not run on this device."""
        if self.pinned_only and not test.startswith(self.pinned or ()):
            return True
        return self.needs_full(test) and not full

    def needs_full(self, test: str) -> bool:
        """Whether a test (as pytest names it, from its file's name on) is run on this device only with ``--full``."""
        if test.startswith(PRODUCTS):
            name, _, case = test.partition(f"[{self.name}-")
            if (zlib.crc32(f"{name}{case}".encode()) + sum(self.name.encode())) % self.every:
                return True
        return test.startswith(self.long) or (self.pinned is not None and not test.startswith(self.pinned))

    def may_refuse(self, index: str | Index, form: str, window: WindowCase, key: KeyCase) -> str | None:
        """Why the device need not carry out a query, or None where it must."""
        if index not in self.indexes:
            return f"no index {index}"
        if form not in self.forms:
            return f"no form {form}"
        if window.rows is None and not self.time_windows:
            return "no time windows"
        if self.max_window is not None and window.rows is not None and max(window.rows) > self.max_window:
            return f"windows of at most {self.max_window} rows"
        if key.bits > self.key_bits:
            return f"keys of at most {self.key_bits} bits"
        return None


DEVICES = [
    DeviceCase(
        "cpu",
        indexes=(
            *("auto", "bisort", "sorted_array", "bplus_tree", "b_chain", "ib_chain", "im_tree", "pim_tree"),
            *("csb_tree", "burst_trie", "radix_tree", "slices", "rap_table", "wib_tree", "spo_join"),
            *(("judy",) if INDEXES["judy"].built else ()),
        ),
    ),
    # The same device by threads over shared trees.
    DeviceCase(
        "cpu:engine=shared",
        indexes=("auto", "bplus_tree", "b_chain", "ib_chain", "im_tree"),
        pinned=(
            "test_contract.py::test_sample[cpu:engine=shared-rows",
            "test_contract.py::test_sample[cpu:engine=shared-within",
            "test_integer_keys.py::test_unions_at_the_limits",
            "test_count_windows.py::test_many_calls_of_every_size",
            "test_count_windows.py::test_null_keys_take",
            "test_count_windows.py::test_self_join",
            "test_self_joins.py::test_orders_and_forms",
            "test_time_windows.py::test_capacity_exactly_full",
            "test_time_windows.py::test_rows_leave_only",
            "test_time_windows.py::test_the_watermark_makes_room",
            "test_time_windows.py::test_watermarks_at_the_ends",
        ),
    ),
    # The same device by join cores, each a thread: row by row, so what is there for its millions of rows is left out.
    DeviceCase(
        "cpu:engine=splitjoin",
        indexes=("auto", "bisort", "nested_loop", Auto(border_rows=4)),
        pinned=(
            "test_contract.py::test_indexes_of_one_device[cpu:engine=splitjoin",
            "test_contract.py::test_sample[cpu:engine=splitjoin-rows-unequal",
            "test_contract.py::test_sample[cpu:engine=splitjoin-within-late-right",
            "test_integer_keys.py::test_unions_at_the_limits",
            "test_count_windows.py::test_many_calls_of_every_size",
            "test_count_windows.py::test_null_keys_take",
            "test_count_windows.py::test_self_join",
            "test_self_joins.py::test_orders_and_forms",
            "test_time_windows.py::test_capacity_exactly_full",
            "test_time_windows.py::test_rows_leave_only",
            "test_time_windows.py::test_the_watermark_makes_room",
            "test_time_windows.py::test_watermarks_at_the_ends",
        ),
    ),
    DeviceCase("numpy", every=8),
    DeviceCase("opencl", every=20),
    DeviceCase("sim:bisort-model", every=20),
    # Rows spread over several memories by their keys, and all lanes at work on each command.
    DeviceCase(
        "sim:bisort-model:lanes=4",
        pinned=(
            "devices/test_run_store.py",
            "test_batching.py",
            "test_count_windows.py::test_window",
            "test_count_windows.py::test_many_calls_of_every_size",
            "test_integer_keys.py::test_compare_at_the_limits",
            "test_time_windows.py::test_the_watermark_makes_room",
            "test_resources.py::test_joins_in_threads",
            "test_large.py::test_against_duckdb[sim:bisort-model:lanes=4-skewed-1024",
            "test_large.py::test_against_duckdb[sim:bisort-model:lanes=4-rising-1024",
            "test_large.py::test_against_duckdb[sim:bisort-model:lanes=4-uint64-1024",
        ),
    ),
    DeviceCase("sim:splitjoin-model", max_window=16_384, indexes=("auto",), every=20),
    # The same with a second column, for which conjunctions are what there is.
    DeviceCase(
        "sim:splitjoin-model:columns=2",
        max_window=16_384,
        indexes=("auto",),
        pinned=("test_all_of.py::",),
        every=4,
        pinned_only=True,
    ),
    # It carries out the suite but for what is there for its many rows or pairs, and for what is the host's work alone.
    DeviceCase(
        "sim:bisort-fast",
        every=20,
        long=(
            "test_all_of.py",
            "test_columns.py::test_rows_and_pairs_are_the_same_result",
            "test_count_windows.py::test_thousands_of_rows_in_a_call_and_tiny_windows",
            "test_flights.py",
            "test_how.py",
            "test_large.py::test_one_huge_call_equals_many_small_ones",
            "test_self_joins.py::test_many_rows_equal",
            "test_resources.py::test_a_result_of_millions_of_pairs",
        ),
    ),
    # The same kernel as the one before, with a memory that makes it wait: keys at their limits, windows at their edges,
    # and streams of thousands of rows, all with keys of 64 bits. One more board to compile would be for nothing else.
    DeviceCase(
        "sim:bisort",
        pinned=(
            "test_integer_keys.py::test_compare_at_the_limits",
            "test_integer_keys.py::test_unions_at_the_limits",
            "test_count_windows.py::test_many_calls_of_every_size",
            "test_count_windows.py::test_self_join",
            "test_time_windows.py::test_the_watermark_makes_room",
            "test_large.py::test_against_duckdb[sim:bisort-int64-1024-auto",
        ),
    ),
    # A compilation of its own, and about as many rows a second as the model: keys at their limits, windows at their
    # edges, time windows that empty themselves, and a stream of thousands of rows in order.
    DeviceCase(
        "sim:splitjoin",
        max_window=16_384,
        indexes=("auto",),
        pinned=(
            "test_integer_keys.py::test_compare_at_the_limits",
            "test_integer_keys.py::test_unions_at_the_limits",
            "test_float_keys.py",
            "test_count_windows.py::test_many_calls_of_every_size",
            "test_count_windows.py::test_null_keys",
            "test_count_windows.py::test_self_join",
            "test_time_windows.py::test_capacity_exactly_full",
            "test_time_windows.py::test_rows_leave_only",
            "test_large.py::test_against_duckdb[sim:splitjoin-int64-97-auto",
        ),
        long=("test_resources.py::test_a_result_of_millions_of_pairs",),
    ),
    # Compiled again with a second column, and only with --full.
    DeviceCase(
        "sim:splitjoin:columns=2",
        max_window=16_384,
        indexes=("auto",),
        pinned=("test_all_of.py::test_sample", "test_all_of.py::test_self_join"),
        long=("test_all_of.py::",),
        pinned_only=True,
    ),
    # A board's own OpenCL kernel and driver, with the model in C of what is hardware there.
    DeviceCase(
        "sim:de5a",
        pinned=(
            "test_integer_keys.py::test_compare_at_the_limits",
            "test_count_windows.py::test_many_calls_of_every_size",
            "test_time_windows.py::test_the_watermark_makes_room",
        ),
    ),
    # The same with SplitJoin.
    DeviceCase(
        "sim:de5a:design=splitjoin",
        max_window=65_536,
        indexes=("auto",),
        pinned=(
            "test_integer_keys.py::test_unions_at_the_limits",
            "test_count_windows.py::test_many_calls_of_every_size",
            "test_time_windows.py::test_rows_leave_only",
        ),
    ),
    # What the board carries, with its link and its memory controller: a few small joins, as its serial line takes up to
    # ten seconds for each.
    DeviceCase(
        "sim:ecpix5",
        key_bits=32,
        pinned=("test_contract.py::test_sample[sim:ecpix5-rows-unequal/band-open-low/bisort/rows/inner/int16-int32/",),
        pinned_only=True,
    ),
    # The same on another board, with SDR SDRAM.
    DeviceCase(
        "sim:ulx3s",
        key_bits=32,
        pinned=(
            "test_contract.py::test_sample[sim:ulx3s-rows-unequal-back/band-zero/auto/counts/none/int32/",
            "test_contract.py::test_sample[sim:ulx3s-rows-wide/any-",
            "test_contract.py::test_sample[sim:ulx3s-within-late/",
        ),
        long=("test_contract.py::test_sample[sim:ulx3s-rows-wide", "test_contract.py::test_sample[sim:ulx3s-within"),
        pinned_only=True,
    ),
    # The same board with SplitJoin: a small join of each kind of window, with keys of 64 bits and, in the time window,
    # bounds that rows carry.
    DeviceCase(
        "sim:ecpix5:design=splitjoin",
        max_window=8192,
        indexes=("auto",),
        pinned=(
            "test_contract.py::test_sample[sim:ecpix5:design=splitjoin-rows-wide/compare-greater-equal/auto/rows/",
            "test_contract.py::test_sample[sim:ecpix5:design=splitjoin-within-late-right/any-overlapping/auto/rows/",
        ),
        pinned_only=True,
    ),
]
