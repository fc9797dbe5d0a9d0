"""Reads that meet writes give something wrong in simulation, and no others do; registers begin with anything."""

import re

import pytest
from amaranth.back import verilog
from amaranth.hdl import Module, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from muntin.sim.block_runner import run_bench
from muntin.sim.undefined import colliding_reads, with_drawn_values


class Store(wiring.Component):
    """A memory with a port that is written and one that is read by clock."""

    write: In(1)
    at: In(3)
    data: In(8)
    read: In(1)
    of: In(3)
    o: Out(8)

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.store = store = memory.Memory(shape=8, depth=8, init=[])
        writer, reader = store.write_port(), store.read_port()
        m.d.comb += [
            writer.en.eq(self.write),
            writer.addr.eq(self.at),
            writer.data.eq(self.data),
            reader.en.eq(self.read),
            reader.addr.eq(self.of),
            self.o.eq(reader.data),
        ]
        return m


def test_reads_that_meet_writes(seed):
    run_bench(Store(), "colliding_reads", "tests.hw.benches.colliding_reads", seed=seed)


def test_every_memory_is_found():
    class Both(wiring.Component):
        i: In(8)
        o: Out(16)

        def elaborate(self, platform) -> Module:
            m = Module()
            m.submodules.queue = queue = SyncFIFOBuffered(width=8, depth=16)
            m.submodules.store = store = Store()
            m.d.comb += [
                queue.w_data.eq(self.i),
                queue.w_en.eq(1),
                queue.r_en.eq(self.i[0]),
                store.data.eq(self.i),
                store.write.eq(1),
                store.read.eq(1),
                self.o.eq(queue.r_data ^ (store.o << 8)),
            ]
            return m

    text = verilog.convert(Both(), name="top", strip_internal_attrs=True, emit_src=False)
    assert colliding_reads(text).count("? ~") == 2


def test_what_is_not_read_by_clock_stays():
    class Plain(wiring.Component):
        i: In(3)
        o: Out(8)

        def elaborate(self, platform) -> Module:
            m = Module()
            m.submodules.store = store = memory.Memory(shape=8, depth=8, init=[])
            reader, held = store.read_port(domain="comb"), Signal(8)
            writer = store.write_port()
            m.d.comb += [reader.addr.eq(self.i), writer.en.eq(1), writer.data.eq(self.i)]
            m.d.sync += held.eq(reader.data ^ 1)
            m.d.comb += self.o.eq(held)
            return m

    text = verilog.convert(Plain(), name="top", strip_internal_attrs=True, emit_src=False)
    assert colliding_reads(text) == text


def test_a_memory_with_two_writers_is_refused():
    text = """\
module top(clk);
  reg [7:0] both [7:0];
  always @(posedge clk) begin
    if (a)
      both[b] <= c;
  end
  always @(posedge clk) begin
    if (d)
      both[e] <= f;
  end
  always @(posedge clk) begin
    g <= both[h];
  end
endmodule
"""
    with pytest.raises(ValueError, match="memory both is written at 2 places, not at one"):
        colliding_reads(text)


def test_a_memory_that_is_never_written_stays():
    text = """\
module top(clk);
  reg [7:0] table [7:0];
  always @(posedge clk) begin
    g <= table[h];
  end
endmodule
"""
    assert colliding_reads(text) == text


def test_registers_begin_with_drawn_values():
    class Registers(wiring.Component):
        i: In(40)
        o: Out(40)
        flag: Out(1, init=1)

        def elaborate(self, platform) -> Module:
            m = Module()
            m.submodules.store = Store()
            m.d.sync += [self.o.eq(self.i), self.flag.eq(~self.flag)]
            return m

    text = verilog.convert(Registers(), emit_src=False)
    drawn = with_drawn_values(text)
    assert "reg [39:0] o = 40'h0000000000;" in text
    (value,) = re.findall(r"^  reg \[39:0\] o = 40'h([0-9a-f]{1,10});$", drawn, re.M)
    assert 4 < int(value, 16).bit_count() < 36
    assert re.search(r"^  reg flag = 1'h[01];$", drawn, re.M)
    assert drawn == with_drawn_values(text)
    changed = [line for line in drawn.splitlines() if line not in text.splitlines()]
    assert 1 <= len(changed) <= 3
    assert all(line.startswith("  reg ") for line in changed)
