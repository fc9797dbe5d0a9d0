"""The simulated boards that carry the SplitJoin kernel."""

import dataclasses
import functools
from collections.abc import Callable, Mapping

from muntin.contract.designs.splitjoin import SPLITJOIN, SplitJoinParameters
from muntin.contract.errors import ParameterError
from muntin.hw.splitjoin.kernel import SplitJoinKernel
from muntin.sim.board.kernel_board import KernelBoard
from muntin.sim.board.memories import MemorySettings
from muntin.sim.fast_memory.fast_memory_settings import FastMemorySettings
from muntin.sim.litedram.litedram_settings import LitedramSettings

ADDRESS_BITS = {"litedram": 29, "fast": 26}
"""The memories that a board can have, 512 MiB of DDR3 or 64 MiB that answers at once, and the bits of an address."""


def open_splitjoin_board(
    memory: str,
    *,
    parameters: SplitJoinParameters | None = None,
    faults: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> KernelBoard:
    """Compile, once, and start a simulated board with the SplitJoin kernel.

    Parameters
    ----------
    memory : str
        ``"litedram"`` or ``"fast"``.
    parameters : SplitJoinParameters, optional
        By default the preset `operator`. The memory says how many bits an address has.
    faults : bool
        True for a port ``fault`` of the board, with a bit for each core: while it is 1, the core is frozen.
    progress : callable, optional
        As in `compile_board`.

    Raises
    ------
    ParameterError
        If there is no such memory, or LiteDRAM's beats are not as wide as `parameters` say.
    BoardBuildError
        If it cannot be compiled.
    """
    if memory not in ADDRESS_BITS:
        raise ParameterError(f"memory must be one of {', '.join(ADDRESS_BITS)}, not {memory!r}")
    bits = ADDRESS_BITS[memory]
    built = dataclasses.replace(parameters or SplitJoinParameters.preset("operator"), address_bits=bits)
    settings: Mapping[str, MemorySettings] = {
        "litedram": LitedramSettings(module="MT41K256M16"),
        "fast": FastMemorySettings(beat_bits=built.data_bits, size=1 << bits, address_width=bits),
    }
    if settings[memory].beat_bits != built.data_bits:
        raise ParameterError(f"data_bits must be {settings[memory].beat_bits}, not {built.data_bits}")
    return KernelBoard(
        built,
        [settings[memory]],
        make=functools.partial(SplitJoinKernel, faults=faults),
        table=SPLITJOIN,
        name="splitjoin_faults" if faults else "splitjoin",
        progress=progress,
    )
