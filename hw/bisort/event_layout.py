"""What happened in an engine in a cycle."""

from amaranth.lib import data

from hw.register_map import COUNTERS

_LARGE = {"rows_in", "rows_out"}


class EventLayout(data.StructLayout):
    """By how much each of `hw.register_map.COUNTERS` grows in this cycle: rows have 34 bits, all others 6."""

    def __init__(self):
        super().__init__({name: 34 if name in _LARGE else 6 for name, _ in COUNTERS})
