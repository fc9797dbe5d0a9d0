"""Lets PoCL compile for processors that are newer than it."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

_UNKNOWN = b"generic\0"
_WORD = ctypes.sizeof(ctypes.c_void_p)
_SEARCHED_WORDS = 256  # of PoCL's description of a device
_AVX2 = ("avx2", "bmi1", "bmi2", "fma", "f16c", "abm", "movbe")
_AVX512 = ("avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl", "adx")
# What PoCL's libraries of built-in functions are compiled for, the best first, and what such a processor can do.
_TARGETS: dict[str, tuple[str, ...]] = {
    "skylake-avx512": (*_AVX2, *_AVX512),
    "haswell": _AVX2,
    "ivybridge": ("avx", "f16c"),
    "sandybridge": ("avx",),
    "penryn": ("sse4_1",),
    "core2": ("ssse3",),
    "x86-64": (),
}
_names: list[Any] = []  # PoCL keeps pointers to them


def name_cpu(device: Any) -> str | None:
    """Tells PoCL a processor to compile for, where it does not know this machine's.

    LLVM calls a processor that is newer than itself "generic", PoCL hands that name to its compiler, and the compiler
    refuses it: no kernel can be built (PoCL's issues 512 and 1049, still so in 3.0). Nothing that can be set from
    outside overrides the name, so it is replaced in PoCL's description of the device, before a kernel is built, by
    the newest processor that this one is a superset of.

    Parameters
    ----------
    device : pyopencl.Device
        Of any platform.

    Returns
    -------
    str or None
        The name that PoCL has been told; None where there was nothing to do, or nothing that can be done.
    """
    if device.platform.name.strip() != "Portable Computing Language":
        return None
    return replace_unknown(device.int_ptr, target(_flags()))


def target(flags: frozenset[str]) -> str:
    """LLVM's name of the newest processor that can do no more than one with these flags of /proc/cpuinfo."""
    return next(name for name, needed in _TARGETS.items() if flags.issuperset(needed))


def replace_unknown(address: int, name: str) -> str | None:
    """Replaces the processor's name in PoCL's description of a device, if it is "generic".

    The name's pointer stands behind that of the target triple; where no two words are such pointers, nothing is
    touched.

    Parameters
    ----------
    address : int
        Where the description begins.
    name : str

    Returns
    -------
    str or None
        The name, or None if nothing was replaced.
    """
    try:
        memory = os.open("/proc/self/mem", os.O_RDONLY)
    except OSError:
        return None
    try:
        words = [int.from_bytes(_peek(memory, address + at * _WORD, _WORD), "little") for at in range(_SEARCHED_WORDS)]
        for at in range(1, len(words)):
            if _peek(memory, words[at], len(_UNKNOWN)) != _UNKNOWN:
                continue
            if not _peek(memory, words[at - 1], 7).startswith(b"x86_64-"):
                continue
            told = ctypes.create_string_buffer(name.encode())
            _names.append(told)
            ctypes.c_void_p.from_address(address + at * _WORD).value = ctypes.addressof(told)
            return name
        return None
    finally:
        os.close(memory)


def _peek(memory: int, address: int, length: int) -> bytes:
    """Bytes of this process; none where there is no memory."""
    try:
        return os.pread(memory, length, address)
    except (OSError, OverflowError):
        return b""


def _flags() -> frozenset[str]:
    """What all processors of this machine can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    found = [frozenset(line.partition(":")[2].split()) for line in lines if line.startswith("flags")]
    return frozenset.intersection(*found) if found else frozenset()
