"""Boards as devices: by name, by the port that looks like theirs, by a port that is named."""

import dataclasses
import importlib.util
import types

import pytest
from serial.tools import list_ports

from muntin.contract.boards import board
from muntin.hardware import list_devices, open_device
from muntin.host.errors import DeviceError, LinkIdentityError, LinkPortError, LinkSilentError
from muntin.host.fpga import transports
from muntin.host.selftest import selftest
from muntin.sim.models.splitjoin_kernel import SplitJoinKernelModel
from tests.host.fpga.board_model import MEMORY_BYTES, BoardModel, TerminalBoard
from tests.host.fpga.udp_board import UdpBoard

LINE = board("ecpix5").serial
SPLITJOIN = board("ecpix5").parameters["splitjoin"]


@pytest.fixture
def ports(monkeypatch):
    """The serial ports of this machine, as the test says."""
    found = []
    monkeypatch.setattr(list_ports, "comports", lambda: found)
    return found


def _port(device, usb=LINE.usb):
    return types.SimpleNamespace(device=device, vid=usb[0], pid=usb[1])


def _listed(name="board:ecpix5"):
    return {info.name: info for info in list_devices()}[name]


def test_a_board_that_is_not_plugged_in(ports):
    ports.append(_port("/dev/ttyUSB7", (1, 2)))
    info = _listed()
    assert not info.available
    assert info.memory_bytes == 0
    assert "no serial port of a USB bridge 0403:6010 is there" in info.reason
    with pytest.raises(DeviceError, match="device board:ecpix5 cannot be opened: no serial port"):
        open_device("board:ecpix5")


def test_the_port_of_the_bridge_that_has_the_line(ports):
    ports += [_port("/dev/none-1"), _port("/dev/none-0")]
    assert _listed().available
    with pytest.raises(LinkPortError, match="/dev/none-1 cannot be opened"):
        open_device("board:ecpix5").open_board(32)


def test_two_boards(ports):
    ports += [_port(f"/dev/none-{number}") for number in range(4)]
    with pytest.raises(DeviceError, match="name the board's, as board:ecpix5:/dev/none-0"):
        open_device("board:ecpix5")
    assert open_device("board:ecpix5:/dev/none-3").info.name == "board:ecpix5:/dev/none-3"


def test_an_unknown_board():
    with pytest.raises(DeviceError, match=r"no board 'ecpix6' that can be opened: there are .*ecpix5"):
        open_device("board:ecpix6")


def test_without_pyserial(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "serial" else found(name))
    assert "pip install 'muntin[board]'" in _listed().reason


def test_a_board_at_ethernet(monkeypatch):
    """Without pyserial: its built-in address, and one that is named."""
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "serial" else found(name))
    asked = []

    def silent(*address):
        asked.append(address)
        raise LinkSilentError("nothing is there")

    monkeypatch.setattr("muntin.host.fpga.link.UdpPort", silent)
    for path in ("ethernet", "ethernet:5000", "10.0.0.7", "10.0.0.7:5000"):
        device = open_device(f"board:ecpix5:{path}")
        assert device.info.name == f"board:ecpix5:{path}"
        with pytest.raises(LinkSilentError):
            device.open_board(32)
    ethernet = board("ecpix5").ethernet
    assert asked == [(ethernet.ip, ethernet.port), (ethernet.ip, 5000), ("10.0.0.7", ethernet.port), ("10.0.0.7", 5000)]


@pytest.mark.parametrize("port", ["0", "65536", "x", "1:2"])
def test_a_udp_port_that_is_none(port):
    with pytest.raises(DeviceError, match="comes the number of a UDP port, 1 to 65535, not"):
        open_device(f"board:ecpix5:ethernet:{port}")


def test_a_board_without_ethernet(monkeypatch):
    without = dataclasses.replace(board("ecpix5"), ethernet=None)
    monkeypatch.setattr(transports, "BOARDS", {"ecpix5": without})
    for path in ("ethernet", "10.0.0.7"):
        with pytest.raises(DeviceError, match="board ecpix5 has no Ethernet"):
            open_device(f"board:ecpix5:{path}")


def test_a_board_of_another_build_at_ethernet():
    with UdpBoard(BoardModel()) as there:
        device = open_device("board:ecpix5:{}:{}".format(*there.address))
        for _ in range(2):
            with pytest.raises(LinkIdentityError, match="built with other parameters than this version's"):
                device.open_board(32)


def test_a_board_of_another_build():
    with TerminalBoard(BoardModel()) as terminal:
        device = open_device(f"board:ecpix5:{terminal.path}")
        for _ in range(2):  # the port is given back
            with pytest.raises(LinkIdentityError, match="built with other parameters than this version's"):
                device.open_board(32)


def test_keys_that_the_board_is_not_built_for():
    parameters = board("ecpix5").parameters["bisort"]
    with TerminalBoard(BoardModel(parameters=parameters)) as terminal:
        device = open_device(f"board:ecpix5:{terminal.path}")
        with pytest.raises(
            LinkIdentityError, match=r"no kernel for keys of 64 bits, but for 32 \(bisort, bisort-ethernet\)"
        ):
            device.open_board(64)
    assert dataclasses.asdict(parameters)["key_bits"] == 32


def _splitjoin(parameters=SPLITJOIN):
    return BoardModel(design="splitjoin", parameters=parameters, kernel=SplitJoinKernelModel(SPLITJOIN, MEMORY_BYTES))


def test_a_board_with_splitjoin():
    assert "windows of at most 8,192 rows" in _listed("board:ecpix5:design=splitjoin").description
    with TerminalBoard(_splitjoin()) as terminal:
        name = f"board:ecpix5:{terminal.path}:design=splitjoin"
        lines = list(selftest(name))
        assert lines[0].startswith(f"device    {name}: ")
        assert [line.split()[0] for line in lines] == ["device", "identity", "lane", "lane", "memory", "soak", "join"]
        assert f"cores {SPLITJOIN.cores}, lanes {SPLITJOIN.lanes}, rows 4096, key_bits 64" in lines[1]
        device = open_device(name)
        taken = device.open_board()
        with pytest.raises(DeviceError, match="serves one join at a time"):
            device.open_board()
        device.release_board(taken)
        device.open_board()
        device.close()


def test_a_board_that_carries_another_design():
    with TerminalBoard(_splitjoin()) as terminal:
        for name in (f"board:ecpix5:{terminal.path}", f"board:ecpix5:{terminal.path}:design=bisort"):
            with pytest.raises(LinkIdentityError, match=r"'splitjoin', not 'bisort'.*:design=splitjoin"):
                open_device(name).open_board(32)
    with (
        TerminalBoard(BoardModel()) as terminal,
        pytest.raises(LinkIdentityError, match="the board has the design 'bisort', not 'splitjoin'"),
    ):
        open_device(f"board:ecpix5:design=splitjoin:{terminal.path}").open_board()
    with (
        TerminalBoard(_splitjoin(dataclasses.replace(SPLITJOIN, cores=3))) as terminal,
        pytest.raises(LinkIdentityError, match=f"cores is 3, not {SPLITJOIN.cores}"),
    ):
        open_device(f"board:ecpix5:{terminal.path}:design=splitjoin").open_board()


def test_a_board_that_carries_splitjoin_alone(monkeypatch):
    alone = dataclasses.replace(board("ecpix5"), parameters={"splitjoin": SPLITJOIN})
    monkeypatch.setattr(transports, "BOARDS", {"ecpix5": alone})
    assert [info.name for info in list_devices() if info.kind == "board"] == ["board:ecpix5:design=splitjoin"]
    assert open_device("board:ecpix5:/dev/none:design=splitjoin").engines == ("splitjoin",)
    with pytest.raises(DeviceError, match=r"board ecpix5 carries no BI-Sort: .*:design=splitjoin"):
        open_device("board:ecpix5:/dev/none")


def test_a_simulation_is_given_back_where_its_board_does_not_open():
    closed = []
    behind = types.SimpleNamespace(close=lambda: closed.append(True))
    ecpix5 = board("ecpix5")
    with pytest.raises(LinkPortError):
        transports.at_line(ecpix5, "/dev/none", ecpix5.parameters, behind=behind)
    with (
        TerminalBoard(BoardModel()) as terminal,
        pytest.raises(LinkIdentityError, match="built with other parameters"),
    ):
        transports.at_line(ecpix5, terminal.path, ecpix5.parameters, behind=behind)
    assert closed == [True, True]


def test_a_design_that_the_board_does_not_have():
    with pytest.raises(
        DeviceError, match="board ecpix5 has no design 'other': there are bisort, bisort-ethernet, splitjoin"
    ):
        open_device("board:ecpix5:/dev/none:design=other")
    for wrong in ("design=", "design=bisort:design=splitjoin"):
        with pytest.raises(DeviceError, match="must name one design"):
            open_device(f"board:ecpix5:{wrong}")
