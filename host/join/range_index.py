"""An index over one stream's time window, with range search: what researchers compare indexes by, without a join.

Source: the partitioned temporal window index, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from muntin.host.devices.cpu_device import check_built
from muntin.host.engine.native_engine import core_index
from muntin.host.errors import KeyTypeError, UnsupportedError, WindowError
from muntin.host.frames import ArrowArray, ArrowStream, as_array
from muntin.host.index import ORDERED, Index, RadixTree, Slices, TimeKeyed, open_index
from muntin.host.keys.constants import plain, whole_number
from muntin.host.keys.key_type import decode_float, encode_float
from muntin.host.native import _core
from muntin.host.public import public

Mapper = Literal["count", "sum", "min", "max", "mean"]
Number = int | float
Column: TypeAlias = ArrayLike | ArrowStream | ArrowArray

_KEYS = ("int32", "uint32", "float32", "int64", "uint64", "float64")
_VALUES = {"arrival": 1, "int64": 2, "float64": 3}  # as the core numbers them
_PIECE = 1024  # rows that an iterator fetches at a time


@public("muntin.index")
def open_window_index(
    index: str | Index = "slices", *, span: int, key_type: str = "int64", values: str = "arrival"
) -> RangeIndex:
    """An index over a time window of one stream, with range search by mapper and by iterator.

    Parameters
    ----------
    index : str or Index
        One that ``index=`` of a join may name, such as ``Slices(of=CsbTree(), stride=60)``, or `TimeKeyed` for
        incremental deletion.
    span : int
        Length of the window in units of time, at least 1: a fifth of it is the stride of slices without one.
    key_type : str
        ``int32``, ``uint32``, ``float32``, ``int64``, ``uint64`` or ``float64``.
    values : str
        What mappers and iterators get of a row: ``arrival``, its arrival number, or the value it came with, ``int64``
        or ``float64``.

    Raises
    ------
    WindowError, KeyTypeError
        If a parameter has none of these values.
    UnsupportedError
        If this build of the core does not have the index.

    Examples
    --------
    >>> from muntin.index import CsbTree, Slices, open_window_index
    >>> window = open_window_index(Slices(of=CsbTree(), stride=60), span=300, values="float64")
    >>> window.insert([7, 9, 7], times=[0, 30, 90], values=[50.0, 60.0, 70.0])
    3
    >>> window.map(7, 8, "mean")
    60.0
    >>> window.expire(until=59)
    >>> list(window.iterate(7, 9))
    [(7, 70.0)]
    """
    return RangeIndex(index, span=span, key_type=key_type, values=values)


@public("muntin.index")
class RangeIndex:
    """What `open_window_index` gives. One call, or one iterator, at a time.

    Examples
    --------
    >>> from muntin.index import open_window_index
    >>> window = open_window_index("csb_tree", span=300)
    >>> window.insert([7, 9, 8], times=[0, 30, 90])
    3
    >>> [key for key, _ in window.iterate(8)]
    [8, 9]
    """

    def __init__(self, index: str | Index, *, span: int, key_type: str, values: str):
        chosen = open_index(index)
        check_built(chosen)
        ordered = chosen.of if isinstance(chosen, (Slices, TimeKeyed)) else chosen
        if ordered.name not in ORDERED:  # type: ignore[union-attr]
            raise UnsupportedError(
                f"the index {chosen.name!r} has no range search in order of keys: "
                f"use {', '.join(ORDERED)}, or slices of one"
            )
        length = whole_number(span)
        if length is None or not 1 <= length < 1 << 62:
            raise WindowError(f"span must be a positive number of units of time, not {span!r}")
        if key_type not in _KEYS:
            raise KeyTypeError(f"key_type must be one of {', '.join(_KEYS)}, not {key_type!r}")
        if values not in _VALUES:
            raise WindowError(f"values must be one of {', '.join(_VALUES)}, not {values!r}")
        self._dtype = np.dtype(key_type)
        if isinstance(chosen, TimeKeyed) and self._dtype.itemsize != 4:
            raise UnsupportedError(f"the index 'time_keyed' has room for keys of 32 bits, not for {key_type}")
        self.index = chosen
        self._encoded = np.dtype(f"int{8 * self._dtype.itemsize}")
        self._values = values
        name, parameters = core_index(chosen)
        self._core = _core.RangeIndex(
            key_bits=8 * self._dtype.itemsize, index=name, parameters=parameters, span=length, value=_VALUES[values]
        )
        self._expired: int | None = None

    def insert(self, keys: Column, times: Column, values: Column | None = None) -> int:
        """Adds rows in order of arrival.

        Parameters
        ----------
        keys : array_like, shape (n,)
            Of the index's type, in any type that holds them exactly, lists of Python integers too; float keys without
            NaN. These, times and values may also be columns that give Arrow data (`__arrow_c_stream__`,
            `__arrow_c_array__`), such as a series of Polars.
        times : array_like of int, shape (n,)
            In any order. Rows of times that have expired are left out.
        values : array_like, shape (n,), or None
            Where the index holds values.

        Returns
        -------
        int
            How many rows are not late.

        Raises
        ------
        KeyTypeError
            If a key, time or value does not fit the type exactly, or a key is NaN.
        WindowError
            If values are missing, or there are none, or the lengths differ.
        """
        encoded = self._encode(keys)
        when = _exact("time", times, np.dtype(np.int64))
        if (values is None) != (self._values == "arrival"):
            raise WindowError(
                f"this index holds values={self._values!r}: give values for int64 and float64, and only then"
            )
        column = None
        if values is not None:
            column = _exact("value", values, np.dtype(self._values)).view(np.int64)
        if encoded.ndim != 1 or len({len(encoded), len(when), len(when if column is None else column)}) != 1:
            raise WindowError("keys, times and values must have one value for each row")
        if self._expired is not None and len(when) and when.min() <= self._expired:
            kept = when > self._expired
            encoded, when, column = encoded[kept], when[kept], None if column is None else column[kept]
        self._core.insert(encoded, when, column)
        return len(encoded)

    def map(
        self,
        low: Number | None,
        high: Number | None,
        f: Mapper | Callable[[Any, Any], object],
        *,
        after: int | None = None,
        way: Literal["mapper", "iterator", "root", "thread"] = "mapper",
    ) -> Number | None:
        """Applies a function to the rows with ``low <= key <= high``; builds no list.

        Parameters
        ----------
        low, high : int or float, or None
            Both included; None for no bound.
        f : str or callable
            A native mapper over the values, ``count``, ``sum``, ``min``, ``max`` or ``mean``; or ``f(key, value)``,
            which ends the search by returning False. Keys come in order, in slices one slice after the other.
        after : int or None
            Only rows of later times than this.
        way : str
            For native mappers: through the structure by ``mapper``, in one traversal; or with the same function over
            its ``iterator``, over a ``thread`` that maps into a buffer, or, of a `RadixTree`, over an iterator that
            starts at the ``root`` for each key. Of a `Judy` array the mapper and the iterator are the library's
            iterator, which starts at the root.

        Returns
        -------
        int, float or None
            What the native mapper has added up; None for min, max and mean of no row, and for a callable.

        Raises
        ------
        WindowError
            If there is no such mapper or way.
        UnsupportedError
            If the index has no iterator that starts at the root.
        """
        bounds = self._bounds(low, high)
        if callable(f):
            if bounds is not None:
                self._core.visit(*bounds, after, lambda key, value: f(self._key(key), self._value(value)) is not False)
            return None
        if f not in ("count", "sum", "min", "max", "mean"):
            raise WindowError(f"f must be count, sum, min, max, mean or a function of key and value, not {f!r}")
        if way != "mapper":
            self._check_way(way, "mapper, iterator, root or thread")
        count, upper, lower, *ends = (0, 0, 0, 0, 0, 0.0, 0.0, 0.0)
        if bounds is not None:
            count, upper, lower, *ends = self._core.fold(*bounds, f == "count", after, way)
        if f == "count":
            return count
        least, most, real_sum, real_least, real_most = ends
        real = self._values == "float64"
        total: Number = real_sum if real else (upper << 64) + lower
        if f == "sum":
            return total
        if count == 0:
            return None
        return {"min": real_least if real else least, "max": real_most if real else most, "mean": total / count}[f]

    def iterate(
        self,
        low: Number | None = None,
        high: Number | None = None,
        *,
        after: int | None = None,
        way: Literal["iterator", "root", "thread"] = "iterator",
    ) -> Iterator[tuple[Any, Any]]:
        """Yields key and value of the rows with ``low <= key <= high``, in the order of `map`.

        By the structure's own iterator, by a thread that maps into a buffer, or, of a `RadixTree`, from the root for
        each key. Until it has ended or is closed the index takes no other call.

        Raises
        ------
        WindowError
            If there is no such way.
        UnsupportedError
            If the index has no iterator that starts at the root.
        RuntimeError
            If a call comes in between.
        """
        self._check_way(way, "iterator, root or thread")
        return self._iterate(self._bounds(low, high), after, way)

    def _check_way(self, way: str, ways: str) -> None:
        """Raises WindowError for what is none of the ways to iterate, UnsupportedError for one that the index lacks."""
        if way not in ("iterator", "root", "thread"):
            raise WindowError(f"way must be {ways}, not {way!r}")
        sliced = self.index.of if isinstance(self.index, Slices) else self.index
        if way == "root" and not isinstance(sliced, RadixTree):
            raise UnsupportedError(
                f"the index {self.index.name!r} has no iterator that starts at the root: radix_tree has"
            )

    def _iterate(self, bounds: tuple[int, int] | None, after: int | None, way: str) -> Iterator[tuple[Any, Any]]:
        if bounds is None:
            return
        cursor = _core.RangeCursor(self._core, *bounds, after, way)
        try:
            while len((piece := cursor.take(_PIECE))[0]):
                keys, values = piece
                if self._values == "float64":
                    values = values.view(np.float64)
                yield from zip(self._decode(keys.astype(self._encoded)).tolist(), values.tolist(), strict=True)
        finally:
            cursor.close()

    def find(self, keys: Column, at: Column | None = None) -> np.ndarray:
        """The arrival number of the newest row of each key, -1 where there is none; int64, shape (n,).

        Of slices, one is asked where the time is known, else all there are: `searches` of their figures counts keys
        looked for in slices.

        Parameters
        ----------
        keys : array_like, shape (n,)
        at : int or array_like of int, shape (n,), or None
            Only rows of this time, one for all keys or one for each.

        Raises
        ------
        KeyTypeError
            If a key or time does not fit its type exactly.
        WindowError
            If there is neither one time nor one for each key.

        Notes
        -----
        It is for rows that came in order of time: in a slice that has expired in part, the row that came last may have
        expired before one that came earlier, and then there is none.
        """
        encoded = self._encode(keys)
        when = None
        if at is not None:
            when = _exact("time", at, np.dtype(np.int64))
            if len(when) not in (1, len(encoded)):
                raise WindowError("`at` must be one time, or have one for each key")
            when = np.ascontiguousarray(np.broadcast_to(when, encoded.shape))
        return self._core.find(encoded, when)

    def expire(self, until: int) -> None:
        """Rows of this time and earlier ones go: slices whole and in the background, else row by row."""
        self._expired = until if self._expired is None else max(until, self._expired)
        self._core.expire(until)

    @property
    def rows(self) -> int:
        """Rows stored, with those of a slice that has not expired as a whole."""
        return self._core.rows

    @property
    def bytes(self) -> int:
        """Bytes of the structure, without the columns of times and values."""
        return self._core.bytes

    @property
    def column_bytes(self) -> int:
        """Bytes of the columns of times and values."""
        return self._core.row_bytes

    def figures(self) -> dict[str, Any]:
        """What the structure tells of its inside, by name."""
        return self._core.figures()

    def _encode(self, keys: Column) -> np.ndarray:
        kind, exact = self._dtype.kind, _exact("key", keys, self._dtype)
        if kind == "f":
            if np.isnan(exact).any():
                raise KeyTypeError("NaN does not fit this index exactly: its keys have an order")
            return encode_float(exact)
        if kind == "u":
            return (exact ^ self._dtype.type(1 << (8 * self._dtype.itemsize - 1))).view(self._encoded)
        return exact

    def _decode(self, keys: np.ndarray) -> np.ndarray:
        kind = self._dtype.kind
        if kind == "f":
            return decode_float(keys)
        if kind == "u":
            return keys.view(self._dtype) ^ self._dtype.type(1 << (8 * self._dtype.itemsize - 1))
        return keys

    def _key(self, key: int) -> Any:
        return self._decode(np.array([key], self._encoded))[0].item() if self._dtype.kind != "i" else key

    def _value(self, value: int) -> Any:
        return np.int64(value).view(np.float64).item() if self._values == "float64" else value

    def _bounds(self, low: Number | None, high: Number | None) -> tuple[int, int] | None:
        """Both ends, encoded; None for an empty range."""
        ends = []
        for given, up in ((low, True), (high, False)):
            bound = plain("an end of a range", given, KeyTypeError)
            if bound != bound:
                raise KeyTypeError("a range of keys has no end at NaN")
            if isinstance(bound, bool) or not isinstance(bound, (int, float, Decimal, type(None))):
                raise KeyTypeError(f"a range of keys ends at a number, not at {given!r}")
            if self._dtype.kind == "f":
                limit = (-math.inf if up else math.inf) if bound is None else bound
                with np.errstate(over="ignore"):
                    narrow = self._dtype.type(_nearest(limit))
                if up and float(narrow) < limit:
                    narrow = np.nextafter(narrow, self._dtype.type(np.inf))
                elif not up and float(narrow) > limit:
                    narrow = np.nextafter(narrow, self._dtype.type(-np.inf))
                ends.append(int(encode_float(np.array([narrow]))[0]))
                continue
            domain = np.iinfo(self._dtype)
            if bound is None or bound == (-math.inf if up else math.inf):
                bound = domain.min if up else domain.max
            if abs(bound) == math.inf:
                return None
            whole = math.ceil(bound) if up else math.floor(bound)
            if (up and whole > domain.max) or (not up and whole < domain.min):
                return None
            ends.append(int(self._encode(np.array([max(domain.min, min(domain.max, whole))], self._dtype))[0]))
        return (ends[0], ends[1]) if ends[0] <= ends[1] else None


def _nearest(number: int | float | Decimal) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.copysign(math.inf, number)


def _exact(what: str, given: Column, dtype: np.dtype[Any]) -> np.ndarray:
    """Values as an array of a type, shape (n,). Raises KeyTypeError where one would change."""
    given = as_array(what, given)
    array = np.atleast_1d(np.asarray(given))
    if array.dtype.kind in "fO" and isinstance(given, (list, tuple)):
        array = np.asarray(given, object)  # NumPy makes floats of integers of which none of its types holds all
    numbers = not len(array) or array.dtype.kind in "iufbO"
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            exact = np.ascontiguousarray(array.astype(dtype))
            same = exact == array
            if "f" in (dtype.kind, array.dtype.kind) and dtype.kind != array.dtype.kind != "O" and len(array):
                far = np.abs(array.astype(np.float64)) >= 2**24  # both as floats, they may have been rounded alike
                same[far] = exact[far].astype(object) == array[far].astype(object)
    except (TypeError, ValueError, OverflowError):
        numbers = False
    if not numbers or not (same | (exact != exact) if dtype.kind == "f" else same).all():
        raise KeyTypeError(f"a {what} does not fit the type {dtype} of this index exactly")
    return exact
