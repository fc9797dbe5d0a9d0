"""Names that the OpenCL side, the host and the RTL library agree on. Standard library only."""

FUNCTION = "mullion_call"
"""The function that a call of the RTL module is to OpenCL C."""

MODULE = "mullion_module"
"""The Verilog module."""

KERNEL = "mullion_requests"
"""The OpenCL kernel that the host enqueues."""

LIBRARY = "mullion.aoclib"
OBJECT = "mullion.aoco"
BINARY = "mullion.aocx"
MANIFEST = "mullion.xml"
VERILOG = "mullion.v"
HEADER = "mullion.h"
BUILD_HEADER = "mullion_build.h"
MODEL = "mullion_model.cl"
KERNELS = "mullion_requests.cl"
"""Files."""
