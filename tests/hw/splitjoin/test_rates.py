"""The rates of SplitJoin, and its latency."""

import dataclasses

import pytest

from bench.hardware.splitjoin_latency import splitjoin_latency
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.sim.block_runner import run_bench
from tests.hw.meters.splitjoin_meter import SplitJoinMeter

TINY = dataclasses.replace(SplitJoinParameters.preset("tiny"), time_bits=0)


def check(cores: int, lanes: int, rows: int, seed: int, *, count: int, busy: float, matching: int) -> None:
    parameters = dataclasses.replace(TINY, cores=cores, lanes=lanes, rows=rows, result_rows=4)
    run_bench(
        SplitJoinMeter(parameters),
        f"splitjoin_meter_{cores}_{lanes}",
        "tests.hw.benches.splitjoin_meter",
        seed=seed,
        parameters=dataclasses.asdict(parameters),
        rows=count,
        busy=busy,
        matching=matching,
    )


def test_rates(seed):
    check(2, 1, 256, seed, count=60, busy=0.98, matching=4)


@pytest.mark.full
@pytest.mark.parametrize(("cores", "lanes"), [(16, 1), (16, 4), (64, 1)])
def test_rates_at_a_window_of_64_k(cores, lanes, seed):
    check(cores, lanes, 65536 // cores, seed, count=64, busy=0.95, matching=2)


@pytest.mark.parametrize(
    ("cores", "fan_out"),
    [
        (1, 2),
        (4, 2),
        (5, 4),
        *(pytest.param(cores, 2, marks=pytest.mark.full) for cores in (16, 64, 256)),
        *(pytest.param(cores, 4, marks=pytest.mark.full) for cores in (16, 64, 256)),
    ],
)
def test_latency_is_logarithmic(cores, fan_out):
    levels = next(levels for levels in range(20) if fan_out**levels >= cores)
    assert splitjoin_latency(cores, fan_out) == (2 * levels + 15, levels)
