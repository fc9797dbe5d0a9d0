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
        f"splitjoin_{parameters.cores}_{parameters.lanes}_{parameters.fan_out}_{parameters.key_bits}",
        "sim.benches.splitjoin",
        seed=seed,
        parameters=dataclasses.asdict(parameters),
        count=count,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"cores": 3, "lanes": 2},
        {"cores": 4, "lanes": 1, "fan_out": 4, "fan_in": 4, "key_bits": 64, "time_bits": 64, "rows": 4},
    ],
    ids=lambda change: f"J={change['cores']},C={change['lanes']}",
)
def test_joins(change, seed):
    check(seed, int(__import__("os").environ.get("SJC", "40")), **change)
