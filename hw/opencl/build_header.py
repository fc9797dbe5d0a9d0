"""What an RTL module was built with, for its model in C."""

from __future__ import annotations

from hw.errors import ParameterError
from hw.identity import parameter_hash
from hw.opencl.model_state import state_fields
from hw.opencl.names import FUNCTION
from hw.parameters import Parameters
from hw.register_map import (
    BISORT,
    BUILD_ID,
    COMMAND_FIELDS,
    COMMAND_FLAGS,
    COMMAND_WORDS,
    COUNTERS,
    ErrorCode,
    build_parameters,
    command_word,
    layout_hash,
    registers,
)
from hw.request_map import REQUEST_FIELDS, Request


def build_header(parameters: Parameters) -> str:
    """The C header that makes the model that of a build: its parameters, and the tables of registers, commands and
    requests.

    Raises
    ------
    ParameterError
        If the kernel has several lanes: the model has one.
    """
    p = parameters
    if p.lanes != 1:
        raise ParameterError(f"lanes must be 1, as the model in C has one, not {p.lanes}")
    control = {register.name: register for register in registers()}["CONTROL"]
    key = "uint" if p.key_bits == 32 else "ulong"
    constants = {
        "BUILD_ID": BUILD_ID,
        "BUILD_PARAMETERS": build_parameters(p),
        "LAYOUT_HASH": layout_hash(),
        "PARAMETER_HASH": parameter_hash(p),
    }
    defines: list[tuple[str, object]] = [
        ("FUNCTION", FUNCTION),
        ("KEY", key),
        ("KEY_BITS", p.key_bits),
        ("CHANNELS", p.channels),
        ("CHANNEL_BITS", p.address_bits - (p.channels.bit_length() - 1)),
        ("ADDRESS_BITS", p.address_bits),
        ("PARTITION_LOG2", p.partition_log2),
        ("INDEX_ROWS", p.index_rows),
        ("BUFFER_ROWS", p.buffer_rows),
        ("QUEUE_ROWS", p.queue_rows),
        ("BEAT_BYTES", p.beat_bytes),
        ("RUN_ROWS", p.run_rows),
        ("COMMAND_WORDS", COMMAND_WORDS),
        *((f"OP_{operation.name}", operation.value) for operation in BISORT.operations),
        *((f"ERR_{code.name}", code.value) for code in ErrorCode),
        *((f"FLAG_{flag.name.upper()}", f"{flag.mask:#x}u") for flag in COMMAND_FLAGS),
        *((f"WORD_{name.upper()}", command_word(name)) for name, _, _ in COMMAND_FIELDS),
        *((f"REG_{register.name}", f"{register.offset:#x}u") for register in registers()),
        *((f"CONTROL_{field.name.upper()}", f"{field.mask:#x}u") for field in control.fields),
        *((f"REQUEST_{kind.name}", kind.value) for kind in Request),
        *((f"REQUEST_{field.name.upper()}_LSB", field.lsb) for field in REQUEST_FIELDS),
        *((f"REQUEST_{field.name.upper()}_BITS", field.bits) for field in REQUEST_FIELDS),
        ("CONSTANTS", " ".join(f"case REG_{name}: return {value:#x}u;" for name, value in constants.items())),
        ("MEMORIES", ", ".join(f"__global char *memory_{channel}" for channel in range(p.channels))),
        ("MEMORY_LIST", ", ".join(f"memory_{channel}" for channel in range(p.channels))),
    ]
    assert {name for name, _ in COUNTERS} >= {"commands", "rows_in", "rows_out"}
    members = "".join(
        f"    {field.kind} {field.name}{f'[{field.count}]' if field.count > 1 else ''};\n" for field in state_fields(p)
    )
    lines = "".join(f"#define {name} {value}\n" for name, value in defines)
    return (
        "// Made by Mullion from its tables of parameters, registers, commands and requests.\n"
        f"#ifndef MULLION_BUILD_H\n#define MULLION_BUILD_H\n\n{lines}\n"
        f"typedef struct {{\n{members}}} State;\n\n#endif\n"
    )
