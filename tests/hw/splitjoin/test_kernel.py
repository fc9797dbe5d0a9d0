"""The SplitJoin kernel at its ports against its model, command by command."""

import dataclasses

import pytest

pytest.importorskip("amaranth")
pytest.importorskip("cocotbext.axi")

from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.hw.splitjoin.kernel import SplitJoinKernel
from muntin.sim.block_runner import run_bench

TINY = dataclasses.replace(SplitJoinParameters.preset("tiny"), address_bits=18)
BUILDS = {
    # A row takes two beats, a beat two results.
    "narrow": TINY,
    # A row of two columns takes four.
    "columns": dataclasses.replace(TINY, columns=2),
    # A beat has four rows, or eight results.
    "wide": dataclasses.replace(TINY, cores=2, lanes=1, time_bits=0, bounds=0, data_bits=512, burst_bytes=256),
}


@pytest.mark.parametrize(
    "build", ["narrow", *(pytest.param(build, marks=pytest.mark.full) for build in ("columns", "wide"))]
)
def test_kernel_against_the_model(build, seed):
    run_bench(
        SplitJoinKernel(BUILDS[build]),
        f"splitjoin_kernel_{build}",
        "tests.hw.splitjoin.cocotb_kernel",
        seed=seed,
        parameters=dataclasses.asdict(BUILDS[build]),
    )
