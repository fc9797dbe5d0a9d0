"""Boards in simulation: a design and its memory, compiled into a library that Python drives."""
