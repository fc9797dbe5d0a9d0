"""A bound and the partition it falls into."""

from amaranth.lib import data

from muntin.hw.bisort.bound_layout import bound_layout


def partitioned_bound(key_bits: int, index_rows: int) -> data.StructLayout:
    """The layout of a bound whose partition is known.

    Returns
    -------
    StructLayout
        ``bound``, a `bound_layout`; ``partition``, the last one whose first key is below the bound; ``hit``,
        0 where there is none: then no key is below the bound, and `partition` means nothing.
    """
    return data.StructLayout({"bound": bound_layout(key_bits), "partition": range(index_rows), "hit": 1})
