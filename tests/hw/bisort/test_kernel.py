"""The whole kernel at its ports against its model, command by command."""

import dataclasses

import pytest

pytest.importorskip("amaranth")
pytest.importorskip("cocotbext.axi")

from muntin.contract.designs.bisort import Parameters
from muntin.hw.bisort.kernel import Kernel
from muntin.sim.block_runner import run_bench

TINY = dataclasses.replace(Parameters.preset("tiny"), address_bits=17)
BUILDS = {
    "one_channel": TINY,
    # Wide keys, and beats of more rows than the merger's, on two channels; the second of two lanes is tested.
    "two_channels": dataclasses.replace(
        TINY, key_bits=64, data_bits=256, channels=2, width=2, address_bits=20, lanes=2
    ),
}


@pytest.mark.parametrize("build", [pytest.param("one_channel", marks=pytest.mark.full), "two_channels"])
def test_kernel_against_the_model(build, seed):
    parameters = BUILDS[build]
    run_bench(
        Kernel(parameters),
        f"kernel_{build}",
        "tests.hw.bisort.cocotb_kernel",
        seed=seed,
        parameters=dataclasses.asdict(parameters),
    )
