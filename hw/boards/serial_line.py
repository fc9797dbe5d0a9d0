"""The serial line of a board. Standard library only."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class SerialLine:
    """The serial line of a board, and the USB bridge that it is behind.

    Parameters
    ----------
    baud : int
        Bits a second.
    usb : (int, int)
        Vendor and product of the bridge.
    usb_ports, usb_port : int
        Serial ports that one bridge shows, and which of them it is.
    """

    baud: int
    usb: tuple[int, int]
    usb_ports: int
    usb_port: int
