"""Errors of what is built: typed, and raised while a design is described or built, never later."""


class HardwareError(Exception):
    """Base of every error that a build raises on purpose."""


class ParameterError(HardwareError, ValueError):
    """A build parameter is out of its range, or does not fit another one."""


class UnknownBoardError(HardwareError, ValueError):
    """There is no such board, or no such design for it."""
