"""The simulated boards that carry the BI-Sort kernel."""

import dataclasses
from collections.abc import Callable, Mapping

from muntin.contract.designs.bisort import Parameters
from muntin.contract.errors import ParameterError
from muntin.sim.board.kernel_board import KernelBoard
from muntin.sim.board.memories import MemorySettings
from muntin.sim.fast_memory.fast_memory_settings import FastMemorySettings
from muntin.sim.litedram.litedram_settings import LitedramSettings

MEMORIES = ("litedram", "fast")


INDEX_ROWS = 1 << 16
"""Room for indexes that a board has unless more is asked for; a larger one takes minutes to compile."""


def board_parameters(
    key_bits: int, memory: str, *, channels: int = 1, lanes: int = 1, index_rows: int = INDEX_ROWS
) -> Parameters:
    """What is built for a simulated board.

    Parameters
    ----------
    key_bits : int
        32 or 64.
    memory : str
        ``"litedram"``: the preset `ecp5` with 512 MiB of DDR3 a channel and partitions of 64 keys. ``"fast"``: the
        preset `tiny`, with partitions of 16 keys, and 64 MiB a channel.
    channels : int
        Of each lane.
    lanes : int
    index_rows : int
        Room on chip for indexes, in entries, of each lane.

    Raises
    ------
    ParameterError
        If there is no such memory.
    """
    channel_bits = channels.bit_length() - 1
    if memory == "litedram":
        return dataclasses.replace(
            Parameters.preset("ecp5"),
            key_bits=key_bits,
            partition_log2=6,
            index_rows=index_rows,
            address_bits=29 + channel_bits,
            channels=channels,
            lanes=lanes,
        )
    if memory == "fast":
        return dataclasses.replace(
            Parameters.preset("tiny"),
            key_bits=key_bits,
            index_rows=index_rows,
            bound_rows=64,
            queue_rows=16,
            buffer_rows=32,
            address_bits=26 + channel_bits,
            channels=channels,
            lanes=lanes,
        )
    raise ParameterError(f"memory must be one of {', '.join(MEMORIES)}, not {memory!r}")


def open_bisort_board(
    key_bits: int,
    memory: str,
    *,
    channels: int = 1,
    lanes: int = 1,
    index_rows: int = INDEX_ROWS,
    progress: Callable[[int, int], None] | None = None,
) -> KernelBoard:
    """Compile, once, and start a simulated board with the BI-Sort kernel.

    Parameters
    ----------
    key_bits, memory, channels, lanes, index_rows
        As in `board_parameters`.
    progress : callable, optional
        As in `compile_board`.

    Raises
    ------
    BoardBuildError
        If it cannot be compiled.
    """
    parameters = board_parameters(key_bits, memory, channels=channels, lanes=lanes, index_rows=index_rows)
    size = (1 << parameters.address_bits) // channels
    settings: Mapping[str, MemorySettings] = {
        "litedram": LitedramSettings(module="MT41K256M16"),
        "fast": FastMemorySettings(beat_bits=parameters.data_bits, size=size, address_width=size.bit_length() - 1),
    }
    return KernelBoard(parameters, [settings[memory]] * (lanes * channels), progress=progress)
