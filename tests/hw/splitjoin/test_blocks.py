"""The blocks of SplitJoin, each against its model; one build holds them all."""

import dataclasses
import functools

import pytest

from muntin.contract import ParameterError
from muntin.contract.designs.splitjoin import PRESETS, SplitJoinParameters
from muntin.hw.splitjoin.bisort_window import BisortWindow
from muntin.hw.splitjoin.join_core import JoinCore
from muntin.hw.splitjoin.layouts import Side
from muntin.hw.splitjoin.rap_merger import RapMerger
from muntin.hw.splitjoin.result_packer import ResultPacker
from muntin.hw.splitjoin.row_cutter import RowCutter
from muntin.sim.block_runner import run_bench
from tests.hw.bundle import Bundle
from tests.hw.splitjoin.streamed import OrderedMerger, StreamedCombiner, StreamedCore, StreamedDistributor

TINY = SplitJoinParameters.preset("tiny")
TREES = {
    "binary": dataclasses.replace(TINY, cores=5),
    "flat": dataclasses.replace(TINY, cores=4, fan_out=4, time_bits=0),
    "deep": dataclasses.replace(TINY, cores=3, fan_out=4, depth=2, key_bits=64, columns=2),
    "wire": dataclasses.replace(TINY, cores=1),
}
CORE = dataclasses.replace(TINY, cores=3, lanes=4, rows=16, key_bits=64, time_bits=64, result_rows=4, columns=2)
INDEX, INPUTS = 1, 3
CUTS = {
    "two_beats": TINY,
    "one_beat": dataclasses.replace(TINY, time_bits=0, bounds=0),
    "four_a_beat": dataclasses.replace(TINY, time_bits=0, bounds=0, data_bits=512),
    "four_beats": dataclasses.replace(TINY, key_bits=64, time_bits=64),
    "two_columns": dataclasses.replace(TINY, key_bits=64, time_bits=64, columns=2),
}
PACKERS = {"packer_128": 128, "packer_512": 512}
SORTED, SORTED_BUFFER = dataclasses.replace(TINY, lanes=1, rows=32, time_bits=0), 8


@functools.cache
def _bundle() -> Bundle:
    return Bundle(
        {name: StreamedDistributor(tree) for name, tree in TREES.items()}
        | {name: RowCutter(cut) for name, cut in CUTS.items()}
        | {name: ResultPacker(bits) for name, bits in PACKERS.items()}
        | {
            "rap_merger": OrderedMerger(inputs=INPUTS, way=2, rows=2),
            "combiner": StreamedCombiner(way=1, rows=2),
            "join_core": StreamedCore(CORE, index=INDEX),
            "bisort_window": BisortWindow(SORTED, side=Side.RIGHT, buffer_rows=SORTED_BUFFER),
        }
    )


@pytest.mark.parametrize(
    "block", ["distributor", "rap_merger", "combiner", "join_core", "bisort_window", "row_cutter", "result_packer"]
)
def test_against_the_model(block, seed):
    run_bench(
        _bundle(),
        "splitjoin_blocks",
        f"tests.hw.benches.{block}",
        seed=seed,
        drawn=True,
        trees={name: dataclasses.asdict(tree) for name, tree in TREES.items()},
        core=dataclasses.asdict(CORE),
        index=INDEX,
        sorted=dataclasses.asdict(SORTED),
        sorted_buffer=SORTED_BUFFER,
        inputs=INPUTS,
        cuts={name: dataclasses.asdict(cut) for name, cut in CUTS.items()},
        packers=PACKERS,
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: JoinCore(TINY, index=3), "index must lie in 0..2, not 3"),
        (lambda: RapMerger(inputs=0, way=1, rows=2), "inputs must be a positive integer, not 0"),
    ],
)
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name):
    parameters = SplitJoinParameters.preset(name)
    assert parameters.capacity == parameters.cores * parameters.rows
    assert parameters.fan_out**parameters.levels >= parameters.cores


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cores": 0}, "cores must be an integer of at least 1, not 0"),
        ({"cores": True}, "cores must be an integer"),
        ({"lanes": 3}, "lanes must be one of 1, 2, 4, 8, not 3"),
        ({"key_bits": 16}, "key_bits must be one of 32, 64, not 16"),
        ({"time_bits": 8}, "time_bits must be one of 0, 32, 64, not 8"),
        ({"rows": 12}, "rows must be a power of two, not 12"),
        ({"rows": 1}, "rows must be at least lanes, 2, not 1"),
        ({"rows": 1 << 31}, "cores \\* rows must be below"),
        ({"fan_out": 1}, "fan_out must be an integer of at least 2"),
        ({"cores": 5, "depth": 2}, "depth must be at least 3, or 0, for 5 cores and a fan-out of 2, not 2"),
        ({"result_rows": 1}, "result_rows must be an integer of at least 2"),
        ({"bounds": 2}, "bounds must be one of 0, 1, not 2"),
        ({"columns": 3}, "columns must be one of 1, 2, not 3"),
        ({"columns": 2, "bounds": 0}, "columns must be 1 without bounds, not 2"),
        ({"data_bits": 64}, "data_bits must be one of 128, 256, 512, 1024, not 64"),
        ({"address_bits": 8}, "address_bits must lie in 12..64, not 8"),
        ({"queue_rows": 3}, "queue_rows must be a power of two, not 3"),
        ({"burst_bytes": 8192}, "burst_bytes must lie in 16..4096, at most 256 beats of 16 bytes, not 8192"),
        ({"turn_bytes": 32}, "turn_bytes must be at least burst_bytes, 64, not 32"),
        ({"probe_rows": 2048}, "probe_rows must be at most 1024, not 2048"),
    ],
)
def test_parameters_that_do_not_fit(change, message):
    with pytest.raises(ParameterError, match=message):
        dataclasses.replace(TINY, **change)


def test_unknown_preset():
    with pytest.raises(ParameterError, match="preset must be one of tiny, ecp5, operator, ecpix5, not 'huge'"):
        SplitJoinParameters.preset("huge")
