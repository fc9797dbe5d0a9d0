"""Ports of the link."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class CsrSignature(wiring.Signature):
    """The bus of LiteX's control and status registers, seen from the master.

    Attributes
    ----------
    adr : Out(14)
        A word. What it holds is in `dat_r` in the next cycle.
    re, we : Out(1)
        Read, write in this cycle.
    dat_w : Out(32)
    dat_r : In(32)
    """

    def __init__(self) -> None:
        super().__init__({"adr": Out(14), "re": Out(1), "we": Out(1), "dat_w": Out(32), "dat_r": In(32)})


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


class RegisterBusSignature(wiring.Signature):
    """One access to a register at a time, seen from who asks.

    Attributes
    ----------
    valid : Out(1)
        There is an access; it and what belongs to it are stable until `done`.
    write : Out(1)
    address : Out(32)
        In bytes.
    value : Out(32)
        To be written.
    done : In(1)
        The access is over; high for one cycle, with `read` and `error`.
    read : In(32)
        What was read.
    error : In(1)
        There is no such register, or it answered with an error.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "valid": Out(1),
                "write": Out(1),
                "address": Out(32),
                "value": Out(32),
                "done": In(1),
                "read": In(32),
                "error": In(1),
            }
        )


class WordMemorySignature(wiring.Signature):
    """One word of memory at a time, seen from who asks.

    Attributes
    ----------
    fresh : Out(1)
        What was read before may have changed; high for at least a cycle, between accesses.
    valid : Out(1)
        There is an access; it and what belongs to it are stable until `done`.
    write : Out(1)
    address : Out(32)
        A word.
    value : Out(32)
        To be written.
    last : Out(1)
        Nothing is written to the words behind it for now.
    done : In(1)
        The access is over; high for one cycle, with `read` and `error`.
    read : In(32)
    error : In(1)
        The memory answered with an error.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "fresh": Out(1),
                "valid": Out(1),
                "write": Out(1),
                "address": Out(32),
                "value": Out(32),
                "last": Out(1),
                "done": In(1),
                "read": In(32),
                "error": In(1),
            }
        )
