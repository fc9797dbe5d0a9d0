"""A kernel as a function of OpenCL kernels: the RTL module, its description, its declaration and its model in C."""
