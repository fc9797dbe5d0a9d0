"""What happened in an engine in a cycle."""

from collections.abc import Mapping

from amaranth.lib import data

from muntin.contract.registers import KernelMap


class EventLayout(data.StructLayout):
    """By how much each counter of a kernel grows in this cycle.

    Parameters
    ----------
    kernel : KernelMap
    wide : mapping of str to int
        Bits of those that can grow by more than 6 bits can say.
    """

    def __init__(self, kernel: KernelMap, wide: Mapping[str, int]):
        super().__init__({name: wide.get(name, 6) for name, _ in kernel.counters})
