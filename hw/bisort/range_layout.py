"""A range of a run that a probe has found."""

from amaranth.lib import data

from muntin.contract.designs.bisort import ROW_BITS


def range_layout() -> data.StructLayout:
    """The layout of a range.

    Returns
    -------
    StructLayout
        ``probe``, its number in the batch; ``start`` and ``stop``, positions in the run, ``start <= stop``;
        ``first`` and ``span``, the window limits ``first <= row < first + span`` modulo 2**32; ``last``, set
        in the last range of a batch. All but `last` have 32 bits.
    """
    names = ("probe", "start", "stop", "first", "span")
    return data.StructLayout(dict.fromkeys(names, ROW_BITS) | {"last": 1})
