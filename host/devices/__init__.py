"""Devices: where joins are computed."""

from __future__ import annotations

from muntin.host.devices.device import Device, DeviceInfo
from muntin.host.devices.registry import list_devices, open_device

__all__ = ["Device", "DeviceInfo", "list_devices", "open_device"]
