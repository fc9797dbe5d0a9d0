"""Why a command fails in a model."""

from muntin.contract.registers import ErrorCode


class CommandFaultError(Exception):
    """A command fails with this code; the address is the start of the array at fault, 0 where it is none of them."""

    def __init__(self, code: ErrorCode, address: int = 0):
        super().__init__(code)
        self.code = code
        self.address = address
