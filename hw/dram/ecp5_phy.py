"""LiteDRAM's physical layer for the ECP5, set by the clock."""

from __future__ import annotations

from typing import Any
from unittest import mock

from litedram.phy import ecp5ddrphy
from migen import Record, Signal
from migen.genlib.cdc import MultiReg

from muntin.hw.dram.dram_settings import Ddr3Settings


class _Start(ecp5ddrphy.ECP5DDRPHYInit):
    """LiteDRAM's start of the delay-locked loop, with its pause brought into the clock of the lanes that heed it."""

    def __init__(self) -> None:
        super().__init__()
        pause, self.pause = self.pause, Signal()
        self.specials += MultiReg(pause, self.pause, "sys")


def ecp5_phy(pads: Record, settings: Ddr3Settings) -> Any:
    """Make LiteDRAM's physical layer for the ECP5.

    Parameters
    ----------
    pads : Record
        ``clk_p``, ``a``, ``dq`` and so on.
    settings : Ddr3Settings
        Its `command_delay` and `termination` are set: the latter in mode register 1 of the start.
    """
    with mock.patch.object(ecp5ddrphy, "ECP5DDRPHYInit", _Start):
        phy = ecp5ddrphy.ECP5DDRPHY(pads, sys_clk_freq=settings.clock_hz, cmd_delay=settings.command_delay)
    phy.settings.rtt_nom = settings.termination
    return phy
