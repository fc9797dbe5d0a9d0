"""Builds and loads the C++ peers."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from bench.contenders.contender import Unavailable

SOURCES = Path(__file__).parents[1] / "cpp"
BUILD = Path(__file__).parents[2] / "build" / "bench"
FLAGS = ("-std=c++17", "-O3", "-march=native", "-shared", "-fPIC", "-pthread")


def cpp_library() -> ctypes.CDLL:
    """The sorted array. Raises as `compiled`."""
    return _declare(compiled("sorted_array_join"))


@cache
def compiled(name: str, *libraries: str) -> ctypes.CDLL:
    """The peer of that name, linked with some libraries; compiled on first use by the compiler in ``CXX``, or ``c++``.

    Raises
    ------
    Unavailable
        There is no compiler, or it fails, with its output; or a library that the peer needs is not there.
    """
    source = SOURCES / f"{name}.cpp"
    wanted = os.environ.get("CXX", "c++")
    compiler = shutil.which(wanted)
    if compiler is None:
        raise Unavailable(f"the C++ peer needs a compiler and {wanted!r} is not on the PATH (Debian: apt install g++)")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    digest = hashlib.sha256(f"{source.read_text()}{FLAGS}{version}".encode()).hexdigest()[:16]
    library = BUILD / f"{name}-{digest}.so"
    if not library.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        partial = library.with_suffix(f".{os.getpid()}")
        done = subprocess.run(
            [compiler, *FLAGS, str(source), "-o", str(partial), *(f"-l{library}" for library in libraries)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise Unavailable(f"{compiler} failed on {source.name}:\n{done.stderr}")
        partial.replace(library)
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:  # what it was linked with is not there any more
        raise Unavailable(f"{source.name} cannot be loaded: {error}") from error


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    pointer, i64, i32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    signatures = {
        "saj_new": (pointer, [i32, i64, i64, i64, i64, i32, i64, i64]),
        "saj_free": (None, [pointer]),
        "saj_load": (i64, [pointer, i32, pointer, pointer, i64]),
        "saj_step": (i64, [pointer, pointer, pointer, i64, pointer, pointer, i64, pointer]),
        "saj_pairs": (pointer, [pointer, i32]),
        "saj_size": (i64, [pointer, i32]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
