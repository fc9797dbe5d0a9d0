"""PoCL on processors that are newer than it."""

import ctypes

import pytest

from host.devices.pocl_cpu import replace_unknown, target

AVX2 = ("avx2", "bmi1", "bmi2", "fma", "f16c", "abm", "movbe")
AVX512 = ("avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "adx")
ZEN_5 = frozenset(["sse2", "ssse3", "sse4_1", "sse4_2", "avx", *AVX2, *AVX512])


@pytest.mark.parametrize(
    ("without", "name"),
    [
        ("", "skylake-avx512"),
        ("avx512vl", "haswell"),
        ("avx512f avx512cd avx512bw avx512dq avx512vl avx2", "ivybridge"),
        ("avx2 f16c", "sandybridge"),
        ("avx avx2", "penryn"),
        ("sse4_1 avx avx2", "core2"),
        ("ssse3 sse4_1 avx avx2", "x86-64"),
    ],
)
def test_the_newest_processor_that_does_no_more(without, name):
    assert target(ZEN_5 - frozenset(without.split())) == name


def test_a_machine_that_tells_nothing_is_the_oldest():
    assert target(frozenset()) == "x86-64"


class Description:
    """A device's description as PoCL keeps it: numbers, and pointers to names."""

    def __init__(self, *names):
        self.texts = [ctypes.create_string_buffer(name) for name in names]
        values = [7, 0, *(ctypes.addressof(text) for text in self.texts), 3]
        self.words = (ctypes.c_uint64 * 512)(*values)
        self.address = ctypes.addressof(self.words)

    def name(self, at):
        return ctypes.string_at(self.words[2 + at])


def test_an_unknown_processor_gets_a_name():
    held = Description(b"pthread", b"x86_64-unknown-linux-gnu", b"generic", b"generic")
    assert replace_unknown(held.address, "haswell") == "haswell"
    assert [held.name(at) for at in range(4)] == [b"pthread", b"x86_64-unknown-linux-gnu", b"haswell", b"generic"]


@pytest.mark.parametrize(
    "names",
    [
        (b"x86_64-unknown-linux-gnu", b"znver3"),
        (b"aarch64-unknown-linux-gnu", b"generic"),
        (b"generic", b"x86_64-unknown-linux-gnu"),
        (),
    ],
)
def test_nothing_else_is_touched(names):
    held = Description(*names)
    before = bytes(held.words)
    assert replace_unknown(held.address, "haswell") is None
    assert bytes(held.words) == before
