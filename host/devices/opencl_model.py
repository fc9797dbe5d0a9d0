"""A board's OpenCL program with the model in C in place of its RTL module, on any OpenCL device."""

from __future__ import annotations

from typing import Any

from muntin.contract.opencl import BUILD_HEADER, HEADER, build_header, declaration, kernels, model
from muntin.host.devices.opencl_board import OpenClBoard
from muntin.host.devices.opencl_device import OpenClDevice, built, cl, shared_context
from muntin.host.errors import DeviceError


def model_source(parameters: Any) -> str:
    """The whole program as one OpenCL source: what a build has in files, with its headers in place of their names."""
    headers = {BUILD_HEADER: build_header(parameters), HEADER: declaration(parameters)}
    text = model(parameters) + kernels(parameters)
    for name, header in headers.items():
        line = f'#include "{name}"\n'
        assert text.count(line) == 1
        text = text.replace(line, header)
    return text


def model_program(parameters: Any, device: Any = None) -> Any:
    """The program, built.

    Parameters
    ----------
    parameters : Parameters or SplitJoinParameters
    device : pyopencl.Device, optional
        By default the first that is a CPU, as the model is one work-item, else the first of all.

    Raises
    ------
    DeviceError
        If there is no OpenCL device, or the program does not build on it.
    """
    if device is None:
        device = min(OpenClDevice.cl_devices(), key=lambda device: not device.type & cl.device_type.CPU)
    try:
        program = cl.Program(shared_context(device), model_source(parameters))
        return built(program, ["-cl-std=CL1.2"])
    except cl.Error as error:
        raise DeviceError(
            f"the model of the board's kernel does not build on {device.name.strip()}: {error}"
        ) from error


def open_opencl_model(parameters: Any, memory_bytes: int) -> OpenClBoard:
    """The board's program with the model in its module's place, opened.

    Parameters
    ----------
    parameters : Parameters or SplitJoinParameters
        What the module is built with.
    memory_bytes : int

    Raises
    ------
    DeviceError
        As of `model_program`, or if the device has too little memory.
    """
    return OpenClBoard(model_program(parameters), parameters, memory_bytes)
