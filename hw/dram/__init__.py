"""DDR3 memories of boards: LiteDRAM's controller with a physical layer."""
