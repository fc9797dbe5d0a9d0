"""Compiles a board into a library."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from amaranth.back import verilog
from amaranth.lib import wiring

from hw.memory.port_shape import PortShape
from sim.board.board import Board
from sim.board.board_errors import BoardBuildError
from sim.board.verilator_environment import verilator_environment
from sim.litedram.litedram_core import LitedramCore
from sim.litedram.litedram_settings import LitedramSettings

BUILD = Path(__file__).parents[2] / "build" / "boards"
_HARNESS = Path(__file__).with_name("harness.cpp")
_VERILATOR = [
    "verilator",
    "--cc",
    "--top-module",
    "board",
    "--prefix",
    "Vboard",
    "-O3",
    "--flatten",
    "--x-assign",
    "fast",
    "--x-initial",
    "fast",
    "--no-assert",
    "--output-split",
    "20000",
    "-Wno-fatal",
    "-Wno-lint",
    "--Mdir",
    ".",
]
_COMPILER = ["c++", "-std=c++20", "-O2", "-fPIC", "-DVL_TIME_CONTEXT"]


def compile_board(engine: wiring.Component, channels: Sequence[LitedramSettings], shape: PortShape, name: str) -> Path:
    """Compile an engine with its memory into a library, once for each content.

    Parameters
    ----------
    engine : Component
        Has a member `axi`, an array of `Axi4Signature`.
    channels : sequence of LitedramSettings
        One for each port of the engine.
    shape : PortShape
        Of the engine's ports.
    name : str
        Names the folder below `build/boards`.

    Returns
    -------
    Path
        The folder, with `board.so` and `board.json` in it: its ports and memory arrays.

    Raises
    ------
    BoardBuildError
        If Verilator or a C++ compiler is missing, or refuses the board.
    """
    cores = [LitedramCore.build(settings, f"channel_{number}") for number, settings in enumerate(channels)]
    texts = {f"channel_{number}.v": core.verilog for number, core in enumerate(cores)}
    texts["board.v"] = verilog.convert(
        Board(engine, cores, shape), name="board", strip_internal_attrs=True, emit_src=False
    )
    texts["public.vlt"] = "`verilator_config\n" + "".join(
        f'public_flat_rw -module "channel_{number}" -var "{array}"\n'
        for number, core in enumerate(cores)
        for array in core.bank_arrays
    )
    arrays = [
        f"board__DOT__channel_{number}__DOT__{array}" for number, core in enumerate(cores) for array in core.bank_arrays
    ]
    ports = _ports(texts["board.v"])
    texts["ports.inc"] = "".join(
        f"PORT({index}, {port.replace('__', '___05F')}, {-(-width // 32)})\n"
        for index, (port, width, _) in enumerate(ports)
    ) + "".join(f"ARRAY({index}, {array})\n" for index, array in enumerate(arrays))
    description = {"ports": ports, "channels": [[core.banks, core.rows, core.row_bytes] for core in cores]}
    texts["board.json"] = json.dumps(description)
    texts["harness.cpp"] = _HARNESS.read_text()

    digest = hashlib.sha256(json.dumps([texts, _VERILATOR, _COMPILER]).encode()).hexdigest()[:16]
    folder = BUILD / f"{name}-{digest}"
    if (folder / "board.so").exists():
        return folder
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as temporary:
        place = Path(temporary)
        for file, text in texts.items():
            (place / file).write_text(text)
        try:
            environment = verilator_environment()
        except FileNotFoundError as error:
            raise BoardBuildError(str(error)) from error
        sources = ["public.vlt", "board.v", *(f"channel_{number}.v" for number in range(len(channels)))]
        _run([*_VERILATOR, *sources], place, environment)
        root = Path(environment.get("VERILATOR_ROOT") or _system_root(environment))
        runtime = [str(root / "include" / file) for file in ("verilated.cpp", "verilated_threads.cpp")]
        generated = sorted(path.name for path in place.glob("Vboard*.cpp"))
        include = ["-I.", f"-I{root / 'include'}", f"-I{root / 'include' / 'vltstd'}"]
        command = [*_COMPILER, *include, "-shared", "-o", "board.so", "harness.cpp", *generated, *runtime]
        _run([*command, "-lpthread", "-latomic"], place, environment)
        folder.mkdir(exist_ok=True)
        for file in (*texts, "board.so"):
            # Each file appears whole, the library last, so that another process never sees half a board.
            os.replace(place / file, folder / file)
    return folder


def _ports(text: str) -> list[tuple[str, int, str]]:
    """Name, width and direction of the ports of module `board`."""
    body = re.search(r"^module board\(.*?^endmodule", text, re.M | re.S)
    assert body is not None
    pattern = r"^  (input|output) (?:\[(\d+):0\] )?(\w+);"
    return [(name, int(high or 0) + 1, way) for way, high, name in re.findall(pattern, body.group(0), re.M)]


def _system_root(environment: dict[str, str]) -> str:
    command = ["verilator", "--getenv", "VERILATOR_ROOT"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    if shutil.which(command[0], path=environment["PATH"]) is None:
        raise BoardBuildError(f"{command[0]} is needed to compile a simulated board, and was not found")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise BoardBuildError(f"{command[0]} failed on the simulated board", (done.stdout + done.stderr)[-4000:])
