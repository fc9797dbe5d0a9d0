"""Names that the OpenCL side, the host and the RTL library agree on. Standard library only."""

FUNCTION = "muntin_call"
"""The function that a call of the RTL module is to OpenCL C."""

MODULE = "muntin_module"
"""The Verilog module."""

KERNEL = "muntin_requests"
"""The OpenCL kernel that the host enqueues."""

LIBRARY = "muntin.aoclib"
OBJECT = "muntin.aoco"
BINARY = "muntin.aocx"
MANIFEST = "muntin.xml"
VERILOG = "muntin.v"
HEADER = "muntin.h"
BUILD_HEADER = "muntin_build.h"
MODEL = "muntin_model.cl"
KERNELS = "muntin_requests.cl"
"""Files."""
