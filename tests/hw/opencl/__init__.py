"""The kernel as a function of OpenCL kernels."""
