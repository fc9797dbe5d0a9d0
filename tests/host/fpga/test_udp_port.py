"""The link over UDP: what a network does to datagrams is made good, and what stays wrong is named."""

import random
import socket
import time

import numpy as np
import pytest

from muntin.contract.link import DATA_WORDS, DATAGRAM_BYTES, to_frame
from muntin.host.errors import LinkDamagedError, LinkLostError, LinkPortError, LinkRefusedError, LinkSilentError
from muntin.host.fpga.link import LinkClient, UdpPort
from muntin.host.fpga.serial_board import SerialBoard
from tests.host.fpga.board_model import MEMORY_BYTES, PARAMETERS, TIMINGS, BoardModel
from tests.host.fpga.udp_board import UdpBoard

DESIGNS = {"bisort": PARAMETERS}


class Network:
    """Does something to some datagrams; all others pass.

    Parameters
    ----------
    fault : callable
        Given a datagram and the one kept back, if any, gives a list of those that arrive and the one to keep back.
    """

    def __init__(self, fault, seed):
        self.faults = 0
        self._fault = fault
        self._generator = random.Random(seed)
        self._kept = {"to": None, "from": None}

    def __call__(self, direction, datagram):
        kept, self._kept[direction] = self._kept[direction], None
        if kept is not None:
            return [datagram, kept]
        if self._generator.random() < 0.9:
            return [datagram]
        self.faults += 1
        arrived, self._kept[direction] = self._fault(datagram, self._generator)
        return arrived


def _flipped(datagram, generator):
    at = generator.randrange(len(datagram))
    return datagram[:at] + bytes([datagram[at] ^ 1 << generator.randrange(8)]) + datagram[at + 1 :]


FAULTS = {
    "lost": lambda datagram, generator: ([], None),
    "repeated": lambda datagram, generator: ([datagram, datagram], None),
    "out of order": lambda datagram, generator: ([], datagram),
    "damaged": lambda datagram, generator: ([_flipped(datagram, generator)], None),
    "cut": lambda datagram, generator: ([datagram[: generator.randrange(len(datagram))]], None),
}


def test_a_board_is_opened_and_its_memory_started():
    with UdpBoard(BoardModel()) as there:
        board = SerialBoard(LinkClient(UdpPort(*there.address)), "ecpix5", DESIGNS)
        assert board.timings == TIMINGS
        assert board.memory_bytes == MEMORY_BYTES
        assert board.repeated == 0
        board.close()
        board.close()


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_network_does_is_made_good(fault, seed):
    """Frames of one datagram and of several, and a register that shows how often it was written."""
    behind = BoardModel()
    network = Network(FAULTS[fault], seed)
    written = np.random.default_rng(seed).integers(0, 256, 4 * DATA_WORDS + 100, np.uint8)
    with UdpBoard(behind, network) as there:
        client = LinkClient(UdpPort(*there.address), patience=0.02, tries=40)
        board = SerialBoard(client, "ecpix5", DESIGNS)
        for place in range(0, 2000, 500):
            board.write_memory(place, written)
            np.testing.assert_array_equal(board.read_memory(place, len(written)), written)
        assert network.faults > 5
        if fault != "repeated":
            assert client.repeated > 0
    assert behind.resets == 1


def test_frames_are_sent_in_datagrams_that_fit():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
        there.bind(("127.0.0.1", 0))
        port = UdpPort(*there.getsockname())
        frame = to_frame([0x7E7E7E7E] * (DATA_WORDS + 3))
        port.send(frame)
        datagrams = [there.recv(1 << 16) for _ in range(3)]
        assert b"".join(datagrams) == frame
        assert max(map(len, datagrams)) == DATAGRAM_BYTES
        port.close()


def test_what_others_send_is_not_received():
    with UdpBoard(BoardModel()) as there, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        port = UdpPort(*there.address)
        client = LinkClient(port)
        client.open()
        for _ in range(100):
            other.sendto(to_frame([0]), port._socket.getsockname())
        assert port.receive(time.monotonic() + 0.05) == b""
        assert client.read([0]) is not None
        assert client.repeated == 0


def test_another_program_that_opens_the_board():
    with UdpBoard(BoardModel()) as there:
        first, second = (LinkClient(UdpPort(*there.address)) for _ in range(2))
        first.open()
        second.open()
        with pytest.raises(LinkRefusedError, match="another program has opened it"):
            first.read([0])
        assert second.read_memory(0, 1) == [0]


def test_a_board_that_is_silent():
    with (
        UdpBoard(BoardModel(), lambda direction, datagram: []) as there,
        pytest.raises(LinkSilentError, match=r"for 2 times, and nothing came back: .* 127\.0\.0\.1 is the"),
    ):
        LinkClient(UdpPort(*there.address), patience=0.05, tries=2).open()


def test_a_board_whose_answers_are_damaged(seed):
    generator = random.Random(seed)

    def damage(direction, datagram):
        return [datagram if direction == "to" else _flipped(datagram, generator)]

    with (
        UdpBoard(BoardModel(), damage) as there,
        pytest.raises(LinkDamagedError, match="OPEN was asked for 2 times, and of what came back"),
    ):
        LinkClient(UdpPort(*there.address), patience=0.05, tries=2).open()


def test_a_machine_that_is_no_board():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.1", 0))
        address = gone.getsockname()
    with pytest.raises(LinkPortError, match=f"what is at 127.0.0.1:{address[1]} has no such port"):
        LinkClient(UdpPort(*address), patience=0.05).open()


def test_no_way_to_the_board():
    # An address that may not be used so stands for a network that is not there.
    with pytest.raises(LinkPortError, match=r"there is no way to 255\.255\.255\.255:1 \(.*\): check that the board is"):
        UdpPort("255.255.255.255", 1)


def test_a_port_that_was_closed():
    with UdpBoard(BoardModel()) as there:
        port = UdpPort(*there.address)
        client = LinkClient(port)
        client.open()
        port.close()
        with pytest.raises(LinkLostError, match="cannot be reached"):
            client.read([0])


def test_a_request_is_done_once():
    """Two answers are lost; the request comes again, and is not carried out again."""
    behind, answers = BoardModel(), []

    def lose(direction, datagram):
        if direction == "from":
            answers.append(datagram)
        return [] if direction == "from" and len(answers) in (2, 3) else [datagram]

    with UdpBoard(behind, lose) as there:
        client = LinkClient(UdpPort(*there.address), patience=0.1)
        client.open()
        client.reset()
    assert behind.resets == 1
    assert client.repeated == 2
    assert answers[1] == answers[2] == answers[3]
