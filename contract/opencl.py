"""A kernel behind an OpenCL shell: names that the host and the RTL library agree on, requests, sources, the model in C.

Behind a shell whose only way into a design is a call with arguments and a result, as an OpenCL kernel's is, a request
is the argument and one 32-bit word the result. The gateware, the host and the model that stands in for the gateware
are all made from these tables.
"""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path
from typing import Any

from muntin.contract import ParameterError
from muntin.contract.design import design_of
from muntin.contract.designs.bisort import ROW_BITS, Parameters
from muntin.contract.designs.splitjoin import (
    NUMBER_BITS,
    RESULT_BYTES,
    RESULT_FIELDS,
    ROW_FLAGS,
    SPLITJOIN,
    SUMMARY_FIELDS,
    Order,
    SplitJoinParameters,
    row_fields,
    row_words,
)
from muntin.contract.registers import (
    COMMAND_FIELDS,
    COMMAND_FLAGS,
    COMMAND_WORDS,
    RUN_PLACES,
    SETTINGS_BASE,
    Access,
    ErrorCode,
    Field,
    KernelMap,
    Register,
    command_word,
    parameter_hash,
)

FUNCTION = "muntin_call"
"""The function that a call of the RTL module is to OpenCL C."""

MODULE = "muntin_module"
"""The Verilog module."""

KERNEL = "muntin_requests"
"""The OpenCL kernel that the host enqueues."""

LIBRARY = "muntin.aoclib"
OBJECT = "muntin.aoco"
MANIFEST = "muntin.xml"
VERILOG = "muntin.v"
HEADER = "muntin.h"
BUILD_HEADER = "muntin_build.h"
MODEL = "muntin_model.cl"
KERNELS = "muntin_requests.cl"
"""Files."""


@dataclasses.dataclass(frozen=True)
class Shell:
    """A vendor's OpenCL shell: how the host finds its boards, and what it loads.

    Attributes
    ----------
    vendor : str
        How the name of its OpenCL platform begins, in small letters.
    binary : str
        The file that is loaded.
    runtime : str
        What the host needs, and where it comes from.
    bank_lsb : int or None
        From which bit on a buffer's flags say the bank of memory that it goes to, from 1 on; None where the shell
        takes that from the argument that the buffer is.
    """

    vendor: str
    binary: str
    runtime: str
    bank_lsb: int | None


INTEL = Shell(
    "intel(r) fpga",
    "muntin.aocx",
    "Intel's FPGA SDK for OpenCL: install its runtime and the board's support package, and run `aocl install`",
    16,
)
VITIS = Shell(
    "xilinx",
    "muntin.xclbin",
    "AMD's Xilinx Runtime (XRT): install it and the board's platform, and source its setup.sh",
    None,
)


class Request(enum.IntEnum):
    """What is asked for, and what the result is."""

    READ = 0
    """The register at `offset`."""
    WRITE = 1
    """Writes `value` to the register at `offset`; the result is 0."""
    WAIT = 2
    """Reads the register at `offset` until one of the bits of `value` is set in it, or `WAIT_CYCLES` have passed; the
    result is what was read last."""
    RESET = 3
    """Resets the kernel as soon as it owes the memory nothing and the memory owes it nothing. The result is 0, or 1
    where that was not so within `WAIT_CYCLES`, and then nothing is reset."""


REQUEST_BITS = 64

REQUEST_FIELDS: tuple[Field, ...] = (
    Field("value", 0, 32, "WRITE: what is written. WAIT: a mask."),
    Field("offset", 32, 24, "Byte address of a register, those of lane n from n * LANE_STRIDE on."),
    Field("kind", 56, 8, "A Request; another is as READ."),
)

WAIT_CYCLES = 1 << 32
"""Cycles after which WAIT and RESET give up: some 17 s at 250 MHz. A kernel that waits for its memory gives up itself,
after TIMEOUT_CYCLES."""


def request(kind: Request, offset: int = 0, value: int = 0) -> int:
    """A request, as the number that is passed.

    Raises
    ------
    OverflowError
        If the offset or the value is negative or does not fit its field.
    """
    word = 0
    for field, given in zip(REQUEST_FIELDS, (value, offset, kind), strict=True):
        if not 0 <= given < 1 << field.bits:
            raise OverflowError(f"{field.name} has {field.bits} bits, which {given} does not fit")
        word |= given << field.lsb
    return word


@dataclasses.dataclass(frozen=True)
class StateField:
    """A member of the state.

    Attributes
    ----------
    name : str
    kind : str
        Its type in OpenCL C.
    count : int
        Elements; 1 is not an array.
    """

    name: str
    kind: str
    count: int = 1


_BYTES = {"ulong": 8, "uint": 4}
_WORDS = {32: "uint", 64: "ulong"}


def state_fields(parameters: Any) -> tuple[StateField, ...]:
    """The members of the state, the widest first, so that nothing lies between them.

    The first one is the host's: the bytes of memory that each channel has. A RESET keeps it and clears the rest; no
    other request may come before the first RESET.
    """
    p = parameters
    assert 8 * _BYTES["uint"] == ROW_BITS
    fields = (
        StateField("memory_bytes", "ulong"),
        StateField("error_address", "ulong"),
        StateField("commands", "ulong"),
        StateField("rows_in", "ulong"),
        StateField("rows_out", "ulong"),
        StateField("high", "uint"),
        StateField("error_code", "uint"),
        StateField("error_command", "uint"),
        StateField("completed_tag", "uint"),
        StateField("completed_count", "uint"),
        StateField("timeout_cycles", "uint"),
        StateField("done", "uint"),
        StateField("ready", "uint"),
        StateField("auto_restart", "uint"),
        StateField("interrupt_gate", "uint"),
        StateField("interrupt_enable", "uint"),
        StateField("interrupt_status", "uint"),
        StateField("taken", "uint"),  # commands in the queue, one that is pushed in part included
        StateField("came", "uint"),  # words of that one
        StateField("dropping", "uint"),
        StateField("queue", "uint", p.queue_rows * COMMAND_WORDS),
        *(_splitjoin_state(p) if design_of(p).registers is SPLITJOIN else _bisort_state(p)),
    )
    return tuple(sorted(fields, key=lambda field: -_BYTES[field.kind]))


def _bisort_state(p: Parameters) -> list[StateField]:
    return [
        StateField("buffered", "uint"),  # rows in the insertion buffer
        StateField("buffer_rows", "uint", p.buffer_rows),
        StateField("buffer_keys", _WORDS[p.key_bits], p.buffer_rows),
        StateField("index", _WORDS[p.key_bits], p.index_rows),
        StateField("runs", "ulong"),  # at which places there is a run with its index
        StateField("run_keys", "ulong", RUN_PLACES),
        StateField("run_numbers", "ulong", RUN_PLACES),  # where their row numbers are
        StateField("run_rows", "uint", RUN_PLACES),
        StateField("run_index", "uint", RUN_PLACES),  # the first entry
    ]


def _splitjoin_state(p: SplitJoinParameters) -> list[StateField]:
    return [
        StateField("settings", "uint", len(SPLITJOIN.settings)),
        StateField("overflow", "uint"),
        StateField("arrived", "ulong", 2),  # rows of each stream
        StateField("oldest", "ulong", 2 * p.cores),  # the first block of each core that was not dropped
        StateField("keys", _WORDS[p.key_bits], 2 * p.capacity),  # the left stream's, then the right one's
        StateField("numbers", "uint", 2 * p.capacity),  # and whether the row is null, in the highest bit
        *([StateField("times", _WORDS[p.time_bits], 2 * p.capacity)] if p.time_bits else []),
        # The row whose results come out.
        StateField("probe", "uint", row_words(p)),
        StateField("probing", "uint"),
        StateField("star", "uint"),  # a punctuation is next
        StateField("at", "ulong"),  # which stored row is compared next
        StateField("stop", "ulong"),
    ]


def state_bytes(parameters: Any) -> int:
    """Bytes of the state."""
    used = sum(_BYTES[field.kind] * field.count for field in state_fields(parameters))
    return -(-used // 8) * 8


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument of the OpenCL kernel `KERNEL`, in its order.

    Attributes
    ----------
    name : str
    kind : str
        Its type in OpenCL C; a pointer is to global memory.
    """

    name: str
    kind: str

    @property
    def pointer(self) -> bool:
        """Whether it is a buffer: 64 bits, else 32."""
        return self.kind.endswith("*")


def arguments(parameters: Any) -> tuple[Argument, ...]:
    """The arguments of the OpenCL kernel that the host enqueues."""
    return (
        *(Argument(f"memory_{port}", "char*") for port in _ports(parameters)),
        Argument("state", "char*"),
        Argument("requests", "ulong*"),
        Argument("count", "uint"),
        Argument("results", "uint*"),
    )


def argument_map(parameters: Any) -> KernelMap:
    """The registers through which a shell hands arguments to a kernel that is RTL: start, done and idle as every kernel
    of ours has them, and each argument as a setting, two words of a pointer, eight bytes apart."""
    words: list[Register] = []
    for at, argument in enumerate(arguments(parameters)):
        offset, name = SETTINGS_BASE + 8 * at, argument.name.upper()
        ends = ("_LOW", "_HIGH") if argument.pointer else ("",)
        words += [
            Register(f"{name}{end}", offset + 4 * word, Access.WRITE, f"The argument `{argument.name}`.")
            for word, end in enumerate(ends)
        ]
    return KernelMap("arguments", 0x4D554C41, "the letters MULA", (), lambda _: {}, (), (), settings=tuple(words))


def declaration(parameters: Any) -> str:
    """The header that declares the RTL module's function."""
    memories = "".join(f"__global char *memory_{port}, " for port in _ports(parameters))
    return (
        "// Made by Muntin. The function that is the RTL module: a request, and the result (hw/request_map.py).\n"
        "// The memories are those of the kernel's memory ports; state is for the model that takes the module's place\n"
        "// where kernels are emulated, and means nothing to the module.\n"
        "#ifndef MUNTIN_H\n#define MUNTIN_H\n\n"
        f"uint {FUNCTION}({memories}__global char *state, ulong request);\n\n"
        "#endif\n"
    )


def kernels(parameters: Any) -> str:
    """The OpenCL kernel that the host enqueues.

    It has the one call of the function: each call in a program is a module of its own, with its own state.
    """
    memories = "".join(f"    __global char *restrict memory_{port},\n" for port in _ports(parameters))
    names = "".join(f"memory_{port}, " for port in _ports(parameters))
    return (
        "// Made by Muntin. Hands requests to the RTL module, in order, and keeps their results.\n"
        f'#include "{HEADER}"\n\n'
        "#ifdef INTELFPGA_CL\n__attribute__((max_global_work_dim(0)))\n#endif\n"
        f"__kernel void {KERNEL}(\n{memories}"
        "    __global char *restrict state,\n"
        "    __global const ulong *restrict requests,\n"
        "    uint count,\n"
        "    __global uint *restrict results) {\n"
        "    for (uint at = 0; at < count; ++at)\n"
        f"        results[at] = {FUNCTION}({names}state, requests[at]);\n"
        "}\n"
    )


def _ports(parameters: Any) -> range:
    """The kernel's memory ports."""
    return range(design_of(parameters).registers.lanes(parameters) * parameters.channels)


_WORDS = {32: "uint", 64: "ulong"}


def build_header(parameters: Any) -> str:
    """The C header that makes the model that of a build: its parameters, and the tables of registers, commands and
    requests.

    Parameters
    ----------
    parameters : Parameters or SplitJoinParameters

    Raises
    ------
    ParameterError
        If the kernel has several lanes, or two columns: the model has one.
    """
    p = parameters
    kind = design_of(p).registers
    if kind.lanes(p) != 1:
        raise ParameterError(f"lanes must be 1, as the model in C has one, not {p.lanes}")
    if kind is SPLITJOIN and p.columns != 1:
        raise ParameterError(f"columns must be 1, as the model in C has one, not {p.columns}")
    registers = {register.name: register for register in kind.registers()}
    constants = {
        "BUILD_ID": kind.build_id,
        "BUILD_PARAMETERS": kind.build_parameters(p),
        "LAYOUT_HASH": kind.layout_hash(),
        "PARAMETER_HASH": parameter_hash(p),
    }
    defines: list[tuple[str, object]] = [
        ("FUNCTION", FUNCTION),
        ("KEY", _WORDS[p.key_bits]),
        ("KEY_BITS", p.key_bits),
        ("CHANNELS", p.channels),
        ("CHANNEL_BITS", p.address_bits - (p.channels.bit_length() - 1)),
        ("ADDRESS_BITS", p.address_bits),
        ("QUEUE_ROWS", p.queue_rows),
        ("BEAT_BYTES", p.beat_bytes),
        ("COMMAND_WORDS", COMMAND_WORDS),
        ("SETTINGS", len(kind.settings)),
        ("SETTINGS_BASE", SETTINGS_BASE),
        *(_splitjoin(p) if kind is SPLITJOIN else _bisort(p)),
        *((f"OP_{operation.name}", operation.value) for operation in kind.operations),
        *((f"ERR_{code.name}", code.value) for code in ErrorCode),
        *((f"WORD_{name.upper()}", command_word(name)) for name, _, _ in COMMAND_FIELDS),
        *((f"REG_{name}", f"{register.offset:#x}u") for name, register in registers.items()),
        *((f"CONTROL_{field.name.upper()}", f"{field.mask:#x}u") for field in registers["CONTROL"].fields),
        *((f"REQUEST_{request.name}", request.value) for request in Request),
        *((f"REQUEST_{field.name.upper()}_LSB", field.lsb) for field in REQUEST_FIELDS),
        *((f"REQUEST_{field.name.upper()}_BITS", field.bits) for field in REQUEST_FIELDS),
        ("CONSTANTS", " ".join(f"case REG_{name}: return {value:#x}u;" for name, value in constants.items())),
        ("MEMORIES", ", ".join(f"__global char *memory_{channel}" for channel in range(p.channels))),
        ("MEMORY_LIST", ", ".join(f"memory_{channel}" for channel in range(p.channels))),
    ]
    assert {name for name, _ in kind.counters} >= {"commands", "rows_in", "rows_out"}
    members = "".join(
        f"    {field.kind} {field.name}{f'[{field.count}]' if field.count > 1 else ''};\n" for field in state_fields(p)
    )
    lines = "".join(f"#define {name} {value}\n" for name, value in defines)
    return (
        "// Made by Muntin from its tables of parameters, registers, commands and requests.\n"
        f"#ifndef MUNTIN_BUILD_H\n#define MUNTIN_BUILD_H\n\n{lines}\n"
        f"typedef struct {{\n{members}}} State;\n\n#endif\n"
    )


def _bisort(p: Parameters) -> list[tuple[str, object]]:
    """What the model of BI-Sort needs."""
    return [
        ("PARTITION_LOG2", p.partition_log2),
        ("INDEX_ROWS", p.index_rows),
        ("BUFFER_ROWS", p.buffer_rows),
        ("RUN_ROWS", p.run_rows),
        ("RUN_PLACES", RUN_PLACES),
        ("PROBE_ROWS", p.probe_rows),
        *((f"FLAG_{flag.name.upper()}", f"{flag.mask:#x}u") for flag in COMMAND_FLAGS),
    ]


def _splitjoin(p: SplitJoinParameters) -> list[tuple[str, object]]:
    """What the model of SplitJoin needs."""
    star = RESULT_FIELDS[1][1]
    fields = {register.name: register.fields for register in SPLITJOIN.settings}
    return [
        ("CORES", p.cores),
        ("ROWS", p.rows),
        ("CAPACITY", p.capacity),
        ("BOUNDS", p.bounds),
        ("TIME_BITS", p.time_bits),
        *([("TIME", _WORDS[p.time_bits])] if p.time_bits else []),
        ("NUMBER_BITS", NUMBER_BITS),
        ("NUMBER_MOST", f"{(1 << NUMBER_BITS) - 1:#x}u"),
        ("RESULT_BYTES", RESULT_BYTES),
        ("RESULT_STAR", f"{star.mask:#x}u"),
        ("ROW_WORDS", row_words(p)),
        *((f"FIELD_{name.upper()}", word) for name, (word, _) in row_fields(p).items()),
        *((f"ROW_{flag.name.upper()}", f"{flag.mask:#x}u") for flag in ROW_FLAGS),
        *((f"SUMMARY_{field.name.upper()}", f"{field.mask:#x}u") for field in SUMMARY_FIELDS[2]),
        *((f"SET_{register.name}", at) for at, register in enumerate(SPLITJOIN.settings)),
        *(
            (f"{name}_{field.name.upper()}", f"{field.mask:#x}u")
            for name in ("PREDICATE", "ORDER", "TIMED")
            for field in fields[name]
        ),
        ("ORDER_EVERY_LSB", next(field.lsb for field in fields["ORDER"] if field.name == "every")),
        *((f"ORDER_{order.name}", order.value) for order in Order),
    ]


def model(parameters: Any) -> str:
    """The model in C of a kernel, as one source; its header is `build_header`."""
    kernel = design_of(parameters).name
    here = Path(__file__).parent / "opencl_model"
    return "\n".join((here / f"{part}.cl").read_text() for part in ("memory", kernel, "registers"))
