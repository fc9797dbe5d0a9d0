"""Burst readers, burst writers and copies on a bus with random stalls."""

import dataclasses

import pytest

pytest.importorskip("amaranth")
pytest.importorskip("cocotbext.axi")

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from muntin.contract import ParameterError
from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.memory.burst_reader import BurstReader
from muntin.hw.memory.burst_writer import BurstWriter
from muntin.hw.memory.copy_engine import CopyEngine
from muntin.hw.memory.memory_port import MemoryPort
from muntin.hw.memory.port_interleaver import PortInterleaver
from muntin.hw.memory.port_shape import PortShape
from muntin.hw.memory.stream_writer import StreamWriter
from muntin.sim.block_runner import run_bench

SMALL = PortShape(
    address_width=24,
    data_width=64,
    length_width=24,
    burst_bytes=256,
    outstanding=4,
    buffer_bytes=1024,
    max_transfer_bytes=1 << 20,
    memory_bytes=(1 << 24) - 4096,
)
WIDE = PortShape(
    address_width=24,
    data_width=128,
    length_width=24,
    burst_bytes=1024,
    outstanding=16,
    buffer_bytes=4096,
    max_transfer_bytes=1 << 20,
    memory_bytes=(1 << 24) - 4096,
)


def settings(shape: PortShape) -> dict[str, object]:
    names = ("beat_bytes", "address_width", "length_width", "memory_bytes", "max_transfer_bytes")
    return {name: getattr(shape, name) for name in names}


class SpreadCopy(wiring.Component):
    """A copy engine on one port that is spread over two."""

    def __init__(self, shape: PortShape):
        self._copy = CopyEngine(shape, turn_bytes=4096)
        self._spread = PortInterleaver(shape, ports=2, stride=4096)
        members = dict(self._copy.signature.members)
        axi = Axi4Signature(shape.address_width, shape.data_width, shape.id_width)
        super().__init__({**members, "axi": Out(axi).array(2)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.copy = self._copy
        m.submodules.spread = self._spread
        for name in ("command", "status"):
            wiring.connect(m, getattr(self._copy, name), wiring.flipped(getattr(self, name)))
        wiring.connect(m, self._copy.axi[0], self._spread.i)
        for inner, outer in zip(self._spread.axi, self.axi, strict=True):
            wiring.connect(m, inner, wiring.flipped(outer))
        return m


@pytest.mark.parametrize("block", ["burst_reader", "burst_writer", "stream_writer"])
def test_readers_and_writers(block, seed):
    blocks = {"burst_reader": BurstReader, "burst_writer": BurstWriter, "stream_writer": StreamWriter}
    component = blocks[block](SMALL)
    run_bench(
        component, block, f"tests.hw.memory.cocotb_{block}", seed=seed, burst_bytes=SMALL.burst_bytes, **settings(SMALL)
    )


@pytest.mark.parametrize("alternate_bytes", [None, 256])
def test_memory_port(alternate_bytes, seed):
    port = MemoryPort(SMALL, readers=3, writers=2, turn_bytes=SMALL.burst_bytes, alternate_bytes=alternate_bytes)
    run_bench(
        port,
        f"memory_port_{alternate_bytes}",
        "tests.hw.memory.cocotb_memory_port",
        seed=seed,
        burst_bytes=SMALL.burst_bytes,
        readers=3,
        writers=2,
        alternate_bytes=alternate_bytes,
        **settings(SMALL),
    )


@pytest.mark.parametrize("ports", ["one", pytest.param("two", marks=pytest.mark.full), "spread"])
def test_copy_engine(ports, seed):
    shape = WIDE if ports == "one" else SMALL
    component, read_ports, write_ports = {
        "one": lambda: (CopyEngine(shape, turn_bytes=4096), [0], [0]),
        "two": lambda: (CopyEngine(shape, turn_bytes=4096, ports=2), [0], [1]),
        "spread": lambda: (SpreadCopy(shape), [0, 1], [0, 1]),
    }[ports]()
    run_bench(
        component,
        f"copy_engine_{ports}",
        "tests.hw.memory.cocotb_copy_engine",
        seed=seed,
        read_ports=read_ports,
        write_ports=write_ports,
        turn_bytes=4096,
        buffered_bytes=2 * shape.buffer_bytes,
        **settings(shape),
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"data_width": 48}, "data_width"),
        ({"burst_bytes": 8192}, "burst_bytes"),
        ({"burst_bytes": 768}, "burst_bytes"),
        ({"buffer_bytes": 512}, "buffer_bytes"),
        ({"outstanding": 0}, "outstanding"),
        ({"max_transfer_bytes": 1 << 33}, "max_transfer_bytes"),
        ({"memory_bytes": 1 << 33}, "memory_bytes"),
    ],
)
def test_shape_refuses_what_cannot_be_built(wrong, message):
    with pytest.raises(ValueError, match=message):
        PortShape(**wrong)


def test_blocks_refuse_what_cannot_be_built():
    with pytest.raises(ParameterError, match="turn_bytes"):
        MemoryPort(SMALL, readers=1, writers=1, turn_bytes=128)
    for wrong in (128, 768, 1 << 24):
        with pytest.raises(ParameterError, match="alternate_bytes"):
            MemoryPort(SMALL, readers=1, writers=1, turn_bytes=4096, alternate_bytes=wrong)
    with pytest.raises(ParameterError, match="a reader and a writer"):
        MemoryPort(SMALL, readers=0, writers=1, turn_bytes=4096)
    with pytest.raises(ParameterError, match="ports must be 1 or 2"):
        CopyEngine(SMALL, turn_bytes=4096, ports=3)
    with pytest.raises(ParameterError, match="power of two"):
        PortInterleaver(SMALL, ports=3, stride=4096)
    with pytest.raises(ParameterError, match="stride"):
        PortInterleaver(SMALL, ports=2, stride=128)


def test_a_reader_whose_buffer_is_a_burst_of_two_beats(seed):
    shape = dataclasses.replace(SMALL, burst_bytes=16, buffer_bytes=16)
    run_bench(
        BurstReader(shape),
        "burst_reader_two_beats",
        "tests.hw.memory.cocotb_burst_reader",
        seed=seed,
        burst_bytes=shape.burst_bytes,
        **settings(shape),
    )
