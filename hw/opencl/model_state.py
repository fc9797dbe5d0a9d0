"""What the model in C of an RTL module keeps between calls. Standard library only."""

from __future__ import annotations

import dataclasses
from typing import Any

from muntin.hw.parameters import ROW_BITS, Parameters
from muntin.hw.register_map import COMMAND_WORDS, SPLITJOIN, kernel_map
from muntin.hw.splitjoin.memory_layout import row_words
from muntin.hw.splitjoin.parameters import SplitJoinParameters


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
        *(_splitjoin(p) if kernel_map(p) is SPLITJOIN else _bisort(p)),
    )
    return tuple(sorted(fields, key=lambda field: -_BYTES[field.kind]))


def _bisort(p: Parameters) -> list[StateField]:
    return [
        StateField("buffered", "uint"),  # rows in the insertion buffer
        StateField("buffer_rows", "uint", p.buffer_rows),
        StateField("buffer_keys", _WORDS[p.key_bits], p.buffer_rows),
        StateField("index", _WORDS[p.key_bits], p.index_rows),
    ]


def _splitjoin(p: SplitJoinParameters) -> list[StateField]:
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
