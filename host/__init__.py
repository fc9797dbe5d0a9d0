"""Muntin: exact sliding-window stream joins on OpenCL devices, simulated hardware and boards."""

from muntin.host.devices import list_devices, open_device
from muntin.host.errors import MuntinError
from muntin.host.predicates import AllOf, AnyOf, AsOf, Band, Compare, Where
from muntin.host.spec import JoinSpec
from muntin.host.stats import Stats
from muntin.host.window_join import WindowJoin
from muntin.host.windows import Rows, Watermark, Within

__all__ = [
    "AllOf",
    "AnyOf",
    "AsOf",
    "Band",
    "Compare",
    "JoinSpec",
    "MuntinError",
    "Rows",
    "Stats",
    "Watermark",
    "Where",
    "WindowJoin",
    "Within",
    "list_devices",
    "open_device",
]
