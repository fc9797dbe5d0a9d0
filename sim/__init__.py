"""Simulation: models of the blocks, benches, memories and boards."""
