"""A row of either stream."""

from amaranth.lib import data

from muntin.contract.designs.bisort import ROW_BITS
from muntin.contract.designs.splitjoin import SplitJoinParameters


def tagged_row(parameters: SplitJoinParameters) -> data.StructLayout:
    """The layout of a row of either stream.

    Keys and times are compared as unsigned numbers throughout: signed ones have their top bit inverted on
    the way in.

    Returns
    -------
    StructLayout
        ``side``, 0 for the left stream and 1 for the right one; ``null``, set where the row matches nothing, though it
        takes its place in the window; ``more``, set where its group goes on with the next row of its stream, so that
        outer order has no punctuation behind its results (other orders take no notice of it); ``mark``, set where there
        is no row but the promise that no later row of this stream has an earlier time; ``key``; ``time``; ``row``, the
        number that names the row in results. `mark` and `time` are there with time windows only. With `bounds`:
        ``lower`` and ``upper``, what stored keys may be where the settings say so, none if ``lower`` > ``upper``;
        and ``again``, set in a row that is the one before it once more, with other bounds: it probes, and is not
        stored.
    """
    fields = {"side": 1, "null": 1, "more": 1, "key": parameters.key_bits, "row": ROW_BITS}
    if parameters.time_bits:
        fields |= {"mark": 1, "time": parameters.time_bits}
    if parameters.bounds:
        fields |= {"again": 1, "lower": parameters.key_bits, "upper": parameters.key_bits}
    return data.StructLayout(fields)
