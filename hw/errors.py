"""Errors of the hardware description: typed, and raised while a design is built, never later."""


class HardwareError(Exception):
    """Base of every error that `hw` raises on purpose."""


class ParameterError(HardwareError, ValueError):
    """A build parameter is out of its range, or does not fit another one."""
