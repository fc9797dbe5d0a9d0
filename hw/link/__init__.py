"""The link between a host and a board: framed requests over a serial line."""
