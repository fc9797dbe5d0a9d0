"""Which devices there are, by name."""

from __future__ import annotations

import importlib
from typing import Protocol

from muntin.host.devices.device import Device, DeviceInfo
from muntin.host.errors import DeviceError
from muntin.host.public import public


class Kind(Protocol):
    """The devices of one kind."""

    @staticmethod
    def found() -> list[DeviceInfo]:
        """Those of this machine, the default one first; an absent one with its reason."""

    @staticmethod
    def open(which: str = "") -> Device:
        """Opens the first whose name contains `which`. Raises DeviceError if there is none."""


#: Where the `Kind` of each name is. Imported when a device of the kind is looked for, so that what one kind needs
#: (OpenCL, drivers of boards) is loaded for that kind alone.
KINDS: dict[str, str] = {
    "cpu": "muntin.host.devices.cpu_device:CpuDevice",
    "numpy": "muntin.host.devices.numpy_device:NumpyDevice",
    "opencl": "muntin.host.devices.opencl_device:OpenClDevice",
    "sim": "muntin.host.fpga.transports:SimulatedBoards",
    "board": "muntin.host.fpga.transports:Boards",
}


def _kind(name: str) -> Kind:
    module, _, kind = KINDS[name].partition(":")
    return getattr(importlib.import_module(module), kind)


@public("muntin.hardware")
def list_devices() -> list[DeviceInfo]:
    """Every device that can be named, present or not, with its indexes, or the reason why it is not there.

    Examples
    --------
    >>> from muntin.hardware import list_devices
    >>> [device.name for device in list_devices() if device.kind in ("cpu", "numpy")]
    ['cpu', 'numpy']
    """
    return [info for kind in KINDS for info in _kind(kind).found()]


@public("muntin.hardware")
def open_device(name: str) -> Device:
    """Opens a device.

    Parameters
    ----------
    name : str
        A kind (``"opencl"``, ``"numpy"``), or a kind, a colon and a part of the name `list_devices` gives.

    Raises
    ------
    DeviceError
        If there is no such device, with those there are.

    Examples
    --------
    >>> from muntin import Band, Rows, WindowJoin
    >>> from muntin.hardware import open_device
    >>> device = open_device("cpu:threads=2")
    >>> joins = [WindowJoin(on=Band("a", "b", 0, n), left=Rows(9), right=Rows(9), device=device) for n in (1, 2)]
    >>> for join in joins:
    ...     join.close()
    >>> device.close()
    """
    if not isinstance(name, str):
        raise DeviceError(f"device must be a name such as 'opencl' or 'numpy', not {name!r}")
    kind, _, which = name.partition(":")
    if kind not in KINDS:
        known = ", ".join(repr(info.name) for info in list_devices() if info.available)
        raise DeviceError(f"there is no device {name!r}: there are {known}")
    return _kind(kind).open(which)
