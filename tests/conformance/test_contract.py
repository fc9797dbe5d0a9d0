"""The contract over every device, window, predicate, index, form, order, key type and batching.

A pairwise sample runs by default: any two values of any two axes meet in some case. `--full` runs the whole
product of windows, predicates, indexes, forms and orders, with the other axes drawn at random.
"""

import itertools
from contextlib import ExitStack
from unittest import mock

import numpy as np
import pytest

from muntin import WindowJoin
from muntin.host import errors
from muntin.host.engines import Outer
from muntin.host.join import journal, pipeline, stages
from tests.conformance.check import check_join, host_arguments, oracle
from tests.conformance.devices import DEVICES, DeviceCase
from tests.conformance.keys import KEYS, SHAPES, WIDE_KEYS
from tests.conformance.pairwise import pairwise
from tests.conformance.predicates import PREDICATES
from tests.conformance.streams import CUTS, SEQUENCES, make_streams
from tests.conformance.windows import WINDOWS
from tests.conftest import SEED

ALL_KEYS = {key.name: key for key in KEYS + WIDE_KEYS}
OPERATOR_AXES = {
    "window": list(WINDOWS),
    "predicate": list(PREDICATES),
    "index": ["auto", "bisort"],
    "form": ["rows", "pairs", "counts"],
    "order": ["none", "outer", "outer, every 5", "inner"],
}
STREAM_AXES = {
    "key": [key.name for key in KEYS],
    "shape": list(SHAPES),
    "sequence": list(SEQUENCES),
    "cut": list(CUTS),
}


def name_of(case: dict) -> str:
    return "/".join(case.values())


def run(
    case: dict, device_case: DeviceCase, device: object, rng: np.random.Generator, count: int = 40, first_row: int = 0
) -> None:
    """One case of the suite against the nested loop; the streams' first rows have the arrival number `first_row`."""
    key, window = ALL_KEYS[case["key"]], WINDOWS[case["window"]]
    if reason := device_case.may_refuse(case["index"], case["form"], window, key):
        pytest.skip(f"device {device_case.name}: {reason}")
    predicate = PREDICATES[case["predicate"]]
    sequenced = case["sequence"] != "none"
    order = Outer(every=5) if case["order"] == "outer, every 5" else case["order"]
    streams = make_streams(key, case["shape"], window, case["sequence"], case["cut"], count, rng)
    with ExitStack() as numbered:
        for module in (journal, pipeline, stages):
            numbered.enter_context(mock.patch.object(module, "FIRST_ROW", first_row))
        join = numbered.enter_context(
            WindowJoin(
                **host_arguments(predicate, key, window, sequenced),
                index=case["index"],
                form=case["form"],
                order=order,
                device=device,
                left_schema=streams.left.schema,
                right_schema=streams.right.schema,
            )
        )
        check_join(join, oracle(predicate, key, window, sequenced), streams, case["form"], order, first_row)


SAMPLE = pairwise(OPERATOR_AXES | STREAM_AXES, SEED)


@pytest.mark.parametrize("case", SAMPLE, ids=name_of)
def test_sample(case, device_case, device, seed):
    run(case, device_case, device, np.random.default_rng([seed, SAMPLE.index(case)]))


PINNED = {
    on: [name for name in on.pinned if name.startswith("test_contract.py::test_sample[")]
    for on in DEVICES
    if on.pinned_only
}


@pytest.mark.parametrize("on", [on for on, names in PINNED.items() if names], ids=lambda on: on.name)
def test_a_board_joins_what_is_pinned_on_it(on):
    """Of the cases of each name that is pinned, one at least is carried out without --full or with it."""
    for pinned in PINNED[on]:
        named = [
            case for case in SAMPLE if f"test_contract.py::test_sample[{on.name}-{name_of(case)}".startswith(pinned)
        ]
        reasons = [
            on.may_refuse(case["index"], case["form"], WINDOWS[case["window"]], ALL_KEYS[case["key"]]) for case in named
        ]
        assert None in reasons, pinned


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.full] * (at % 3 > 0)) for at, case in enumerate(SAMPLE[::4])],
    ids=name_of,
)
def test_indexes_of_one_device(case, device_case, device, seed):
    """Those that not all devices have."""
    for index in device_case.indexes:
        if index not in OPERATOR_AXES["index"]:
            run(case | {"index": index}, device_case, device, np.random.default_rng([seed, SAMPLE.index(case)]))


@pytest.mark.parametrize("power", [31, 32, 53])
@pytest.mark.parametrize("case", SAMPLE[::16], ids=name_of)
def test_arrival_numbers_of_any_width(case, power, device_case, device, seed):
    """They pass a power of two in the middle of the streams."""
    run(case, device_case, device, np.random.default_rng([seed, power]), first_row=2**power - 20)


def product(axes: dict[str, list]) -> list[dict]:
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


@pytest.mark.full
@pytest.mark.parametrize("case", product(OPERATOR_AXES), ids=name_of)
def test_full(case, device_case, device, seed):
    rng = np.random.default_rng([seed, *name_of(case).encode()])
    for _ in range(5):
        drawn = {axis: values[rng.integers(len(values))] for axis, values in STREAM_AXES.items()}
        run(case | drawn, device_case, device, rng, int(rng.integers(1, 120)))


WIDE_AXES = {
    "key": [key.name for key in WIDE_KEYS],
    "shape": ["random", "extremes", "mixed"],
    "predicate": ["band-asymmetric", "band-open-low", "compare-less", "any-overlapping"],
}


@pytest.mark.parametrize("case", product(WIDE_AXES), ids=name_of)
def test_keys_whose_common_unit_may_pass_64_bits(case, device_case, device, seed):
    """Exact, or refused by name: by type at the start, or by value; never rounded, never wrapped."""
    rng = np.random.default_rng([seed, *name_of(case).encode()])
    rest = {"window": "rows-unequal", "index": "auto", "form": "pairs", "order": "inner"}
    rest |= {"sequence": "distinct", "cut": "few"}
    try:
        run(case | rest, device_case, device, rng)
    except errors.KeyTypeError as error:
        assert "limit" in str(error) or "price" in str(error)  # noqa: PT017
    except errors.MuntinError as error:
        if case["shape"] == "random":
            raise
        assert "limit" in str(error) or "price" in str(error)  # noqa: PT017
