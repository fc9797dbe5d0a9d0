"""Conjunctions on SplitJoin kernels of two columns: what the device compares, and what is left to the host."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from muntin import AllOf, Band, Compare, Rows, Watermark, WindowJoin, Within
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.contract.opencl import ParameterError, build_header
from muntin.hardware import open_device
from muntin.host.devices.device import DeviceInfo
from muntin.host.engine.engine import EngineSpec
from muntin.host.engine.residual_engine import ResidualEngine
from muntin.host.errors import DeviceError, UnsupportedError
from muntin.host.fpga.device import FpgaDevice
from muntin.host.fpga.splitjoin_engine import SplitJoinEngine
from muntin.host.join.window_join import WindowJoin as Opened
from muntin.host.spec import JoinSpec
from muntin.sim.models.splitjoin_kernel import SplitJoinKernelModel
from tests.conformance.predicates import for_host
from tests.conformance.small_joins import BOTTOM, TOP, pairs_of
from tests.oracles.nested_loop import NestedLoop

BUILD = dataclasses.replace(SplitJoinParameters.preset("tiny"), cores=3, rows=8, key_bits=64, time_bits=64, columns=2)
NARROW = dataclasses.replace(BUILD, key_bits=32)
ONE = dataclasses.replace(BUILD, columns=1)
UNION = ("any", [("band", -3, -2), ("band", 0, 0), ("band", 2, 5)])


def device(parameters: SplitJoinParameters = BUILD, memory: int = 1 << 16) -> FpgaDevice:
    """A device whose boards are models."""
    return FpgaDevice(
        DeviceInfo("test", "test", "", memory),
        {"splitjoin": parameters},
        lambda builds: SplitJoinKernelModel(builds["splitjoin"], memory),
    )


def engine_of(join: Opened) -> object:
    return join._calls.journal.pipeline.engine


def columns(rng: np.random.Generator, count: int, *kinds: pa.DataType) -> pa.Table:
    """Columns a, b and so on of small numbers, with NULLs."""
    made = {}
    for name, kind in zip("abcd", kinds, strict=False):
        values = pa.array(rng.integers(-6, 6, count), mask=rng.random(count) < 0.1)
        made[name] = values.cast(kind)
    return pa.table(made)


@pytest.mark.parametrize("order", ["none", "outer", "inner"])
@pytest.mark.parametrize("rows", [(24, 24), (7, 5)])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("band", -1, 2), ("band", -3, 3)),
        (("compare", "="), ("band", None, 2)),
        (("compare", "!="), ("compare", "<")),
        (UNION, ("compare", "!=")),
        (("band", -4, 4), UNION),
        (UNION, UNION),
        (("band", 9, None), ("band", -1, 1)),
        (("any", []), ("band", -1, 1)),
    ],
    ids=str,
)
def test_two_parts(first: tuple, second: tuple, rows: tuple, order: str, seed: int) -> None:
    rng = np.random.default_rng([seed, *rows])
    kinds = (pa.int64(), pa.float64()) if "any" not in second else (pa.float32(), pa.int16())
    on = AllOf(for_host(first, "a", "a"), for_host(second, "b", "b"))
    loop = NestedLoop(("all", [("pair", 0, 0, first), ("pair", 1, 1, second)]), ["a", "b"], ["a", "b"], rows=rows)
    schema = columns(rng, 0, *kinds).schema
    found = 0
    with WindowJoin(
        on=on, left=Rows(rows[0]), right=Rows(rows[1]), form="pairs", order=order, device=device(),
        left_schema=schema, right_schema=schema,
    ) as join:  # fmt: skip
        assert "residual" not in join.explain()
        for count in (3, 40, 0, 17):
            batches = [columns(rng, count, *kinds) for _ in range(2)]
            due = [(pair.left, pair.right) for pair in loop.process(*batches)]
            result = pairs_of(join.process(*batches))
            assert len(result) == len(due)
            assert (result if order == "inner" else sorted(result)) == (due if order == "inner" else sorted(due))
            found += len(due)
        assert not isinstance(engine_of(join), ResidualEngine)
    assert found or first in (("band", 9, None), ("any", []))


@pytest.mark.parametrize("self_join", [False, True])
def test_two_parts_in_a_time_window(self_join: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    on = AllOf(Band("a", "a", -2, 3), Band("b", "b", 0, None))
    parts = [("pair", 0, 0, ("band", -2, 3)), ("pair", 1, 1, ("band", 0, None))]
    loop = NestedLoop(
        ("all", parts), ["a", "b"], ["a", "b"], within=("t", "t", -8, 5), delays=(6, 6 if self_join else 9),
        self_join=self_join,
    )  # fmt: skip
    found = 0
    with WindowJoin(
        on=on, within=Within("t", "t", -8, 5), watermark=Watermark(left=6, right=6 if self_join else 9, lag=0),
        self_join=self_join, form="pairs", order="inner", device=device(),
    ) as join:  # fmt: skip
        for call in range(30):
            batches = [
                columns(rng, 4, pa.int64(), pa.int64()).append_column(
                    "t", pa.array(10 * call + rng.integers(-9, 10, 4))
                )
                for _ in range(1 if self_join else 2)
            ]
            batches += [None] * self_join
            due = [(pair.left, pair.right) for pair in loop.process(*batches)]
            assert pairs_of(join.process(*batches)) == due
            found += len(due)
    assert found > 20


def test_keys_at_the_ends_of_64_bits() -> None:
    ends = [TOP, BOTTOM, -1, 0, TOP - 1, BOTTOM + 1]
    rows = pa.table({"a": [a for a in ends for _ in ends][:24], "b": (ends * 6)[:24]})
    for first, second in (
        (("band", 0, 1), ("band", None, TOP)),
        (("compare", "!="), ("band", 2**64 - 1, 2**64 + 5)),
        (("band", TOP, None), ("compare", "!=")),
    ):
        loop = NestedLoop(
            ("all", [("pair", 0, 0, first), ("pair", 1, 1, second)]), ["a", "b"], ["a", "b"], rows=(20, 9)
        )
        on = AllOf(for_host(first, "a", "a"), for_host(second, "b", "b"))
        with WindowJoin(on=on, left=Rows(20), right=Rows(9), form="pairs", order="inner", device=device()) as join:
            assert pairs_of(join.process(rows, rows)) == [(pair.left, pair.right) for pair in loop.process(rows, rows)]


A, B, C = Band("a", "a", -2, 2), Band("b", "b", None, 1), Compare("c", "=", "c")


@pytest.mark.parametrize(
    ("on", "kinds", "parameters", "told"),
    [
        (A, (pa.int64(),), BUILD, {"driver": "-2 <= right.a - left.a <= 2"}),
        # The part that is bounded goes beside the one that drives, whichever comes first.
        (
            AllOf(B, A, Compare("c", "!=", "c"), Band("d", "d", 0, 3)),
            (pa.int64(),) * 4,
            BUILD,
            {
                "driver": "-2 <= right.a - left.a <= 2",
                "compared": "0 <= right.d - left.d <= 3",
                "residual": ["right.b - left.b <= 1", "left.c != right.c"],
            },
        ),
        # What is wider than the build's keys stays with the host.
        (
            AllOf(A, Band("b", "b", -1, 1), Compare("c", "<", "c")),
            (pa.int32(), pa.int64(), pa.int32()),
            NARROW,
            {
                "driver": "-2 <= right.a - left.a <= 2",
                "compared": "left.c < right.c",
                "residual": ["-1 <= right.b - left.b <= 1"],
            },
        ),
        # A code in the one column, what fits no composite key beside it in the other.
        (
            AllOf(Compare("a", "=", "a"), Band("b", "b", -0.5, 2)),
            (pa.string(), pa.float64()),
            BUILD,
            {
                "driver": "left.a = right.a, by a code for each distinct value",
                "compared": "-0.5 <= right.b - left.b <= 2",
            },
        ),
        # Where keys are narrow, an equality and a band are one column, and there is one more.
        (
            AllOf(C, A, B),
            (pa.int32(),) * 3,
            BUILD,
            {
                "driver": "left.c = right.c and -2 <= right.a - left.a <= 2, as one composite key of 64 bits: a code, "
                "then the value",
                "compared": "right.b - left.b <= 1",
            },
        ),
    ],
)  # fmt: skip
def test_what_the_device_compares(on: object, kinds: tuple, parameters: object, told: dict, seed: int) -> None:
    rng = np.random.default_rng(seed)
    schema = columns(rng, 0, *kinds).schema
    found = []
    for place in (device(parameters), "cpu"):
        rng = np.random.default_rng(seed)
        with WindowJoin(
            on=on, left=Rows(20), right=Rows(13), form="pairs", order="inner", device=place, left_schema=schema,
            right_schema=schema,
        ) as join:  # fmt: skip
            lines = [line.split(":", 1) for line in join.explain().splitlines()]
            if place != "cpu":
                for name in ("driver", "compared", "residual"):
                    due = told.get(name, [])
                    due = [due] if isinstance(due, str) else due
                    assert [text.strip() for label, text in lines if label == name] == due
            found.append([join.process(*(columns(rng, 30, *kinds) for _ in range(2))) for _ in range(3)])
    assert found[0] == found[1]
    assert sum(map(len, found[0]))


def test_counts_are_made_on_the_device(seed: int) -> None:
    rng = np.random.default_rng(seed)
    on = AllOf(Band("a", "a", -2, 2), Band("b", "b", -2, 2))
    found = []
    for place in (device(), device(ONE), "cpu"):
        rng = np.random.default_rng(seed)
        with WindowJoin(on=on, left=Rows(20), right=Rows(20), form="counts", device=place) as join:
            found.append(join.process(*(columns(rng, 50, pa.int64(), pa.int64()) for _ in range(2))))
    assert found[0] == found[1] == found[2]


def test_what_takes_another_build() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    spec = JoinSpec(on=AllOf(A, B), left=Rows(5), right=Rows(5))
    condition = spec.condition(schema, schema)
    counts, bits = {"left": 5, "right": 5}, {"left": 32, "right": 32}
    wide = EngineSpec(counts, None, others=tuple(condition.residuals))
    with pytest.raises(UnsupportedError, match=r"by 2 parts of a condition.*columns=2"):
        SplitJoinEngine(device(ONE), wide, condition.generator, bits)
    with pytest.raises(UnsupportedError, match=r"keys of 64 bits.*key_bits=64"):
        SplitJoinEngine(device(NARROW), wide, condition.generator, bits)
    with pytest.raises(ParameterError, match="columns must be 1, as the model in C has one, not 2"):
        build_header(BUILD)


def test_names() -> None:
    one, two = open_device("sim:splitjoin-model"), open_device("sim:splitjoin-model:columns=2")
    assert two.info.name == "sim:splitjoin-model:columns=2"
    assert two.info.description == f"{one.info.description}; 2 columns"
    assert [each.open_board().parameters.columns for each in (one, two)] == [1, 2]
    assert open_device("sim:splitjoin-model:columns=1").info == one.info
    assert open_device("sim:splitjoin:columns=2").info.name == "sim:splitjoin:columns=2"
    with pytest.raises(DeviceError, match="device sim:splitjoin-model: columns must be one of 1, 2, not 3"):
        open_device("sim:splitjoin-model:columns=3")
    with pytest.raises(DeviceError, match="comes ':columns=N' or nothing, not ':lanes=2'"):
        open_device("sim:splitjoin:lanes=2")
