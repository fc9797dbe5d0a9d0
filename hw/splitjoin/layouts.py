"""Rows and results between the blocks of SplitJoin."""

import enum

from amaranth.hdl import Cat, Const, Value
from amaranth.lib import data

from muntin.contract.designs.bisort import ROW_BITS
from muntin.contract.designs.splitjoin import SplitJoinParameters, second_column


class Side(enum.IntEnum):
    """Which stream a row belongs to."""

    LEFT = 0
    RIGHT = 1

    @property
    def other(self) -> "Side":
        """The other stream."""
        return Side(1 - self)


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
        stored. With two columns: ``key_2``, ``lower_2`` and ``upper_2``, as wide, and compared whatever the settings.
    """
    fields = {"side": 1, "null": 1, "more": 1, "key": parameters.key_bits, "row": ROW_BITS}
    if parameters.time_bits:
        fields |= {"mark": 1, "time": parameters.time_bits}
    if parameters.bounds:
        fields |= {"again": 1, "lower": parameters.key_bits, "upper": parameters.key_bits}
    fields |= dict.fromkeys(second_column(parameters), parameters.key_bits)
    return data.StructLayout(fields)


ARRIVAL_BITS = 16
"""Width of a count of rows, modulo which more rows than are ever under way are distinct."""


def result_layout(*, tagged: bool = False) -> data.StructLayout:
    """The layout of a result.

    Parameters
    ----------
    tagged : bool
        Whether results of both streams follow each other.

    Returns
    -------
    StructLayout
        ``star``, set in a punctuation; ``last``, set in a punctuation that ends the results of a probing row, or of the
        group that ends with it; ``probe``, the number of the probing row; ``row``, that of the stored row, in a pair;
        ``side``, the stream of the probing row, where `tagged`; ``before``, the probing rows of the other stream with
        such a punctuation that arrived before this one since order was asked for, modulo ``2**ARRIVAL_BITS``, where not
        `tagged`; ``gone``, where not `tagged`, set in what stands for all punctuation that dead cores do not put out
        any more: its other fields may be anything, but for `star`, and mergers alone take it; ``in_order``,
        where not `tagged`, set out of a join core as long as pairs of one core are to come before those of the next
        one, also where there is no result: mergers find it with each input, near where they need it.
    """
    fields = {"star": 1, "last": 1, "probe": ROW_BITS, "row": ROW_BITS}
    return data.StructLayout(fields | ({"side": 1} if tagged else {"before": ARRIVAL_BITS, "gone": 1, "in_order": 1}))


def result_of(*, star: Value, last: Value, probe: Value, row: Value, before: Value) -> Value:
    """The bits of a result as a sub-window puts it out: `gone` and `in_order` are 0.

    All at once, as bits of their own that nothing but a constant drives become a Verilog process that never runs.
    """
    fields = {"star": star, "last": last, "probe": probe, "row": row, "before": before}
    return Cat(fields.get(name, Const(0, 1)) for name in result_layout().members)
