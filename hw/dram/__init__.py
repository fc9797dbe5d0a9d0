"""DRAM of boards: LiteDRAM's controller with a physical layer."""
