"""What is chosen at run time."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from muntin.contract.designs.splitjoin import Order, SplitJoinParameters


class SettingsSignature(wiring.Signature):
    """The registers of SplitJoin, seen from where they are; all stand still while it is not idle.

    Predicate and time window are bands on the right row minus the left one, ``low <= right - left <= high``.
    Both bounds are one bit wider than what they bound, and signed: the least value leaves the lower bound
    open, the greatest one the upper bound. ``=`` is the band from 0 to 0, ``left < right`` that from 1 up,
    ``left >= right`` that to 0.

    Attributes
    ----------
    left_rows, right_rows : range(capacity + 1)
        Length of each stream's count window; changed only together with `clear`.
    low, high : signed(key_bits + 1)
        The predicate.
    complement : 1
        1 to take the pairs that the predicate leaves out: ``!=`` is the complement of ``=``.
    own_bounds : 1
        1 to compare stored keys with the bounds that the probing row carries, in the place of `low` and `high`;
        with `bounds` only.
    order : Order
    every : range(log2(rows) + 1)
        For inner order: a punctuation after every ``1 << every`` comparisons of each core.
    timed : 1
        1 for a time window, 0 for count windows; changed only together with `clear`.
    time_low, time_high : signed(time_bits + 1)
        The time window.
    left_late, right_late : time_bits
        How much earlier than a row of this stream a later one can be: what no later row can match is
        dropped. 0 where times never decrease; all ones where rows promise nothing, and only marks do.

    `timed` and all after it are there with time windows only.
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
