"""The FPGA design, in Amaranth. Imports nothing: `parameters` and `register_map` need only Python itself."""
