"""A bound."""

from amaranth.lib import data


def bound_layout(key_bits: int) -> data.StructLayout:
    """The layout of a bound: what is asked for is the number of keys below it.

    Returns
    -------
    StructLayout
        ``below``, one bit wider than a key, so that 2**key_bits is above every key; ``upper``, whether it
        ends the range of its probe; ``last``, set in the last bound of a batch. A closed interval [l, u] has
        the bounds l and u + 1, so both kinds are searched for alike.
    """
    return data.StructLayout({"below": key_bits + 1, "upper": 1, "last": 1})
