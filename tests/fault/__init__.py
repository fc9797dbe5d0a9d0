"""Schedules of faults: crashes, repeats and lost messages, simulated from a seed, and real kills."""
