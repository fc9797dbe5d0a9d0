import datetime as dt

import pytest

from muntin.host.errors import WindowError
from muntin.host.keys.durations import nanoseconds

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("10 minutes", 600 * SECOND),
        ("-10 minutes", -600 * SECOND),
        ("1 hour 30 minutes", 5400 * SECOND),
        ("-1 hour 30 minutes", -5400 * SECOND),
        ("interval 2 days", 2 * 86_400 * SECOND),
        ("1.5 seconds", 1_500_000_000),
        ("250ms", 250_000_000),
        ("+3us", 3_000),
        (dt.timedelta(microseconds=-1), -1_000),
        (dt.timedelta(days=20_000, microseconds=1), 20_000 * 86_400 * SECOND + 1_000),
    ],
)
def test_reads(text, expected):
    assert nanoseconds(text) == expected


@pytest.mark.parametrize(
    "text", ["", "ten minutes", "10", "10 fortnights", "5 minutes later", "0.1 nanoseconds", 5, None]
)
def test_refuses(text):
    with pytest.raises(WindowError):
        nanoseconds(text)
