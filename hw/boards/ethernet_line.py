"""The Ethernet of a board. Standard library only."""

from __future__ import annotations

import dataclasses
import ipaddress

from muntin.hw.errors import ParameterError


@dataclasses.dataclass(frozen=True, kw_only=True)
class EthernetLine:
    """The Ethernet of a board: where its link is found, and how its pins are timed.

    Parameters
    ----------
    ip : str
        The board's IPv4 address, built into its bitstream.
    port : int
        The UDP port of the link.
    mac : int
        The board's Ethernet address: one for a single station.
    transmit_delay_ps, receive_delay_ps : int
        Picoseconds by which the FPGA delays its clock to, and the data from, the board's RGMII chip, 0 to 3175; what
        the chip and the board do not delay themselves.

    Raises
    ------
    ParameterError
        If a value is none of these.
    """

    ip: str
    port: int
    mac: int
    transmit_delay_ps: int
    receive_delay_ps: int

    def __post_init__(self) -> None:
        try:
            address = ipaddress.IPv4Address(self.ip)
        except ValueError as error:
            raise ParameterError(f"ip must be an IPv4 address such as '192.168.1.50', not {self.ip!r}") from error
        if address.is_multicast or address.is_unspecified or int(address) & 0xFF in (0, 0xFF):
            raise ParameterError(f"ip must be the address of one station, not {self.ip!r}")
        if not 0 < self.port < 1 << 16:
            raise ParameterError(f"port must be from 1 to 65535, not {self.port!r}")
        if not 0 < self.mac < 1 << 48 or self.mac >> 40 & 1:
            raise ParameterError(f"mac must be the address of one station, not {self.mac:#014x}")
        for name in ("transmit_delay_ps", "receive_delay_ps"):
            if not 0 <= getattr(self, name) < 128 * 25:
                raise ParameterError(f"{name} must be from 0 to 3175, not {getattr(self, name)!r}")
