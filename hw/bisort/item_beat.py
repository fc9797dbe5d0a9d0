"""A beat of items."""

from amaranth.lib import data


def item_beat(bits: int, width: int) -> data.StructLayout:
    """The payload of a stream of arrays, `width` items of `bits` a beat.

    Returns
    -------
    StructLayout
        ``items``, an array; ``keep``, one bit an item; ``last``. As in `row_beat`: items that count stand at the
        low end, and only the last beat of an array may keep fewer than all; it keeps none where the array is empty.
    """
    return data.StructLayout({"items": data.ArrayLayout(bits, width), "keep": width, "last": 1})
