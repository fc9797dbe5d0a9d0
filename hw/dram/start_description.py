"""What a host must know to start a DRAM through LiteDRAM's registers, for JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from litedram.init import get_sdram_phy_init_sequence

COMMAND_BITS = ("CS", "WE", "CAS", "RAS", "WRDATA", "RDDATA")
"""Bits of a phase's command register, from bit 0 on."""

CONTROL_BITS = ("SEL", "CKE", "ODT", "RESET_N")
"""Bits of the control register, from bit 0 on."""


def start_description(
    phy_settings: Any,
    timing_settings: Any,
    banks: Iterable[tuple[str, list, int]],
    *,
    banks_of_rows: list[int],
) -> dict[str, Any]:
    """What a host must know to start a DRAM.

    Parameters
    ----------
    phy_settings, timing_settings
        LiteDRAM's, of the physical layer and of the chip.
    banks : iterable of (str, list of CSR, int)
        Name, registers and number of each bank of registers, on a bus of 32-bit words with 512 words a bank.
    banks_of_rows : list of int
        The memory's banks, and the bytes after which the next one follows.

    Returns
    -------
    dict
        ``phases``, ``read_phase``, ``write_phase``: of the command bus. ``banks``: as given. ``lanes``: bytes of the
        data bus. ``delays``, ``bitslips``: how many of each a lane of the physical layer has for reading.
        ``registers``: for each, by name, its first address in bytes and its words, the highest word first. ``steps``:
        LiteDRAM's generated sequence, each step with what it does, address, bank, ``"control"`` or ``"command"``, the
        value of that register, and the cycles to wait behind it.
    """
    sequence, _ = get_sdram_phy_init_sequence(phy_settings, timing_settings)
    registers = {}
    for name, csrs, number in banks:
        at = 512 * number
        for csr in csrs:
            words = -(-csr.size // 32)
            registers[f"{name}_{csr.name}"] = [4 * at, words]
            at += words
    return {
        "phases": phy_settings.nphases,
        "read_phase": phy_settings.rdphase
        if isinstance(phy_settings.rdphase, int)
        else phy_settings.rdphase.reset.value,
        "write_phase": phy_settings.wrphase
        if isinstance(phy_settings.wrphase, int)
        else phy_settings.wrphase.reset.value,
        "banks": banks_of_rows,
        "lanes": phy_settings.databits // 8,
        "delays": phy_settings.delays,
        "bitslips": phy_settings.bitslips,
        "registers": registers,
        "steps": [[text, address, bank, *_named(value), cycles] for text, address, bank, value, cycles in sequence],
    }


def _named(names: str) -> tuple[str, int]:
    """Which register LiteDRAM's names of bits belong to, and their value."""
    kinds = {kind.lower() for kind in re.findall(r"DFII_(COMMAND|CONTROL)_", names)}
    (kind,) = kinds
    table = COMMAND_BITS if kind == "command" else CONTROL_BITS
    bits = re.findall(r"DFII_(?:COMMAND|CONTROL)_(\w+)", names)
    return kind, sum(1 << table.index(bit) for bit in bits)
