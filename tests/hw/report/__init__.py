"""The report of area and clock rates."""
