"""Which engines there are, by the name a device gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from host.devices.device import Device
from host.engine.boundary_generator import BoundaryGenerator
from host.engine.engine import Engine, EngineSpec
from host.engine.run_engine import RunEngine
from host.engine.run_policy import RunPolicy
from host.engine.splitjoin_engine import SplitJoinEngine

ENGINES: dict[str, Callable[[Any, EngineSpec, BoundaryGenerator, dict[str, int], RunPolicy], Engine]] = {
    "runs": RunEngine,
    "splitjoin": SplitJoinEngine,
}


def open_engine(
    device: Device, spec: EngineSpec, generator: BoundaryGenerator, key_bits: dict[str, int], policy: RunPolicy
) -> Engine:
    """The engine whose commands a device carries out, for one join. Takes and raises what the engine does."""
    return ENGINES[device.engine](device, spec, generator, key_bits, policy)
