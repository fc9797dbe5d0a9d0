"""How far results come out in order."""

import enum


class Order(enum.IntEnum):
    """Where punctuation is put among the results.

    ``NONE``: nowhere. ``OUTER``: after each probing row that does not say that there are ``more`` in its group.
    ``INNER``: after each probing row, and within it after every ``1 << every`` comparisons of each core; with 0 for
    `every`, the pairs of a probing row come out by the stored row's age.
    """

    NONE = 0
    OUTER = 1
    INNER = 2
