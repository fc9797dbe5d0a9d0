"""Control registers, commands and error codes of the kernels, as data, and hashes of them.

The gateware, the host's constants and the reference page are all made from these tables. What the kernels have in
common stands here, at the same offsets in all of them; what tells them apart is in a `KernelMap` of each
(`muntin.contract.designs`).

Source: the start/done/idle register is the one of OpenCL RTL kernels (``ap_ctrl_hs`` behind AXI4-Lite).
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any


class Access(enum.Enum):
    """What the host may do with a register."""

    READ = "ro"
    """Writes are ignored."""
    WRITE = "rw"
    """Reads give what was written last."""
    CLEAR = "w1c"
    """A one that is written clears the bit."""
    PULSE = "wo"
    """Reads give zero; a write acts once."""
    CONTROL = "ctl"
    """Field by field, as each field says."""


@dataclasses.dataclass(frozen=True)
class Field:
    """Some bits of a register or of a command word.

    Attributes
    ----------
    name : str
    lsb, bits : int
    doc : str
    """

    name: str
    lsb: int
    bits: int
    doc: str

    @property
    def mask(self) -> int:
        """The field's bits, in place."""
        return ((1 << self.bits) - 1) << self.lsb


@dataclasses.dataclass(frozen=True)
class Register:
    """A 32-bit register behind AXI4-Lite.

    Attributes
    ----------
    name : str
    offset : int
        In bytes, a multiple of 4.
    access : Access
    doc : str
    fields : tuple of Field
        Empty where the register is one number.
    """

    name: str
    offset: int
    access: Access
    doc: str
    fields: tuple[Field, ...] = ()

    def field(self, name: str) -> Field:
        """The field of that name. Raises KeyError."""
        return {field.name: field for field in self.fields}[name]


class Operation(enum.IntEnum):
    """What a command asks for; `KernelMap.operations` says which a kernel carries out."""

    NOP = 0
    COPY = 1
    MERGE = 2
    PROBE = 3
    GATHER = 4
    COUNT = 5
    INSERT = 6
    DISCARD = 7
    JOIN = 8
    CLEAR = 9
    INDEX = 10


class ErrorCode(enum.IntEnum):
    """Why a command failed; the first one stays in ERROR_CODE until it is cleared.

    Up to DECODE_ERROR these are the numbers of `muntin.hw.memory.layouts`.
    """

    NONE = 0
    ZERO_LENGTH = 1
    MISALIGNED_ADDRESS = 2
    RUN_TOO_LONG = 3
    ADDRESS_RANGE = 4
    MEMORY_ERROR = 5
    DECODE_ERROR = 6
    UNKNOWN_OPERATION = 7
    QUEUE_OVERFLOW = 8
    TIMEOUT = 9
    BAD_RANGE = 10
    STUCK = 11
    BUFFER_ROWS = 12
    BAD_INDEX = 13
    CORE_STUCK = 14


ERROR_TEXT: dict[ErrorCode, str] = {
    ErrorCode.NONE: "no error",
    ErrorCode.ZERO_LENGTH: "a run, the batch of bounds, or the room for results, has no rows",
    ErrorCode.MISALIGNED_ADDRESS: "an address is not a multiple of the memory beat",
    ErrorCode.RUN_TOO_LONG: "a run has more rows than the index on chip covers",
    ErrorCode.ADDRESS_RANGE: "an array would end beyond the address space",
    ErrorCode.MEMORY_ERROR: "the memory answered SLVERR",
    ErrorCode.DECODE_ERROR: "the interconnect answered DECERR: there is no memory at that address",
    ErrorCode.UNKNOWN_OPERATION: "the command's operation is none that this build has",
    ErrorCode.QUEUE_OVERFLOW: "a command was pushed while the queue was full, and was dropped",
    ErrorCode.TIMEOUT: "the memory did not answer within TIMEOUT_CYCLES; only a reset helps",
    ErrorCode.BAD_RANGE: "a range does not lie within its run, or ends before it starts",
    ErrorCode.STUCK: "nothing moved any more while no answer of the memory was due: a run is not sorted",
    ErrorCode.BUFFER_ROWS: "more rows than the insertion buffer has room for, or not as many as it holds",
    ErrorCode.BAD_INDEX: "an index would end behind the room on chip, its place is none, or a run has no index there",
    ErrorCode.CORE_STUCK: "a join core stopped answering, and its pairs are missing; only a reset helps",
}

CONTROL_REGISTERS: tuple[Register, ...] = (
    Register(
        "CONTROL",
        0x00,
        Access.CONTROL,
        "Handshake of the kernel.",
        (
            Field("start", 0, 1, "Write 1 to work off the queue; stays 1 until the kernel has taken it."),
            Field("done", 1, 1, "1 when the queue has been worked off, or a command failed; cleared by reading."),
            Field("idle", 2, 1, "1 while nothing is under way."),
            Field("ready", 3, 1, "1 when start may be written again; cleared by reading."),
            Field("auto_restart", 7, 1, "1 to take commands as they are pushed, without start."),
        ),
    ),
    Register(
        "GLOBAL_INTERRUPT_ENABLE",
        0x04,
        Access.WRITE,
        "Gate of the interrupt line.",
        (Field("enable", 0, 1, "1 lets interrupts out."),),
    ),
    Register(
        "INTERRUPT_ENABLE",
        0x08,
        Access.WRITE,
        "Which events interrupt.",
        (Field("done", 0, 1, "When done rises."), Field("ready", 1, 1, "When ready rises.")),
    ),
    Register(
        "INTERRUPT_STATUS",
        0x0C,
        Access.CLEAR,
        "Which events have happened.",
        (Field("done", 0, 1, "done has risen."), Field("ready", 1, 1, "ready has risen.")),
    ),
    Register(
        "ERROR_CODE",
        0x10,
        Access.CLEAR,
        "An ErrorCode. While it is not 0 no command is begun; any write clears it, and with it the queue. After "
        "TIMEOUT only a reset clears it.",
    ),
    Register(
        "ERROR_COMMAND",
        0x14,
        Access.READ,
        "The tag of the command that failed; 0 after QUEUE_OVERFLOW, as the command that was dropped was not read.",
    ),
    Register("ERROR_ADDRESS_LOW", 0x18, Access.READ, "The byte address at fault, bits 31:0."),
    Register("ERROR_ADDRESS_HIGH", 0x1C, Access.READ, "The byte address at fault, bits 63:32."),
    Register(
        "QUEUE_PUSH",
        0x20,
        Access.PULSE,
        "One word of a command; the command is queued with its last word.",
    ),
    Register(
        "QUEUE_STATUS",
        0x24,
        Access.READ,
        "State of the queue.",
        (
            Field("waiting", 0, 16, "Commands that wait or are under way."),
            Field("free", 16, 15, "Commands for which there is room."),
            Field("partial", 31, 1, "1 while a command has been pushed in part."),
        ),
    ),
    Register("COMPLETED_TAG", 0x28, Access.READ, "The tag of the command that was completed last."),
    Register("COMPLETED_COUNT", 0x2C, Access.READ, "Commands completed since reset, modulo 2**32."),
    Register("TIMEOUT_CYCLES", 0x30, Access.WRITE, "Cycles to wait for a memory response; 0 waits for ever."),
    Register("COUNTER_CLEAR", 0x34, Access.PULSE, "Any write sets all counters to zero."),
)
"""The registers that all kernels have alike."""

COUNTER_BASE = 0x80

RUN_PLACES = 64
"""Runs whose indexes can be on chip at the same time, in places of these numbers."""

LANE_STRIDE = 0x1000
"""Bytes from the registers of one lane to those of the next."""


def _words(count: int, doc: str) -> Any:
    return dataclasses.field(default=0, metadata={"words": count, "doc": doc})


def _flag(lsb: int, doc: str) -> Any:
    return dataclasses.field(default=False, metadata={"lsb": lsb, "doc": doc})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Command:
    """A command of a kernel.

    Fields of several words are pushed low word first, in this order; flags go with the operation. Fields of two words
    are byte addresses, multiples of a memory beat, but for the `index_out` of an INDEX and the `keys_a` of a PROBE;
    offsets are in units of a key. A GATHER or COUNT with the flag `probe` has a PROBE's fields in place of its own.
    Arrays:

    - keys: `key_bits` each, ascending; an index: the key of every 2**k-th row of a run; row numbers, starts, stops and
      counts: 32 bits each; a window limit: the first row and the span, 32 bits each; a pair: the number of the range
      or probe and the row, 32 bits each; a range: the number of the probe, the place of the run, start and stop, 32
      bits each.
    - DISCARD, CLEAR and NOP have none, and use no length.
    - JOIN: rows, results and the summary are those of `muntin.contract.designs.splitjoin`. It ends when all that came
      of its rows is in memory, or the room for results is full: then rows that were not taken, and what is under way,
      wait for the next JOIN, which may have no rows.
    - A command that is done has written whole arrays and the memory has acknowledged them. One that failed may have
      written part of them.
    """

    operation: int = _words(
        1,
        "An Operation, in bits 7:0; flags in bits 15:8; the tag in bits 31:16. DISCARD empties the insertion buffer, "
        "CLEAR both windows.",
    )
    length_a: int = _words(
        1,
        "MERGE: rows of the older run. INDEX, GATHER, COUNT: rows of the run. PROBE: rows of the insertion buffer, "
        "where it is that; else, of a GATHER with `probe`, the room for pairs, in pairs. INSERT, JOIN: rows. COPY: "
        "bytes.",
    )
    length_b: int = _words(
        1,
        "MERGE: rows of the newer run. INDEX: the run's place. PROBE: probes. GATHER, COUNT: ranges. JOIN: the room "
        "for results, in results, a multiple of a beat.",
    )
    keys_a: int = _words(
        2,
        "MERGE, INDEX, INSERT: keys of the first run. PROBE: the runs, bit n that at place n. GATHER, COUNT: window "
        "limits. COPY: the source. JOIN: rows.",
    )
    rows_a: int = _words(2, "MERGE, GATHER, COUNT, INSERT: row numbers of the first run. INDEX: its index.")
    keys_b: int = _words(
        2,
        "MERGE: keys of the newer run. INDEX: row numbers of the run. PROBE: keys that make the lower bounds. GATHER, "
        "COUNT: starts.",
    )
    rows_b: int = _words(
        2, "MERGE: row numbers of the newer run. PROBE: keys that make the upper bounds. GATHER, COUNT: stops."
    )
    keys_out: int = _words(
        2, "MERGE: keys. PROBE: ranges. GATHER: pairs. COUNT: counts. COPY: the destination. JOIN: results."
    )
    rows_out: int = _words(
        2,
        "MERGE: row numbers. PROBE, GATHER: one beat, the number of ranges or pairs. JOIN: one beat, the summary.",
    )
    index_out: int = _words(
        2,
        "MERGE: the index that is made. INDEX: the first entry that the run's index takes on chip. GATHER, COUNT with "
        "`probe` and `limits`: window limits, one for each probe, in the memory channel of `keys_b`.",
    )
    low_offset: int = _words(3, "PROBE: offset of the lower bounds: signed, of which the low key_bits + 2 bits count.")
    high_offset: int = _words(3, "PROBE: offset of the upper bounds, one more than the inclusive bound: as low_offset.")
    signed: bool = _flag(8, "Keys are two's complement; else unsigned.")
    limits: bool = _flag(9, "GATHER, COUNT: check window limits.")
    buffer: bool = _flag(
        10,
        "MERGE: the newer run is the insertion buffer, which is then empty. PROBE, GATHER, COUNT: the run is the "
        "insertion buffer. length_a, length_b or both still say how many rows it has.",
    )
    probe: bool = _flag(
        11,
        "GATHER, COUNT: the ranges are those that a PROBE of the same fields finds, and stay on chip; pairs have the "
        "number of the probe, and a probe has one count.",
    )

    def words(self, tag: int) -> list[int]:
        """The words to push, `COMMAND_WORDS` of them. The tag has 16 bits.

        Raises
        ------
        OverflowError
            If a length or an address is negative or does not fit its words.
        """
        flags = sum(flag.mask for flag in COMMAND_FLAGS if getattr(self, flag.name))
        words = []
        for name, count, _ in COMMAND_FIELDS:
            value = self.operation | flags | tag << 16 if name == "operation" else getattr(self, name)
            raw = value.to_bytes(4 * count, "little", signed=name.endswith("_offset"))
            words += [int.from_bytes(raw[at : at + 4], "little") for at in range(0, len(raw), 4)]
        return words

    @classmethod
    def of_words(cls, words: Sequence[int], key_bits: int) -> tuple[Command, int]:
        """A command as a kernel with keys of that width sees it, and its tag. The operation may be none that there
        is."""
        values: dict[str, Any] = {}
        at = 0
        for name, count, _ in COMMAND_FIELDS:
            values[name] = sum(word << 32 * place for place, word in enumerate(words[at : at + count]))
            at += count
        head = values["operation"]
        values["operation"] = head & 0xFF
        for name in ("low_offset", "high_offset"):
            values[name] = signed(values[name], key_bits + 2)
        values |= {flag.name: bool(head & flag.mask) for flag in COMMAND_FLAGS}
        return cls(**values), head >> 16


def signed(value: int, bits: int) -> int:
    """The low bits of a value as a signed number."""
    value &= (1 << bits) - 1
    return value - (value >> (bits - 1) << bits)


COMMAND_FIELDS: tuple[tuple[str, int, str], ...] = tuple(
    (field.name, field.metadata["words"], field.metadata["doc"])
    for field in dataclasses.fields(Command)
    if "words" in field.metadata
)
"""Fields of a command: name, 32-bit words, meaning, in the order in which their words are pushed."""

COMMAND_FLAGS: tuple[Field, ...] = tuple(
    Field(field.name, field.metadata["lsb"], 1, field.metadata["doc"])
    for field in dataclasses.fields(Command)
    if "lsb" in field.metadata
)

COMMAND_WORDS: int = sum(words for _, words, _ in COMMAND_FIELDS)

SETTINGS_BASE = 0x100
"""Where a kernel's settings begin: written only while it is idle and nothing waits in it."""


@dataclasses.dataclass(frozen=True)
class KernelMap:
    """What one kind of kernel has.

    Attributes
    ----------
    name : str
    build_id : int
        The value of BUILD_ID.
    version : str
        Its meaning.
    build_fields : tuple of Field
        Of BUILD_PARAMETERS.
    build_values : callable
        From build parameters to the values of `build_fields`, by name.
    counters : tuple of (str, str)
        Names and meanings of 64-bit performance counters, low word first, from `COUNTER_BASE` on. Reading a low word
        keeps the high word that belongs to it for the next read.
    operations : tuple of Operation
    settings : tuple of Register
    lanes : callable
        From build parameters to the lanes that there are: each with registers, a queue and memory of its own.
    memory : tuple
        The tables of what commands read and write in memory, for `layout_hash`.
    """

    name: str
    build_id: int
    version: str
    build_fields: tuple[Field, ...]
    build_values: Callable[[Any], dict[str, int]]
    counters: tuple[tuple[str, str], ...]
    operations: tuple[Operation, ...]
    settings: tuple[Register, ...] = ()
    lanes: Callable[[Any], int] = lambda parameters: 1
    memory: tuple[object, ...] = ()

    def counter_registers(self) -> tuple[Register, ...]:
        """Two registers for each counter, ``<NAME>_LOW`` and ``<NAME>_HIGH``."""
        made = []
        for at, (name, doc) in enumerate(self.counters):
            for word, end in enumerate(("LOW", "HIGH")):
                offset = COUNTER_BASE + 8 * at + 4 * word
                made.append(Register(f"{name.upper()}_{end}", offset, Access.READ, doc))
        return tuple(made)

    def registers(self) -> tuple[Register, ...]:
        """Every register, by ascending offset."""
        build = (
            Register("BUILD_PARAMETERS", 0x38, Access.READ, "What was built.", self.build_fields),
            Register("BUILD_ID", 0x3C, Access.READ, f"{self.build_id:#010X}, {self.version}.".replace("0X", "0x")),
            Register("LAYOUT_HASH", 0x40, Access.READ, "`KernelMap.layout_hash`."),
            Register(
                "PARAMETER_HASH",
                0x44,
                Access.READ,
                "`muntin.contract.registers.parameter_hash` of all build parameters.",
            ),
        )
        return (*CONTROL_REGISTERS, *build, *self.counter_registers(), *self.settings)

    def build_parameters(self, parameters: Any) -> int:
        """The value of BUILD_PARAMETERS."""
        values = self.build_values(parameters)
        return sum(values[field.name] << field.lsb for field in self.build_fields)

    @functools.cache  # noqa: B019 (there are as many as kinds of kernels)
    def layout_hash(self) -> int:
        """The value of LAYOUT_HASH: of every register, operation, error code, command field and flag, and `memory`."""
        tables = (self.registers(), LANE_STRIDE, self.operations, Operation, ErrorCode, COMMAND_FIELDS, COMMAND_FLAGS)
        return table_hash(*tables, *self.memory)


def command_word(name: str) -> int:
    """The number of the first word of a command field. Raises KeyError."""
    at = 0
    for field, words, _ in COMMAND_FIELDS:
        if field == name:
            return at
        at += words
    raise KeyError(name)


def table_hash(*tables: object) -> int:
    """A hash, 32 bits, of tables of registers, commands and the like: of names, numbers and places, not of what is
    said about them.

    Parameters
    ----------
    *tables : object
        Numbers, names, enumerations, dataclasses, and sequences of them. Members of a dataclass called ``doc``, and
        the last member of a tuple of a name, a number and a text, say what something means and are left out.
    """
    return _hash(_plain(tables))


def parameter_values(parameters: Any) -> dict[str, Any]:
    """All that a dataclass of build parameters says, by name. What has a default is left out where it is that: builds
    stay what they are where there is a further parameter."""
    values = {field.name: (getattr(parameters, field.name), field.default) for field in dataclasses.fields(parameters)}
    return {name: value for name, (value, default) in values.items() if value != default}


def parameter_hash(parameters: Any) -> int:
    """A hash, 32 bits, of `parameter_values`, in the order of their names."""
    return _hash(sorted(parameter_values(parameters).items()))


def _hash(content: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(content).encode()).digest()[:4], "little")


def _plain(value: object) -> object:
    """The same, of tuples, texts and numbers alone."""
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return tuple((member.name, member.value) for member in value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, str | int):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(
            (field.name, _plain(getattr(value, field.name)))
            for field in dataclasses.fields(value)
            if field.name != "doc"
        )
    if isinstance(value, tuple) and len(value) == 3 and [type(part) for part in value] == [str, int, str]:
        return value[:2]
    if isinstance(value, Iterable):
        return tuple(_plain(part) for part in value)
    raise TypeError(
        f"a table must be of names, numbers, enumerations, dataclasses and sequences of them, not {value!r}"
    )
