"""Words between the blocks of BI-Sort."""

from amaranth.hdl import ShapeLike
from amaranth.lib import data

from muntin.contract.designs.bisort import ROW_BITS
from muntin.contract.registers import RUN_PLACES


def key_beat(key_bits: int, width: int) -> data.StructLayout:
    """The payload of a stream of keys, `width` a beat.

    Returns
    -------
    StructLayout
        ``keys``, an array; ``keep``, one bit a key; ``last``. As in `row_beat`: keys that count stand at the
        low end, and only the last beat may keep fewer than all.
    """
    return data.StructLayout({"keys": data.ArrayLayout(key_bits, width), "keep": width, "last": 1})


def row_beat(key_bits: int, width: int) -> data.StructLayout:
    """The payload of a stream of sorted runs, `width` rows a beat.

    Returns
    -------
    StructLayout
        ``rows``, an array of `row_layout`; ``keep``, one bit a row; ``last``, set in the last beat of a run.
        Rows that count stand at the low end. Only the last beat of a run may keep fewer than all; it keeps
        none where the run is empty.
    """
    return data.StructLayout({"rows": data.ArrayLayout(row_layout(key_bits), width), "keep": width, "last": 1})


def item_beat(bits: int, width: int) -> data.StructLayout:
    """The payload of a stream of arrays, `width` items of `bits` a beat.

    Returns
    -------
    StructLayout
        ``items``, an array; ``keep``, one bit an item; ``last``. As in `row_beat`: items that count stand at the
        low end, and only the last beat of an array may keep fewer than all; it keeps none where the array is empty.
    """
    return data.StructLayout({"items": data.ArrayLayout(bits, width), "keep": width, "last": 1})


def pair_beat(width: int) -> data.StructLayout:
    """The payload of a stream of row-number pairs.

    Returns
    -------
    StructLayout
        ``pairs``, an array of {``probe``, ``row``}; ``keep`` and ``last`` as in `row_beat`.
    """
    pair = data.StructLayout({"probe": ROW_BITS, "row": ROW_BITS})
    return data.StructLayout({"pairs": data.ArrayLayout(pair, width), "keep": width, "last": 1})


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


def run_layout() -> data.StructLayout:
    """The layout of which run a bound is looked for in.

    Returns
    -------
    StructLayout
        ``place``, the run's; ``last``, whether no other run comes after it.
    """
    return data.StructLayout({"place": range(RUN_PLACES), "last": 1})


def partitioned_bound(key_bits: int, index_rows: int) -> data.StructLayout:
    """The layout of a bound whose partition is known.

    Returns
    -------
    StructLayout
        ``bound``, a `bound_layout`; ``run``, a `run_layout`; ``partition``, the last one whose first key is below
        the bound; ``hit``, 0 where there is none: then no key is below the bound, and `partition` means nothing.
    """
    return data.StructLayout(
        {"bound": bound_layout(key_bits), "run": run_layout(), "partition": range(index_rows), "hit": 1}
    )


def partition_layout(index_rows: int) -> data.StructLayout:
    """The layout of a partition of a run: ``place``, the run's, and ``partition``, its number in it."""
    return data.StructLayout({"place": range(RUN_PLACES), "partition": range(index_rows)})


def position_layout(position: ShapeLike) -> data.StructLayout:
    """The layout of a bound's position in a run.

    Returns
    -------
    StructLayout
        ``position``, the number of keys below the bound, of the shape that is given; ``upper`` and ``last`` as in its
        `bound_layout`; ``run``, a `run_layout`.
    """
    return data.StructLayout({"position": position, "upper": 1, "last": 1, "run": run_layout()})


def range_layout() -> data.StructLayout:
    """The layout of a range.

    Returns
    -------
    StructLayout
        ``probe``, its number in the batch; ``start`` and ``stop``, positions in the run, ``start <= stop``;
        ``first`` and ``span``, the window limits ``first <= row < first + span`` modulo 2**32; ``place``, the run's;
        ``last``, set in the last range of a batch. All but `place` and `last` have 32 bits.
    """
    names = ("probe", "start", "stop", "first", "span")
    return data.StructLayout(dict.fromkeys(names, ROW_BITS) | {"place": range(RUN_PLACES), "last": 1})


def count_layout() -> data.StructLayout:
    """The layout of a count: ``probe``, the number of the probe or range, ``count``, and ``last``, set in the last one
    of a batch."""
    return data.StructLayout({"probe": ROW_BITS, "count": ROW_BITS, "last": 1})
