"""What a board carries, over its Ethernet: simulated down to the bytes on the wire, and opened over UDP."""

import random
import threading
import time
import zlib

import numpy as np
import pytest

from muntin.contract.link import DATA_WORDS
from muntin.host.errors import LinkDamagedError, LinkRefusedError, LinkSilentError
from muntin.host.fpga.link import LinkClient, SerialPort, UdpPort
from muntin.host.selftest import selftest
from tests.simulated import simulated

pytest.importorskip("liteeth")
dpkt = pytest.importorskip("dpkt")

PATIENCE = 10.0  # seconds; a simulated clock is slow
HEADERS = 8 + 14 + 20 + 8  # preamble, Ethernet, IPv4, UDP


@pytest.fixture(scope="module")
def device():
    from muntin.hardware import open_device

    simulated("sim:ecpix5:ethernet", 32)
    opened = open_device("sim:ecpix5:ethernet")
    yield opened
    opened.close()


@pytest.fixture
def computer(device):
    """What the board's Ethernet is joined to; every packet that the board sent was whole."""
    computer = device.open_board(32).link.behind.computer
    passed = computer.pass_on
    yield computer
    computer.pass_on = passed
    assert computer.broken == 0


@pytest.fixture
def client(computer):
    client = LinkClient(UdpPort(*computer.address), patience=PATIENCE)
    client.open()
    yield client
    client.close()


def _is_datagram(packet):
    return packet[8 + 12 : 8 + 14] == b"\x08\x00" and packet[8 + 14 + 9] == dpkt.ip.IP_PROTO_UDP


def test_a_selftest_passes(device, computer):
    lines = list(selftest(device, hold=0))
    assert [line.split()[0] for line in lines] == ["device", "identity", "lane", "lane", "memory", "soak", "join"]
    assert device.open_board(32).link.repeated == 0


@pytest.mark.parametrize("words", [[0x7E7D7E7D], [0, 1, 0xFFFFFFFF]], ids=["all escaped", "hardly any"])
def test_the_longest_frames(client, words):
    """Three datagrams each way, and two."""
    written = (words * DATA_WORDS)[:DATA_WORDS]
    client.write_memory(100, written)
    assert client.read_memory(100, DATA_WORDS) == written
    assert client.repeated == 0


def _flipped(packet, at):
    return packet[:at] + bytes([packet[at] ^ 0x10]) + packet[at + 1 :]


FAULTS = {
    "lost": lambda packet, kept: [],
    "repeated": lambda packet, kept: [packet, packet],
    "out of order": lambda packet, kept: kept.append(packet) or [],
    "damaged": lambda packet, kept: [_flipped(packet, HEADERS + 5)],
    "damaged in its addresses": lambda packet, kept: [_flipped(packet, 8 + 14 + 13)],
    "cut": lambda packet, kept: [packet[: HEADERS + 20]],
    "cut in its preamble": lambda packet, kept: [packet[:5]],
}


@pytest.mark.parametrize(
    ("direction", "fault"),
    [*(("to", fault) for fault in FAULTS), *(("from", fault) for fault in ("lost", "out of order", "damaged"))],
)
def test_what_happens_to_a_packet_is_made_good(client, computer, direction, fault, seed):
    """The first datagram of a frame of two; what is written comes to be there, and is read as it is.

    Each is waited for once, for as long as the slowest machine may simulate a frame.
    """
    struck, kept = [], []

    def pass_on(way, packet):
        if way != direction or not _is_datagram(packet):
            return [packet]
        if kept:
            return [packet, kept.pop()]
        if struck:
            return [packet]
        struck.append(packet)
        return FAULTS[fault](packet, kept)

    written = np.random.default_rng(seed).choice([0x7E7D7E7D, 0x7D7E7D7E], 190).tolist()
    client._patience, client._tries = 1.0, 10
    if direction == "to":
        computer.pass_on = pass_on
        client.write_memory(7, written)
        assert client.read_memory(7, len(written)) == written
    else:
        client.write_memory(7, written)
        computer.pass_on = pass_on
        assert client.read_memory(7, len(written)) == written
    assert struck
    if fault != "repeated":
        assert client.repeated >= 1
    if direction == "from" and fault.startswith(("damaged", "cut")):
        assert computer.broken == 1
        computer.broken = 0


def test_an_answer_in_which_every_packet_is_lost(client, computer):
    computer.pass_on = lambda way, packet: [packet] if way == "to" else []
    client._patience, client._tries = 0.1, 4
    with pytest.raises(LinkSilentError, match="READ_MEMORY was asked for 4 times, and nothing came back"):
        client.read_memory(0, 1)
    computer.pass_on = lambda way, packet: [packet]
    client._patience = PATIENCE
    assert len(client.read_memory(0, 1)) == 1


def test_answers_that_are_damaged_though_their_packets_are_whole(client, computer):
    def damage(way, packet):
        if way == "to" or not _is_datagram(packet):
            return [packet]
        content = bytearray(packet[8:-4])
        content[HEADERS - 8 + 3] ^= 1
        return [packet[:8] + content + zlib.crc32(content).to_bytes(4, "little")]

    client._patience = 1.0
    computer.pass_on = damage
    with pytest.raises(LinkDamagedError, match="of what came back"):
        client.read_memory(0, 1)


def test_another_program_and_the_serial_line(device, client, computer):
    """Whoever opens the board last has it, at whatever line; answers go to whom they are for."""
    other = LinkClient(UdpPort(*computer.address), patience=PATIENCE)
    other.open()
    with pytest.raises(LinkRefusedError, match="another program has opened it"):
        client.read_memory(0, 1)
    other.write_memory(0, [5, 6])
    serial = LinkClient(SerialPort(device.open_board(32).link.behind.path, 1_000_000), patience=2 * PATIENCE)
    serial.open()
    assert serial.read_memory(0, 2) == [5, 6]
    with pytest.raises(LinkRefusedError, match="another program has opened it"):
        other.read_memory(0, 1)
    client.open()
    assert client.read_memory(0, 2) == [5, 6]
    serial.close()
    other.close()


def test_what_others_send_does_not_matter(client, computer, seed):
    """To another port or address, of another protocol, with a wrong checksum, and no packet at all."""
    generator = random.Random(seed)
    datagram = dpkt.ip.IP(computer.datagram(generator.randbytes(300), 5000))
    other_port = dpkt.ip.IP(bytes(datagram))
    other_port.data.dport ^= 1
    other_protocol = dpkt.ip.IP(bytes(datagram))
    other_protocol.p = dpkt.ip.IP_PROTO_TCP
    wrong_checksum = bytearray(bytes(datagram))
    wrong_checksum[10] ^= 1
    for _ in range(3):
        for packet in (bytes(datagram), bytes(other_port), bytes(other_protocol), bytes(wrong_checksum)):
            computer.send(dpkt.ethernet.ETH_TYPE_IP, packet)
        computer.send(dpkt.ethernet.ETH_TYPE_IP6, generator.randbytes(100))
        computer._wire.send(generator.randbytes(200))
        client.write_memory(3, [generator.getrandbits(32)])
    assert client.repeated == 0


@pytest.mark.parametrize("length", [8, 56, 1400])
def test_a_ping_is_answered(client, computer, length):
    content = bytes(range(256)) * 6
    echo = dpkt.icmp.ICMP(type=dpkt.icmp.ICMP_ECHO, data=dpkt.icmp.ICMP.Echo(id=1, seq=2, data=content[:length]))
    packet = dpkt.ip.IP(src=computer.ip, dst=computer._board_ip, p=dpkt.ip.IP_PROTO_ICMP, data=echo)
    packet.len = len(packet)
    answers, came = [], threading.Event()

    def listen(way, passed):
        frame = dpkt.ethernet.Ethernet(passed[8:-4])
        if way == "from" and frame.type == dpkt.ethernet.ETH_TYPE_IP and frame.data.p == dpkt.ip.IP_PROTO_ICMP:
            answers.append(frame.data.data)
            came.set()
        return [passed]

    computer.pass_on = listen
    computer.send(dpkt.ethernet.ETH_TYPE_IP, bytes(packet))
    assert came.wait(120)
    assert answers[0].type == dpkt.icmp.ICMP_ECHOREPLY
    assert answers[0].data.data[:length] == content[:length]


def test_the_board_sleeps_while_nobody_asks(device, client):
    simulated_board = device.open_board(32).link.behind.board
    client.read_memory(0, 1)
    until = time.monotonic() + 60
    before = -1
    while before != simulated_board.cycles and time.monotonic() < until:
        before = simulated_board.cycles
        time.sleep(0.3)
    assert before == simulated_board.cycles
    assert len(client.read_memory(0, 1)) == 1
