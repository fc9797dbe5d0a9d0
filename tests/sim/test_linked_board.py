"""What a board carries, simulated at a pseudo-terminal and opened by the code that opens a board on a desk."""

import dataclasses
import os
import select
import threading
import tty

import numpy as np
import pyarrow as pa
import pytest

from muntin import Band, Rows, WindowJoin
from muntin.contract.boards import BOARDS
from muntin.contract.simulations import SIMULATIONS
from muntin.hardware import open_device
from muntin.host.errors import LinkDamagedError, LinkIdentityError, LinkLostError, LinkSilentError
from muntin.host.fpga.device import FpgaDevice
from muntin.host.fpga.link import LinkClient, SerialPort
from muntin.host.fpga.serial_board import LaneTiming, SerialBoard
from muntin.host.fpga.transports import at_line
from muntin.host.selftest import selftest
from muntin.hw.boards.board_build import build_of
from tests.simulated import simulated

pytest.importorskip("litedram")

BAUD = 1_000_000


@pytest.fixture(scope="module")
def device():
    simulated("sim:ecpix5", 32)
    opened = open_device("sim:ecpix5")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def terminal(device):
    """Where the simulated board is; its own link is not asked meanwhile."""
    return device.open_board(32).link.behind.path


def test_the_memory_is_levelled(device):
    from muntin.sim.board.ecp5_phy_model import WORKING

    expected = [LaneTiming(slip, first + (last - first + 1) // 2, last - first + 1) for slip, first, last in WORKING]
    assert device.open_board(32).link.timings == expected
    assert device.open_board(32).link.repeated == 0


def test_a_selftest_passes(device):
    lines = list(selftest(device, hold=0))
    assert [line.split()[0] for line in lines] == ["device", "identity", "lane", "lane", "memory", "soak", "join"]
    assert "key_bits 32, width 2" in lines[1]


@pytest.mark.full
def test_a_selftest_passes_with_sdram():
    lines = list(selftest(simulated("sim:ulx3s", 32), hold=0))
    assert [line.split()[0] for line in lines] == ["device", "identity", "memory", "soak", "join"]


@pytest.mark.full
def test_a_selftest_passes_with_splitjoin():
    lines = list(selftest(simulated("sim:ecpix5:design=splitjoin", 64), hold=0))
    assert [line.split()[0] for line in lines] == ["device", "identity", "lane", "lane", "memory", "soak", "join"]
    assert "cores 2, lanes 2, rows 4096, key_bits 64, time_bits 64" in lines[1]


@pytest.mark.parametrize("name", ["ulx3s", "ecpix5"])
@pytest.mark.parametrize("top", ["rtl", pytest.param("netlist", marks=[pytest.mark.full, pytest.mark.timeout(0)])])
def test_the_whole_top_of_a_board_joins(name, top):
    """Reset, start of the memory, levelling, identity and a join, on all of the top but its hard cells."""
    from muntin.sim.board.board_top import LATER, lane_map
    from muntin.sim.board.linked_board import LinkedBoard

    with LinkedBoard(name, top=top) as board:
        device = FpgaDevice(
            open_device(f"sim:{name}").info,
            SIMULATIONS[f"sim:{name}"].builds,
            lambda builds: at_line(BOARDS[name], board.path, builds, patience=3600),
            boards=1,
        )
        with device.board_link() as link:
            lanes = LATER if name == "ecpix5" else ()
            assert [lane.map for lane in link.timings] == [lane_map(later) for later in lanes]
            content = np.arange(64, dtype=np.uint8)
            for place in (0, link.memory_bytes - 64):
                link.write_memory(place, content + place % 7)
                assert (link.read_memory(place, 64) == content + place % 7).all()
        left, right = pa.table({"low": pa.array([1, 5, 9, 13], "i4")}), pa.table({"at": pa.array([2, 6, 20], "i4")})
        with WindowJoin(on=Band("low", "at", -1, 1), left=Rows(16), right=Rows(16), device=device) as join:
            assert [join.process(left, right).num_rows for _ in range(2)] == [2, 6]
        device.close()


def test_a_reset_leaves_the_memory(device, seed):
    link = device.open_board(32).link
    content = np.random.default_rng(seed).integers(0, 256, 100, np.uint8)
    link.write_memory(12345, content)
    link.reset()
    np.testing.assert_array_equal(link.read_memory(12345, 100), content)


class Proxy:
    """A pseudo-terminal in front of another, that damages what passes. A context manager.

    Parameters
    ----------
    path
        The other.
    damage
        Given a direction, ``"to"`` or ``"from"``, and a piece of bytes, gives what is passed on.
    """

    def __init__(self, path, damage):
        self._damage = damage
        self._over = False
        self._near, self._far = os.openpty()
        tty.setraw(self._far)
        self.path = os.ttyname(self._far)
        self._board = os.open(path, os.O_RDWR | os.O_NOCTTY)
        ways = (("to", self._near, self._board), ("from", self._board, self._near))
        self._threads = [threading.Thread(target=self._pass, args=way, daemon=True) for way in ways]

    def _pass(self, direction, source, sink):
        # Reading alone would not wait: whoever opened the other terminal before has told it so.
        while not self._over:
            try:
                if select.select([source], [], [], 0.02)[0] and not self._over:
                    os.write(sink, self._damage(direction, os.read(source, 4096)))
            except OSError:
                return  # it was cut

    def cut(self):
        """The host's side hangs up."""
        if not self._over:
            self._over = True
            for thread in self._threads:
                thread.join()
            for file in (self._near, self._far, self._board):
                os.close(file)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.cut()


def _client(proxy, **options):
    return LinkClient(SerialPort(proxy.path, BAUD), **{"patience": 2.0, **options})


def test_a_lost_and_a_flipped_byte_are_made_good(terminal):
    faults = {
        ("to", 2): lambda piece: piece[:5] + piece[6:],
        ("from", 4): lambda piece: bytes([piece[0] ^ 4]) + piece[1:],
    }
    counts = {"to": 0, "from": 0}

    def damage(direction, piece):
        counts[direction] += 1
        return faults.pop((direction, counts[direction]), lambda same: same)(piece)

    with Proxy(terminal, damage) as proxy:
        client = _client(proxy)
        client.open()
        for place in range(5):
            client.write_memory(place, [place, 7])
        assert client.read_memory(0, 6) == [0, 1, 2, 3, 4, 7]
        assert client.repeated == 2
        assert not faults
        client.close()


def test_a_line_that_damages_everything(terminal):
    with (
        Proxy(terminal, lambda direction, piece: piece.replace(b"~", b"")) as proxy,
        pytest.raises(LinkSilentError, match="OPEN was asked for 2 times, and nothing came back"),
    ):
        _client(proxy, patience=0.2, tries=2).open()
    with (
        Proxy(terminal, lambda direction, piece: piece if direction == "to" else piece.replace(b"~", b"}")) as proxy,
        pytest.raises(LinkDamagedError, match="OPEN was asked for 2 times, and of what came back"),
    ):
        _client(proxy, patience=0.5, tries=2).open()


def test_a_cable_that_is_cut(terminal):
    with Proxy(terminal, lambda direction, piece: piece) as proxy:
        client = _client(proxy)
        client.open()
        proxy.cut()
        with pytest.raises((LinkLostError, LinkSilentError)):
            client.read_memory(0, 1)


def test_another_design_than_expected(terminal):
    board = build_of("ecpix5")
    other = dataclasses.replace(board.parameters["bisort"], index_rows=1024)
    with (
        Proxy(terminal, lambda direction, piece: piece) as proxy,
        pytest.raises(LinkIdentityError, match="index_rows is 16384, not 1024"),
    ):
        SerialBoard(_client(proxy), "ecpix5", {"bisort": other})
