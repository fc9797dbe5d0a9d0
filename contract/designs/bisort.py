"""BI-Sort (PanJoin, section IV) as data: build parameters with the presets, what a build tells of itself, counters."""

from __future__ import annotations

import dataclasses
import functools

from muntin.contract import ParameterError
from muntin.contract.design import Design
from muntin.contract.memory_port import MemoryPort
from muntin.contract.registers import Field, KernelMap, Operation

ROW_BITS = 32
"""Width of a row number: the low bits of a row's arrival number, compared modulo 2**32."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameters(MemoryPort):
    """How large and how wide a BI-Sort engine is built.

    Attributes
    ----------
    key_bits : int
        Width of an encoded key, 32 or 64.
    width : int
        W, the rows that the merger puts out per cycle: 1, 2, 4, 8 or 16.
    partition_log2 : int
        k: the index holds every 2**k-th key, so a partition is 2**k rows long.
    index_rows : int
        Index entries that fit on chip; a run may hold ``index_rows << partition_log2`` rows.
    index_width : int
        Index entries that a bound is compared with in a cycle: 2, 4, 8 or 16, less than `index_rows`.
    buffer_rows : int
        B, the rows of the insertion buffer; a multiple of `width`.
    bound_rows : int
        Bounds that may wait on chip for the partition they fall into, at least 2; twice as many are kept there, and
        probed in one run after the other.
    queue_rows : int
        Commands that may wait.
    lanes : int
        Engines that work side by side on disjoint ranges of keys.
    channels : int
        Memory channels; runs are read from one and written to another where there are two.

    The others are those of `MemoryPort`.

    Raises
    ------
    ParameterError
        Naming the parameter, its value and what it may be.
    """

    key_bits: int
    width: int
    partition_log2: int
    index_rows: int
    index_width: int
    buffer_rows: int
    bound_rows: int
    queue_rows: int
    lanes: int
    channels: int

    def __post_init__(self) -> None:
        self._at_least(1, "key_bits", "width", "partition_log2", "index_rows", "buffer_rows", "bound_rows")
        self._at_least(1, "queue_rows", "lanes", "channels")
        super().__post_init__()
        self._one_of("key_bits", (32, 64))
        self._one_of("width", (1, 2, 4, 8, 16))
        self._one_of("index_width", (2, 4, 8, 16))
        self._one_of("channels", (1, 2, 4, 8, 16, 32))
        self._one_of("lanes", (1, 2, 4, 8, 16, 32))
        self._powers_of_two("index_rows", "bound_rows", "queue_rows")
        if self.index_width >= self.index_rows:
            raise ParameterError(f"index_width must be less than index_rows, {self.index_rows}, not {self.index_width}")
        if self.data_bits < self.key_bits:
            raise ParameterError(f"data_bits must be at least key_bits, {self.key_bits}, not {self.data_bits}")
        if self.partition_log2 > 31:
            raise ParameterError(f"partition_log2 must lie in 1..31, not {self.partition_log2}")
        longest = max(self.width, self.keys_per_beat, self.rows_per_beat)
        if self.partition_rows < longest:
            raise ParameterError(
                f"a partition must hold a beat of {longest}, so partition_log2 must be at least "
                f"{(longest - 1).bit_length()}, not {self.partition_log2}"
            )
        if self.run_rows >> ROW_BITS:
            raise ParameterError(
                f"index_rows << partition_log2 must be below 2**{ROW_BITS}, as positions have as many bits, "
                f"not {self.run_rows}"
            )
        if self.buffer_rows % self.width:
            raise ParameterError(f"buffer_rows must be a multiple of width, {self.width}, not {self.buffer_rows}")
        if self.bound_rows < 2:
            raise ParameterError(f"bound_rows must be at least 2, not {self.bound_rows}")
        if self.probe_rows * self.key_bits // 8 < self.beat_bytes:
            raise ParameterError(
                f"the keys of bound_rows / 2 probes must fill a beat, so bound_rows must be at least "
                f"{2 * self.data_bits // self.key_bits}, not {self.bound_rows}"
            )

    @functools.cached_property
    def partition_rows(self) -> int:
        """Rows of a partition, 2**k."""
        return 1 << self.partition_log2

    @functools.cached_property
    def run_rows(self) -> int:
        """Rows of the longest run whose index fits on chip."""
        return self.index_rows << self.partition_log2

    @functools.cached_property
    def probe_rows(self) -> int:
        """Probes whose bounds go through all runs before those of the next ones."""
        return self.bound_rows // 2

    @functools.cached_property
    def keys_per_beat(self) -> int:
        """Keys in a memory beat."""
        return self.data_bits // self.key_bits

    @functools.cached_property
    def rows_per_beat(self) -> int:
        """Row numbers in a memory beat."""
        return self.data_bits // ROW_BITS

    @classmethod
    def preset(cls, name: str) -> Parameters:
        """A named set of parameters.

        Raises
        ------
        ParameterError
            If there is no such preset.
        """
        if name not in PRESETS:
            raise ParameterError(f"preset must be one of {', '.join(PRESETS)}, not {name!r}")
        return PRESETS[name]


PRESETS: dict[str, Parameters] = {
    # Small enough that Verilator compiles it in seconds and a test reaches every limit.
    "tiny": Parameters(
        key_bits=32,
        width=2,
        partition_log2=4,
        index_rows=64,
        index_width=4,
        buffer_rows=8,
        bound_rows=8,
        queue_rows=4,
        lanes=1,
        channels=1,
        data_bits=64,
        address_bits=32,
        burst_bytes=64,
        outstanding=4,
        turn_bytes=256,
        alternate_bytes=0,
        clock_hz=100_000_000,
    ),
    # An ECP5-85 with one x16 DDR3 chip behind LiteDRAM: 128 bits are four keys, or two whole rows, a cycle.
    "ecp5": Parameters(
        key_bits=32,
        width=4,
        partition_log2=10,
        index_rows=8192,
        index_width=8,
        buffer_rows=32,
        bound_rows=512,
        queue_rows=16,
        lanes=1,
        channels=1,
        data_bits=128,
        address_bits=32,
        burst_bytes=2048,
        outstanding=16,
        turn_bytes=16384,
        alternate_bytes=2048,
        clock_hz=100_000_000,
    ),
    # The ECPIX-5: the same part, whose memory gives a beat every other cycle at the clock that the whole of it reaches.
    "ecpix5": Parameters(
        key_bits=32,
        width=2,
        partition_log2=8,
        index_rows=16384,
        index_width=8,
        buffer_rows=32,
        bound_rows=512,
        queue_rows=16,
        lanes=1,
        channels=1,
        data_bits=128,
        address_bits=29,
        burst_bytes=512,
        outstanding=16,
        turn_bytes=4096,
        alternate_bytes=2048,
        clock_hz=40_000_000,
    ),
    # The ULX3S: the same part in a slower grade, and 32 MiB whose chip gives two bytes a cycle.
    "ulx3s": Parameters(
        key_bits=32,
        width=2,
        partition_log2=6,
        index_rows=4096,
        index_width=4,
        buffer_rows=16,
        bound_rows=128,
        queue_rows=16,
        lanes=1,
        channels=1,
        data_bits=64,
        address_bits=25,
        burst_bytes=256,
        outstanding=4,
        turn_bytes=1024,
        alternate_bytes=0,
        clock_hz=25_000_000,
    ),
    # The paper's board: an Arria 10 with two channels of DDR3-1066, 64 bits wide, at the paper's clock.
    "de5a": Parameters(
        key_bits=32,
        width=8,
        partition_log2=8,
        index_rows=65536,
        index_width=8,
        buffer_rows=64,
        bound_rows=1024,
        queue_rows=64,
        lanes=1,
        channels=2,
        data_bits=512,
        address_bits=33,
        burst_bytes=4096,
        outstanding=16,
        turn_bytes=16384,
        alternate_bytes=8192,
        clock_hz=252_700_000,
    ),
}

_BISORT_BUILD: tuple[Field, ...] = (
    Field("key_words", 0, 2, "Words of a key: 1 or 2."),
    Field("width_log2", 2, 3, "log2 of the merger's width."),
    Field("partition_log2", 5, 5, "k."),
    Field("data_log2", 10, 4, "log2 of the memory port's bits."),
    Field("channels_log2", 14, 3, "log2 of the memory channels."),
    Field("lanes_log2", 17, 3, "log2 of the lanes."),
    Field("index_log2", 20, 5, "log2 of the index entries on chip."),
    Field("buffer_rows", 25, 7, "Rows of the insertion buffer, at most 127 shown."),
)

_COUNTERS: tuple[tuple[str, str], ...] = (
    ("cycles", "Cycles in which a command was under way."),
    ("commands", "Commands completed."),
    ("read_beats", "Memory beats read."),
    ("write_beats", "Memory beats written."),
    ("read_stalls", "Cycles in which the datapath waited for data from memory."),
    ("write_stalls", "Cycles in which a write beat was ready and the memory did not take it."),
    ("address_stalls", "Cycles in which a burst was ready and the memory did not take its address."),
    ("output_stalls", "Cycles in which the datapath waited for its own output to drain."),
    ("partitions", "Partitions requested by the prober."),
    (
        "rows_in",
        "Taken in by completed commands: MERGE: rows of both runs. PROBE, and GATHER and COUNT with `probe`: bounds, "
        "two a probe. GATHER, COUNT: ranges. INSERT: rows. Others: none.",
    ),
    (
        "rows_out",
        "Put out by completed commands: MERGE: rows. PROBE: ranges. GATHER: pairs. COUNT: counts. Others: none.",
    ),
    ("turns", "Times a shared channel changed its direction."),
)
"""64-bit performance counters of the BI-Sort kernel, low word first, from `COUNTER_BASE`.

Reading a low word keeps the high word that belongs to it for the next read.
"""


def _bisort_values(parameters: Parameters) -> dict[str, int]:
    return {
        "key_words": parameters.key_bits // 32,
        "width_log2": parameters.width.bit_length() - 1,
        "partition_log2": parameters.partition_log2,
        "data_log2": parameters.data_bits.bit_length() - 1,
        "channels_log2": parameters.channels.bit_length() - 1,
        "lanes_log2": parameters.lanes.bit_length() - 1,
        "index_log2": parameters.index_rows.bit_length() - 1,
        "buffer_rows": min(parameters.buffer_rows, 127),
    }


BISORT = KernelMap(
    "BI-Sort",
    0x4D554C31,
    "the letters MUL1: layout version 1",
    _BISORT_BUILD,
    _bisort_values,
    _COUNTERS,
    (*tuple(Operation)[: Operation.DISCARD + 1], Operation.INDEX),
    lanes=lambda parameters: parameters.lanes,
)

DESIGN = Design("bisort", Parameters, BISORT, kernel="bisort.kernel:Kernel", model="kernel:KernelModel", engine="runs")
