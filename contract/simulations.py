"""The boards in simulation, as data: what each is, what it is built with, and what opens it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from muntin.contract import ParameterError
from muntin.contract.boards import BOARDS
from muntin.contract.designs.bisort import Parameters
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.contract.memory_port import MemoryPort

MEMORY_BITS = {"litedram": 29, "fast": 26}
"""The memories that a simulated channel can have, 512 MiB of DDR3 or 64 MiB that answers at once, and the bits of an
address."""

INDEX_ROWS = 1 << 16
"""Room for indexes that a simulated board has unless more is asked for; a larger one takes minutes to compile."""


def board_parameters(
    key_bits: int,
    memory: str,
    *,
    channels: int = 1,
    lanes: int = 1,
    index_rows: int = INDEX_ROWS,
    partition_rows: int | None = None,
) -> Parameters:
    """What is built for a simulated board with BI-Sort.

    Parameters
    ----------
    key_bits : int
        32 or 64.
    memory : str
        ``"litedram"``: the preset `ecp5` with partitions of 64 keys. ``"fast"``: the preset `tiny`, with partitions of
        16 keys.
    channels : int
        Of each lane.
    lanes : int
    index_rows : int
        Room on chip for indexes, in entries, of each lane.
    partition_rows : int, optional
        Keys of a partition, a power of two, where it is not to be the memory's.

    Raises
    ------
    ParameterError
        If there is no such memory, or no such partition.
    """
    if partition_rows is not None and partition_rows.bit_count() != 1:
        raise ParameterError(f"partition_rows must be a power of two, not {partition_rows}")
    changes: dict[str, dict[str, Any]] = {
        "litedram": {"partition_log2": 6},
        "fast": {"bound_rows": 64, "queue_rows": 16, "buffer_rows": 32},
    }
    return dataclasses.replace(
        Parameters.preset({"litedram": "ecp5", "fast": "tiny"}[of_memory(memory)]),
        key_bits=key_bits,
        index_rows=index_rows,
        address_bits=MEMORY_BITS[memory] + channels.bit_length() - 1,
        channels=channels,
        lanes=lanes,
        **changes[memory] | ({} if partition_rows is None else {"partition_log2": partition_rows.bit_length() - 1}),
    )


def of_memory(name: str) -> str:
    """The name of a simulated memory. Raises ParameterError if there is none."""
    if name not in MEMORY_BITS:
        raise ParameterError(f"memory must be one of {', '.join(MEMORY_BITS)}, not {name!r}")
    return name


@dataclasses.dataclass(frozen=True, kw_only=True)
class Simulation:
    """A board in simulation.

    Attributes
    ----------
    name : str
        Of the device.
    description : str
    memory_bytes : int
        Of each lane.
    builds : mapping of str to MemoryPort
        What its kernel is built with, by the name of the design, all of one engine; the first that fits is taken.
    entry : str
        What opens it, ``"module:function"`` below the folder of the simulations; empty where `line` is ``"opencl"``. It
        is called with the build and `options`, or where there is a line with the board, the design and a callable that
        it tells how far it has compiled.
    options : mapping of str to object
    line : str
        How the host reaches what was opened: ``""``, it is a link; ``"serial"`` or ``"ethernet"``, at its end of that
        line; ``"opencl"``, as the OpenCL program that a board's shell would have, with the model in C.
    board : str
        The board of `BOARDS` that it is, with its designs; empty for none.
    option : str
        The parameter of its builds that a name may set, as ``:lanes=2`` behind it does; empty for none.
    boards : int or None
        How many there are at a time; None for as many as are asked for.
    modules : tuple of str
        The Python packages that it takes.
    compiles : bool
        Whether it takes Verilator and a C++ compiler.
    """

    name: str
    description: str
    memory_bytes: int
    builds: Mapping[str, Any]
    entry: str = ""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    line: str = ""
    board: str = ""
    option: str = ""
    boards: int | None = None
    modules: tuple[str, ...] = ()
    compiles: bool = False


def _of_board(name: str, engine: str, *, ethernet: bool = False) -> dict[str, MemoryPort]:
    """What a board carries for an engine, with Ethernet or without."""
    board = BOARDS[name]
    return {
        design: build
        for design, build in board.builds(engine).items()
        if (board.ethernet_of(design) is not None) == ethernet
    }


def _both_widths(build: Parameters) -> dict[str, MemoryPort]:
    return {f"bisort{bits}": dataclasses.replace(build, key_bits=bits) for bits in (32, 64)}


_MODEL_BYTES = 1 << 28
_ROWS_BYTES = 1 << 24  # of memory for rows and results on their way
_OPERATOR = SplitJoinParameters.preset("operator")
_LINKED = ("amaranth", "litedram", "liteeth", "dpkt", "serial")
_LINKED_SERIAL = ("amaranth", "litedram", "serial")

SIMULATIONS: dict[str, Simulation] = {
    simulation.name: simulation
    for simulation in (
        Simulation(
            name="sim:bisort",
            description="BI-Sort kernel on Verilator, with LiteDRAM and its model of DDR3",
            memory_bytes=1 << MEMORY_BITS["litedram"],
            builds=_both_widths(board_parameters(32, "litedram")),
            entry="board.kernel_board:open_board",
            options={"memory": "litedram"},
            option="lanes",
            modules=("amaranth", "litedram"),
            compiles=True,
        ),
        Simulation(
            name="sim:bisort-fast",
            description="BI-Sort kernel on Verilator, with a memory that never makes it wait",
            memory_bytes=1 << MEMORY_BITS["fast"],
            builds=_both_widths(board_parameters(32, "fast")),
            entry="board.kernel_board:open_board",
            options={"memory": "fast"},
            option="lanes",
            modules=("amaranth",),
            compiles=True,
        ),
        Simulation(
            name="sim:ecpix5",
            description="what the board ecpix5 carries on Verilator, with LiteDRAM and its model of DDR3, at a serial "
            "line",
            memory_bytes=1 << 29,
            builds=_of_board("ecpix5", "runs"),
            entry="board.linked_board:LinkedBoard",
            line="serial",
            board="ecpix5",
            modules=_LINKED,
            compiles=True,
        ),
        Simulation(
            name="sim:ecpix5:ethernet",
            description="the same over its Ethernet, with LiteEth and a model of the wire",
            memory_bytes=1 << 29,
            builds=_of_board("ecpix5", "runs", ethernet=True),
            entry="board.linked_board:LinkedBoard",
            line="ethernet",
            board="ecpix5",
            modules=_LINKED,
            compiles=True,
        ),
        Simulation(
            name="sim:ulx3s",
            description="what the board ulx3s carries on Verilator, with LiteDRAM and a model of its SDRAM, at a "
            "serial line",
            memory_bytes=1 << 25,
            builds=_of_board("ulx3s", "runs"),
            entry="board.linked_board:LinkedBoard",
            line="serial",
            board="ulx3s",
            modules=_LINKED_SERIAL,
            compiles=True,
        ),
        Simulation(
            name="sim:bisort-model",
            description="model of the BI-Sort kernel in NumPy, without a clock",
            memory_bytes=_MODEL_BYTES,
            builds=_both_widths(Parameters.preset("ecp5")),
            entry="models.kernel_shell:open_model",
            options={"memory_bytes": _MODEL_BYTES},
            option="lanes",
        ),
        Simulation(
            name="sim:de5a",
            description="the DE5a-Net's OpenCL kernel, with its RTL module's model in C, on an OpenCL device",
            memory_bytes=_MODEL_BYTES,
            builds={name: of for name, of in _of_board("de5a", "runs").items() if BOARDS["de5a"].in_shell(name)},
            line="opencl",
            board="de5a",
            modules=("pyopencl",),
        ),
        Simulation(
            name="sim:splitjoin",
            description="SplitJoin kernel on Verilator",
            memory_bytes=1 << MEMORY_BITS["fast"],
            builds={"splitjoin": dataclasses.replace(_OPERATOR, address_bits=MEMORY_BITS["fast"])},
            entry="board.kernel_board:open_board",
            options={"memory": "fast"},
            modules=("amaranth",),
            option="columns",
            compiles=True,
        ),
        Simulation(
            name="sim:splitjoin-model",
            description="model of the SplitJoin kernel in NumPy",
            memory_bytes=_ROWS_BYTES,
            builds={"splitjoin": _OPERATOR},
            entry="models.kernel_shell:open_model",
            options={"memory_bytes": _ROWS_BYTES},
            option="columns",
        ),
        Simulation(
            name="sim:ecpix5:design=splitjoin",
            description="what the board ecpix5 carries with SplitJoin on Verilator, with LiteDRAM and its model of "
            "DDR3, at a serial line",
            memory_bytes=1 << 29,
            builds=_of_board("ecpix5", "split_join"),
            entry="board.linked_board:LinkedBoard",
            line="serial",
            board="ecpix5",
            boards=1,
            modules=_LINKED_SERIAL,
            compiles=True,
        ),
        Simulation(
            name="sim:de5a:design=splitjoin",
            description="the DE5a-Net's OpenCL kernel with SplitJoin, with its RTL module's model in C, on an OpenCL "
            "device",
            memory_bytes=_ROWS_BYTES,
            builds={"splitjoin": BOARDS["de5a"].parameters["splitjoin"]},
            line="opencl",
            board="de5a",
            boards=1,
            modules=("pyopencl",),
        ),
    )
}
