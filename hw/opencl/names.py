"""Names that the OpenCL side, the host and the RTL library agree on. Standard library only."""

FUNCTION = "mullion_bisort"
"""The function that a call of the RTL module is to OpenCL C."""

MODULE = "mullion_bisort_module"
"""The Verilog module."""

KERNEL = "mullion_requests"
"""The OpenCL kernel that the host enqueues."""

LIBRARY = "mullion_bisort.aoclib"
OBJECT = "mullion_bisort.aoco"
BINARY = "mullion_bisort.aocx"
MANIFEST = "mullion_bisort.xml"
VERILOG = "mullion_bisort.v"
HEADER = "mullion_bisort.h"
BUILD_HEADER = "mullion_build.h"
MODEL = "mullion_model.cl"
KERNELS = "mullion_requests.cl"
"""Files."""
