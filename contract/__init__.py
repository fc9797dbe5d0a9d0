"""What the hardware and whoever drives it agree on, as data: designs, registers, commands, memory, links, boards.

Standard library only, and nothing of the other folders.
"""


class HardwareError(Exception):
    """Base of every error that a build raises on purpose."""


class ParameterError(HardwareError, ValueError):
    """A build parameter is out of its range, or does not fit another one."""


class UnknownBoardError(HardwareError, ValueError):
    """There is no such board, or no such design for it."""
