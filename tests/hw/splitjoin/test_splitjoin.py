"""SplitJoin as a whole: pairs, order and stalls over cores, lanes and fan-outs."""

import dataclasses

import pytest

from hw.splitjoin.parameters import SplitJoinParameters
from hw.splitjoin.splitjoin import SplitJoin
from sim.block_runner import run_bench

TINY = SplitJoinParameters.preset("tiny")


def check(seed: int, count: int, **change: int) -> None:
    parameters = dataclasses.replace(TINY, **change)
    run_bench(
        SplitJoin(parameters),
        f"splitjoin_{parameters.cores}_{parameters.lanes}_{parameters.fan_out}",
        "sim.benches.splitjoin",
        seed=seed,
        parameters=dataclasses.asdict(parameters),
        count=count,
    )


def test_joins(seed):
    check(seed, 20)


@pytest.mark.full
@pytest.mark.parametrize("fan_out", [2, 4])
@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize("cores", [1, 2, 3, 4, 8, 16])
def test_joins_with_any_cores(cores, lanes, fan_out, seed):
    wide = (cores + lanes + fan_out // 2) % 2  # half of the builds each
    check(
        seed,
        60,
        cores=cores,
        lanes=lanes,
        fan_out=fan_out,
        fan_in=fan_out,
        rows=max(lanes, 1 << (32 // cores).bit_length() - 1),
        key_bits=64 if wide else 32,
        time_bits=64 if not wide else 32,
        result_rows=2 + lanes,
    )


@pytest.mark.full
@pytest.mark.parametrize(("fan_out", "time_bits"), [(2, 0), (4, 32)])
def test_joins_with_64_cores(fan_out, time_bits, seed):
    check(seed, 12, cores=64, lanes=1, rows=1 + bool(time_bits), fan_out=fan_out, fan_in=fan_out, time_bits=time_bits)
