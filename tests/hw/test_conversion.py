"""Memories are written as Amaranth writes them."""

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from muntin.hw import conversion


class Store(wiring.Component):
    def __init__(self, width, init, depth):
        self._memory = {"shape": unsigned(width), "depth": depth, "init": init}
        super().__init__({"address": In(range(max(depth, 2))), "data": Out(max(width, 1)), "word": In(max(width, 1))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = Memory(**self._memory)
        read, write = memory.read_port(), memory.write_port()
        m.d.comb += [read.addr.eq(self.address), write.addr.eq(self.address), read.en.eq(1)]
        m.d.comb += [self.data.eq(read.data), write.data.eq(self.word), write.en.eq(Signal(init=1))]
        return m


@pytest.mark.parametrize(
    ("width", "init", "depth"),
    [(8, [1, 2, 255], 5), (8, [], 4), (1, [1, 0, 1], 3), (72, [1 << 71, (1 << 72) - 1, 5], 3), (8, [], 0)],
)
def test_memories_are_written_as_amaranth_writes_them(monkeypatch, width, init, depth):
    ours = conversion.to_rtlil(Store(width, init, depth), "top")
    verilog = conversion.to_verilog(Store(width, init, depth), "top")
    assert conversion.rtlil_to_verilog(ours) == verilog
    monkeypatch.setattr(rtlil.ModuleEmitter, "emit_memory", conversion.emit_memory_by_bits)
    assert ours == conversion.to_rtlil(Store(width, init, depth), "top")
    assert verilog == conversion.to_verilog(Store(width, init, depth), "top")


def test_a_memory_of_no_bits(monkeypatch):
    ours = conversion.to_rtlil(Store(0, [], 4), "top")
    monkeypatch.setattr(rtlil.ModuleEmitter, "emit_memory", conversion.emit_memory_by_bits)
    assert ours == conversion.to_rtlil(Store(0, [], 4), "top")
