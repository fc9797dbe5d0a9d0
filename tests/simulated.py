"""The simulated devices, for tests that need one of them beside the conformance suite."""

import pytest

from muntin.hardware import open_device
from muntin.host.errors import DeviceError


def simulated(name: str, key_bits: int) -> str:
    """The name of a simulated device that is ready for keys of a width: compiled, where that is needed.

    Skips with the reason where this machine cannot simulate it.
    """
    try:
        device = open_device(name)
    except DeviceError as error:
        pytest.skip(str(error))
    device.open_board(key_bits)
    device.close()
    return name
