"""SplitJoin as a whole: pairs, order and stalls over cores, lanes and fan-outs."""

import dataclasses
import functools

import pytest

from muntin.contract import ParameterError
from muntin.contract.designs.splitjoin import Order, SplitJoinParameters
from muntin.hw.splitjoin.bisort_window import BisortWindow
from muntin.hw.splitjoin.layouts import Side
from muntin.hw.splitjoin.nested_loop import NestedLoop
from muntin.hw.splitjoin.splitjoin import SplitJoin
from muntin.sim.block_runner import run_bench

SORTED = functools.partial(BisortWindow, buffer_rows=4)
TINY = SplitJoinParameters.preset("tiny")


def check(
    seed: int,
    count: int,
    *,
    sub_window=NestedLoop,
    orders: tuple[Order, ...] | None = None,
    length: int | None = None,
    **change: int,
) -> None:
    parameters = dataclasses.replace(TINY, **change)
    run_bench(
        SplitJoin(parameters, sub_window=sub_window),
        "splitjoin_{cores}_{lanes}_{fan_out}_{rows}_{columns}".format_map(dataclasses.asdict(parameters)),
        "tests.hw.benches.splitjoin",
        seed=seed,
        parameters=dataclasses.asdict(parameters),
        count=count,
        length=length,
        **({"orders": orders} if orders else {}),
    )


def test_joins(seed):
    check(seed, 20, columns=2)


@pytest.mark.parametrize(
    ("cores", "rows", "lanes", "count", "length"),
    [
        (1, 1, 1, 150, None),
        pytest.param(1, 1, 1, 400, None, marks=pytest.mark.full),
        pytest.param(1, 2, 2, 400, None, marks=pytest.mark.full),
        (3, 2, 1, 30, 150),
        pytest.param(3, 2, 1, 100, 150, marks=pytest.mark.full),
        pytest.param(1, 1, 1, 100, 150, marks=pytest.mark.full),
        pytest.param(1, 2, 2, 100, 150, marks=pytest.mark.full),
        pytest.param(3, 2, 1, 400, None, marks=pytest.mark.full),
    ],
)
def test_joins_of_few_rows_right_after_others(cores, rows, lanes, count, length, seed):
    check(seed, count, length=length, cores=cores, rows=rows, lanes=lanes)


@pytest.mark.parametrize("cores", [2, pytest.param(3, marks=pytest.mark.full)])
def test_joins_in_nearly_full_windows(cores, seed):
    """Where storage asked by the place of an earlier probe than the next, it overwrote rows here."""
    parameters = dataclasses.replace(TINY, cores=cores, rows=16, lanes=1)
    run_bench(
        SplitJoin(parameters),
        f"splitjoin_nearly_full_{cores}",
        "tests.hw.benches.splitjoin_nearly_full",
        seed=seed,
        parameters=dataclasses.asdict(parameters),
    )


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
        columns=1 + wide,
        result_rows=2 + lanes,
    )


@pytest.mark.full
@pytest.mark.parametrize("fan_out", [2, 4])
@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_joins_with_64_cores(lanes, fan_out, seed):
    check(seed, 12, cores=64, lanes=lanes, rows=max(lanes, 2), fan_out=fan_out, fan_in=fan_out, time_bits=32)


@pytest.mark.full
def test_joins_with_64_cores_of_one_row(seed):
    check(seed, 12, cores=64, lanes=1, rows=1, time_bits=0)


def check_sorted(seed: int, cores: int, **change: int) -> None:
    """Windows of up to `cores` times what one core holds."""
    build = {"cores": cores, "lanes": 1, "rows": 16, "time_bits": 0, **change}
    check(seed, 14, sub_window=SORTED, orders=(Order.OUTER, Order.NONE), **build)


def test_joins_with_sorted_sub_windows(seed):
    check_sorted(seed, 2)


@pytest.mark.full
@pytest.mark.parametrize(("cores", "bounds"), [(1, 1), (3, 1), (4, 0)])
def test_joins_with_more_sorted_sub_windows(cores, bounds, seed):
    check_sorted(seed, cores, key_bits=64 if bounds else 32, bounds=bounds, fan_out=4)


@pytest.mark.parametrize(
    ("change", "buffer_rows", "message"),
    [
        ({}, 4, "a BisortWindow has no time windows: time_bits must be 0, not 32"),
        ({"time_bits": 0, "columns": 2}, 4, "a BisortWindow has one column: columns must be 1, not 2"),
        ({"time_bits": 0}, 9, r"buffer_rows must lie in 1\.\.8, not 9"),
    ],
)
def test_what_a_sorted_sub_window_cannot_do(change, buffer_rows, message):
    with pytest.raises(ParameterError, match=message):
        BisortWindow(dataclasses.replace(TINY, **change), side=Side.LEFT, buffer_rows=buffer_rows)
