"""A board's model at a UDP port of this machine, behind a network with faults."""

import socket
import threading

from muntin.contract.link import DATAGRAM_BYTES
from muntin.sim.models.link import LinkModel

_LOCAL = "127.0.0.1"
_TICK = 0.02
_LARGEST = 1 << 16


class UdpBoard:
    """A board's model at a UDP port of this machine. A context manager.

    Parameters
    ----------
    behind : BoardModel
    pass_on : callable
        Given a direction, ``"to"`` or ``"from"``, and a datagram, gives a list of those that arrive.

    Attributes
    ----------
    address : (str, int)
    """

    def __init__(self, behind, pass_on=lambda direction, datagram: [datagram]):
        self._link = LinkModel(behind)
        self._pass_on = pass_on
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((_LOCAL, 0))
        self._socket.settimeout(_TICK)
        self.address = self._socket.getsockname()
        self._over = False
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self):
        while not self._over:
            try:
                datagram, peer = self._socket.recvfrom(_LARGEST)
            except TimeoutError:
                continue
            for arrived in self._pass_on("to", datagram):
                answer = self._link.feed(arrived)
                for start in range(0, len(answer), DATAGRAM_BYTES):
                    for sent in self._pass_on("from", answer[start : start + DATAGRAM_BYTES]):
                        self._socket.sendto(sent, peer)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over = True
        self._thread.join()
        self._socket.close()
