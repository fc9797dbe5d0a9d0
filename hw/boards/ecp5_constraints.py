"""Pins and the input clock of an ECP5 board, for nextpnr."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from amaranth.build import DiffPairs, Subsignal


def ecp5_constraints(platform: str, pins: Mapping[str, str], clock: tuple[str, int]) -> str:
    """An LPF file.

    Parameters
    ----------
    platform : str
        Module and class of amaranth-boards, which knows pins and their electrical attributes, as ``"module:Class"``.
    pins : mapping of str to str
        For each port of the top, a resource of that platform, and after a dot the part of it. Of a differential pair
        the port is the positive half.
    clock : (str, int)
        The port of the input clock, and its frequency in Hz.

    Raises
    ------
    KeyError
        If the platform has no such resource.
    """
    module, _, name = platform.partition(":")
    resources = {
        (resource.name, resource.number): resource
        for resource in getattr(importlib.import_module(module), name).resources
    }
    lines = ["BLOCK ASYNCPATHS;", "BLOCK RESETPATHS;"]
    for port, place in pins.items():
        whole, _, part = place.partition(".")
        found = resources[whole, 0]
        attributes = dict(found.attrs)
        if part:
            found = {member.name: member for member in found.ios if isinstance(member, Subsignal)}[part]
            attributes |= found.attrs
        (ends,) = found.ios
        names = (ends.p if isinstance(ends, DiffPairs) else ends).names
        settings = " ".join(f"{key}={value}" for key, value in attributes.items())
        for bit, pin in enumerate(names):
            at = port if len(names) == 1 else f"{port}[{bit}]"
            lines.append(f'LOCATE COMP "{at}" SITE "{pin}";')
            if settings:
                lines.append(f'IOBUF PORT "{at}" {settings};')
    port, frequency = clock
    lines.append(f'FREQUENCY PORT "{port}" {frequency / 1e6:g} MHZ;')
    return "\n".join(lines) + "\n"
