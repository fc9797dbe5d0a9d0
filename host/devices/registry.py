"""Which devices there are, by name."""

from __future__ import annotations

import dataclasses
import importlib

from muntin.host.devices.device import Device, DeviceInfo
from muntin.host.errors import DeviceError
from muntin.host.public import public

#: Module and class of each device, by its kind. Imported when a device of the kind is looked for, so that what one kind
#: needs (OpenCL, drivers of boards) is loaded for that kind alone.
KINDS: dict[str, tuple[str, ...]] = {
    "cpu": ("cpu_device:CpuDevice",),
    "numpy": ("numpy_device:NumpyDevice",),
    "opencl": ("opencl_device:OpenClDevice",),
    "sim": ("sim_device:SimDevice", "sim_splitjoin_device:SimSplitJoinDevice"),
    "board": ("board_device:BoardDevice",),
}


def _classes(kind: str) -> list[type[Device]]:
    parts = (path.partition(":") for path in KINDS[kind])
    return [getattr(importlib.import_module(f"muntin.host.devices.{module}"), name) for module, _, name in parts]


@public("muntin.hardware")
def list_devices() -> list[DeviceInfo]:
    """Every device that can be named, present or not, with its indexes, or the reason why it is not there.

    Examples
    --------
    >>> from muntin.hardware import list_devices
    >>> [device.name for device in list_devices() if device.kind in ("cpu", "numpy")]
    ['cpu', 'numpy']
    """
    return [
        info if info.indexes else dataclasses.replace(info, indexes=found.indexes)
        for kind in KINDS
        for found in _classes(kind)
        for info in found.found()
    ]


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
    classes = _classes(kind)
    if len(classes) == 1:
        return classes[0].open(which)
    named = [(found, info.name) for found in classes for info in found.found()]
    part = which.lower().partition(":")[0]  # behind a colon stand options, which are the class's own
    for wanted in (which.lower(), part):  # or which are part of a name
        for found, full in named:
            if wanted in full:
                return found.open(which)
    names = ", ".join(full for _, full in named)
    raise DeviceError(f"there is no simulated device named like {part!r}: there are {names}")
