"""One row: a key and its row number."""

from amaranth.lib import data

from muntin.contract.designs.bisort import ROW_BITS


def row_layout(key_bits: int) -> data.StructLayout:
    """The layout of a row.

    Keys are compared as unsigned numbers throughout: signed keys have their top bit inverted on the way in
    and on the way out.

    Returns
    -------
    StructLayout
        ``key``, of `key_bits`, and ``row``, of 32 bits.
    """
    return data.StructLayout({"key": key_bits, "row": ROW_BITS})
