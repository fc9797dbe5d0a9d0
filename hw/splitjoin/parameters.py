"""Build parameters of SplitJoin: the one place that holds a default. Standard library only."""

from __future__ import annotations

import dataclasses

from muntin.hw.errors import ParameterError


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitJoinParameters:
    """How many join cores SplitJoin has, how large they are, and what memory the kernel around it has.

    Attributes
    ----------
    cores : int
        J, any number.
    lanes : int
        C, the stored rows that a region compares per cycle: 1, 2, 4 or 8.
    rows : int
        Rows of one stream that a core holds, a power of two and at least `lanes`; both streams alike.
    key_bits : int
        Width of an encoded key, 32 or 64.
    time_bits : int
        Width of an encoded time, 32 or 64; 0 builds no time windows.
    bounds : int
        1 to let rows carry the bounds that stored keys are compared with, 0 to build nothing for that.
    fan_out : int
        k, the branches of a node of the distributor, at least 2.
    depth : int
        Levels of the distributor; 0 for the fewest that reach every core.
    fan_in : int
        Branches of a node of the merger trees, at least 2.
    probe_rows : int
        Probing rows that may wait in a region while later rows are stored, at most 1024.
    result_rows : int
        Results, or words of `lanes` rows that have some, that may wait in a sub-window (twelve at least in nested
        loops), and results at each input of a node of the merger trees; 2 to 1024.
    queue_rows : int
        Commands that may wait.
    data_bits : int
        Width of the memory port, 128 to 1024.
    address_bits, burst_bytes, outstanding, turn_bytes, alternate_bytes, clock_hz : int
        Of the memory port, as in `muntin.hw.parameters.Parameters`.

    Raises
    ------
    ParameterError
        Naming the parameter, its value and what it may be.
    """

    cores: int
    lanes: int
    rows: int
    key_bits: int
    time_bits: int
    fan_out: int
    depth: int
    fan_in: int
    probe_rows: int
    result_rows: int
    bounds: int
    queue_rows: int
    data_bits: int
    address_bits: int
    burst_bytes: int
    outstanding: int
    turn_bytes: int
    alternate_bytes: int
    clock_hz: int

    def __post_init__(self) -> None:
        for name, least in (
            ("cores", 1),
            ("lanes", 1),
            ("rows", 1),
            ("fan_out", 2),
            ("depth", 0),
            ("fan_in", 2),
            ("probe_rows", 1),
            ("result_rows", 2),
            ("bounds", 0),
            ("queue_rows", 1),
            ("burst_bytes", 1),
            ("outstanding", 1),
            ("turn_bytes", 1),
            ("alternate_bytes", 0),
            ("clock_hz", 1),
        ):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise ParameterError(f"{name} must be an integer of at least {least}, not {value!r}")
        for name in ("probe_rows", "result_rows"):  # rows under way are told apart by 16 bits
            if getattr(self, name) > 1024:
                raise ParameterError(f"{name} must be at most 1024, not {getattr(self, name)}")
        for name, allowed in (
            ("lanes", (1, 2, 4, 8)),
            ("key_bits", (32, 64)),
            ("time_bits", (0, 32, 64)),
            ("bounds", (0, 1)),
            ("data_bits", (128, 256, 512, 1024)),
        ):
            if getattr(self, name) not in allowed:
                raise ParameterError(
                    f"{name} must be one of {', '.join(map(str, allowed))}, not {getattr(self, name)!r}"
                )
        if self.rows & (self.rows - 1):
            raise ParameterError(f"rows must be a power of two, not {self.rows}")
        if self.rows < self.lanes:
            raise ParameterError(f"rows must be at least lanes, {self.lanes}, not {self.rows}")
        if self.capacity >> 32:
            raise ParameterError(f"cores * rows must be below 2**32, not {self.capacity}")
        if self.depth and self.fan_out**self.depth < self.cores:
            raise ParameterError(
                f"depth must be at least {_levels(self.cores, self.fan_out)}, or 0, for {self.cores} cores and a "
                f"fan-out of {self.fan_out}, not {self.depth}"
            )
        if type(self.address_bits) is not int or not 12 <= self.address_bits <= 64:
            raise ParameterError(f"address_bits must lie in 12..64, not {self.address_bits!r}")
        for name in ("queue_rows", "burst_bytes", "turn_bytes", "alternate_bytes"):
            value = getattr(self, name)
            if value & (value - 1):
                raise ParameterError(f"{name} must be a power of two, not {value}")
        longest = min(4096, 256 * self.beat_bytes)  # an AXI4 burst has 256 beats, and crosses no 4 KiB boundary
        if not self.beat_bytes <= self.burst_bytes <= longest:
            raise ParameterError(f"burst_bytes must lie in {self.beat_bytes}..{longest}, not {self.burst_bytes}")
        if self.turn_bytes < self.burst_bytes:
            raise ParameterError(f"turn_bytes must be at least burst_bytes, {self.burst_bytes}, not {self.turn_bytes}")

    @property
    def capacity(self) -> int:
        """Rows of the longest window of one stream."""
        return self.cores * self.rows

    @property
    def channels(self) -> int:
        """Memory channels: one."""
        return 1

    @property
    def beat_bytes(self) -> int:
        """Bytes of a memory beat."""
        return self.data_bits // 8

    @property
    def place_bits(self) -> int:
        """Width of a place: a row's number in its core, modulo four times what the core holds, and eight at least.

        A sub-window knows some places up to three rows late, and tells them apart over a window and these rows.
        """
        return max((self.rows - 1).bit_length() + 2, 3)

    @property
    def every_log2_max(self) -> int:
        """The greatest `every`: a punctuation after as many comparisons as a core holds rows."""
        return self.rows.bit_length() - 1

    @property
    def levels(self) -> int:
        """Levels of the distributor."""
        return self.depth or _levels(self.cores, self.fan_out)

    @property
    def merger_levels(self) -> int:
        """Levels of a merger tree."""
        return _levels(self.cores, self.fan_in)

    @classmethod
    def preset(cls, name: str) -> SplitJoinParameters:
        """A named set of parameters.

        Raises
        ------
        ParameterError
            If there is no such preset.
        """
        if name not in PRESETS:
            raise ParameterError(f"preset must be one of {', '.join(PRESETS)}, not {name!r}")
        return PRESETS[name]


def _levels(leaves: int, branches: int) -> int:
    """Levels of the flattest tree with so many leaves."""
    levels = 0
    while branches**levels < leaves:
        levels += 1
    return levels


PRESETS: dict[str, SplitJoinParameters] = {
    # Small enough that Verilator compiles it in seconds and a test reaches every limit.
    "tiny": SplitJoinParameters(
        cores=3,
        lanes=2,
        rows=8,
        key_bits=32,
        time_bits=32,
        fan_out=2,
        depth=0,
        fan_in=2,
        probe_rows=2,
        result_rows=2,
        bounds=1,
        queue_rows=4,
        data_bits=128,
        address_bits=32,
        burst_bytes=64,
        outstanding=4,
        turn_bytes=256,
        alternate_bytes=0,
        clock_hz=100_000_000,
    ),
    # Eight cores of 1 K rows a side on an ECP5-85: 8 K rows a window, count windows. The memory as for BI-Sort.
    "ecp5": SplitJoinParameters(
        cores=8,
        lanes=1,
        rows=1024,
        key_bits=32,
        time_bits=0,
        fan_out=4,
        depth=0,
        fan_in=2,
        probe_rows=4,
        result_rows=16,
        bounds=0,
        queue_rows=16,
        data_bits=128,
        address_bits=32,
        burst_bytes=2048,
        outstanding=16,
        turn_bytes=16384,
        alternate_bytes=2048,
        clock_hz=100_000_000,
    ),
    # All that the operator asks for: any key, both kinds of windows, bounds made by the host. 16 K rows a window.
    "operator": SplitJoinParameters(
        cores=8,
        lanes=4,
        rows=2048,
        key_bits=64,
        time_bits=64,
        fan_out=4,
        depth=0,
        fan_in=2,
        probe_rows=4,
        result_rows=16,
        bounds=1,
        queue_rows=16,
        data_bits=128,
        address_bits=29,
        burst_bytes=2048,
        outstanding=16,
        turn_bytes=16384,
        alternate_bytes=2048,
        clock_hz=100_000_000,
    ),
    # All that the operator asks for on the ECPIX-5, in the block RAM that memory controller and link leave: 8 K rows a
    # window. Few rows that wait, as larger builds left more overused wires. The memory port as of BI-Sort's build
    # for that board, but at the clock that LiteX runs this board with, which this kernel reaches.
    "ecpix5": SplitJoinParameters(
        cores=2,
        lanes=4,
        rows=4096,
        key_bits=64,
        time_bits=64,
        fan_out=4,
        depth=0,
        fan_in=2,
        probe_rows=1,
        result_rows=16,
        bounds=1,
        queue_rows=16,
        data_bits=128,
        address_bits=29,
        burst_bytes=512,
        outstanding=16,
        turn_bytes=4096,
        alternate_bytes=2048,
        clock_hz=75_000_000,
    ),
}
