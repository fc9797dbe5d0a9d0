"""A result of a join core: a pair, or a punctuation."""

from amaranth.lib import data

from hw.parameters import ROW_BITS


def result_layout(*, tagged: bool = False) -> data.StructLayout:
    """The layout of a result.

    Parameters
    ----------
    tagged : bool
        Whether results of both streams follow each other.

    Returns
    -------
    StructLayout
        ``star``, set in a punctuation; ``last``, set in a punctuation that ends the results of a probing row;
        ``probe``, the number of the probing row; ``row``, that of the stored row, in a pair; ``side``, the
        stream of the probing row, where `tagged`.
    """
    fields = {"star": 1, "last": 1, "probe": ROW_BITS, "row": ROW_BITS}
    return data.StructLayout(fields | ({"side": 1} if tagged else {}))
