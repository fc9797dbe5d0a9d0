"""What differs between the versions of pyarrow that Muntin runs on: views are there from 16 on."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

_TypeTest = Callable[[pa.DataType], bool]


def _never(kind: pa.DataType) -> bool:
    return False


is_string_view: _TypeTest = getattr(pa.types, "is_string_view", _never)
is_binary_view: _TypeTest = getattr(pa.types, "is_binary_view", _never)
is_list_view: _TypeTest = getattr(pa.types, "is_list_view", _never)
is_large_list_view: _TypeTest = getattr(pa.types, "is_large_list_view", _never)
LIST_VIEW_ARRAYS: tuple[type[pa.Array], ...] = tuple(
    getattr(pa, name) for name in ("ListViewArray", "LargeListViewArray") if hasattr(pa, name)
)

_MAJOR = int(pa.__version__.partition(".")[0])
FLIGHT_SENDS_DICTIONARIES_ONCE = _MAJOR < 22
"""Whether a Flight server sends the dictionaries of its first batch alone, and later batches point into these."""
CSV_WRAPS_FAR_TIMES = _MAJOR < 25
"""Whether times that are guessed as nanoseconds are wrong before 1678 and after 2261."""
