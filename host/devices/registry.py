"""Which devices there are, by name."""

from __future__ import annotations

from host.devices.board_device import BoardDevice
from host.devices.device import Device, DeviceInfo
from host.devices.numpy_device import NumpyDevice
from host.devices.opencl_device import OpenClDevice
from host.devices.sim_device import SimDevice
from host.devices.sim_splitjoin_device import SimSplitJoinDevice
from host.errors import DeviceError

KINDS: dict[str, tuple[type[Device], ...]] = {
    "numpy": (NumpyDevice,),
    "opencl": (OpenClDevice,),
    "sim": (SimDevice, SimSplitJoinDevice),
    "board": (BoardDevice,),
}


def list_devices() -> list[DeviceInfo]:
    """Every device that can be named, present or not, with the reason where it is not."""
    return [info for classes in KINDS.values() for kind in classes for info in kind.found()]


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
    """
    if not isinstance(name, str):
        raise DeviceError(f"device must be a name such as 'opencl' or 'numpy', not {name!r}")
    kind, _, which = name.partition(":")
    if kind not in KINDS:
        known = ", ".join(repr(info.name) for info in list_devices() if info.available)
        raise DeviceError(f"there is no device {name!r}: there are {known}")
    classes = KINDS[kind]
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
