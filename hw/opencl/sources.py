"""The OpenCL sources round an RTL module."""

from __future__ import annotations

from typing import Any

from muntin.hw.opencl.names import FUNCTION, HEADER, KERNEL
from muntin.hw.register_map import kernel_map


def declaration(parameters: Any) -> str:
    """The header that declares the RTL module's function."""
    memories = "".join(f"__global char *memory_{port}, " for port in _ports(parameters))
    return (
        "// Made by Muntin. The function that is the RTL module: a request, and the result (hw/request_map.py).\n"
        "// The memories are those of the kernel's memory ports; state is for the model that takes the module's place\n"
        "// where kernels are emulated, and means nothing to the module.\n"
        "#ifndef MUNTIN_H\n#define MUNTIN_H\n\n"
        f"uint {FUNCTION}({memories}__global char *state, ulong request);\n\n"
        "#endif\n"
    )


def kernels(parameters: Any) -> str:
    """The OpenCL kernel that the host enqueues.

    It has the one call of the function: each call in a program is a module of its own, with its own state.
    """
    memories = "".join(f"    __global char *restrict memory_{port},\n" for port in _ports(parameters))
    names = "".join(f"memory_{port}, " for port in _ports(parameters))
    return (
        "// Made by Muntin. Hands requests to the RTL module, in order, and keeps their results.\n"
        f'#include "{HEADER}"\n\n'
        "#ifdef INTELFPGA_CL\n__attribute__((max_global_work_dim(0)))\n#endif\n"
        f"__kernel void {KERNEL}(\n{memories}"
        "    __global char *restrict state,\n"
        "    __global const ulong *restrict requests,\n"
        "    uint count,\n"
        "    __global uint *restrict results) {\n"
        "    for (uint at = 0; at < count; ++at)\n"
        f"        results[at] = {FUNCTION}({names}state, requests[at]);\n"
        "}\n"
    )


def _ports(parameters: Any) -> range:
    """The kernel's memory ports."""
    return range(kernel_map(parameters).lanes(parameters) * parameters.channels)
