"""Mullion: exact sliding-window stream joins on OpenCL devices, simulated hardware and boards."""

from host.devices import list_devices, open_device
from host.errors import MullionError
from host.predicates import AllOf, AnyOf, AsOf, Band, Compare, Where
from host.spec import JoinSpec
from host.stats import Stats
from host.window_join import WindowJoin
from host.windows import Rows, Watermark, Within

__all__ = [
    "AllOf",
    "AnyOf",
    "AsOf",
    "Band",
    "Compare",
    "JoinSpec",
    "MullionError",
    "Rows",
    "Stats",
    "Watermark",
    "Where",
    "WindowJoin",
    "Within",
    "list_devices",
    "open_device",
]
