"""Boards with a link, in simulation: what a board carries, with a model of its memory, at a pseudo-terminal
and a UDP port."""
