"""Engines: what finds the pairs of a call, and what several of them share."""
