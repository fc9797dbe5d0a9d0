"""Pins and the input clocks of an ECP5 board, for nextpnr."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping

from amaranth.build import DiffPairs, Subsignal


def ecp5_constraints(
    platform: str, pins: Mapping[str, str], clocks: Mapping[str, int], pulled_up: Collection[str] = ()
) -> str:
    """An LPF file.

    Parameters
    ----------
    platform : str
        Module and class of amaranth-boards, which knows pins and their electrical attributes, as ``"module:Class"``.
    pins : mapping of str to str
        For each port of the top, a resource of that platform, and after a dot the part of it. Of a differential pair
        the port is the positive half.
    clocks : mapping of str to int
        The frequency in Hz of each port that is an input clock.
    pulled_up : collection of str
        Ports whose pins are pulled up, which the platform does not say.

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
        if port in pulled_up:
            attributes["PULLMODE"] = "UP"
        (ends,) = found.ios
        names = (ends.p if isinstance(ends, DiffPairs) else ends).names
        settings = " ".join(f"{key}={value}" for key, value in attributes.items())
        for bit, pin in enumerate(names):
            at = port if len(names) == 1 else f"{port}[{bit}]"
            lines.append(f'LOCATE COMP "{at}" SITE "{pin}";')
            if settings:
                lines.append(f'IOBUF PORT "{at}" {settings};')
    lines += [f'FREQUENCY PORT "{port}" {frequency / 1e6:g} MHZ;' for port, frequency in clocks.items()]
    return "\n".join(lines) + "\n"
