"""Build parameters of the BI-Sort engine: the one place that holds a default. Standard library only."""

from __future__ import annotations

import dataclasses

from muntin.hw.errors import ParameterError

ROW_BITS = 32
"""Width of a row number: the low bits of a row's arrival number, compared modulo 2**32."""

_MAX_BURST_BYTES = 4096  # an AXI4 burst must not cross a 4 KiB boundary
_MAX_BURST_BEATS = 256


def _power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameters:
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
    buffer_rows : int
        B, the rows of the insertion buffer; a multiple of `width`.
    bound_rows : int
        Bounds that may wait on chip for the partition they fall into.
    queue_rows : int
        Commands that may wait.
    lanes : int
        Engines that work side by side on disjoint ranges of keys.
    channels : int
        Memory channels; runs are read from one and written to another where there are two.
    data_bits : int
        Width of a memory port, 32 to 1024.
    address_bits : int
        Width of a byte address.
    burst_bytes : int
        Longest burst: at most 4 KiB, and at most 256 beats.
    outstanding : int
        Bursts that may be under way at once, of all readers of a channel together, and of all writers.
    turn_bytes : int
        Bytes moved in one direction before a shared channel turns to the other.
    alternate_bytes : int
        Bytes after which the memory goes on in a row of its own, a power of two: bursts that follow each other go to
        rows of different parity where there is a choice. 0: it does not matter.
    clock_hz : int
        The clock the preset is meant for; figures in time are made with it, nothing is built from it.

    Raises
    ------
    ParameterError
        Naming the parameter, its value and what it may be.
    """

    key_bits: int
    width: int
    partition_log2: int
    index_rows: int
    buffer_rows: int
    bound_rows: int
    queue_rows: int
    lanes: int
    channels: int
    data_bits: int
    address_bits: int
    burst_bytes: int
    outstanding: int
    turn_bytes: int
    alternate_bytes: int
    clock_hz: int

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < (field.name != "alternate_bytes"):
                raise ParameterError(f"{field.name} must be a positive integer, not {value!r}")
        self._one_of("key_bits", (32, 64))
        self._one_of("width", (1, 2, 4, 8, 16))
        self._one_of("data_bits", (32, 64, 128, 256, 512, 1024))
        self._one_of("channels", (1, 2, 4, 8, 16, 32))
        self._one_of("lanes", (1, 2, 4, 8, 16, 32))
        for name in ("index_rows", "bound_rows", "queue_rows", "burst_bytes", "turn_bytes"):
            if not _power_of_two(getattr(self, name)):
                raise ParameterError(f"{name} must be a power of two, not {getattr(self, name)}")
        if self.alternate_bytes and not _power_of_two(self.alternate_bytes):
            raise ParameterError(f"alternate_bytes must be 0 or a power of two, not {self.alternate_bytes}")
        if not 12 <= self.address_bits <= 64:
            raise ParameterError(f"address_bits must lie in 12..64, not {self.address_bits}")
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
        if not self.beat_bytes <= self.burst_bytes <= _MAX_BURST_BYTES:
            raise ParameterError(
                f"burst_bytes must lie in {self.beat_bytes}..{_MAX_BURST_BYTES}, not {self.burst_bytes}"
            )
        if self.burst_beats > _MAX_BURST_BEATS:
            raise ParameterError(
                f"burst_bytes must be at most {_MAX_BURST_BEATS} beats of {self.beat_bytes} bytes, "
                f"not {self.burst_bytes}"
            )
        if self.turn_bytes < self.burst_bytes:
            raise ParameterError(f"turn_bytes must be at least burst_bytes, {self.burst_bytes}, not {self.turn_bytes}")

    def _one_of(self, name: str, allowed: tuple[int, ...]) -> None:
        if getattr(self, name) not in allowed:
            raise ParameterError(f"{name} must be one of {', '.join(map(str, allowed))}, not {getattr(self, name)}")

    @property
    def partition_rows(self) -> int:
        """Rows of a partition, 2**k."""
        return 1 << self.partition_log2

    @property
    def run_rows(self) -> int:
        """Rows of the longest run whose index fits on chip."""
        return self.index_rows << self.partition_log2

    @property
    def beat_bytes(self) -> int:
        """Bytes of a memory beat."""
        return self.data_bits // 8

    @property
    def burst_beats(self) -> int:
        """Beats of the longest burst."""
        return self.burst_bytes // self.beat_bytes

    @property
    def keys_per_beat(self) -> int:
        """Keys in a memory beat."""
        return self.data_bits // self.key_bits

    @property
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
    # The paper's board: an Arria 10 with two channels of DDR3-1066, 64 bits wide, at the paper's clock.
    "de5a": Parameters(
        key_bits=32,
        width=8,
        partition_log2=8,
        index_rows=65536,
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
