"""How a command ended."""

from amaranth.lib import data

from muntin.contract.registers import ErrorCode


class ResultLayout(data.StructLayout):
    """How a command ended.

    Attributes
    ----------
    code : ErrorCode
    tag : unsigned(16)
        The command's.
    address : unsigned(64)
        The start of the array at fault, or the number of the core; 0 where it is none of them.
    """

    def __init__(self):
        super().__init__({"code": ErrorCode, "tag": 16, "address": 64})
