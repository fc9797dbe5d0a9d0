"""Burst readers, burst writers and copies on a bus with random stalls."""

import pytest

pytest.importorskip("amaranth")
pytest.importorskip("cocotbext.axi")

from hw.memory.burst_reader import BurstReader
from hw.memory.burst_writer import BurstWriter
from hw.memory.copy_engine import CopyEngine
from hw.memory.port_shape import PortShape
from tests.hw.memory.simulate import simulate

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


@pytest.mark.parametrize("block", ["burst_reader", "burst_writer"])
def test_reader_and_writer(block, seed):
    component = {"burst_reader": BurstReader, "burst_writer": BurstWriter}[block](SMALL)
    simulate(component, block, f"tests.hw.memory.cocotb_{block}", seed, **settings(SMALL))


@pytest.mark.parametrize(("shape", "ports"), [(SMALL, 2), (WIDE, 1)])
def test_copy_engine(shape, ports, seed):
    component = CopyEngine(shape, turn_bytes=4096, ports=ports)
    module = "tests.hw.memory.cocotb_copy_engine"
    simulate(component, f"copy_engine_{ports}", module, seed, ports=ports, turn_bytes=4096, **settings(shape))


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
