"""Benchmarks of the window join beside its peers: run ``python -m bench`` or ``make bench``."""
