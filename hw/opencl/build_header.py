"""What an RTL module was built with, for its model in C."""

from __future__ import annotations

from typing import Any

from muntin.hw.errors import ParameterError
from muntin.hw.identity import parameter_hash
from muntin.hw.opencl.model_state import state_fields
from muntin.hw.opencl.names import FUNCTION
from muntin.hw.parameters import Parameters
from muntin.hw.register_map import (
    COMMAND_FIELDS,
    COMMAND_FLAGS,
    COMMAND_WORDS,
    SETTINGS_BASE,
    SPLITJOIN,
    ErrorCode,
    command_word,
    kernel_map,
)
from muntin.hw.request_map import REQUEST_FIELDS, Request
from muntin.hw.splitjoin.memory_layout import (
    NUMBER_BITS,
    RESULT_BYTES,
    RESULT_FIELDS,
    ROW_FLAGS,
    SUMMARY_FIELDS,
    row_fields,
    row_words,
)
from muntin.hw.splitjoin.order import Order
from muntin.hw.splitjoin.parameters import SplitJoinParameters

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
        If the kernel has several lanes: the model has one.
    """
    p = parameters
    kind = kernel_map(p)
    if kind.lanes(p) != 1:
        raise ParameterError(f"lanes must be 1, as the model in C has one, not {p.lanes}")
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
