"""What the model in C of an RTL module keeps between calls. Standard library only."""

from __future__ import annotations

import dataclasses

from hw.parameters import ROW_BITS, Parameters
from hw.register_map import COMMAND_WORDS


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


def state_fields(parameters: Parameters) -> tuple[StateField, ...]:
    """The members of the state, the widest first, so that nothing lies between them.

    The first one is the host's: the bytes of memory that each channel has. A RESET keeps it and clears the rest; no
    other request may come before the first RESET.
    """
    p = parameters
    key = "uint" if p.key_bits == 32 else "ulong"
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
        StateField("buffered", "uint"),  # rows in the insertion buffer
        StateField("queue", "uint", p.queue_rows * COMMAND_WORDS),
        StateField("buffer_rows", "uint", p.buffer_rows),
        StateField("buffer_keys", key, p.buffer_rows),
        StateField("index", key, p.index_rows),
    )
    return tuple(sorted(fields, key=lambda field: -_BYTES[field.kind]))


def state_bytes(parameters: Parameters) -> int:
    """Bytes of the state."""
    used = sum(_BYTES[field.kind] * field.count for field in state_fields(parameters))
    return -(-used // 8) * 8
