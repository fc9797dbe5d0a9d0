"""How nextpnr places a design for an ECP5."""

FOR_DELAYS = ("--placer-heap-critexp", "3", "--placer-heap-timingweight", "30")
"""Options that place for timing more than for wire length: late nets weigh three times the default, and the latest ones
more.

There are netlists that router1 completes with them and not without (docs/boards.md, docs/splitjoin.md).
"""
