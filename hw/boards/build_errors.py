"""Errors of building for a board."""

from muntin.contract.errors import HardwareError


class BuildError(HardwareError, RuntimeError):
    """A tool refused what it was given."""


class ToolMissingError(BuildError):
    """A tool that the next step needs is not on this machine; everything up to that step has been written."""


class TimingError(BuildError):
    """A clock does not reach the frequency that the board declares for it."""


class RoutingError(BuildError):
    """The router leaves nets unrouted."""
