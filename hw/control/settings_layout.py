"""What the host has set."""

from amaranth.lib import data

from muntin.contract.registers import KernelMap


class SettingsLayout(data.StructLayout):
    """What the host has set: one 32-bit member for each of a kernel's settings, its name in small letters.

    Parameters
    ----------
    kernel : KernelMap
    """

    def __init__(self, kernel: KernelMap):
        super().__init__({register.name.lower(): 32 for register in kernel.settings})
