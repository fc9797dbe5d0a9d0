"""What the versions of pyarrow that Muntin runs on do not all have."""

from __future__ import annotations

import pyarrow as pa


def is_string_view(kind: pa.DataType) -> bool:
    """Whether a type is a view of text: pyarrow has such types from 16 on."""
    return hasattr(pa, "string_view") and kind.equals(pa.string_view())


def is_binary_view(kind: pa.DataType) -> bool:
    """Whether a type is a view of bytes: pyarrow has such types from 16 on."""
    return hasattr(pa, "binary_view") and kind.equals(pa.binary_view())
