"""cocotb tests of the hardware's blocks; the simulator imports them."""
