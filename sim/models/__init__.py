"""NumPy models of the hardware's blocks, each with the name of its block; no Amaranth in them."""
