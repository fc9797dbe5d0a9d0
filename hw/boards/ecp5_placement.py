"""How nextpnr places a design for an ECP5."""

FOR_DELAYS = ("--placer-heap-critexp", "3", "--placer-heap-timingweight", "30")
"""Options that place for delays more than for short ways: late ways count thrice as much as by default, and the latest
ones the more.

Found by trying, of one placement each: netlists that router1 came to the end of so and not without (docs/boards.md,
docs/splitjoin.md).
"""
