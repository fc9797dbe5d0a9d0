"""Proofs of blocks, and the same proofs of blocks with a fault, which must fail.

A proof without a depth holds for any number of cycles, one with a depth for that many after reset. `--full` adds the
larger and deeper ones.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType

import pytest
from amaranth.lib import fifo

from hw.bisort import merger
from hw.memory import burst_splitter
from hw.memory.port_shape import PortShape
from tests.hw.formal.fifo_proof import FifoProof, LibraryFifo, MergerOutput
from tests.hw.formal.merger_proof import MergerProof
from tests.hw.formal.runner import ProofError, run_proof
from tests.hw.formal.splitter_proof import SplitterProof


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Callable[[type, str, str], None]:
    """Plants a fault: replaces a piece of text in the `elaborate` of a component, where it stands once."""

    def plant(component: type, right: str, wrong: str) -> None:
        method: FunctionType = component.elaborate
        source = textwrap.dedent(inspect.getsource(method))
        assert source.count(right) == 1, f"{right!r} must stand once in {component.__name__}.elaborate"
        space = dict(method.__globals__)
        exec(source.replace(right, wrong), space)
        monkeypatch.setattr(component, "elaborate", space["elaborate"])

    return plant


def _splitter(**limits: int | None) -> SplitterProof:
    shape = {"address_width": 10, "length_width": 10, "data_width": 32, "burst_bytes": 16} | limits
    return SplitterProof(PortShape(**shape))


FULL = pytest.mark.full


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({}, id="plain"),
        pytest.param(
            {"address_width": 13, "burst_bytes": 64, "max_transfer_bytes": 700, "memory_bytes": 7001}, id="limits"
        ),
        pytest.param({"burst_bytes": 4}, id="one beat a burst", marks=FULL),
        pytest.param({"address_width": 14, "length_width": 14, "burst_bytes": 64}, id="long", marks=FULL),
    ],
)
def test_splitter(limits):
    run_proof(_splitter(**limits), "splitter")


@pytest.mark.parametrize(
    ("right", "wrong", "limits"),
    [
        ("to_boundary < beats", "to_boundary <= beats", {}),
        ("beat_address[:burst_bits])", "beat_address[:1])", {}),
        ("beat_address + count", "beat_address + shape.burst_beats", {}),
        ("(transfer.length - 1)", "transfer.length", {}),
        ("C(memory_bytes) < end", "C(memory_bytes) <= end", {"memory_bytes": 512}),
        ("C(longest) < transfer.length", "C(longest + 1) < transfer.length", {"max_transfer_bytes": 100}),
        ("with m.If(self.burst.ready):", "with m.If(1):", {}),
    ],
)
def test_splitter_fault(fault, right, wrong, limits):
    fault(burst_splitter.BurstSplitter, right, wrong)
    with pytest.raises(ProofError, match="Assertion violated") as failure:
        run_proof(_splitter(**limits), "splitter", depth=10)
    assert failure.value.trace.exists()
