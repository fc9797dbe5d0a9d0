"""DDR3 memories in simulation: LiteDRAM's controller with LiteDRAM's model of the chips."""
