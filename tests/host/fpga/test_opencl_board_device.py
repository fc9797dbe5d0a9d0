"""A board behind an OpenCL shell as a device: where it is not, and with a bitstream of a stand-in."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from muntin.contract.boards import board
from muntin.contract.opencl import INTEL, VITIS
from muntin.hardware import list_devices, open_device
from muntin.host.devices.opencl_device import OpenClDevice
from muntin.host.errors import DeviceError
from muntin.host.fpga import opencl, transports
from muntin.host.fpga.opencl import OpenClBoard, model_program
from muntin.host.selftest import selftest

BOARD = board("de5a")
SMALL = dataclasses.replace(BOARD, memory_bytes=1 << 25)
# The card with one lane, as the model in C has one.
CARD = board("u55c")
ONE_LANE = dataclasses.replace(
    CARD, memory_bytes=1 << 25, parameters={"bisort": dataclasses.replace(CARD.parameters["bisort"], lanes=1)}
)
BINARY = INTEL.binary


@pytest.fixture
def no_shell(monkeypatch):
    other = SimpleNamespace(platform=SimpleNamespace(name="Another OpenCL"))
    monkeypatch.setattr(opencl, "OpenClDevice", SimpleNamespace(cl_devices=lambda: [other]))


@pytest.fixture
def shell(monkeypatch, tmp_path):
    """The CPU's OpenCL in place of the vendor's: it has no banks, and its binaries hold the model in C."""
    try:
        device = OpenClDevice.cl_devices()[0]
    except DeviceError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(opencl, "shell_device", lambda shell: device)
    monkeypatch.setattr(opencl, "BUILDS", tmp_path / "builds")
    monkeypatch.setattr(transports, "BOARDS", {"de5a": SMALL, "u55c": ONE_LANE})
    monkeypatch.setattr(
        opencl,
        "OpenClBoard",
        lambda program, parameters, memory_bytes, shell: OpenClBoard(program, parameters, memory_bytes),
    )
    return device


def built(folder, design, device):
    folder.mkdir(parents=True)
    (folder / BINARY).write_bytes(model_program(BOARD.parameters[design], device).binaries[0])
    return folder


@pytest.mark.parametrize(("name", "needed"), [("de5a", "Intel's FPGA SDK for OpenCL"), ("u55c", "Xilinx Runtime")])
def test_a_board_that_is_not_here_is_listed_with_the_reason(no_shell, name, needed):
    info = next(info for info in list_devices() if info.name == f"board:{name}")
    assert not info.available
    assert needed in info.reason
    with pytest.raises(DeviceError, match=f"board:{name} cannot be opened: its OpenCL platform is not here"):
        open_device(f"board:{name}")


def test_a_card_of_vitis_is_the_same_kernel_behind_another_shell(shell, tmp_path):
    (tmp_path / VITIS.binary).write_bytes(model_program(ONE_LANE.parameters["bisort"], shell).binaries[0])
    lines = list(selftest(f"board:u55c:{tmp_path}", hold=0))
    assert "key_bits 32" in lines[1]
    assert [line.split()[0] for line in lines] == ["device", "identity", "memory", "soak", "join"]
    with pytest.raises(DeviceError, match=f"there is no {VITIS.binary} in .*make bitstream BOARD=u55c"):
        open_device("board:u55c")


def test_a_board_without_a_bitstream_says_how_to_make_one(shell, tmp_path):
    with pytest.raises(DeviceError, match=f"there is no {BINARY} in .*make bitstream BOARD=de5a"):
        open_device("board:de5a")
    with pytest.raises(DeviceError, match=f"there is no {BINARY} in {tmp_path}"):
        open_device(f"board:de5a:{tmp_path}")


def test_a_file_that_is_no_bitstream_is_refused(shell, tmp_path):
    (tmp_path / BINARY).write_bytes(b"nothing")
    device = open_device(f"board:de5a:{tmp_path}")
    with pytest.raises(DeviceError, match="cannot be loaded"):
        device.open_store(key_bits=32, rows=100, what="left")
    device.close()


@pytest.mark.parametrize(("design", "key_bits"), [("bisort", 32), ("bisort64", 64)])
def test_the_newest_bitstream_for_the_keys_is_loaded(shell, tmp_path, design, key_bits):
    built(tmp_path / "builds" / f"de5a-{design}-0123", design, shell)
    device = open_device("board:de5a")
    store = device.open_store(key_bits=key_bits, rows=1000, what="left")
    keys = np.arange(0, 600, 3, dtype=f"i{key_bits // 8}")
    run = store.load(keys, np.arange(200, dtype=np.uint32))
    probe = store.probe([run], keys[:5], keys[:5] + 3)
    assert store.count(probe).tolist() == [2] * 5
    other = 96 - key_bits
    with pytest.raises(DeviceError, match=f"a kernel for keys of {key_bits} bits, and one of {other}"):
        device.open_store(key_bits=other, rows=10, what="right")
    device.close()


def test_a_bitstream_that_was_built_otherwise_is_found_out(shell, tmp_path):
    other = dataclasses.replace(BOARD.parameters["bisort"], turn_bytes=1 << 15)
    (tmp_path / BINARY).write_bytes(model_program(other, shell).binaries[0])
    device = open_device(f"board:de5a:{tmp_path}")
    with pytest.raises(DeviceError, match="PARAMETER_HASH"):
        device.open_store(key_bits=32, rows=100, what="left")
    device.close()


def test_a_board_with_splitjoin(shell, tmp_path):
    built(tmp_path / "builds" / "de5a-splitjoin-0123", "splitjoin", shell)
    lines = list(selftest("board:de5a:design=splitjoin"))
    assert "windows of at most 65,536 rows" in lines[0]
    assert [line.split()[0] for line in lines] == ["device", "identity", "memory", "soak", "join"]
    with pytest.raises(DeviceError, match=r"make bitstream BOARD=de5a DESIGN=bisort or bisort64"):
        open_device("board:de5a")
    folder = tmp_path / "builds" / "de5a-splitjoin-0123"
    with pytest.raises(DeviceError, match="takes 5 arguments, not 6"):
        open_device(f"board:de5a:{folder}").open_board(32)


@pytest.mark.parametrize(("design", "key_bits"), [("bisort", 32), ("bisort64", 64)])
def test_a_selftest_of_all_channels_and_of_the_design_s_keys(shell, tmp_path, design, key_bits):
    built(tmp_path / "builds" / f"de5a-{design}-0123", design, shell)
    lines = list(selftest(f"board:de5a:design={design}", hold=0))
    assert f"channels {BOARD.parameters[design].channels}" in lines[1]
    assert f"key_bits {key_bits}" in lines[1]
    assert [line.split()[0] for line in lines] == ["device", "identity", "memory", "soak", "join"]


def test_a_design_that_cannot_be_opened(shell, tmp_path):
    with pytest.raises(DeviceError, match="board de5a has no design 'other': there are bisort, bisort64, splitjoin"):
        open_device("board:de5a:design=other")
    with pytest.raises(DeviceError, match="'splitjoin-quartus' of board de5a has no OpenCL shell"):
        open_device("board:de5a:design=splitjoin-quartus")
    built(tmp_path / "builds" / "de5a-bisort64-0123", "bisort64", shell)
    with pytest.raises(DeviceError, match="no kernel for keys of 32 bits"):
        open_device("board:de5a:design=bisort64").open_board(32)
