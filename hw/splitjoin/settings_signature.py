"""What is chosen at run time."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from muntin.contract.designs.splitjoin import Order, SplitJoinParameters


class SettingsSignature(wiring.Signature):
    """The settings as registers, seen from where they are: what they mean is in `JoinSettings`.

    All are stable while it is not idle; `left_rows`, `right_rows` and `timed` change only together with `clear`.

    Attributes
    ----------
    left_rows, right_rows : range(capacity + 1)
    low, high : signed(key_bits + 1)
    complement : 1
    own_bounds : 1
        With `bounds` only.
    order : Order
    every : range(log2(rows) + 1)
    timed : 1
    time_low, time_high : signed(time_bits + 1)
    left_late, right_late : time_bits
        With time windows only, as `timed`, `time_low` and `time_high`.
    """

    def __init__(self, parameters: SplitJoinParameters):
        window = range(parameters.capacity + 1)
        members = {
            "left_rows": Out(window),
            "right_rows": Out(window),
            "low": Out(signed(parameters.key_bits + 1)),
            "high": Out(signed(parameters.key_bits + 1)),
            "complement": Out(1),
            "order": Out(range(len(Order))),
            "every": Out(range(parameters.every_log2_max + 1)),
        }
        if parameters.bounds:
            members["own_bounds"] = Out(1)
        if parameters.time_bits:
            members |= {
                "timed": Out(1),
                "time_low": Out(signed(parameters.time_bits + 1)),
                "time_high": Out(signed(parameters.time_bits + 1)),
                "left_late": Out(parameters.time_bits),
                "right_late": Out(parameters.time_bits),
            }
        super().__init__(members)


def copy_settings(
    m: Module, settings: wiring.PureInterface, name: str, *, parameters: SplitJoinParameters
) -> wiring.PureInterface:
    """Registers that follow the settings a cycle later, for logic that may be far away from theirs.

    Parameters
    ----------
    m : Module
        Where the registers go.
    settings : interface of SettingsSignature
    name : str
        Of the copy.
    parameters : SplitJoinParameters
    """
    copies = SettingsSignature(parameters).create(path=(name,))
    for member in copies.signature.members:
        setting = getattr(settings, member)
        copy = Signal(setting.shape(), name=f"copy_{member}", reset_less=True)
        m.d.sync += copy.eq(setting)
        m.d.comb += getattr(copies, member).eq(copy)
    return copies
