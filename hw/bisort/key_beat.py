"""A beat of keys."""

from amaranth.lib import data


def key_beat(key_bits: int, width: int) -> data.StructLayout:
    """The payload of a stream of keys, `width` a beat.

    Returns
    -------
    StructLayout
        ``keys``, an array; ``keep``, one bit a key; ``last``. As in `row_beat`: keys that count stand at the
        low end, and only the last beat may keep fewer than all.
    """
    return data.StructLayout({"keys": data.ArrayLayout(key_bits, width), "keep": width, "last": 1})
