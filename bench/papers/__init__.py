"""The papers' figures, made again: ``python -m bench.papers``."""
