"""Errors of the simulated boards."""


class BoardError(Exception):
    """Base of every error that a simulated board raises on purpose."""


class BoardBuildError(BoardError, RuntimeError):
    """Verilator or the C++ compiler refused the board, or is not there.

    Attributes
    ----------
    log : str
        What they printed.
    """

    def __init__(self, message: str, log: str = ""):
        super().__init__(f"{message}\n{log}" if log else message)
        self.log = log


class BoardTimeoutError(BoardError, TimeoutError):
    """The board did not do in time what was waited for."""


class BoardMemoryError(BoardError, IndexError):
    """An address or length lies outside the board's memory."""
