"""Joins that are dropped without `close()` leave nothing behind."""

import subprocess
import sys

import pyarrow as pa
import pytest

from muntin import Band, Rows, WindowJoin
from muntin.hardware import open_device
from muntin.host.errors import DeviceError

# Joins of a run without --full, a few seconds on each device: twelve boards in simulation that stay take 800 MB.
FEW = {
    "cpu": 100,
    "numpy": 200,
    "opencl": 100,
    "sim:bisort-model": 100,
    "sim:splitjoin-model": 100,
    "sim:de5a": 20,
    "sim:de5a:design=splitjoin": 20,
    "sim:bisort-fast": 12,
    "sim:splitjoin": 12,
}
MANY = 1000
SLOW = {
    "sim:bisort": 100,
    "sim:ecpix5": 12,
    "sim:ecpix5:design=splitjoin": 12,
}  # with --full only, a second or more each


@pytest.mark.parametrize(("device", "joins"), FEW.items())
def test_a_few(device, joins):
    drop(device, joins)


@pytest.mark.full
@pytest.mark.parametrize(("device", "joins"), [*((device, MANY) for device in FEW), *SLOW.items()])
def test_a_thousand(device, joins):
    drop(device, joins)


def drop(device: str, joins: int) -> None:
    try:
        open_device(device)
    except DeviceError as error:
        pytest.skip(f"device {device}: {error}")
    command = [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-m", "tests.stress.dropped_joins"]
    done = subprocess.run([*command, device, str(joins)], capture_output=True, text=True)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    for word in ("Traceback", "Exception ignored", "ResourceWarning"):
        assert word not in told, told


@pytest.mark.parametrize(
    "name", ["cpu", "numpy", "opencl", "sim:bisort-model", "sim:bisort-model:lanes=4", "sim:splitjoin-model"]
)
def test_a_shared_device_gets_back_what_a_dropped_join_had(name):
    try:
        device = open_device(name)
    except DeviceError as error:
        pytest.skip(f"device {name}: {error}")
    left, right = pa.table({"a": range(2000)}), pa.table({"b": range(2000)})
    for _ in range(3):
        join = WindowJoin(on=Band("a", "b", 0, 1), left=Rows(1000), right=Rows(1000), device=device)
        assert len(join.process(left, right)) == 1999
        del join
        assert device.used_bytes == 0
        if name.startswith("sim:bisort"):
            board = device.open_board(64)
            board.collect()
            assert all(arena.free_rows == arena.rows for lane in board.lanes for arena in lane.arenas)
        if name.startswith("sim:splitjoin"):
            assert not device._boards
