"""Tries a device from its identity to a join."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from muntin.host.devices.device import Device
from muntin.host.devices.registry import open_device
from muntin.host.errors import DeviceError
from muntin.host.fpga.driver import BoardLink, memories
from muntin.host.fpga.memory_check import ANY_BANKS, memory_check, memory_soak
from muntin.host.join import WindowJoin
from muntin.host.predicates import Band
from muntin.host.windows import Rows

_ROWS = 128
_WINDOW = 60
_CALLS = 2


def selftest(device: str | Device, *, hold: float = 0.5) -> Iterator[str]:
    """Try a device: what it is, whether its memory holds, whether it joins right. Yields a line for each.

    Parameters
    ----------
    device : str or Device
        As `open_device` takes it; or an open one with nothing on it, which stays open.
    hold : float
        Seconds for which a board's memory must hold what is written to it, twice. Cells that are not refreshed may
        hold for seconds: minutes find more.

    Raises
    ------
    DeviceError
        At the first thing that is wrong.
    """
    tried = open_device(device) if isinstance(device, str) else device
    try:
        yield f"device    {tried.info.name}: {tried.info.description}"
        key_bits = 32
        with tried.board_link() as link:
            if link is not None:
                key_bits = link.parameters.key_bits
                yield from _board(link, hold)
        yield from _join(tried, np.dtype(f"i{key_bits // 8}"))
    finally:
        if tried is not device:
            tried.close()


def _board(link: BoardLink, hold: float) -> Iterator[str]:
    parameters = ", ".join(f"{name} {value}" for name, value in dataclasses.asdict(link.parameters).items())
    yield f"identity  {parameters}"
    for lane, timing in enumerate(getattr(link, "timings", ())):
        chosen = f"bitslip {timing.bitslip}, delay {timing.delay}"
        yield f"lane {lane}    {chosen}, in the middle of {timing.working} that work: {timing.map}"
    starts, each = memories(link)
    done = memory_check(link.write_memory, link.read_memory, each, starts)
    yield f"memory    {link.memory_bytes:,} bytes; {done:,} written and read, at every address line"
    banks = getattr(link, "banks", ANY_BANKS)
    done = memory_soak(link.write_memory, link.read_memory, each, starts, banks=banks, hold=hold)
    yield f"soak      {done:,} bytes of noise in every bank held for {2 * hold:g} s"


def _join(device: Device, keys: np.dtype) -> Iterator[str]:
    generator = np.random.default_rng(1)
    calls = [
        tuple(pa.record_batch({key: generator.integers(-1000, 1000, _ROWS, keys)}) for key in ("left_key", "right_key"))
        for _ in range(_CALLS)
    ]
    results = []
    for on in (device, open_device("numpy")):
        with WindowJoin(
            on=Band("left_key", "right_key", -20, 20), left=Rows(_WINDOW), right=Rows(_WINDOW), order="inner", device=on
        ) as join:
            results.append(pa.concat_tables([join.process(*call) for call in calls]))
    found, expected = results
    if found != expected:
        raise DeviceError(
            f"device {device.info.name} joined {_CALLS} batches of {_ROWS} rows a side wrongly: {found.num_rows} rows, "
            f"not the {expected.num_rows} right ones"
        )
    yield f"join      {found.num_rows:,} rows of {_CALLS} batches, all as they should be"
