"""A beat of pairs."""

from amaranth.lib import data

from muntin.contract.designs.bisort import ROW_BITS


def pair_beat(width: int) -> data.StructLayout:
    """The payload of a stream of row-number pairs.

    Returns
    -------
    StructLayout
        ``pairs``, an array of {``probe``, ``row``}; ``keep`` and ``last`` as in `row_beat`.
    """
    pair = data.StructLayout({"probe": ROW_BITS, "row": ROW_BITS})
    return data.StructLayout({"pairs": data.ArrayLayout(pair, width), "keep": width, "last": 1})
