"""Windows of the contract, in ticks of the time columns."""

import datetime as dt
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class TimeCase:
    """Types of the two time columns, and one tick as a duration and in each column's storage unit."""

    left: pa.DataType
    right: pa.DataType
    unit: object
    scales: tuple[int, int] = (1, 1)


INTEGERS = TimeCase(pa.int64(), pa.int64(), 1)
NARROW = TimeCase(pa.int32(), pa.uint16(), 1)
MICROS = TimeCase(pa.timestamp("us"), pa.timestamp("us"), dt.timedelta(microseconds=1))
# Whole milliseconds of delay, and times between them: Spark's watermark moves in milliseconds.
MILLIS = TimeCase(pa.timestamp("us"), pa.timestamp("us"), dt.timedelta(milliseconds=1), (1000, 1000))
ZONED = TimeCase(pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC"), dt.timedelta(milliseconds=1), (1000, 1000))
UNITS = TimeCase(pa.timestamp("s"), pa.timestamp("ms"), dt.timedelta(seconds=1), (1, 1000))
DAYS = TimeCase(pa.date32(), pa.timestamp("s"), dt.timedelta(days=1), (1, 86_400))
SPANS = TimeCase(pa.duration("s"), pa.duration("ms"), dt.timedelta(seconds=1), (1, 1000))
CLOCK = TimeCase(pa.time32("ms"), pa.time64("us"), dt.timedelta(milliseconds=1), (1, 1000))
UNSIGNED = TimeCase(pa.uint64(), pa.uint32(), 1)
DATES = TimeCase(pa.date32(), pa.date32(), dt.timedelta(days=1))


@dataclass(frozen=True)
class WindowCase:
    """A count window (`rows`) or a time window (`low`, `high` in ticks, and the watermark)."""

    rows: tuple[int, int] | None = None
    low: int = 0
    high: int = 0
    time: TimeCase | None = None
    delays: tuple[int | None, int | None] = (None, None)
    lag: int = 0

    @property
    def watermarked(self) -> bool:
        return self.delays != (None, None)


WINDOWS = {
    "rows-1": WindowCase((1, 1)),
    "rows-equal": WindowCase((8, 8)),
    "rows-unequal": WindowCase((3, 17)),
    "rows-unequal-back": WindowCase((32, 1)),
    "rows-wide": WindowCase((5000, 5000)),
    "within-symmetric": WindowCase(low=-5, high=5, time=INTEGERS),
    "within-asymmetric": WindowCase(low=-9, high=-1, time=CLOCK),
    "within-ahead": WindowCase(low=2, high=12, time=ZONED),
    "within-zero": WindowCase(low=0, high=0, time=DATES),
    "within-units": WindowCase(low=-6, high=3, time=DAYS),
    "within-late": WindowCase(low=-4, high=4, time=MILLIS, delays=(2, 3)),
    "within-late-asymmetric": WindowCase(low=-8, high=-3, time=UNSIGNED, delays=(0, 6)),
    "within-late-ahead": WindowCase(low=1, high=30, time=NARROW, delays=(4, 0)),
    "within-late-left": WindowCase(low=-5, high=5, time=SPANS, delays=(1, None)),
    "within-late-right": WindowCase(low=-5, high=5, time=UNITS, delays=(None, 2)),
    "within-late-lag": WindowCase(low=-4, high=4, time=MILLIS, delays=(2, 2), lag=1),
}
