"""Words and ports of control registers and commands."""

from collections.abc import Mapping

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.opencl import REQUEST_BITS, REQUEST_FIELDS
from muntin.contract.registers import COMMAND_FIELDS, COMMAND_FLAGS, Access, ErrorCode, KernelMap


class Axi4LiteSignature(wiring.Signature):
    """AXI4-Lite with 32-bit data, seen from the master, under the names of the AXI specification.

    Parameters
    ----------
    address_width : int
        Bits of a byte address.

    Attributes
    ----------
    address_width : int
        As given.
    """

    def __init__(self, address_width: int):
        self.address_width = address_width
        super().__init__(
            {
                "awvalid": Out(1),
                "awready": In(1),
                "awaddr": Out(address_width),
                "awprot": Out(3),
                "wvalid": Out(1),
                "wready": In(1),
                "wdata": Out(32),
                "wstrb": Out(4),
                "bvalid": In(1),
                "bready": Out(1),
                "bresp": In(2),
                "arvalid": Out(1),
                "arready": In(1),
                "araddr": Out(address_width),
                "arprot": Out(3),
                "rvalid": In(1),
                "rready": Out(1),
                "rdata": In(32),
                "rresp": In(2),
            }
        )


class CommandLayout(data.StructLayout):
    """A command as the queue hands it out.

    The members are those of `COMMAND_FIELDS`, 32 bits a word, with the first word cut up: ``operation``, 8 bits;
    one bit for each of `COMMAND_FLAGS`; ``spare``; ``tag``, 16 bits.
    """

    def __init__(self):
        members: dict[str, int] = {"operation": 8}
        members |= {flag.name: flag.bits for flag in COMMAND_FLAGS}
        members |= {"spare": 8 - sum(flag.bits for flag in COMMAND_FLAGS), "tag": 16}
        members |= {name: 32 * words for name, words, _ in COMMAND_FIELDS if name != "operation"}
        super().__init__(members)


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


class RequestLayout(data.FlexibleLayout):
    """The fields of `muntin.contract.opencl.REQUEST_FIELDS`."""

    def __init__(self):
        super().__init__(REQUEST_BITS, {field.name: data.Field(field.bits, field.lsb) for field in REQUEST_FIELDS})


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


class SettingsLayout(data.StructLayout):
    """What the host has set: one 32-bit member for each of a kernel's settings, its name in small letters.

    Parameters
    ----------
    kernel : KernelMap
    """

    def __init__(self, kernel: KernelMap):
        super().__init__({register.name.lower(): 32 for register in kernel.settings})


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
