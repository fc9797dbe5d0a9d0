"""SplitJoin (section 3 of its paper) as data: build parameters with the presets, settings, rows and results in memory.

Rows, results and the summary of a join lie in memory as 32-bit words, low word first; keys, bounds and times are
unsigned.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from muntin.contract import ParameterError
from muntin.contract.design import Design
from muntin.contract.memory_port import MemoryPort
from muntin.contract.registers import SETTINGS_BASE, Access, Field, KernelMap, Operation, Register, signed


class Order(enum.IntEnum):
    """Where punctuation is put among the results.

    ``NONE``: nowhere. ``OUTER``: after each probing row that does not say that there are ``more`` in its group.
    ``INNER``: after each probing row, and within it after every ``1 << every`` comparisons of each core; with 0 for
    `every`, the pairs of a probing row come out by the stored row's age.
    """

    NONE = 0
    OUTER = 1
    INNER = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitJoinParameters(MemoryPort):
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
    columns : int
        Keys of a row: 1, or 2 in a build with bounds. The second one, as wide as the first, is compared with the bounds
        that the probing row carries for it, in the same cycle; a pair matches where both do.
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

    The others are those of `MemoryPort`, `data_bits` 128 at least.

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
    columns: int = 1

    def __post_init__(self) -> None:
        self._at_least(1, "cores", "lanes", "rows", "probe_rows", "queue_rows")
        self._at_least(2, "fan_out", "fan_in", "result_rows")
        self._at_least(0, "depth", "bounds")
        super().__post_init__()
        for name in ("probe_rows", "result_rows"):  # 16 bits distinguish the rows under way
            if getattr(self, name) > 1024:
                raise ParameterError(f"{name} must be at most 1024, not {getattr(self, name)}")
        self._one_of("lanes", (1, 2, 4, 8))
        self._one_of("key_bits", (32, 64))
        self._one_of("time_bits", (0, 32, 64))
        self._one_of("bounds", (0, 1))
        self._one_of("columns", (1, 2))
        if self.columns > 1 and not self.bounds:
            raise ParameterError(f"columns must be 1 without bounds, not {self.columns}")
        self._powers_of_two("rows", "queue_rows")
        if self.rows < self.lanes:
            raise ParameterError(f"rows must be at least lanes, {self.lanes}, not {self.rows}")
        if self.capacity >> 32:
            raise ParameterError(f"cores * rows must be below 2**32, not {self.capacity}")
        if self.depth and self.fan_out**self.depth < self.cores:
            raise ParameterError(
                f"depth must be at least {_levels(self.cores, self.fan_out)}, or 0, for {self.cores} cores and a "
                f"fan-out of {self.fan_out}, not {self.depth}"
            )

    @classmethod
    def _data_bits(cls) -> tuple[int, ...]:
        return 128, 256, 512, 1024

    @property
    def capacity(self) -> int:
        """Rows of the longest window of one stream."""
        return self.cores * self.rows

    @property
    def channels(self) -> int:
        """Memory channels: one."""
        return 1

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
    # window. Few rows that wait and two comparisons, as larger builds left more overused wires. The memory port as of
    # BI-Sort's build for that board.
    "ecpix5": SplitJoinParameters(
        cores=2,
        lanes=2,
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
        clock_hz=60_000_000,
    ),
}

NUMBER_BITS = 31
"""Width of the number that names a row in memory: the low bits of its arrival number. The next bit is zero in a row."""

ROW_FLAGS: tuple[Field, ...] = (
    Field("side", 0, 1, "0 for a row of the left stream, 1 for one of the right stream."),
    Field("null", 1, 1, "The row matches nothing, though it takes its place in the window."),
    Field("mark", 2, 1, "No row, but the promise that no later row of its stream has an earlier time."),
    Field("again", 3, 1, "The row before it once more, with other bounds: it probes, and is not stored again."),
    Field(
        "more", 4, 1, "For order 1: no punctuation behind its results; the next row of its stream belongs to its group."
    ),
)
"""The second word of a row."""

RESULT_FIELDS: tuple[tuple[Field, ...], ...] = (
    (
        Field("probe", 0, NUMBER_BITS, "The number of the probing row."),
        Field("side", 31, 1, "The stream of the probing row."),
    ),
    (
        Field("row", 0, NUMBER_BITS, "The number of the stored row; of a punctuation 1 if it ends a probe, else 0."),
        Field("star", 31, 1, "1 for a punctuation, 0 for a pair."),
    ),
)
"""The words of a result."""

RESULT_BYTES = 4 * len(RESULT_FIELDS)

SUMMARY_FIELDS: tuple[tuple[Field, ...], ...] = (
    (Field("rows", 0, 32, "Rows taken."),),
    (Field("results", 0, 32, "Results written."),),
    (
        Field("drained", 0, 1, "Nothing is under way any more: all results of the rows are in memory."),
        Field("overflow", 1, 1, "A time window did not fit: pairs are missing."),
        Field("incomplete", 2, 1, "A core is dead: its pairs are missing."),
        Field("core", 16, 16, "The first core that died."),
    ),
    (),
)
"""The words of a summary, which is the first 128 bits of a beat; the rest of the beat is zero."""


def second_column(parameters: SplitJoinParameters) -> tuple[str, ...]:
    """What a row has of a second column: its key, and the bounds of what it may meet. Empty where there is one."""
    return ("key_2", "lower_2", "upper_2") if parameters.columns > 1 else ()


def row_fields(parameters: SplitJoinParameters) -> dict[str, tuple[int, int]]:
    """First word and number of words of each field of a row.

    Returns
    -------
    dict of str to (int, int)
        ``row``, the number; ``flags``, see `ROW_FLAGS`; ``key``; ``lower`` and ``upper`` where rows carry bounds;
        ``time`` where there are times; ``key_2``, ``lower_2`` and ``upper_2`` where there are two columns.
    """
    sizes = {"row": 1, "flags": 1, "key": parameters.key_bits // 32}
    if parameters.bounds:
        sizes |= {"lower": parameters.key_bits // 32, "upper": parameters.key_bits // 32}
    if parameters.time_bits:
        sizes["time"] = parameters.time_bits // 32
    sizes |= dict.fromkeys(second_column(parameters), parameters.key_bits // 32)
    made, at = {}, 0
    for name, words in sizes.items():
        made[name] = (at, words)
        at += words
    return made


def row_words(parameters: SplitJoinParameters) -> int:
    """Words of a row in memory, a power of two: zeros behind its fields."""
    at, words = list(row_fields(parameters).values())[-1]
    return 1 << (at + words - 1).bit_length()


_SPLITJOIN_BUILD: tuple[Field, ...] = (
    Field("key_words", 0, 2, "Words of a key: 1 or 2."),
    Field("time_words", 2, 2, "Words of a time; 0 without time windows."),
    Field("bounds", 4, 1, "1 where rows may carry bounds of their own."),
    Field("lanes_log2", 5, 2, "log2 of the rows that a region compares per cycle."),
    Field("rows_log2", 7, 5, "log2 of the rows of one stream that a core holds."),
    Field("data_log2", 12, 4, "log2 of the memory port's bits."),
    Field("cores", 16, 16, "Join cores, at most 65535 shown."),
)

_SPLITJOIN_COUNTERS: tuple[tuple[str, str], ...] = (
    ("cycles", "Cycles in which a command was under way."),
    ("commands", "Commands completed."),
    ("read_beats", "Memory beats read."),
    ("write_beats", "Memory beats written."),
    ("input_stalls", "Cycles in which a row could have been taken and none was there."),
    ("output_stalls", "Cycles in which a result waited for the memory."),
    ("rows_in", "Rows taken in."),
    ("rows_out", "Results put out, punctuation included."),
    ("compared", "Stored rows compared with a probing row."),
)


_SETTINGS: tuple[tuple[str, int, str, tuple[Field, ...]], ...] = (
    ("LEFT_ROWS", 1, "Length of the left stream's count window.", ()),
    ("RIGHT_ROWS", 1, "Length of the right stream's count window.", ()),
    ("LOW", 3, "Lower bound of the predicate, signed, of which the low key_bits + 1 bits count.", ()),
    ("HIGH", 3, "Upper bound of the predicate, as LOW.", ()),
    (
        "PREDICATE",
        1,
        "How stored rows are compared.",
        (
            Field(
                "complement", 0, 1, "1 to take the pairs that the predicate leaves out; of two columns, the first's."
            ),
            Field("own_bounds", 1, 1, "1 to compare with the bounds that rows carry, in a build with bounds."),
        ),
    ),
    (
        "ORDER",
        1,
        "How far results come out in order.",
        (
            Field("order", 0, 2, "0 none, 1 by probing row, or by groups as rows say, 2 also by stored row."),
            Field("every", 8, 5, "For order 2: a punctuation after every 2**every comparisons of each core."),
        ),
    ),
    (
        "TIMED",
        1,
        "Kind of the windows, in a build with times.",
        (Field("timed", 0, 1, "1 for time windows, 0 for count windows."),),
    ),
    ("TIME_LOW", 3, "Lower bound of the time window, signed, of which the low time_bits + 1 bits count.", ()),
    ("TIME_HIGH", 3, "Upper bound of the time window, as TIME_LOW.", ()),
    ("LEFT_LATE", 2, "How much earlier than a row of the left stream a later one can be.", ()),
    ("RIGHT_LATE", 2, "How much earlier than a row of the right stream a later one can be.", ()),
    ("CORE_TIMEOUT_CYCLES", 1, "Cycles in which a core that has something to do may stand still; 0 for any.", ()),
)
"""The settings: name, words, meaning, fields. Of several words each has a register, the low one first."""


def _setting_registers() -> tuple[Register, ...]:
    """The registers of the settings, from `SETTINGS_BASE` on."""
    made = []
    offset = SETTINGS_BASE
    for name, words, doc, fields in _SETTINGS:
        for word in range(words):
            full = name if words == 1 else f"{name}_{word}"
            text = doc if words == 1 else f"{doc} Bits {32 * word + 31}:{32 * word}."
            made.append(Register(full, offset, Access.WRITE, text, fields))
            offset += 4
    return tuple(made)


@dataclasses.dataclass(frozen=True, kw_only=True)
class JoinSettings:
    """What the host sets before a join. All are held constant while it is not idle.

    Predicate and time window are bands on the right row minus the left one, ``low <= right - left <= high``. Both
    bounds are one bit wider than what they bound, and signed: the least value leaves the lower bound open, the greatest
    one the upper bound. ``=`` is the band from 0 to 0, ``left < right`` that from 1 up, ``left >= right`` that to 0.

    Attributes
    ----------
    windows : (int, int)
        Length of each stream's count window, left and right.
    low, high : int
        The predicate.
    complement : bool
        Takes the pairs that the predicate leaves out: ``!=`` is the complement of ``=``.
    own_bounds : bool
        Compares stored keys with the bounds that the probing row carries, in the place of `low` and `high`. A second
        column has no predicate but those bounds: with them it is always compared.
    order : Order
    every : int
        For inner order: a punctuation after every ``1 << every`` comparisons of each core.
    timed : bool
        For time windows; else count windows.
    time_low, time_high : int
        The time window.
    late : (int, int)
        How much earlier than a row of each stream a later one can be: what no later row can match is dropped. 0 where
        times never decrease; all ones where rows promise nothing, and only marks do.
    core_timeout_cycles : int
        How long a core that has work may stall, in cycles; 0: without limit.
    """

    windows: tuple[int, int] = (0, 0)
    low: int = 0
    high: int = 0
    complement: bool = False
    own_bounds: bool = False
    order: Order = Order.OUTER
    every: int = 0
    timed: bool = False
    time_low: int = 0
    time_high: int = 0
    late: tuple[int, int] = (0, 0)
    core_timeout_cycles: int = 1 << 16

    def words(self, parameters: SplitJoinParameters) -> dict[str, int]:
        """The registers of these settings by name, in a build with such parameters. A bound beyond what they hold is
        open."""
        values = {
            "LEFT_ROWS": self.windows[0],
            "RIGHT_ROWS": self.windows[1],
            "LOW": _open(self.low, parameters.key_bits),
            "HIGH": _open(self.high, parameters.key_bits),
            "PREDICATE": self.complement | self.own_bounds << 1,
            "ORDER": self.order | self.every << 8,
            "TIMED": int(self.timed),
            "TIME_LOW": _open(self.time_low, parameters.time_bits),
            "TIME_HIGH": _open(self.time_high, parameters.time_bits),
            "LEFT_LATE": self.late[0],
            "RIGHT_LATE": self.late[1],
            "CORE_TIMEOUT_CYCLES": self.core_timeout_cycles,
        }
        return {
            name if words == 1 else f"{name}_{word}": values[name] >> 32 * word & 0xFFFFFFFF
            for name, words, _, _ in _SETTINGS
            for word in range(words)
        }

    @classmethod
    def of_words(cls, registers: Mapping[str, int], parameters: SplitJoinParameters) -> JoinSettings:
        """The settings as a build with such parameters reads its registers, by name."""
        values = {
            name: sum(registers[name if words == 1 else f"{name}_{word}"] << 32 * word for word in range(words))
            for name, words, _, _ in _SETTINGS
        }
        key, time = parameters.key_bits, parameters.time_bits
        late = [values[f"{side}_LATE"] & ((1 << time) - 1) for side in ("LEFT", "RIGHT")]
        return cls(
            windows=(values["LEFT_ROWS"], values["RIGHT_ROWS"]),
            low=signed(values["LOW"], key + 1),
            high=signed(values["HIGH"], key + 1),
            complement=bool(values["PREDICATE"] & 1),
            own_bounds=bool(parameters.bounds and values["PREDICATE"] & 2),
            order=Order(values["ORDER"] & 3),
            every=values["ORDER"] >> 8 & 31,
            timed=bool(time and values["TIMED"] & 1),
            time_low=signed(values["TIME_LOW"], time + 1),
            time_high=signed(values["TIME_HIGH"], time + 1),
            late=(late[0], late[1]),
            core_timeout_cycles=values["CORE_TIMEOUT_CYCLES"],
        )


def _open(bound: int, bits: int) -> int:
    """A bound as a register of so many bits and a sign takes it."""
    return min(max(bound, -(1 << bits)), (1 << bits) - 1)


def _splitjoin_values(parameters: SplitJoinParameters) -> dict[str, int]:
    return {
        "key_words": parameters.key_bits // 32,
        "time_words": parameters.time_bits // 32,
        "bounds": parameters.bounds,
        "lanes_log2": parameters.lanes.bit_length() - 1,
        "rows_log2": parameters.rows.bit_length() - 1,
        "data_log2": parameters.data_bits.bit_length() - 1,
        "cores": min(parameters.cores, 65535),
    }


SPLITJOIN = KernelMap(
    "SplitJoin",
    0x4D554C53,
    "the letters MULS",
    _SPLITJOIN_BUILD,
    _splitjoin_values,
    _SPLITJOIN_COUNTERS,
    (Operation.NOP, Operation.JOIN, Operation.CLEAR),
    _setting_registers(),
    memory=(ROW_FLAGS, RESULT_FIELDS, SUMMARY_FIELDS),
)

DESIGN = Design(
    "splitjoin",
    SplitJoinParameters,
    SPLITJOIN,
    kernel="splitjoin.kernel:SplitJoinKernel",
    model="splitjoin_kernel:SplitJoinKernelModel",
    engine="split_join",
)
