"""A beat of rows."""

from amaranth.lib import data

from muntin.hw.bisort.row_layout import row_layout


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
