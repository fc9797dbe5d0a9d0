"""What a kernel shows the host."""

from amaranth.lib import data

from muntin.contract.registers import Access, KernelMap

OWN = ("CONTROL", "INTERRUPT_STATUS")
"""Registers that the register block keeps by itself, though they are not plain ones."""


class StatusLayout(data.StructLayout):
    """What a kernel shows the host: one 32-bit member for each register whose value the kernel gives.

    The members are the registers' names in small letters, in the order of their offsets.

    Parameters
    ----------
    kernel : KernelMap
    """

    def __init__(self, kernel: KernelMap):
        shown = [
            register
            for register in kernel.registers()
            if register.access in (Access.READ, Access.CLEAR) and register.name not in OWN
        ]
        super().__init__({register.name.lower(): 32 for register in shown})
