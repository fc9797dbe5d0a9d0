"""The merger: order, nothing lost or doubled, the stream law, and its rate."""

import pytest

from muntin.contract import ParameterError
from muntin.hw.bisort.merger import Merger
from muntin.sim.block_runner import run_bench
from tests.hw.meters.merger_meter import MergerMeter


@pytest.mark.parametrize(
    ("width", "key_bits"),
    [
        (1, 32),
        pytest.param(2, 32, marks=pytest.mark.full),
        (4, 64),
        pytest.param(8, 32, marks=pytest.mark.full),
        pytest.param(16, 32, marks=pytest.mark.full),
    ],
)
def test_against_the_model(width, key_bits, seed):
    run_bench(
        MergerMeter(key_bits=key_bits, width=width),
        f"merger_{width}",
        "tests.hw.benches.merger",
        seed=seed,
        drawn=True,
        width=width,
        key_bits=key_bits,
        latency=11 + (2 * (width.bit_length() - 1) or 1),
        gap=11,
        beats=4096,
    )


def test_width_must_be_a_power_of_two():
    with pytest.raises(ParameterError, match="width must be a power of two, not 3"):
        Merger(key_bits=32, width=3)
