"""Kernels on FPGA boards, real or simulated: the device, the ways to the boards, and the drivers."""
