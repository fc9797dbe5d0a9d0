"""Designs after synthesis for an ECP5, to be simulated."""
