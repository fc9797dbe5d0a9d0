"""What passes between the link and a UDP core."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class DatagramSignature(wiring.Signature):
    """What passes between the link and a UDP core, a byte at a time, seen from the link.

    Attributes
    ----------
    rx_valid, rx_data : In(1), In(8)
        A byte of a datagram, which the link takes at once.
    rx_ip, rx_port : In(32), In(16)
        Whom it comes from.
    tx_valid, tx_ready, tx_data, tx_last : Out(1), In(1), Out(8), Out(1)
        A byte of a datagram, and whether it is its last.
    tx_ip, tx_port, tx_length : Out(32), Out(16), Out(16)
        Whom it goes to, and its bytes; from its first byte to its last.
    """

    def __init__(self):
        super().__init__(
            {
                "rx_valid": In(1),
                "rx_data": In(8),
                "rx_ip": In(32),
                "rx_port": In(16),
                "tx_valid": Out(1),
                "tx_ready": In(1),
                "tx_data": Out(8),
                "tx_last": Out(1),
                "tx_ip": Out(32),
                "tx_port": Out(16),
                "tx_length": Out(16),
            }
        )
