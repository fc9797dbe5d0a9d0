"""Modules that are alike become one, and memories are filled in loops."""

import re

import pytest

pytest.importorskip("amaranth")

from amaranth.back import verilog
from amaranth.hdl import Module, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from muntin.sim.compact_verilog import compact_verilog


class Inner(wiring.Component):
    """A register behind a sum."""

    i: In(8)
    o: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.d.sync += self.o.eq(self.i + 1)
        return m


class Cell(wiring.Component):
    """Looks words up in a memory, one of which is not 0."""

    def __init__(self, at: int):
        self._at = at
        super().__init__({"address": In(5), "o": Out(8)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.words = words = memory.Memory(shape=8, depth=32, init=[7 * (at == self._at) for at in range(32)])
        m.submodules.inner = inner = Inner()
        read = words.read_port()
        m.d.comb += [read.addr.eq(self.address), inner.i.eq(read.data), self.o.eq(inner.o)]
        return m


class Cells(wiring.Component):
    def __init__(self, places):
        self._places = places
        super().__init__({"address": In(5), "o": Out(8)})

    def elaborate(self, platform):
        m = Module()
        total = Signal(8)
        for number, at in enumerate(self._places):
            m.submodules[f"cell_{number}"] = cell = Cell(at)
            m.d.comb += cell.address.eq(self.address + number)
            total = total ^ cell.o
        m.d.comb += self.o.eq(total)
        return m


def converted(places) -> str:
    return verilog.convert(Cells(places), name="top", strip_internal_attrs=True, emit_src=False)


def modules(text: str) -> list[str]:
    return re.findall(r"^module (\S+?) ?\(", text, re.M)


def words(text: str, module: str) -> dict[int, int]:
    """What a memory begins with."""
    body = re.search(rf"^module {re.escape(module)} \(.*?^endmodule", text, re.M | re.S)
    assert body is not None
    found = {int(at): int(value, 16) for at, value in re.findall(r"words\[(\d+)\] = 8'h(\w+);", body[0])}
    loop = r"for \(int at = (\d+); at <= (\d+); at = at \+ 1\) words\[at\] = 8'h(\w+);"
    for first, last, value in re.findall(loop, body[0]):
        found |= dict.fromkeys(range(int(first), int(last) + 1), int(value, 16))
    return found


def test_modules_that_are_alike_become_one():
    text = converted([3, 3, 3])
    short = compact_verilog(text)
    assert len(modules(text)) == 7
    assert modules(short) == ["top", r"\top.cell_0", r"\top.cell_0.inner"]
    assert re.findall(r"^  (\S+) +(\S+) +\($", short, re.M) == [
        *((r"\top.cell_0", f"cell_{number}") for number in range(3)),
        (r"\top.cell_0.inner", "inner"),
    ]


def test_modules_that_differ_stay():
    short = compact_verilog(converted([3, 9, 3]))
    assert modules(short) == ["top", r"\top.cell_0", r"\top.cell_0.inner", r"\top.cell_1"]
    assert re.findall(r"^  (\S+) +cell_\d +\($", short, re.M) == [r"\top.cell_0", r"\top.cell_1", r"\top.cell_0"]


def test_memories_begin_as_before():
    text = converted([3, 9])
    short = compact_verilog(text)
    for number, at in enumerate((3, 9)):
        expected = {place: 7 * (place == at) for place in range(32)}
        assert words(text, rf"\top.cell_{number}") == words(short, rf"\top.cell_{number}") == expected
    assert short.count("for (int") == 1 + 2  # behind a run of three words there is one loop, on both sides of nine two
