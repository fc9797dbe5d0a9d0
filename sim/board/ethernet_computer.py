"""A computer at the other end of a simulated board's Ethernet."""

from __future__ import annotations

import ipaddress
import select
import socket
import threading
import weakref
import zlib
from collections.abc import Callable

from dpkt.arp import ARP, ARP_OP_REPLY, ARP_OP_REQUEST
from dpkt.ethernet import ETH_TYPE_ARP, ETH_TYPE_IP, Ethernet
from dpkt.ip import IP, IP_PROTO_UDP
from dpkt.udp import UDP

from muntin.contract.boards import EthernetLine

LOCAL = "127.0.0.1"
_PREAMBLE = b"\x55" * 7 + b"\xd5"
_SHORTEST = 60
_EVERYONE = b"\xff" * 6
_MAC = b"\x02\0\0\0\0\x01"
_TICK = 0.05  # seconds; how long an end may go unnoticed
_LARGEST = 1 << 16


class EthernetComputer:
    """A computer at the other end of a simulated board's Ethernet, behind a UDP port of this machine.

    What comes to that port goes to the board as packets from this computer, with the sender's port number; what the
    board sends to a port of this computer goes to that port of this machine. It asks for the board's Ethernet address
    and tells its own, by ARP.

    Parameters
    ----------
    line : EthernetLine
        The board's.
    wire : socket
        Keeps packets apart; each is what is on the wire, from its preamble to its checksum.

    Attributes
    ----------
    address : (str, int)
        The UDP port that stands for the board's.
    ip : bytes
        The computer's IPv4 address: the board's with its lowest bit inverted.
    pass_on : callable
        Given a direction, ``"to"`` or ``"from"``, and a packet, gives a list of the packets that arrive. All do at
        first; others may be put in its place.
    broken : int
        Packets of the board's so far whose preamble, length or checksum was wrong.
    """

    def __init__(self, line: EthernetLine, wire: socket.socket):
        self._board_ip = ipaddress.IPv4Address(line.ip).packed
        self._board_port = line.port
        self._board_mac = b""
        self._waiting: list[bytes] = []
        self._wire = wire
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind((LOCAL, 0))
        self.address: tuple[str, int] = self._udp.getsockname()
        self.ip = (int.from_bytes(self._board_ip) ^ 1).to_bytes(4)
        self.pass_on: Callable[[str, bytes], list[bytes]] = lambda direction, packet: [packet]
        self.broken = 0
        over = threading.Event()
        run = (weakref.ref(self), self._udp, wire, over)  # the thread does not keep the computer
        thread = threading.Thread(target=_run, args=run, name=f"computer of {line.ip}", daemon=True)
        thread.start()
        self._free = weakref.finalize(self, _give_back, over, thread, self._udp)

    def send(self, kind: int, content: bytes, to: bytes = _EVERYONE) -> None:
        """Puts a packet of that kind on the wire."""
        packet = bytes(Ethernet(dst=to, src=_MAC, type=kind, data=content)).ljust(_SHORTEST, b"\0")
        packet = _PREAMBLE + packet + zlib.crc32(packet).to_bytes(4, "little")
        for passed in self.pass_on("to", packet):
            self._wire.send(passed)

    def datagram(self, content: bytes, port: int, *, ip: bytes | None = None) -> bytes:
        """The IPv4 packet of a datagram to the board from that port, of this computer or of another."""
        datagram = UDP(sport=port, dport=self._board_port, data=content, ulen=8 + len(content))
        packet = IP(src=ip or self.ip, dst=self._board_ip, p=IP_PROTO_UDP, data=datagram)
        packet.len = len(packet)
        return bytes(packet)

    def close(self) -> None:
        """Takes the computer away. Idempotent; done also when it is dropped."""
        self._free()

    def _pass(self, ready: list[socket.socket]) -> None:
        """Passes on what has come to these sockets."""
        if self._udp in ready:
            content, (_, port) = self._udp.recvfrom(_LARGEST)
            self._to_board(self.datagram(content, port))
        if self._wire in ready:
            for packet in self.pass_on("from", self._wire.recv(_LARGEST)):
                self._take(packet)

    def _to_board(self, packet: bytes) -> None:
        if self._board_mac:
            self.send(ETH_TYPE_IP, packet, self._board_mac)
            return
        self._waiting.append(packet)
        asked = ARP(op=ARP_OP_REQUEST, sha=_MAC, spa=self.ip, tpa=self._board_ip)
        self.send(ETH_TYPE_ARP, bytes(asked))

    def _take(self, packet: bytes) -> None:
        start, content, check = packet[: len(_PREAMBLE)], packet[len(_PREAMBLE) : -4], packet[-4:]
        if start != _PREAMBLE or len(content) < _SHORTEST or zlib.crc32(content).to_bytes(4, "little") != check:
            self.broken += 1
            return
        frame = Ethernet(content)
        if frame.type == ETH_TYPE_ARP:
            self._take_arp(frame.data)
        elif frame.type == ETH_TYPE_IP and (frame.dst, frame.data.dst, frame.data.p) == (_MAC, self.ip, IP_PROTO_UDP):
            self._udp.sendto(frame.data.data.data, (LOCAL, frame.data.data.dport))

    def _take_arp(self, told: ARP) -> None:
        if told.op == ARP_OP_REQUEST and told.tpa == self.ip:
            answer = ARP(op=ARP_OP_REPLY, sha=_MAC, spa=self.ip, tha=told.sha, tpa=told.spa)
            self.send(ETH_TYPE_ARP, bytes(answer), told.sha)
        elif told.op == ARP_OP_REPLY and told.spa == self._board_ip:
            self._board_mac = told.sha
            waiting, self._waiting = self._waiting, []
            for packet in waiting:
                self._to_board(packet)


def _run(
    computer: weakref.ref[EthernetComputer], udp: socket.socket, wire: socket.socket, over: threading.Event
) -> None:
    while not over.is_set():
        ready = select.select([udp, wire], [], [], _TICK)[0]
        if (alive := computer()) is not None:
            alive._pass(ready)
        del alive


def _give_back(over: threading.Event, thread: threading.Thread, udp: socket.socket) -> None:
    over.set()
    if thread is not threading.current_thread():  # which may be the last to have held the computer
        thread.join()
    udp.close()
