"""The host's end of the link to a board."""
