"""Figures from simulated boards, in exact cycles."""
