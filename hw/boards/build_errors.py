"""Errors of building for a board."""

from muntin.hw.errors import HardwareError


class UnknownBoardError(HardwareError, ValueError):
    """There is no such board, or no such design for it."""


class BuildError(HardwareError, RuntimeError):
    """A tool refused what it was given."""


class ToolMissingError(BuildError):
    """A tool that the next step needs is not on this machine; everything up to that step has been written."""


class TimingError(BuildError):
    """A clock does not reach the frequency that the board declares for it."""


class RoutingError(BuildError):
    """The router leaves nets unrouted."""
