"""What joins run on: ``WindowJoin(..., device=...)`` takes the name of a device or an open one."""

from muntin.host.devices import (
    Device,
    DeviceInfo,
    list_devices,
    open_device,
)

__all__ = [
    "Device",
    "DeviceInfo",
    "list_devices",
    "open_device",
]
